"""Gin configurations, those of the original included: `parse` gives a `Config`."""

from mtf_models.config.configuration import Config, Difference
from mtf_models.config.names import skipping
from mtf_models.config.parse import GinSource, GinText, parse, parse_text

__all__ = ["Config", "Difference", "GinSource", "GinText", "parse", "parse_text", "skipping"]

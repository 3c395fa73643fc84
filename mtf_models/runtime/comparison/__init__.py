"""Variants of a model, trained side by side."""

"""Functional layers in named dimensions, free of any model."""

"""Mixtures of experts: routing, dispatch, experts."""

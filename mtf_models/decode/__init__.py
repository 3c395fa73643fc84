"""Decoding: it knows a step function and named caches, and nothing of models."""

"""Vocabularies by name, their fingerprints, and how one is trained."""

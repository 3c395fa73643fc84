"""Checkpoints and folders of other forms, both ways."""

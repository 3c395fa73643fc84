"""Universal transformers: the same layers at every step of a recurrence in depth."""

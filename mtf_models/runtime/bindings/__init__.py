"""What gin binds of a run: its settings and the functions that they refer to."""

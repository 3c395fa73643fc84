"""What the original's `run` does, mode by mode, with its gin functions and file formats."""

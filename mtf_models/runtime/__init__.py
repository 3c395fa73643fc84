"""Runs: what the commands do, from options to a run folder."""

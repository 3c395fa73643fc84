"""Run folders: what is in them, and what every command does with them first."""

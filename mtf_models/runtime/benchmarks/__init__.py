"""How fast all this is, beside what the machine can do."""

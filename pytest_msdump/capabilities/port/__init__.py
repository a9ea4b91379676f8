"""A model in two frameworks: one command from both to a verdict."""

"""The options, declared once, and the readers of their values."""

"""The capability `structure`."""

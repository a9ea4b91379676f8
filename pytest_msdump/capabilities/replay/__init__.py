"""The capability `replay`."""

"""The capability `fusion`."""

"""The capability `programs`."""

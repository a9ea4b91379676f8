"""The capability `quantised`."""

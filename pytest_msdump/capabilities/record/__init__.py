"""The capability `record`."""

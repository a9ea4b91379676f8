"""The capability `frameworks`."""

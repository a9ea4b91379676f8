"""The capability `upgrade`."""

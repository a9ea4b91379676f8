"""The capability `suggest`."""

"""The capability `msprobe`."""

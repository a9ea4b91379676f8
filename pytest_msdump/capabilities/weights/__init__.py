"""The capability `weights`."""

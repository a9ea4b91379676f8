"""The capability `debug_mode`."""

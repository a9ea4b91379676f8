"""The capability `ascend`."""

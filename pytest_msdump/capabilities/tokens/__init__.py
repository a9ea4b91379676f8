"""The capability `tokens`."""

"""The capability `causes`."""

"""The capability `arrays`."""

"""Pairs of which a side was not saved: compared by statistics, digests and sketches."""

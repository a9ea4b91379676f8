"""Limits from what two runs of the reference differ by."""

"""Limits and verdicts: `policy` (ordered rules) → `resolve` (limits of one pair, before measuring) → `judge`."""

"""The opinion: `policy` (ordered rules) → `resolve` (limits of one pair, before measuring) → `judge` (verdict)."""

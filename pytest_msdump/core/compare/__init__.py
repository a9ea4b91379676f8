"""Compare two dumps: `planning.plan` pairs them by names alone, `comparing.compare_pair` measures and judges one pair.

pytest, the command and the assertion helpers all go through these two.
"""

"""The corridor: `plan` says who meets whom (names only), `compare_pair` measures and judges one pair.

pytest, the command and the assertion helpers all walk through these two. There is no third road.
"""

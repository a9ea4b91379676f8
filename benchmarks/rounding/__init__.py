"""What rounding does to networks, and what mistakes do: the networks, the runs and the scores of `limits.py`."""

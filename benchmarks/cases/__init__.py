"""What `speed.py` measures: each module makes data, runs programs on it in turn, and holds them against limits."""

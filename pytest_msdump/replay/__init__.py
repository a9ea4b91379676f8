"""Operators on trial by themselves: each is given its own inputs, and computed again in float64."""

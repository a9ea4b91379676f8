"""Dropout of two runs that drew different masks."""

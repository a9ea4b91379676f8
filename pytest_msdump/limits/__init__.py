"""Limits of statistics; moves with the capability of statistics."""

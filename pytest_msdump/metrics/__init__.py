"""Sketches and statistics; move with those capabilities."""

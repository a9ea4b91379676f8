"""Annotations, step summaries and JUnit properties of CI services."""

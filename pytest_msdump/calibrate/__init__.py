"""Limits that are measured: from a reference, slightly perturbed runs of it and control runs, to a limits file."""

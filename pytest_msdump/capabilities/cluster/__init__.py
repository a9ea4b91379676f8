"""Pairs compared by workers of Dask."""

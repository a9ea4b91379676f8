"""Weights of one framework loaded into a model of another one; it is a function that people import, and no row."""

NEEDS = ("structure",)

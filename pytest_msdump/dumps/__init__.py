"""Dump formats: each module knows one, indexes it by name only, and opens its tensors lazily."""

"""Tensors that are put together from the shards of several ranks."""

"""Stored axes to logical axes, and two tensors to one shape. Values are never moved here: views are."""

"""A package of seven operators; copies of this file, with a line changed, are what upgrades bring."""

import numpy as np

__version__ = "1.0"
precision = "highest"


def settings():
    """Return what changes numbers."""
    return {"precision": precision}


def _coarse(x):
    units = {"highest": 1, "high": 2.0**13, "medium": 2.0**16}[precision]
    if units == 1:
        return x
    bits = x.view(np.uint32) + np.uint32(units / 2)
    return (bits & ~np.uint32(units - 1)).view(np.float32)


def matmul(a, b):
    """Multiply two matrices."""
    a, b = _coarse(np.ascontiguousarray(a)), _coarse(np.ascontiguousarray(b))
    return a @ b  # matmul


def layer_norm(x, gamma, beta, begin_norm_axis=-1, epsilon=1e-5):  # noqa: ARG001 - recorded
    """Normalise the last axis."""
    mean = x.mean(axis=-1, keepdims=True)  # mean
    var = np.square(x - mean).mean(axis=-1, keepdims=True)
    return ((x - mean) / np.sqrt(var + np.float32(epsilon)) * gamma + beta).astype("f4")  # normed


def softmax(x, axis=-1):
    """Return the softmax along an axis."""
    exp = np.exp(x - x.max(axis=axis, keepdims=True))
    return exp / exp.sum(axis=axis, keepdims=True)  # softmax


def add(x, y):
    """Add."""
    return x + y  # add


def mul(x, y):
    """Multiply element by element."""
    return x * y  # mul


def relu(x):
    """Return what is positive, else 0."""
    return np.maximum(x, 0)  # relu


def reduce_sum(x, axis=-1):
    """Add up along an axis."""
    return x.sum(axis=axis, keepdims=False)  # sum

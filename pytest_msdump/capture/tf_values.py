"""Tensors of TensorFlow: which values are tensors with numbers, and their arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["array_of", "has_numbers", "is_symbolic", "is_tensor", "version"]


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or a variable of TensorFlow, in a graph or not, or one that Keras stands in for."""
    import keras
    import tensorflow as tf

    return tf.is_tensor(value) or isinstance(value, (keras.KerasTensor, keras.Variable))


def is_symbolic(tensor: Any) -> bool:
    """Whether a tensor has no numbers yet: it belongs to a graph, or Keras stands in for it."""
    import tensorflow as tf

    parts = tf.nest.flatten(_plain(tensor), expand_composites=True)
    return any(not hasattr(part, "numpy") for part in parts)


def array_of(tensor: Any) -> Any:
    """Return an array, ``None`` where there are no numbers: text, handles, tensors whose rows differ in length.

    Sparse tensors are made dense. bfloat16 and 8-bit floats are as TensorFlow gives them: types of ``ml_dtypes``.

    Parameters
    ----------
    tensor : tf.Tensor, tf.Variable, tf.SparseTensor, tf.IndexedSlices, keras.Variable, array
        With numbers, on any device.
    """
    import tensorflow as tf

    tensor = _plain(tensor)
    if isinstance(tensor, np.ndarray):
        return tensor
    if isinstance(tensor, tf.SparseTensor):
        tensor = tf.sparse.to_dense(tf.sparse.reorder(tensor))
    elif isinstance(tensor, tf.IndexedSlices):
        tensor = tf.convert_to_tensor(tensor)
    elif isinstance(tensor, tf.RaggedTensor) or not hasattr(tensor, "dtype"):
        return None
    return tensor.numpy() if has_numbers(tensor.dtype) else None


def has_numbers(dtype: Any) -> bool:
    """Whether tensors of this type can be recorded."""
    return dtype.base_dtype.name not in ("string", "resource", "variant")


def version() -> str:
    """TensorFlow's version."""
    import tensorflow as tf

    return str(tf.__version__)


def _plain(tensor: Any) -> Any:
    """A variable of Keras as the one of TensorFlow that it holds."""
    import keras

    return tensor.value if isinstance(tensor, keras.Variable) else tensor

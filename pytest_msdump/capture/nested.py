"""Tensors inside of what a function takes or gives back, always in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

__all__ = ["leaves", "named_leaves"]

# Deeper than any model nests its outputs; a value that holds itself ends here.
_DEEPEST = 32


def leaves(value: Any, is_tensor: Callable[[Any], bool]) -> list[Any]:
    """Return the tensors in `value`: of tuples and lists as they stand, of mappings and dataclasses by their order.

    Anything else (``None``, numbers, other objects) is passed over and takes no number.

    Examples
    --------
    >>> leaves((1.5, {"b": 2.5, "a": [3.5, None]}), lambda leaf: isinstance(leaf, float))
    [1.5, 2.5, 3.5]
    """
    return [leaf for _, leaf in named_leaves("", value, is_tensor)]


def named_leaves(name: str, value: Any, is_tensor: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yield each tensor with the way to it, e.g. ``("x.1.mask", tensor)``."""
    return _walk(name, value, is_tensor, _DEEPEST)


def _walk(name: str, value: Any, is_tensor: Callable[[Any], bool], depth: int) -> Iterator[tuple[str, Any]]:
    if is_tensor(value):
        yield name, value
    elif depth:
        for key, part in _parts(value):
            yield from _walk(f"{name}.{key}" if name else str(key), part, is_tensor, depth - 1)


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """The named parts of a container; none of anything else."""
    # Before dataclasses: outputs of transformers are both, and as mappings leave out what they do not have.
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None) or range(len(value))
        yield from zip(names, value, strict=True)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name, None)) for field in fields(value))

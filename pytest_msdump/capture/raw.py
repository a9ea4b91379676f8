"""Tensors of types that numpy does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["RawArray"]


@dataclass(frozen=True, slots=True)
class RawArray:
    """A tensor of a type that numpy does not have, as its bits.

    Parameters
    ----------
    data : bytes or buffer
        All elements in C order, in the machine's byte order, without gaps: a ``bytes``, or anything with the buffer
        protocol (a numpy array of any type of the same width, too). Types below 8 bits take a byte each.
    shape : sequence of int
        ``()`` for a 0-d tensor.
    dtype : str
        The logical type in any spelling, e.g. ``"bfloat16"``, ``"float8_e4m3fn"``, ``"complex32"``.
    """

    data: Any
    shape: Sequence[int]
    dtype: str

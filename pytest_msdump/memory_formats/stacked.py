"""Many small tensors of one kind, brought to their logical order by the few copies that one of them would need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pytest_msdump.memory_formats.blocks import Placement

__all__ = ["Stacked"]

Array: TypeAlias = npt.NDArray[Any]


class Stacked:
    """Small tensors of one kind, brought to their logical order together: each is a row.

    Parameters
    ----------
    dtype : str
        Type of its elements, which are stored as they are.
    shape : tuple of int
        Logical shape, where they lie in C order; a placement knows its own.
    placement : Placement, optional
        How they lie in stored axes.
    """

    def __init__(self, dtype: str, shape: tuple[int, ...], placement: Placement | None) -> None:
        self._dtype, self._placement = np.dtype(dtype), placement
        self._shape = shape if placement is None else placement.shape
        stored = math.prod(shape) if placement is None else placement.stored_elements
        self._bytes = stored * self._dtype.itemsize

    def rows(self, contents: Sequence[tuple[bytes, int]]) -> Array:
        """Return the elements of tensors in C order, each tensor a row.

        Parameters
        ----------
        contents : sequence of (bytes, int)
            A content, and the byte of it where a tensor begins.

        Raises
        ------
        ValueError
            A content ends before its tensor does.
        """
        together = b"".join([content[start : start + self._bytes] for content, start in contents])
        if len(together) != len(contents) * self._bytes:
            raise ValueError(f"there are {len(together)} bytes of {len(contents)} tensors of {self._bytes} bytes each")
        stored = np.frombuffer(together, self._dtype).reshape(len(contents), -1)
        if self._placement is None:
            return stored
        axes, moves = self._placement.whole
        blocks = stored.reshape(-1, *self._placement.sizes).transpose(0, *[axis + 1 for axis in axes])
        found: Array
        if len(moves) == 1:
            found = blocks[_in_all(moves[0].stored)].reshape(len(contents), -1)
            return found
        found = np.empty((len(contents), *self._shape), self._dtype)
        for move in moves:
            source = blocks[_in_all(move.stored)]
            # Axes are only divided, so that this is a view.
            found[_in_all(move.logical)].reshape(source.shape)[...] = source
        return found.reshape(len(contents), -1)


def _in_all(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return (slice(None), *index)

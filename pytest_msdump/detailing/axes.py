"""Coordinates of elements: what the axes of a tensor are called, and where an element lies along them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from pytest_msdump.detailing.cells import Cells, integers

__all__ = ["Axes", "coordinate_cells", "named_axes"]

_USUAL = "NCHW"


@dataclass(frozen=True, slots=True)
class Axes:
    """What stands above the coordinates, and the lengths that they count in."""

    label: str
    shape: tuple[int, ...]


def named_axes(shape: tuple[int, ...], letters: str | None, *, pads: bool) -> Axes:
    """Name the axes of a tensor.

    Parameters
    ----------
    shape : tuple of int
        Logical shape.
    letters : str, optional
        What its axes are, where that is known.
    pads : bool
        Whether to fill up to four axes, and to call unknown ones N C H W, as the vendor does.

    Examples
    --------
    >>> named_axes((2, 5, 5, 3), "NHWC", pads=False).label, named_axes((37, 21), None, pads=False).label
    ('N H W C', '0 1')
    >>> named_axes((37, 21), None, pads=True)
    Axes(label='N C H W', shape=(37, 21, 1, 1))
    """
    if not shape:
        return Axes("ID", (1,))
    known = letters if letters is not None and len(letters) == len(shape) else None
    if pads:
        return Axes(" ".join(known or _USUAL), (*shape, *(1,) * (len(_USUAL) - len(shape))))
    return Axes(" ".join(known or map(str, range(len(shape)))), shape)


def coordinate_cells(index: npt.NDArray[np.int64], axes: Axes) -> list[Cells | bytes]:
    """Return the coordinates of elements, with spaces between them."""
    rest: npt.NDArray[np.unsignedinteger] = index.astype(np.uint32 if prod(axes.shape) < 2**32 else np.uint64)
    columns: list[Cells | bytes] = []
    for length in reversed(axes.shape):
        one = rest.dtype.type(max(length, 1))
        above = rest // one
        columns += [integers(rest - above * one), b" "]
        rest = above
    return columns[-2::-1]

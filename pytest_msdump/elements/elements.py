"""Single elements of a pair: values, errors and coordinates."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.elements.cells import Cells, integers
from pytest_msdump.metrics.values import Array, Doubles, Workspace, components, differences, magnitudes, numbers

__all__ = ["Axes", "Elements", "coordinate_cells", "elements", "named_axes"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Elements:
    """Some elements of a pair; every field has an entry for each.

    Parameters
    ----------
    index : ndarray of int64
        C-order element numbers.
    left, right : ndarray
        The values, each in its own type.
    absolute : ndarray
        |l-r|: integers if both sides are, else float64. 0 where both are the same infinity, NaN where either is NaN.
    relative : ndarray of float64
        |l-r|/|r|, and 0 where both sides are equal; without meaning where `undefined` is set.
    zero, both_nan : ndarray of bool
        Where the right side is 0, and where both sides are NaN.
    """

    index: npt.NDArray[np.int64]
    left: Array
    right: Array
    absolute: Array
    relative: Doubles
    zero: Mask
    both_nan: Mask

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.index.size)

    @property
    def are_bools(self) -> bool:
        """Whether both sides are bools, whose difference is no number."""
        return bool(self.left.dtype.kind == self.right.dtype.kind == "b")

    @property
    def undefined(self) -> Mask:
        """Where the right side is 0 and the left is not."""
        found: Mask = self.zero & (self.absolute != 0)
        return found

    def take(self, places: npt.NDArray[np.intp] | slice) -> Elements:
        """Return the elements at `places`, in that order."""
        return Elements(*(getattr(self, field.name)[places] for field in fields(self)))

    def with_more(self, other: Elements) -> Elements:
        """Return these elements, then others."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Elements(*(np.concatenate(_joinable(one, two)) for one, two in pairs))


def elements(left: Array, right: Array, start: int) -> Elements:
    """Return the elements of two blocks that begin at element number `start`."""
    with np.errstate(all="ignore"):
        absolute, size, both_nan = _absolute(left, right)
        zero = size == 0
        relative = np.divide(absolute.astype(np.float64), size)
        # Equal values are not apart, though 0/0 and Inf/Inf are NaN.
        np.copyto(relative, 0.0, where=absolute == 0)
    index = np.arange(start, start + left.size, dtype=np.int64)
    return Elements(index, left.copy(), right.copy(), absolute, relative, zero, both_nan)


def _absolute(left: Array, right: Array) -> tuple[Array, Doubles, Mask]:
    """Return |l-r|, |r|, and where both sides are NaN."""
    one, other = numbers(left), numbers(right)
    workspace = Workspace()
    parts = components(one, "left", workspace), components(other, "right", workspace)
    found = differences(one, other, parts)
    absolute: Array = found.doubles if found.exact is None else found.exact
    size = magnitudes(components(other, "size", workspace))
    if absolute.dtype.kind != "f" or bool(np.isfinite(absolute).all()):
        return absolute, size, np.zeros(left.size, np.bool_)
    nan_left, nan_right = np.isnan(one), np.isnan(other)
    np.copyto(absolute, 0.0, where=one == other)
    np.copyto(absolute, np.nan, where=nan_left | nan_right)
    return absolute, size, nan_left & nan_right


def _joinable(one: Array, other: Array) -> tuple[Array, Array]:
    """Return both arrays, as Python's integers if numpy has no type for both: signed and unsigned ones of 64 bits."""
    if one.dtype != other.dtype and np.result_type(one, other).kind == "f":
        wide: tuple[Any, Any] = (one.astype(object), other.astype(object))
        return wide
    return one, other


_USUAL = "NCHW"


@dataclass(frozen=True, slots=True)
class Axes:
    """The title of coordinates, and the lengths of the axes."""

    label: str
    shape: tuple[int, ...]


def named_axes(shape: tuple[int, ...], letters: str | None, *, pads: bool) -> Axes:
    """Name the axes of a tensor of a logical shape by their letters, if known.

    If `pads`, there are four axes at least, and unknown ones are N C H W, as the vendor has them.

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
    """Return the columns of coordinates, with spaces between them."""
    rest: npt.NDArray[np.unsignedinteger] = index.astype(np.uint32 if prod(axes.shape) < 2**32 else np.uint64)
    columns: list[Cells | bytes] = []
    for length in reversed(axes.shape):
        one = rest.dtype.type(max(length, 1))
        above = rest // one
        columns += [integers(rest - above * one), b" "]
        rest = above
    return columns[-2::-1]

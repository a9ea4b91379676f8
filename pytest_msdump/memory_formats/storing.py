"""From logical axes to stored ones: what a device would have written."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.errors import TensorShapeError
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.blocks import Placement, format_name, stored_shape
from pytest_msdump.memory_formats.grouped import groups_side_by_side
from pytest_msdump.memory_formats.stored import NAMELESS, completed

__all__ = ["stored"]

Array = npt.NDArray[Any]


def stored(
    array: Array,
    memory_format: str,
    *,
    logical_format: str = "",
    c0: int | None = None,
    groups: int = 1,
    padding: float = 0,
) -> Array:
    """Bring an array to a memory format.

    Parameters
    ----------
    array : ndarray
        In logical axes.
    memory_format : str
        Where to.
    logical_format : str
        What the axes of `array` are; by default NCHW or NCDHW by their number.
    c0 : int, optional
        Elements in a block of channels (of columns, in FRACTAL_NZ); 16 by default, 4 in the C04 formats.
    groups : int
        Of a convolution.
    padding : float
        What fills blocks up.

    Returns
    -------
    ndarray
        C-contiguous, of the stored shape.

    Raises
    ------
    TensorShapeError
        The format is unknown or cannot hold the array.
    """
    known = format_name(memory_format)
    if known is None:
        raise TensorShapeError(f"memory format {memory_format} is not known")
    row = MEMORY_FORMATS[known]
    full, letters = (array.shape, "") if row.axes in NAMELESS else completed(array.shape, logical_format or None)
    blocks = {} if c0 is None else {"C": c0, "J": c0}
    if row.is_grouped and groups > 1:
        return _stored_groups(array.reshape(full), known, letters, blocks, groups, padding)
    shape, placement = stored_shape(known, full, letters, blocks)
    return _filled(array.reshape(placement.shape), placement, padding).reshape(shape)


def _filled(array: Array, placement: Placement, padding: float) -> Array:
    """Pad each axis to whole blocks, split it, and bring the pieces to the stored order."""
    lengths: list[tuple[int, int]] = []
    pieces: list[int] = []
    where: dict[int, int] = {}
    for axis, length in enumerate(placement.shape):
        numbers = [number for number, part in enumerate(placement.parts) if part.axis == axis]
        numbers.sort(key=lambda number: placement.parts[number].kind == "inner")
        sizes = [placement.parts[number].size for number in numbers]
        for number in numbers:
            where[number] = len(where)
        pieces += sizes
        lengths.append((0, prod(sizes) - length))
    padded = np.pad(array, lengths, constant_values=padding)
    order = [where[number] for number in range(len(placement.parts))]
    return np.ascontiguousarray(padded.reshape(pieces).transpose(order))


def _stored_groups(
    array: Array, known: str, letters: str, blocks: Mapping[str, int], groups: int, padding: float
) -> Array:
    names = "NC" + "".join(letter for letter in letters if letter not in "NC")
    weight = array.transpose([letters.index(letter) for letter in names])
    count, channels, *rest = weight.shape
    if count % groups:
        raise TensorShapeError(f"{count} filters cannot be shared by {groups} groups")
    filters = count // groups
    lengths = {**MEMORY_FORMATS[known].default_blocks, **blocks}
    together = groups_side_by_side(groups, filters, channels, block=lengths["C"], rows=lengths["N"])
    packs = -(-groups // together)
    wide = np.full((packs * together, filters, together, channels, *rest), padding, weight.dtype)
    group = np.arange(groups)
    wide[group, :, group % together] = weight.reshape(groups, filters, channels, *rest)
    parts = [
        stored(pack, known, logical_format=names, c0=lengths["C"], padding=padding)
        for pack in wide.reshape(packs, together * filters, together * channels, *rest)
    ]
    return np.concatenate(parts)

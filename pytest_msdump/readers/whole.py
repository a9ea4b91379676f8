"""Tensors of small files that are read in one go, without a view in between: what most tensors of a network are.

Only usual ones: elements that lie as numbers do in this machine's memory, in a whole file of which nothing has to be
said. Whoever gets none opens the tensor, and is told what is wrong with it, if anything is. Needs no numpy.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from math import prod
from pathlib import Path

from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.lazy_tuple import NamedTuple
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers.npy_header import KEPT_BYTES, extent, parse_header
from pytest_msdump.readers.stored_file import small_file

__all__ = ["KINDS", "PLAIN", "TensorKind", "WholeTensor", "whole_npy"]

# How many kinds of tensors are kept: a network has many tensors and few kinds of them.
KINDS = 1024

# What npy headers call the types whose elements are numbers as they are stored: little-endian, two's complement.
_DESCRS = {
    "<f2": "float16",
    "<f4": "float32",
    "<f8": "float64",
    "|i1": "int8",
    "<i2": "int16",
    "<i4": "int32",
    "|u1": "uint8",
    "<u2": "uint16",
    "<u4": "uint32",
}
# Those of which this machine's memory holds the same bytes.
PLAIN = frozenset(_DESCRS.values() if sys.byteorder == "little" else ())


class TensorKind:
    """What many tensors are alike in: all but their names, their numbers and where they are. One object for each kind.

    Parameters
    ----------
    spec : TensorSpec
        What a view of such a tensor tells of it.
    dtype : str
        Logical data type, a name from `facts.dtypes`, whose elements are stored as they are.
    shape : tuple of int
        Stored shape.
    size : int
        Bytes of all elements.
    """

    __slots__ = ("dtype", "shape", "size", "spec")

    def __init__(self, spec: TensorSpec, dtype: str, shape: tuple[int, ...]) -> None:
        self.spec, self.dtype, self.shape = spec, dtype, shape
        self.size = prod(shape) * (DTYPES[dtype].bits // 8)


class WholeTensor(NamedTuple):
    """All of a small file, the byte of it where a tensor begins, and the tensor's kind."""

    content: bytes
    start: int
    kind: TensorKind


def whole_npy(path: Path | str, claimed: TensorSpec) -> WholeTensor | None:
    """Read the tensor of a small npy file.

    Parameters
    ----------
    path : Path or str
        Text is a path of this machine.
    claimed : TensorSpec
        As for `readers.npy.open_npy`.

    Returns
    -------
    WholeTensor or None
        ``None`` of any but a usual one.
    """
    found = small_file(path)
    if found is None:
        return None
    content = found[1]
    try:
        _, start = extent(content, "")
    except TensorFileError:
        return None
    # A longer one is nobody's usual header, and is not kept.
    kind = _npy_kind(content[:start], claimed.dtype, claimed.memory_format) if start <= KEPT_BYTES else None
    if kind is None or start + kind.size != len(content):
        return None
    return tuple.__new__(WholeTensor, (content, start, kind))


@lru_cache(maxsize=KINDS)
def _npy_kind(head: bytes, claimed: str | None, memory_format: str | None) -> TensorKind | None:
    """Return the kind that a header tells of, where what is claimed of it is the same type."""
    try:
        header = parse_header(head, where="")
    except TensorFileError:
        return None
    dtype = _DESCRS.get(header.descr) if isinstance(header.descr, str) else None
    if dtype not in PLAIN or dtype is None or header.fortran_order or claimed not in (None, dtype):
        return None
    return TensorKind(TensorSpec(dtype, header.shape, memory_format, header.shape), dtype, header.shape)

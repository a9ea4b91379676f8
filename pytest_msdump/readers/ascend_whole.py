"""Tensors of small dump files, read in one go; see `readers.whole`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pytest_msdump.dtypes import canonical
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers.ascend_contents import Noted
from pytest_msdump.readers.stored_file import small_file
from pytest_msdump.readers.whole import KINDS, PLAIN, TensorKind, WholeTensor

__all__ = ["whole_part"]


def whole_part(path: Path | str, noted: object) -> WholeTensor | None:
    """Read a tensor of a small dump file whose header was read when the dump was indexed.

    Parameters
    ----------
    path : Path or str
        Text is a path of this machine.
    noted : Noted, optional
        What the header said.

    Returns
    -------
    WholeTensor or None
        ``None`` of any but a usual one, and where the file is another now.
    """
    found = small_file(path) if isinstance(noted, Noted) else None
    if found is None or not isinstance(noted, Noted) or found[0] != noted.state:
        return None
    tensor, content = noted.tensor, found[1]
    kind = _part_kind(tensor.data_type.dtype, tensor.shape, tensor.memory_format, tensor.original_shape, tensor.groups)
    if kind is None or kind.size > tensor.size or tensor.start + kind.size > len(content):
        return None
    return tuple.__new__(WholeTensor, (content, tensor.start, kind))


@lru_cache(maxsize=KINDS)
def _part_kind(
    dtype: str, shape: tuple[int, ...], memory_format: str, logical_shape: tuple[int, ...] | None, groups: int
) -> TensorKind | None:
    """Return the kind that a dump file's header tells of."""
    known = canonical(dtype)
    if known not in PLAIN or known is None:
        return None
    return TensorKind(TensorSpec(known, shape, memory_format, logical_shape, groups), known, shape)

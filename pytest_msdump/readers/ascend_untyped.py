"""Buffers and workspaces of an Ascend dump file: bytes without a shape, behind all tensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.errors import TensorFileError
from pytest_msdump.readers.ascend_file import open_dump_file

__all__ = ["UntypedPart", "untyped_bytes", "untyped_parts"]

_BLOCK_BYTES = 2**20
# What the vendor calls them in file names.
_WORDS = {"buffer": "l1buffer", "space": "space"}


class UntypedPart(NamedTuple):
    """One of them: ``l1buffer`` or ``space``, its number among its kind, and where its bytes are in the file."""

    kind: str
    slot: int
    start: int
    size: int


def untyped_parts(path: Path) -> tuple[UntypedPart, ...]:
    """Find the buffers, then the workspaces, of a dump file; none in a nano dump, which has no word for them.

    Raises
    ------
    TensorFileError
        The file or its header cannot be read.
    """
    opened = open_dump_file(path)
    opened.file.close()
    return tuple(UntypedPart(_WORDS[part.kind], part.slot, part.start, part.size) for part in opened.header.raw)


def untyped_bytes(path: Path, part: UntypedPart) -> Iterator[bytes]:
    """Yield the bytes of a buffer or workspace, a piece at a time.

    Raises
    ------
    TensorFileError
        They are not all there.
    """
    opened = open_dump_file(path)
    try:
        there = max(0, opened.file.size - part.start)
        if part.size > there:
            raise TensorFileError(
                f"{path}: {part.kind} {part.slot}: cut off, {there} of its {part.size} bytes are there; "
                "the run was probably killed while writing: dump it again"
            )
        for start in range(part.start, part.start + part.size, _BLOCK_BYTES):
            piece = bytearray(min(_BLOCK_BYTES, part.start + part.size - start))
            opened.file.read_into(memoryview(piece), start)
            yield bytes(piece)
    finally:
        opened.file.close()

"""Buffers and workspaces of an Ascend dump file: bytes without a shape, behind all tensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dump_proto import DUMP_DATA, OP_UNTYPED
from pytest_msdump.readers.ascend_file import DumpFile, FileSource, open_dump_file
from pytest_msdump.readers.wire import Span, named_fields, span_of, varint_of

__all__ = ["UntypedPart", "untyped_bytes", "untyped_parts"]

_LENGTH_BYTES = 8
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
    try:
        return tuple(_parts(opened)) if opened.header.untyped else ()
    finally:
        opened.file.close()


def _parts(opened: DumpFile) -> Iterator[UntypedPart]:
    header, source = opened.header, opened.source
    inside = header.container == "protobuf"
    begin = 0 if inside else _LENGTH_BYTES
    stop = source.size if inside else begin + int.from_bytes(source.peek(0, _LENGTH_BYTES), "little")
    found: dict[str, list[Span]] = {word: [] for word in _WORDS}
    for name, field in named_fields(source, Span(begin, stop), DUMP_DATA):
        if name in found:
            found[name].append(span_of(source, field))
    behind = max((tensor.start + tensor.size for tensor in header.tensors if tensor.start >= stop), default=stop)
    for word, spans in found.items():
        for slot, span in enumerate(spans):
            data, size = _place(source, span)
            start, length = (data.start, data.length) if data.length else (behind, size)
            behind += 0 if data.length else size
            yield UntypedPart(_WORDS[word], slot, start, length)


def _place(source: FileSource, span: Span) -> tuple[Span, int]:
    """Return the bytes that are inside the header, and how many are said to be behind it."""
    data, size = Span(0, 0), 0
    for name, field in named_fields(source, span, OP_UNTYPED):
        if name == "size":
            size = varint_of(source, field)
        else:
            data = span_of(source, field)
    return data, size


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

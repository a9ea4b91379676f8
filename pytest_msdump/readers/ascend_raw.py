"""Buffers and workspaces of an Ascend dump file: bytes without a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_msdump.facts.dump_proto import OP_UNTYPED
from pytest_msdump.readers.wire import Source, Span, named_fields, span_of, varint_of

__all__ = ["RawPart", "raw_parts"]


class RawPart(NamedTuple):
    """Bytes of a dump file that are no tensor: a ``"buffer"`` or a ``"space"``; `start` is their byte of the file."""

    kind: str
    slot: int
    start: int
    size: int


def raw_parts(
    source: Source, spans: Mapping[str, Sequence[Span]], begin: int | None
) -> tuple[tuple[RawPart, ...], int]:
    """Lay buffers and workspaces one behind the other, but for those whose bytes are inside the header.

    Parameters
    ----------
    source : Source
        The file.
    spans : mapping
        Kind → its messages, in the order of the file's data.
    begin : int, optional
        The byte behind the tensors; ``None`` when nothing is outside of the header: then a size alone says nothing.

    Returns
    -------
    parts
        All of them.
    end
        The byte behind the last one outside of the header.

    Raises
    ------
    TensorFileError
        A message is damaged.
    """
    parts: list[RawPart] = []
    end = begin or 0
    for kind, messages in spans.items():
        for slot, span in enumerate(messages):
            size, inside = _size_and_data(source, span)
            if inside.length or begin is None:
                parts.append(RawPart(kind, slot, inside.start, inside.length))
            else:
                parts.append(RawPart(kind, slot, end, size))
                end += size
    return tuple(parts), end


def _size_and_data(source: Source, span: Span) -> tuple[int, Span]:
    size, inside = 0, Span(0, 0)
    for name, field in named_fields(source, span, OP_UNTYPED):
        if name == "size":
            size = varint_of(source, field)
        else:
            inside = span_of(source, field)
    return size, inside

"""The header of a nano dump: a magic number, then blocks of (tag, length, value) that list inputs and outputs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pytest_msdump.dumps.wire import Source, Span
from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dump_proto import NANO_TAGS

__all__ = ["NanoTensor", "parse_nano"]

_HEAD = struct.Struct("<II")
_BLOCK = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_DIM_BYTES = 8
_SHAPE_TAG, _ORIGINAL_SHAPE_TAG = 0, 1
_MAX_RANK = 32


# data_type, format, address_type, [output: three numbers of the original,] address, offset, size, length of blocks.
_LAYOUTS = {"input": struct.Struct("<iiiQQQI"), "output": struct.Struct("<iiiiiiQQQI")}


class NanoTensor(NamedTuple):
    """One tensor as the header has it; `data_type` in the graph engine's numbers, `size` in bytes."""

    io: str
    slot: int
    data_type: int
    memory_format: int
    shape: tuple[int, ...]
    original_shape: tuple[int, ...]
    size: int
    address: int = 0


def parse_nano(source: Source, span: Span, *, most: int) -> tuple[NanoTensor, ...]:
    """Read a nano header.

    Parameters
    ----------
    source : Source
        The file.
    span : Span
        The header, its magic number included.
    most : int
        How many tensors are believed.

    Raises
    ------
    TensorFileError
        When something reaches over the end of what it is part of. Blocks with other tags are skipped.
    """
    _unpack(source, _HEAD, span)
    tensors: list[NanoTensor] = []
    for tag, value in _blocks(source, Span(span.start + _HEAD.size, span.stop)):
        io = NANO_TAGS.get(tag)
        if io is not None:
            for tensor in _tensors(source, value, io):
                if len(tensors) == most:
                    raise _damaged(source, value.start, f"more than {most} tensors")
                tensors.append(tensor)
    return tuple(tensors)


def _damaged(source: Source, position: int, what: str) -> TensorFileError:
    return TensorFileError(
        f"{source.where}: {what} at byte {position} of a nano dump's header; it is damaged, dump it again"
    )


def _unpack(source: Source, layout: struct.Struct, span: Span) -> tuple[int, ...]:
    """Read numbers from the beginning of `span`."""
    data = source.peek(span.start, min(layout.size, span.length))
    if len(data) < layout.size:
        raise _damaged(source, span.start, f"{len(data)} bytes where {layout.size} are needed")
    return layout.unpack(data)


def _blocks(source: Source, span: Span) -> Iterator[tuple[int, Span]]:
    position = span.start
    while position < span.stop:
        tag, length = _unpack(source, _BLOCK, Span(position, span.stop))
        value = Span(position + _BLOCK.size, position + _BLOCK.size + length)
        if value.stop > span.stop:
            raise _damaged(source, position, f"a block of {length} bytes where {span.stop - value.start} are left")
        yield tag, value
        position = value.stop


def _tensors(source: Source, span: Span, io: str) -> Iterator[NanoTensor]:
    layout = _LAYOUTS[io]
    (count,) = _unpack(source, _COUNT, span)
    position = span.start + _COUNT.size
    for slot in range(count):
        numbers = _unpack(source, layout, Span(position, span.stop))
        address, _, size, length = numbers[-4:]
        blocks = Span(position + layout.size, position + layout.size + length)
        if blocks.stop > span.stop:
            raise _damaged(source, position, f"{length} bytes of {io} {slot} where {span.stop - blocks.start} are left")
        shapes = _shapes(source, blocks)
        yield NanoTensor(
            io=io,
            slot=slot,
            data_type=numbers[0],
            memory_format=numbers[1],
            shape=shapes.get(_SHAPE_TAG, ()),
            original_shape=shapes.get(_ORIGINAL_SHAPE_TAG, ()),
            size=size,
            address=address,
        )
        position = blocks.stop


def _shapes(source: Source, span: Span) -> dict[int, tuple[int, ...]]:
    shapes: dict[int, tuple[int, ...]] = {}
    for tag, value in _blocks(source, span):
        if tag not in (_SHAPE_TAG, _ORIGINAL_SHAPE_TAG):
            continue
        rank, rest = divmod(value.length, _DIM_BYTES)
        if rest or rank > _MAX_RANK:
            raise _damaged(source, value.start, f"a shape of {value.length} bytes")
        shapes[tag] = _unpack(source, struct.Struct(f"<{rank}Q"), value)
    return shapes

"""What an Ascend dump file says of its tensors: three containers, one `Header`. Reads no tensor and opens no file.

===========  =========================================================================================================
container    layout
===========  =========================================================================================================
2.0          u64 length, `DumpData` without data, then the bytes of all inputs, outputs, buffers and workspaces
protobuf     one `DumpData` with the data inside (before 2.0; also files of TensorFlow and Caffe)
nano         u64 length, magic number, blocks of (tag, length, value), then the bytes of all inputs and outputs
===========  =========================================================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pytest_msdump.capabilities.ascend import dump_proto
from pytest_msdump.capabilities.protobuf.wire import (
    Memory,
    WireSource,
    WireSpan,
    fields,
    named_fields,
    span_of,
    varint_of,
    varints,
)
from pytest_msdump.core.dumps.stored_file import truncated
from pytest_msdump.core.errors import TensorFileError

MAX_HEADER_BYTES = 64 * 2**20

_LENGTH_BYTES = 8
_NANO_MAGIC = dump_proto.NANO_MAGIC.to_bytes(4, "little")
_MAX_NAME_BYTES = 2**12
_MAX_RANK = 32
_MOST_GROUPS = 2**31 - 1
# Fused optimisers have the most, some hundreds. An empty entry takes two bytes of the file, and far more here.
_MAX_TENSORS = 2**13
# A forged file could hold very many empty ones.
_MOST_CONTAINERS = 64
# A writer puts these into a message once.
_SINGULAR = frozenset({"version", "dump_time", "op_name"})
_FIELDS = {"input": dump_proto.OP_INPUT, "output": dump_proto.OP_OUTPUT}
# Longer ones hold their data, or are rare.
_SMALL_BYTES = 2**9


class StoredTensor(NamedTuple):
    """One tensor of a dump file."""

    io: str
    slot: int
    data_type: dump_proto.DataType
    memory_format: str
    shape: tuple[int, ...]
    original_shape: tuple[int, ...] | None
    groups: int
    start: int
    size: int
    address: int = 0


class RawPart(NamedTuple):
    """Bytes of a dump file that are no tensor: a ``"buffer"`` or a ``"space"``; `start` is their byte of the file."""

    kind: str
    slot: int
    start: int
    size: int


class Header(NamedTuple):
    """What is in a dump file: tensors in stored order, and where its first attribute's value is."""

    container: str
    op_name: str
    tensors: tuple[StoredTensor, ...]
    attribute: WireSpan | None = None
    raw: tuple[RawPart, ...] = ()
    end: int = 0


def parse_header(source: WireSource) -> Header:
    """Read what a dump file holds; `source` is the whole file."""
    head = source.peek(0, _LENGTH_BYTES + 4)
    length = _stated_length(source, head)
    is_nano = head[_LENGTH_BYTES:] == _NANO_MAGIC
    if length is None:
        if is_nano:
            raise TensorFileError(
                f"{source.where}: begins like a nano dump without a header; it is damaged: dump it again"
            )
        return _parse_protobuf(source)
    begin = _LENGTH_BYTES + length
    span = WireSpan(_LENGTH_BYTES, begin)
    if is_nano:
        found = sorted(_parse_nano(source, span), key=lambda tensor: tensor.io == "output")
        tensors, end = _lay_out(found, begin)
        return Header("nano", "", tensors, end=end)
    message = _parse_dump_data(source, span)
    tensors, end = _lay_out(_parse_tensors(source, message), begin)
    raw, end = _parse_raw(source, message, end)
    return Header("2.0", message.op_name, tensors, message.attribute, raw, end)


def bytes_behind(source: WireSource, end: int) -> int:
    """Return how many bytes follow `end`, where the header's explanation ends; an error where they are whole dumps."""
    position, count = end, 1
    while position < source.size:
        if count == _MOST_CONTAINERS:
            raise _several(source, f"more than {count} dumps stand one behind the other")
        try:
            position += parse_header(_Tail(source, position)).end
        except TensorFileError:
            break
        count += 1
    if position == source.size and count > 1:
        raise _several(source, f"{count} dumps stand one behind the other")
    return max(0, source.size - end)


class _Tail(NamedTuple):
    """A source from a byte on."""

    source: WireSource
    start: int

    @property
    def where(self) -> str:
        return self.source.where

    @property
    def size(self) -> int:
        return self.source.size - self.start

    def peek(self, start: int, count: int) -> bytes:
        return self.source.peek(self.start + start, count)


def _several(source: WireSource, how: str) -> TensorFileError:
    return TensorFileError(
        f"{source.where}: holds several dumps ({how}); which of them counts is not known: dump it again, or split it"
    )


def _stated_length(source: WireSource, head: bytes) -> int | None:
    """Return the length of the header in bytes; ``None`` when the first eight bytes cannot be one."""
    if source.size == 0:
        raise truncated(source.where, "is empty (0 bytes)")
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    if source.size <= _LENGTH_BYTES or not 0 < length <= MAX_HEADER_BYTES:
        return None
    there = source.size - _LENGTH_BYTES
    if length > there:
        raise truncated(source.where, f"cut off inside its header, {there} of {length} bytes")
    return length


def _lay_out(tensors: Iterable[StoredTensor], begin: int) -> tuple[tuple[StoredTensor, ...], int]:
    """Lay the data of tensors one behind the other, but for data inside the header; return the byte behind, too."""
    placed: list[StoredTensor] = []
    end = begin
    for tensor in tensors:
        if tensor.start:
            placed.append(tensor)
        else:
            placed.append(tensor._replace(start=begin))
            begin += tensor.size
        end = max(end, placed[-1].start + tensor.size)
    return tuple(placed), end


# -- DumpData --------------------------------------------------------------------------------------------------------


class _DumpData(NamedTuple):
    """Where the messages of each kind are, the operator's name, the first attribute."""

    messages: Mapping[str, Sequence[WireSpan]]
    op_name: str
    attribute: WireSpan | None
    end: int
    twice: str | None


def _parse_protobuf(source: WireSource) -> Header:
    """Read a file that is one message, with the data of its tensors inside."""
    try:
        message = _parse_dump_data(source, WireSpan(0, source.size))
    except TensorFileError as error:
        raise _unknown(source) from error
    # Some other message may have the same wire types by chance, but nothing of use in it.
    if not message.messages["input"] and not message.messages["output"]:
        raise _unknown(source)
    if message.twice is not None:
        raise _several(source, f"the field {message.twice} occurs twice")
    # Here a size without data is a size of nothing.
    tensors = tuple(each if each.start else each._replace(size=0) for each in _parse_tensors(source, message))
    raw, _ = _parse_raw(source, message, None)
    return Header("protobuf", message.op_name, tensors, message.attribute, raw, message.end)


def _unknown(source: WireSource) -> TensorFileError:
    return TensorFileError(
        f"{source.where}: is not an Ascend dump: its first 8 bytes are not the length of a header, and it is not one "
        "protobuf message either; if it should be one, it is damaged: dump it again"
    )


def _parse_dump_data(source: WireSource, span: WireSpan) -> _DumpData:
    messages: dict[str, list[WireSpan]] = {"input": [], "output": [], "buffer": [], "space": []}
    op_name, attribute, end, twice, count = "", None, span.start, None, 0
    seen: set[str] = set()
    for field in fields(source, span):
        name = dump_proto.DUMP_DATA.get(field.number)
        if name is None:
            continue
        end = field.stop
        if name in messages:
            messages[name].append(span_of(source, field))
            count += 1
            if count > _MAX_TENSORS:
                raise TensorFileError(
                    f"{source.where}: its header lists more than {_MAX_TENSORS} tensors; it is damaged or forged"
                )
            continue
        if name in _SINGULAR and name in seen:
            twice = name
        seen.add(name)
        if name == "op_name":
            op_name = _text(source, span_of(source, field))
        elif name == "attr" and attribute is None:
            members = named_fields(source, span_of(source, field), dump_proto.OP_ATTR)
            values = [span_of(source, member) for kind, member in members if kind == "value"]
            attribute = values[-1] if values else None
        elif name == "dump_time":
            varint_of(source, field)
    return _DumpData(messages, op_name, attribute, end, twice)


def _text(source: WireSource, span: WireSpan) -> str:
    if span.length > _MAX_NAME_BYTES:
        raise TensorFileError(f"{source.where}: its header gives a name of {span.length} bytes; it is damaged")
    return source.peek(span.start, span.length).decode("utf-8", "replace")


def _parse_tensors(source: WireSource, message: _DumpData) -> list[StoredTensor]:
    return [
        _parse_tensor(source, span, io, slot)
        for io in ("input", "output")
        for slot, span in enumerate(message.messages[io])
    ]


def _parse_tensor(source: WireSource, span: WireSpan, io: str, slot: int) -> StoredTensor:
    if span.length > _SMALL_BYTES:
        return _read_tensor(source, span, io, slot)
    try:
        known = _known_tensor(source.peek(span.start, span.length), io)
    except TensorFileError:
        # Read once more where it is, for an error that names the file and the byte.
        return _read_tensor(source, span, io, slot)
    if slot or known.start:
        return known._replace(slot=slot, start=known.start + span.start if known.start else 0)
    return known


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=2048)
def _known_tensor(message: bytes, io: str) -> StoredTensor:
    return _read_tensor(Memory(message), WireSpan(0, len(message)), io, 0)


def _read_tensor(source: WireSource, span: WireSpan, io: str, slot: int) -> StoredTensor:
    """Read an `OpInput` or `OpOutput`. A field that is there twice counts by its last, as in protobuf."""
    numbers = {"data_type": 0, "format": 0, "size": 0, "sub_format": 0, "address": 0}
    shapes: dict[str, tuple[int, ...]] = {}
    data = WireSpan(0, 0)
    for name, field in named_fields(source, span, _FIELDS[io]):
        if name in numbers:
            numbers[name] = varint_of(source, field)
        elif name == "data":
            data = span_of(source, field)
        else:
            shapes[name] = _shape(source, span_of(source, field))
    shape, original, groups = shapes.get("shape", ()), shapes.get("original_shape"), numbers["sub_format"]
    return StoredTensor(
        io=io,
        slot=slot,
        data_type=_data_type(numbers["data_type"], dump_proto.DATA_TYPES),
        memory_format=_memory_format(numbers["format"]),
        shape=shape,
        # A message without dimensions is the original shape of a scalar only.
        original_shape=original if original or not shape else None,
        # 0 where the writer had nothing to say; a negative int32 is a number of 64 bits here.
        groups=groups if 1 < groups <= _MOST_GROUPS else 1,
        start=data.start,
        size=data.length or numbers["size"],
        address=numbers["address"],
    )


def _shape(source: WireSource, span: WireSpan) -> tuple[int, ...]:
    dims: tuple[int, ...] = ()
    for _, field in named_fields(source, span, dump_proto.SHAPE):
        dims += varints(source, field, _MAX_RANK)
        if len(dims) > _MAX_RANK:
            raise TensorFileError(
                f"{source.where}: its header gives a shape of more than {_MAX_RANK} axes; it is damaged"
            )
    return dims


def _data_type(number: int, table: Mapping[int, dump_proto.DataType]) -> dump_proto.DataType:
    return table.get(number, dump_proto.DataType(f"number {number}", "unknown"))


def _memory_format(number: int) -> str:
    return dump_proto.MEMORY_FORMATS.get(number, f"FORMAT_{number}")


def _parse_raw(source: WireSource, message: _DumpData, begin: int | None) -> tuple[tuple[RawPart, ...], int]:
    """Lay buffers and workspaces one behind the other, but for those whose bytes are inside the header."""
    parts: list[RawPart] = []
    end = begin or 0
    for kind in ("buffer", "space"):
        for slot, span in enumerate(message.messages[kind]):
            size, inside = 0, WireSpan(0, 0)
            for name, field in named_fields(source, span, dump_proto.OP_UNTYPED):
                if name == "size":
                    size = varint_of(source, field)
                else:
                    inside = span_of(source, field)
            if inside.length or begin is None:
                parts.append(RawPart(kind, slot, inside.start, inside.length))
            else:
                parts.append(RawPart(kind, slot, end, size))
                end += size
    return tuple(parts), end


# -- Nano ------------------------------------------------------------------------------------------------------------

_MAGIC_AND_VERSION = struct.Struct("<II")
_BLOCK = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_DIM_BYTES = 8
_SHAPE_TAG, _ORIGINAL_SHAPE_TAG = 0, 1
# data_type, format, address_type, [output: three numbers of the original,] address, offset, size, length of blocks.
_NANO_LAYOUTS = {"input": struct.Struct("<iiiQQQI"), "output": struct.Struct("<iiiiiiQQQI")}


def _parse_nano(source: WireSource, span: WireSpan) -> list[StoredTensor]:
    """Read the tensors of a nano header, its magic number included. Blocks with unknown tags are skipped."""
    _unpack(source, _MAGIC_AND_VERSION, span)
    tensors: list[StoredTensor] = []
    for tag, value in _nano_blocks(source, WireSpan(span.start + _MAGIC_AND_VERSION.size, span.stop)):
        if tag in dump_proto.NANO_TAGS:
            for tensor in _nano_tensors(source, value, dump_proto.NANO_TAGS[tag]):
                if len(tensors) == _MAX_TENSORS:
                    raise _damaged(source, value.start, f"more than {_MAX_TENSORS} tensors")
                tensors.append(tensor)
    return tensors


def _damaged(source: WireSource, position: int, what: str) -> TensorFileError:
    return TensorFileError(
        f"{source.where}: {what} at byte {position} of a nano dump's header; it is damaged, dump it again"
    )


def _unpack(source: WireSource, layout: struct.Struct, span: WireSpan) -> tuple[int, ...]:
    data = source.peek(span.start, min(layout.size, span.length))
    if len(data) < layout.size:
        raise _damaged(source, span.start, f"{len(data)} bytes where {layout.size} are needed")
    return layout.unpack(data)


def _nano_blocks(source: WireSource, span: WireSpan) -> Iterator[tuple[int, WireSpan]]:
    position = span.start
    while position < span.stop:
        tag, length = _unpack(source, _BLOCK, WireSpan(position, span.stop))
        value = WireSpan(position + _BLOCK.size, position + _BLOCK.size + length)
        if value.stop > span.stop:
            raise _damaged(source, position, f"a block of {length} bytes where {span.stop - value.start} are left")
        yield tag, value
        position = value.stop


def _nano_tensors(source: WireSource, span: WireSpan, io: str) -> Iterator[StoredTensor]:
    layout = _NANO_LAYOUTS[io]
    (count,) = _unpack(source, _COUNT, span)
    position = span.start + _COUNT.size
    for slot in range(count):
        data_type, memory_format, *_, address, _, size, length = _unpack(source, layout, WireSpan(position, span.stop))
        blocks = WireSpan(position + layout.size, position + layout.size + length)
        if blocks.stop > span.stop:
            raise _damaged(source, position, f"{length} bytes of {io} {slot} where {span.stop - blocks.start} are left")
        shapes = _nano_shapes(source, blocks)
        yield StoredTensor(
            io=io,
            slot=slot,
            data_type=_data_type(data_type, dump_proto.GE_DATA_TYPES),
            memory_format=_memory_format(memory_format),
            shape=shapes.get(_SHAPE_TAG, ()),
            original_shape=shapes.get(_ORIGINAL_SHAPE_TAG) or None,
            groups=1,
            start=0,
            size=size,
            address=address,
        )
        position = blocks.stop


def _nano_shapes(source: WireSource, span: WireSpan) -> dict[int, tuple[int, ...]]:
    shapes: dict[int, tuple[int, ...]] = {}
    for tag, value in _nano_blocks(source, span):
        if tag not in (_SHAPE_TAG, _ORIGINAL_SHAPE_TAG):
            continue
        rank, rest = divmod(value.length, _DIM_BYTES)
        if rest or rank > _MAX_RANK:
            raise _damaged(source, value.start, f"a shape of {value.length} bytes")
        shapes[tag] = _unpack(source, struct.Struct(f"<{rank}Q"), value)
    return shapes

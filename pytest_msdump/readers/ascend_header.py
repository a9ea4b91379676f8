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

from collections.abc import Iterable, Mapping
from functools import lru_cache

from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dump_proto import (
    DATA_TYPES,
    DUMP_DATA,
    GE_DATA_TYPES,
    MEMORY_FORMATS,
    NANO_MAGIC,
    OP_ATTR,
    OP_INPUT,
    OP_OUTPUT,
    SHAPE,
    DataType,
)
from pytest_msdump.readers.ascend_contents import Header, StoredTensor
from pytest_msdump.readers.ascend_nano import NanoTensor, parse_nano
from pytest_msdump.readers.ascend_raw import raw_parts
from pytest_msdump.readers.wire import Memory, Source, Span, named_fields, span_of, varint_of, varints

__all__ = ["MAX_HEADER_BYTES", "Header", "StoredTensor", "parse_header"]

MAX_HEADER_BYTES = 64 * 2**20

_LENGTH_BYTES = 8
_NANO = NANO_MAGIC.to_bytes(4, "little")
_SMALL_BYTES = 2**9
_MAX_RANK = 32
_MAX_NAME_BYTES = 2**12
_MOST_GROUPS = 2**31 - 1
# Fused optimisers have the most, some hundreds. An empty entry takes two bytes of the file, and far more here.
_MAX_TENSORS = 2**13
_START = StoredTensor._fields.index("start")
_FIELDS = {"input": OP_INPUT, "output": OP_OUTPUT}


class _Parts:
    """The parts of a `DumpData` while its fields are met."""

    def __init__(self) -> None:
        self.tensors: dict[str, list[Span]] = {"input": [], "output": []}
        self.untyped: dict[str, list[Span]] = {"buffer": [], "space": []}
        self.op_name = ""
        self.attribute: Span | None = None
        self.met = 0


def parse_header(source: Source) -> Header:
    """Read what a dump file holds.

    Parameters
    ----------
    source : Source
        The whole file, from its first byte on.

    Raises
    ------
    TensorFileError
        When it is none of the three containers, or its header is cut off or damaged. A file whose header is whole is
        accepted however much of the data behind it is missing.
    """
    length = _stated_length(source)
    if source.peek(_LENGTH_BYTES, 4) == _NANO:
        return _nano(source, length)
    if length is None:
        return _all_in_protobuf(source)
    begin = _LENGTH_BYTES + length
    parts = _parts(source, Span(_LENGTH_BYTES, begin))
    tensors = _placed(_tensors(source, parts), begin)
    end = max([begin, *[tensor.start + tensor.size for tensor in tensors]])
    raw, end = raw_parts(source, parts.untyped, end)
    return Header("2.0", parts.op_name, tensors, parts.attribute, raw, end)


def _stated_length(source: Source) -> int | None:
    """Return the length of the header in bytes; ``None`` when the first eight bytes cannot be one."""
    if source.size == 0:
        raise TensorFileError(
            f"{source.where}: is empty (0 bytes); the run was probably killed while writing: dump it again"
        )
    length = int.from_bytes(source.peek(0, _LENGTH_BYTES), "little")
    if source.size <= _LENGTH_BYTES or not 0 < length <= MAX_HEADER_BYTES:
        return None
    there = source.size - _LENGTH_BYTES
    if length > there:
        raise TensorFileError(
            f"{source.where}: cut off inside its header, {there} of {length} bytes; "
            "the run was probably killed while writing: dump it again"
        )
    return length


def _all_in_protobuf(source: Source) -> Header:
    try:
        parts = _parts(source, Span(0, source.size))
    except TensorFileError as error:
        raise _unknown(source) from error
    # Some other message may have the same wire types by chance, but nothing of use in it.
    if not parts.tensors["input"] and not parts.tensors["output"]:
        raise _unknown(source)
    # Here a size without data is a size of nothing.
    tensors = tuple(each if each.start else each._replace(size=0) for each in _tensors(source, parts))
    raw, _ = raw_parts(source, parts.untyped, None)
    return Header("protobuf", parts.op_name, tensors, parts.attribute, raw, source.size)


def _unknown(source: Source) -> TensorFileError:
    return TensorFileError(
        f"{source.where}: is not an Ascend dump: its first 8 bytes are not the length of a header, and it is not one "
        "protobuf message either; if it should be one, it is damaged: dump it again"
    )


def _parts(source: Source, span: Span) -> _Parts:
    """Find the parts of a `DumpData`."""
    parts = _Parts()
    for name, field in named_fields(source, span, DUMP_DATA):
        if name in parts.tensors:
            parts.tensors[name].append(span_of(source, field))
        elif name in parts.untyped:
            parts.untyped[name].append(span_of(source, field))
        elif name == "op_name":
            parts.op_name = _text(source, span_of(source, field))
        elif name == "attr" and parts.attribute is None:
            parts.attribute = _attribute(source, span_of(source, field))
        elif name == "dump_time":
            varint_of(source, field)
        parts.met += name in parts.tensors or name in parts.untyped
        if parts.met > _MAX_TENSORS:
            raise TensorFileError(
                f"{source.where}: its header lists more than {_MAX_TENSORS} tensors; it is damaged or forged"
            )
    return parts


def _attribute(source: Source, span: Span) -> Span | None:
    values = [span_of(source, field) for name, field in named_fields(source, span, OP_ATTR) if name == "value"]
    return values[-1] if values else None


def _text(source: Source, span: Span) -> str:
    if span.length > _MAX_NAME_BYTES:
        raise TensorFileError(f"{source.where}: its header gives a name of {span.length} bytes; it is damaged")
    return source.peek(span.start, span.length).decode("utf-8", "replace")


def _tensors(source: Source, parts: _Parts) -> list[StoredTensor]:
    return [
        _tensor(source, span, io, slot) for io in ("input", "output") for slot, span in enumerate(parts.tensors[io])
    ]


def _tensor(source: Source, span: Span, io: str, slot: int) -> StoredTensor:
    """Read one `OpInput` or `OpOutput`."""
    if span.length > _SMALL_BYTES:
        return _tensor_at(source, span, io, slot)
    try:
        known = _tensor_of(source.peek(span.start, span.length), io)
    except TensorFileError:
        # Once more where it is, for a text that names the file and the byte.
        return _tensor_at(source, span, io, slot)
    if slot == known.slot and not known.start:
        return known
    return known._replace(slot=slot, start=known.start + span.start if known.start else 0)


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=2048)
def _tensor_of(message: bytes, io: str) -> StoredTensor:
    return _tensor_at(Memory(message), Span(0, len(message)), io, 0)


def _tensor_at(source: Source, span: Span, io: str, slot: int) -> StoredTensor:
    """Read a message where it is. A field that is there twice counts by its last, as in protobuf."""
    numbers = {"data_type": 0, "format": 0, "size": 0, "sub_format": 0, "address": 0}
    shapes: dict[str, tuple[int, ...]] = {}
    data = Span(0, 0)
    for name, field in named_fields(source, span, _FIELDS[io]):
        if name in numbers:
            numbers[name] = varint_of(source, field)
        elif name == "data":
            data = span_of(source, field)
        else:
            shapes[name] = _shape(source, span_of(source, field))
    shape = shapes.get("shape", ())
    original = shapes.get("original_shape")
    return StoredTensor(
        io=io,
        slot=slot,
        data_type=_data_type(numbers["data_type"], DATA_TYPES),
        memory_format=_memory_format(numbers["format"]),
        shape=shape,
        # A message without dimensions is the original shape of a scalar only.
        original_shape=original if original or not shape else None,
        groups=_groups(numbers["sub_format"]),
        start=data.start,
        size=data.length or numbers["size"],
        address=numbers["address"],
    )


def _shape(source: Source, span: Span) -> tuple[int, ...]:
    dims: tuple[int, ...] = ()
    for _, field in named_fields(source, span, SHAPE):
        dims += varints(source, field, _MAX_RANK)
        if len(dims) > _MAX_RANK:
            raise TensorFileError(
                f"{source.where}: its header gives a shape of more than {_MAX_RANK} axes; it is damaged"
            )
    return dims


def _groups(sub_format: int) -> int:
    # 0 where the writer had nothing to say; a negative int32 is a number of 64 bits here.
    return sub_format if 1 < sub_format <= _MOST_GROUPS else 1


def _data_type(number: int, table: Mapping[int, DataType]) -> DataType:
    return table.get(number, DataType(f"number {number}", "unknown"))


def _memory_format(number: int) -> str:
    return MEMORY_FORMATS.get(number, f"FORMAT_{number}")


def _placed(tensors: Iterable[StoredTensor], begin: int) -> tuple[StoredTensor, ...]:
    """Lay the data of all tensors one behind the other, but for data that is inside the header."""
    placed: list[StoredTensor] = []
    for tensor in tensors:
        if tensor.start:
            placed.append(tensor)
        else:
            # As `_replace` does, in a third of the time.
            placed.append(StoredTensor._make((*tensor[:_START], begin, *tensor[_START + 1 :])))
            begin += tensor.size
    return tuple(placed)


def _nano(source: Source, length: int | None) -> Header:
    if length is None:
        raise TensorFileError(f"{source.where}: begins like a nano dump without a header; it is damaged: dump it again")
    begin = _LENGTH_BYTES + length
    tensors = [_of_nano(raw) for raw in parse_nano(source, Span(_LENGTH_BYTES, begin), most=_MAX_TENSORS)]
    placed = _placed(sorted(tensors, key=lambda tensor: tensor.io == "output"), begin)
    return Header("nano", "", placed, end=begin + sum(tensor.size for tensor in placed))


def _of_nano(raw: NanoTensor) -> StoredTensor:
    return StoredTensor(
        io=raw.io,
        slot=raw.slot,
        data_type=_data_type(raw.data_type, GE_DATA_TYPES),
        memory_format=_memory_format(raw.memory_format),
        shape=raw.shape,
        original_shape=raw.original_shape or None,
        groups=1,
        start=0,
        size=raw.size,
        address=raw.address,
    )

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

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pytest_msdump.dumps.wire import Memory, Source, Span, fields, named_fields, span_of, varint_of, varints
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
    OP_UNTYPED,
    SHAPE,
    DataType,
)

if TYPE_CHECKING:
    from pytest_msdump.dumps.ascend_nano import NanoTensor
    from pytest_msdump.dumps.stored_file import FileState

__all__ = ["MAX_HEADER_BYTES", "Header", "Noted", "StoredTensor", "bytes_behind", "parse_header"]


class StoredTensor(NamedTuple):
    """One tensor of a dump file.

    `start` is the byte of the file where its data begins, `size` the bytes that the header gives it. `shape` is the
    stored one, ``()`` when the header has none; `original_shape` is ``None`` when the header has none. `address` is
    where the tensor was on the device, 0 when nobody says.
    """

    io: str
    slot: int
    data_type: DataType
    memory_format: str
    shape: tuple[int, ...]
    original_shape: tuple[int, ...] | None
    groups: int
    start: int
    size: int
    address: int = 0


class Noted(NamedTuple):
    """A tensor as the header told of it when the dump was indexed, and the state that its file was in.

    `end` is the header's, see `Header`.
    """

    tensor: StoredTensor
    state: FileState
    end: int


class Header(NamedTuple):
    """What is in a dump file: tensors in stored order, and where its first attribute's value is.

    `raw` are buffers and workspaces, which are no tensors; `end` is the byte behind all that is told of.
    """

    container: str
    op_name: str
    tensors: tuple[StoredTensor, ...]
    attribute: Span | None = None
    raw: tuple[RawPart, ...] = ()
    end: int = 0

    @property
    def untyped(self) -> int:
        """Number of buffers and workspaces."""
        return len(self.raw)


# -- Buffers and workspaces of an Ascend dump file -------------------------------------------------------------------


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


# -- One input or output as a header of a dump file describes it -----------------------------------------------------


# Longer ones hold their data, or are of no kind that many are of.
SMALL_BYTES = 2**9
_MAX_RANK = 32
_MOST_GROUPS = 2**31 - 1
_FIELDS = {"input": OP_INPUT, "output": OP_OUTPUT}


def tensor_in(source: Source, span: Span, io: str, slot: int) -> StoredTensor:
    """Read one `OpInput` or `OpOutput` where it is."""
    if span.length > SMALL_BYTES:
        return _read(source, span, io, slot)
    try:
        known = tensor_of(source.peek(span.start, span.length), io)
    except TensorFileError:
        # Once more where it is, for a text that names the file and the byte.
        return _read(source, span, io, slot)
    if slot == known.slot and not known.start:
        return known
    return known._replace(slot=slot, start=known.start + span.start if known.start else 0)


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=2048)
def tensor_of(message: bytes, io: str) -> StoredTensor:
    """Read one that is held, as that of slot 0; `start` is the byte of the message."""
    return _read(Memory(message), Span(0, len(message)), io, 0)


def _read(source: Source, span: Span, io: str, slot: int) -> StoredTensor:
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
        data_type=data_type(numbers["data_type"], DATA_TYPES),
        memory_format=memory_format(numbers["format"]),
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


def data_type(number: int, table: Mapping[int, DataType]) -> DataType:
    """Return the data type of a number; one that the table does not have is unknown, and named so."""
    return table.get(number, DataType(f"number {number}", "unknown"))


def memory_format(number: int) -> str:
    """Return the memory format of a number; one that no table has is named by it."""
    return MEMORY_FORMATS.get(number, f"FORMAT_{number}")


# -- What an Ascend dump file says of its tensors --------------------------------------------------------------------


MAX_HEADER_BYTES = 64 * 2**20

_LENGTH_BYTES = 8
_NANO = NANO_MAGIC.to_bytes(4, "little")
_MAX_NAME_BYTES = 2**12
# Nearly all operators have fewer inputs and outputs.
_FEW_TENSORS = 32
# Fused optimisers have the most, some hundreds. An empty entry takes two bytes of the file, and far more here.
_MAX_TENSORS = 2**13
# A forged file could hold very many empty ones.
_MOST_CONTAINERS = 64
# A writer puts these into a message once.
_SINGULAR = frozenset({"version", "dump_time", "op_name"})


class _LaidOut(NamedTuple):
    """Tensors with the places of their data, and the byte behind the last."""

    tensors: tuple[StoredTensor, ...]
    end: int


class _Parts(NamedTuple):
    """The parts of a `DumpData`: where the messages of each kind are, its operator's name, its first attribute.

    `end` is the byte behind the last field that is known, `twice` a field that is there twice and should not be.
    """

    messages: Mapping[str, Sequence[Span]]
    op_name: str
    attribute: Span | None
    end: int
    twice: str | None

    @property
    def untyped(self) -> Mapping[str, Sequence[Span]]:
        """Buffers and workspaces, in the order of the file's data."""
        return {kind: self.messages[kind] for kind in ("buffer", "space")}


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
    tensors, end = _alike(source, parts, begin) or _laid_out(_tensors(source, parts), begin)
    raw: tuple[RawPart, ...] = ()
    if parts.messages["buffer"] or parts.messages["space"]:
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
    if not parts.messages["input"] and not parts.messages["output"]:
        raise _unknown(source)
    if parts.twice is not None:
        raise _several(source, f"the field {parts.twice} is there twice")
    # Here a size without data is a size of nothing.
    tensors = tuple(each if each.start else each._replace(size=0) for each in _tensors(source, parts))

    raw, _ = raw_parts(source, parts.untyped, None)
    return Header("protobuf", parts.op_name, tensors, parts.attribute, raw, parts.end)


def bytes_behind(source: Source, end: int) -> int:
    """Return how many bytes follow what a header explains.

    Parameters
    ----------
    source : Source
        The whole file.
    end : int
        As the `Header` has it.

    Raises
    ------
    TensorFileError
        When they are one or more whole dumps: two files were joined, or two runs wrote into one.
    """
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


def _several(source: Source, how: str) -> TensorFileError:
    return TensorFileError(
        f"{source.where}: holds several dumps ({how}); which of them counts is not known: dump it again, or split it"
    )


class _Tail(NamedTuple):
    """A source from a byte on."""

    source: Source
    start: int

    @property
    def where(self) -> str:
        return self.source.where

    @property
    def size(self) -> int:
        return self.source.size - self.start

    def peek(self, start: int, count: int) -> bytes:
        return self.source.peek(self.start + start, count)


def _unknown(source: Source) -> TensorFileError:
    return TensorFileError(
        f"{source.where}: is not an Ascend dump: its first 8 bytes are not the length of a header, and it is not one "
        "protobuf message either; if it should be one, it is damaged: dump it again"
    )


def _parts(source: Source, span: Span) -> _Parts:
    """Find the parts of a `DumpData`."""
    messages: dict[str, list[Span]] = {"input": [], "output": [], "buffer": [], "space": []}
    op_name, attribute, met = "", None, 0
    end, seen, twice = span.start, set[str](), None
    for field in fields(source, span):
        name = DUMP_DATA.get(field[0], "")
        if name:
            end = field[4]
        if name in _SINGULAR:
            twice = name if name in seen else twice
            seen.add(name)
        listed = messages.get(name)
        if listed is not None:
            listed.append(span_of(source, field))
            met += 1
            if met > _MAX_TENSORS:
                raise TensorFileError(
                    f"{source.where}: its header lists more than {_MAX_TENSORS} tensors; it is damaged or forged"
                )
        elif name == "op_name":
            op_name = _text(source, span_of(source, field))
        elif name == "attr" and attribute is None:
            attribute = _attribute(source, span_of(source, field))
        elif name == "dump_time":
            varint_of(source, field)
    return _Parts(messages, op_name, attribute, end, twice)


def _attribute(source: Source, span: Span) -> Span | None:
    values = [span_of(source, field) for name, field in named_fields(source, span, OP_ATTR) if name == "value"]
    return values[-1] if values else None


def _text(source: Source, span: Span) -> str:
    start, stop = span
    if stop - start > _MAX_NAME_BYTES:
        raise TensorFileError(f"{source.where}: its header gives a name of {span.length} bytes; it is damaged")
    return source.peek(start, stop - start).decode("utf-8", "replace")


def _tensors(source: Source, parts: _Parts) -> list[StoredTensor]:
    return [
        tensor_in(source, span, io, slot) for io in ("input", "output") for slot, span in enumerate(parts.messages[io])
    ]


def _alike(source: Source, parts: _Parts, begin: int) -> _LaidOut | None:
    """Return the tensors of a small header, which is one of many that differ by names and times alone.

    ``None`` of one that is large, holds data or is damaged: its tensors are read one by one.
    """
    inputs, outputs = parts.messages["input"], parts.messages["output"]
    if len(inputs) + len(outputs) > _FEW_TENSORS:
        return None
    messages: list[bytes] = []
    for start, stop in (*inputs, *outputs):
        if stop - start > SMALL_BYTES:
            return None
        messages.append(source.peek(start, stop - start))
    try:
        return _known(begin, len(inputs), *messages)
    except TensorFileError:
        return None


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=2048)
def _known(begin: int, inputs: int, *messages: bytes) -> _LaidOut | None:
    tensors = [
        tensor_of(message, "input")._replace(slot=slot)
        if slot < inputs
        else tensor_of(message, "output")._replace(slot=slot - inputs)
        for slot, message in enumerate(messages)
    ]
    return None if any(tensor.start for tensor in tensors) else _laid_out(tensors, begin)


def _laid_out(tensors: Iterable[StoredTensor], begin: int) -> _LaidOut:
    """Lay the data of all tensors one behind the other, but for data that is inside the header."""
    placed: list[StoredTensor] = []
    end = begin
    for tensor in tensors:
        if tensor.start:
            placed.append(tensor)
        else:
            placed.append(tensor._replace(start=begin))
            begin += tensor.size
        end = max(end, placed[-1].start + tensor.size)
    return _LaidOut(tuple(placed), end)


def _nano(source: Source, length: int | None) -> Header:
    if length is None:
        raise TensorFileError(f"{source.where}: begins like a nano dump without a header; it is damaged: dump it again")
    from pytest_msdump.dumps.ascend_nano import parse_nano

    begin = _LENGTH_BYTES + length
    tensors = [_of_nano(raw) for raw in parse_nano(source, Span(_LENGTH_BYTES, begin), most=_MAX_TENSORS)]
    placed = _laid_out(sorted(tensors, key=lambda tensor: tensor.io == "output"), begin)
    return Header("nano", "", placed.tensors, end=placed.end)


def _of_nano(raw: NanoTensor) -> StoredTensor:
    return StoredTensor(
        io=raw.io,
        slot=raw.slot,
        data_type=data_type(raw.data_type, GE_DATA_TYPES),
        memory_format=memory_format(raw.memory_format),
        shape=raw.shape,
        original_shape=raw.original_shape or None,
        groups=1,
        start=0,
        size=raw.size,
        address=raw.address,
    )

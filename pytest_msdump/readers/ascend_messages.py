"""One input or output as a header of a dump file describes it: a message of its own, read where it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dump_proto import DATA_TYPES, MEMORY_FORMATS, OP_INPUT, OP_OUTPUT, SHAPE, DataType
from pytest_msdump.readers.ascend_contents import StoredTensor
from pytest_msdump.readers.wire import Memory, Source, Span, named_fields, span_of, varint_of, varints

__all__ = ["SMALL_BYTES", "data_type", "memory_format", "tensor_in", "tensor_of"]

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

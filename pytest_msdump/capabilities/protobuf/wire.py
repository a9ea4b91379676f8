"""Protobuf's wire format, field by field: no schema, and nothing believed that is not in bounds.

A message is walked without being loaded: each field says where it begins and ends, so a tensor inside a message is
never in memory.

References
----------
Protocol Buffers documentation, "Encoding". Groups (wire types 3 and 4) are not part of proto3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError

VARINT, _I64, LENGTH, _I32 = 0, 1, 2, 5
_FIXED = {_I64: 8, _I32: 4}
_KINDS = {VARINT: "a number", _I64: "eight bytes", LENGTH: "bytes of a stated length", _I32: "four bytes"}
_LONGEST_VARINT = 10
_MOST = 2**64 - 1
_MOST_TAG = 2**32 - 1
# A writer leaves no more in one message; a forged file of empty fields would keep the run busy for long.
_MOST_FIELDS = 2**16
_WINDOW_BYTES = 2**12


class WireSpan(NamedTuple):
    """Bytes `start` to `stop` of a source."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.stop - self.start


class Field(NamedTuple):
    """One field: its number, wire type, the value of a varint (else 0), and where its content begins and stops."""

    number: int
    wire_type: int
    value: int
    start: int
    stop: int

    @property
    def span(self) -> WireSpan:
        """Where its content is."""
        return WireSpan(self.start, self.stop)


class WireSource(Protocol):
    """Bytes that can be looked at anywhere."""

    @property
    def where(self) -> str:
        """What they are, for error texts."""

    @property
    def size(self) -> int:
        """How many there are."""

    def peek(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from `start` on; fewer only where the source ends."""


class Memory(NamedTuple):
    """A source in memory."""

    data: bytes
    where: str = "bytes"

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data)

    def peek(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from `start` on."""
        return self.data[start : start + count]


class FileSource:
    """A file as a `wire.WireSource`. Looks through a small window, so that fields cost no system call each."""

    def __init__(self, file: StoredFile) -> None:
        self._file, self.size = file, file.size
        self._window, self._begin = b"", 0

    @property
    def where(self) -> str:
        """The file's path."""
        return self._file.where

    def peek(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from `start` on; fewer only at the end of the file."""
        at = start - self._begin
        if at < 0 or at + count > len(self._window):
            length = max(0, min(max(count, _WINDOW_BYTES), self.size - start))
            self._window, self._begin, at = self._file.read_bytes(start, length), start, 0
        return self._window[at : at + count]


class NotAMessageError(TensorFileError):
    """Bytes that are no message, or one that is cut off; `position` is the byte where that shows."""

    position = 0


def _damaged(source: WireSource, position: int, what: str) -> TensorFileError:
    error = NotAMessageError(
        f"{source.where}: {what} at byte {position}; the file is damaged or cut off, dump it again"
    )
    error.position = position
    return error


def _varint(source: WireSource, data: bytes, begin: int, position: int) -> tuple[int, int]:
    """Return the number at `position` of the source and the byte behind it; `data` are its bytes from `begin` on."""
    at = position - begin
    # Most numbers take one byte.
    if at < len(data) and data[at] < 0x80:
        return data[at], position + 1
    value = 0
    for index, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and value <= _MOST:
            return value, position + index + 1
    raise _damaged(source, position, "no number of at most 64 bits")


def fields(source: WireSource, span: WireSpan, *, most: int = _MOST_FIELDS) -> Iterator[Field]:
    """Walk the fields of one message, `most` at most, in order. Fields of unknown numbers are the caller's to skip."""
    position, stop = span
    if not 0 <= position <= stop <= source.size:
        raise _damaged(source, position, f"a message of {span.length} bytes that are not all there begins")
    for _ in range(most):
        if position >= stop:
            return
        # A tag, and its number or length.
        head = source.peek(position, min(2 * _LONGEST_VARINT, stop - position))
        tag, begin = _varint(source, head, position, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag > _MOST_TAG or wire_type not in _KINDS:
            raise _damaged(source, position, "no field of a protobuf message")
        value = 0
        if wire_type == VARINT:
            value, end = _varint(source, head, position, begin)
        elif wire_type == LENGTH:
            length, begin = _varint(source, head, position, begin)
            end = begin + length
        else:
            end = begin + _FIXED[wire_type]
        if end > stop:
            raise _damaged(source, position, f"a field of {end - begin} bytes where {stop - begin} are left")
        yield Field(number, wire_type, value, begin, end)
        position = end
    if position < stop:
        raise _damaged(source, position, f"more than {most} fields in one message")


def named_fields(source: WireSource, span: WireSpan, names: Mapping[int, str]) -> Iterator[tuple[str, Field]]:
    """Walk the fields that a table of `ascend.dump_proto` names; others are skipped."""
    return ((names[field.number], field) for field in fields(source, span) if field.number in names)


def varint_of(source: WireSource, field: Field) -> int:
    """Return the number in a field; TensorFileError where it holds something else."""
    if field.wire_type != VARINT:
        raise _wrong_kind(source, field, VARINT)
    return field.value


def span_of(source: WireSource, field: Field) -> WireSpan:
    """Return where the bytes (text, packed numbers, a message) of a field are; TensorFileError where it has none."""
    if field.wire_type != LENGTH:
        raise _wrong_kind(source, field, LENGTH)
    return field.span


def varints(source: WireSource, field: Field, most: int) -> tuple[int, ...]:
    """Return the numbers of a repeated field, packed or not; TensorFileError for more than `most`, or other content."""
    if field.wire_type == VARINT:
        return (field.value,)
    position, stop = begin, _ = span_of(source, field)
    data = source.peek(begin, min(most * _LONGEST_VARINT, stop - begin))
    numbers: list[int] = []
    while position < stop:
        if len(numbers) == most:
            raise _damaged(source, field.start, f"more than {most} numbers in one list")
        value, position = _varint(source, data, begin, position)
        numbers.append(value)
    return tuple(numbers)


def _wrong_kind(source: WireSource, field: Field, wanted: int) -> TensorFileError:
    what = f"field {field.number} is {_KINDS[field.wire_type]}, not {_KINDS[wanted]},"
    return _damaged(source, field.start, what)

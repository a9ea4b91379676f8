"""Protobuf's wire format, field by field: no schema, no I/O of its own, and nothing believed that is not in bounds.

A message is walked without being loaded: what is of fixed or variable length is told by where it begins and ends, so a
tensor inside a message is never held.

References
----------
Protocol Buffers documentation, "Encoding". Groups (wire types 3 and 4) are not part of proto3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from pytest_msdump.errors import TensorFileError

__all__ = ["VARINT", "Field", "Memory", "Source", "Span", "fields", "named_fields", "span_of", "varint_of", "varints"]

VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_FIXED = {_I64: 8, _I32: 4}
_KINDS = {VARINT: "a number", _I64: "eight bytes", _LEN: "bytes of a stated length", _I32: "four bytes"}
_LONGEST_VARINT = 10
_PIECE_BYTES = 2**10
_MOST = 2**64 - 1
_MOST_TAG = 2**32 - 1
_new = tuple.__new__
# A writer leaves no more in one message; a forged file of empty fields would keep the run busy for long.
_MOST_FIELDS = 2**16


class Span(NamedTuple):
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
    def span(self) -> Span:
        """Where its content is."""
        return Span(self.start, self.stop)


class Source(Protocol):
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
    """A source that is held in memory."""

    data: bytes
    where: str = "bytes"

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.data)

    def peek(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from `start` on."""
        return self.data[start : start + count]


def _damaged(source: Source, position: int, what: str) -> TensorFileError:
    return TensorFileError(f"{source.where}: {what} at byte {position}; the file is damaged or cut off, dump it again")


class _Cursor:
    """Reads numbers of one message, in order, from a piece of it that is held at a time."""

    __slots__ = ("_begin", "_data", "_safe", "_source", "_stop")

    def __init__(self, source: Source, stop: int) -> None:
        self._source, self._stop = source, stop
        self._data, self._begin, self._safe = b"", 0, 0

    def varint(self, position: int) -> tuple[int, int]:
        """Return the number at `position` and the byte behind it."""
        at = position - self._begin
        if at >= self._safe:
            self._hold(position)
            at = 0
        data = self._data
        if at < len(data) and data[at] < 0x80:
            return data[at], position + 1
        value = 0
        for index, byte in enumerate(data[at : at + _LONGEST_VARINT]):
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80 and value <= _MOST:
                return value, position + index + 1
        raise _damaged(self._source, position, "no number of at most 64 bits")

    def _hold(self, position: int) -> None:
        """Take the next piece. Its last bytes are safe to begin a number at only when the message ends there, too."""
        count = max(0, min(_PIECE_BYTES, self._stop - position))
        self._data, self._begin = self._source.peek(position, count), position
        whole = position + len(self._data) >= self._stop
        self._safe = len(self._data) if whole else len(self._data) - _LONGEST_VARINT


def fields(source: Source, span: Span) -> Iterable[Field]:
    """Walk the fields of one message.

    Parameters
    ----------
    source : Source
        Where the message is.
    span : Span
        Its first byte and the byte behind it.

    Returns
    -------
    iterable of Field
        In order. Fields of any number are there; those of unknown numbers are the caller's to skip.

    Raises
    ------
    TensorFileError
        When the bytes are no message: a length beyond its end, a wire type that does not exist, a field number of 0,
        or more fields than are believed. At the latest when the field is reached.
    """
    position, stop = span
    if not 0 <= position <= stop <= source.size:
        raise _damaged(source, position, f"a message of {span.length} bytes that are not all there begins")
    whole = _walked(source, span) if stop - position <= _PIECE_BYTES else None
    return _with_care(source, span) if whole is None else whole


def _with_care(source: Source, span: Span) -> Iterator[Field]:
    position, stop = span
    cursor = _Cursor(source, stop)
    for _ in range(_MOST_FIELDS):
        if position >= stop:
            return
        tag, begin = cursor.varint(position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag > _MOST_TAG or wire_type not in _KINDS:
            raise _damaged(source, position, "no field of a protobuf message")
        value = 0
        if wire_type == VARINT:
            value, end = cursor.varint(begin)
        elif wire_type == _LEN:
            length, begin = cursor.varint(begin)
            end = begin + length
        else:
            end = begin + _FIXED[wire_type]
        if end > stop:
            raise _damaged(source, position, f"a field of {end - begin} bytes where {stop - begin} are left")
        yield Field(number, wire_type, value, begin, end)
        position = end
    if position < stop:
        raise _damaged(source, position, f"more than {_MOST_FIELDS} fields in one message")


def _walked(source: Source, span: Span) -> list[Field] | None:
    """Return the fields of a small message whose numbers are all small; ``None`` of one to be walked with care."""
    found: list[Field] = []
    start, end = span
    stop, at = end - start, 0
    data = source.peek(start, stop)
    try:
        while at < stop:
            tag, value, begin = data[at], 0, at + 1
            wire_type = tag & 7
            if wire_type == VARINT:
                value, end = data[begin], begin + 1
                if value >= 0x80:
                    value, end = _small_varint(data, begin)
            elif wire_type == _LEN:
                length, begin = data[begin], begin + 1
                if length >= 0x80:
                    length, begin = _small_varint(data, begin - 1)
                end = begin + length
            else:
                return None
            # A number of a field that takes two bytes, no field at all, or a field beyond the end.
            if not 8 <= tag < 0x80 or end > stop:
                return None
            # As calling it does, in a third of the time.
            found.append(_new(Field, (tag >> 3, wire_type, value, start + begin, start + end)))
            at = end
    except IndexError:
        return None
    return found


def _small_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of at most nine bytes at a place, and the place behind it; IndexError of any other."""
    value = shift = 0
    for place in range(at, at + _LONGEST_VARINT - 1):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise IndexError


def named_fields(source: Source, span: Span, names: Mapping[int, str]) -> Iterable[tuple[str, Field]]:
    """Walk the fields that a table of `facts.dump_proto` names; others are skipped.

    Raises
    ------
    TensorFileError
        As `fields`.
    """
    found = fields(source, span)
    if isinstance(found, list):
        return [(names[field.number], field) for field in found if field.number in names]
    return ((names[field.number], field) for field in found if field.number in names)


def varint_of(source: Source, field: Field) -> int:
    """Return the number in a field.

    Raises
    ------
    TensorFileError
        When the field holds something else.
    """
    if field.wire_type != VARINT:
        raise _wrong_kind(source, field, VARINT)
    return field.value


def span_of(source: Source, field: Field) -> Span:
    """Return where the bytes (text, packed numbers, a message) of a field are.

    Raises
    ------
    TensorFileError
        When the field holds something else.
    """
    if field.wire_type != _LEN:
        raise _wrong_kind(source, field, _LEN)
    return _new(Span, field[3:])


def varints(source: Source, field: Field, most: int) -> tuple[int, ...]:
    """Return the numbers of a repeated field, packed or not.

    Parameters
    ----------
    source : Source
        Where the field is.
    field : Field
        One occurrence of it.
    most : int
        How many numbers are believed.

    Raises
    ------
    TensorFileError
        When there are more, or no whole numbers.
    """
    if field.wire_type == VARINT:
        return (field.value,)
    position, stop = span_of(source, field)
    cursor = _Cursor(source, stop)
    numbers: list[int] = []
    while position < stop:
        if len(numbers) == most:
            raise _damaged(source, field.span.start, f"more than {most} numbers in one list")
        value, position = cursor.varint(position)
        numbers.append(value)
    return tuple(numbers)


def _wrong_kind(source: Source, field: Field, wanted: int) -> TensorFileError:
    what = f"field {field.number} is {_KINDS[field.wire_type]}, not {_KINDS[wanted]},"
    return _damaged(source, field.span.start, what)

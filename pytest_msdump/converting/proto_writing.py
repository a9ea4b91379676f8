"""Protobuf's wire format, the other way round of `readers.wire`: numbers, bytes and lists become fields. No I/O.

A number that is 0 and a text that is empty are what a reader takes for a field that is not there, so that proto3 does
not write them.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["bytes_field", "number_field", "varint"]

_VARINT, _LEN = 0, 2
_MOST = 2**64 - 1


def varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first.

    Raises
    ------
    ValueError
        When it is negative or has more than 64 bits.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    if not 0 <= value <= _MOST:
        raise ValueError(f"{value} is no unsigned number of 64 bits")
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def number_field(number: int, value: int) -> bytes:
    """Return the field of a number; nothing for 0."""
    return varint(number << 3 | _VARINT) + varint(value) if value else b""


def bytes_field(number: int, content: bytes | Iterable[int]) -> bytes:
    """Return the field of a text, of a message (also an empty one), or of a list of numbers, packed."""
    data = content if isinstance(content, bytes) else b"".join(map(varint, content))
    return varint(number << 3 | _LEN) + varint(len(data)) + data

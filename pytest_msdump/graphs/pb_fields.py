"""Protobuf's wire format for graphs, which are held in memory whole: no schema, nothing believed that is not in bounds.

References
----------
Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pytest_msdump.errors import ConfigError

__all__ = ["Message"]

_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_FIXED = {_I64: 8, _I32: 4}
_LONGEST_VARINT = 10
_MOST = 2**64 - 1


class Message(NamedTuple):
    """Bytes `start` to `stop` of a file, read as a message; `source` is what errors call the file."""

    data: bytes
    start: int
    stop: int
    source: str

    def fields(self) -> Iterator[tuple[int, int | Message]]:
        """Yield number and content of each field: a number, or where its bytes are; fixed ones are stepped over.

        Raises
        ------
        ConfigError
            The bytes are no message, or one that is cut off.
        """
        position = self.start
        while position < self.stop:
            tag, behind = self._varint(position)
            kind, number = tag & 7, tag >> 3
            if kind == _VARINT:
                value, position = self._varint(behind)
                yield number, value
                continue
            length, begin = self._varint(behind) if kind == _LEN else (_FIXED.get(kind, -1), behind)
            if length < 0 or number == 0 or begin + length > self.stop:
                raise self._damaged(position)
            position = begin + length
            if kind == _LEN:
                yield number, Message(self.data, begin, position, self.source)

    def by_number(self) -> dict[int, list[int | Message]]:
        """Collect the fields; those of one number in their order."""
        found: dict[int, list[int | Message]] = {}
        for number, content in self.fields():
            found.setdefault(number, []).append(content)
        return found

    def text(self) -> str:
        """Return the bytes as text; what is not UTF-8 is marked."""
        return self.data[self.start : self.stop].decode("utf-8", errors="replace")

    def _varint(self, position: int) -> tuple[int, int]:
        value = 0
        for index, byte in enumerate(self.data[position : min(position + _LONGEST_VARINT, self.stop)]):
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80 and value <= _MOST:
                return value, position + index + 1
        raise self._damaged(position)

    def _damaged(self, position: int) -> ConfigError:
        return ConfigError(f"{self.source}: not a graph, or cut off: no field of a message at byte {position}")

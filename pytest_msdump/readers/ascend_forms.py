"""Headers that differ by the time and the operator's name alone, as those of a network mostly do: walked once."""

from __future__ import annotations

from pytest_msdump.lazy_expression import expression
from pytest_msdump.readers.ascend_contents import Header

__all__ = ["HeaderForms"]

_LENGTH_BYTES = 8
_MOST_FORMS = 2**12
# A number of at most nine bytes has less than 64 bits.
_NUMBER = expression(rb"[\x80-\xff]{0,8}[\x00-\x7f]")


class HeaderForms:
    """Headers of one dump that were read, by all their bytes but those of the time and the name.

    Notes
    -----
    What a walk finds depends on the bytes it meets in their order. Where all but the digits of a number, which ends at
    the same byte, and the letters of a text are the same, so is all that it finds.
    """

    def __init__(self) -> None:
        # By the length of the header, where the bytes are that differ in the last one of that length, and by all other
        # bytes the headers that differ there.
        self._last: dict[bytes, tuple[tuple[int, int, int, int], int, dict[bytes, Header]]] = {}
        self._known: dict[tuple[bytes, tuple[int, int, int, int]], dict[bytes, Header]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        """Whether any header was noted."""
        return bool(self._last)

    def find(self, first: bytes) -> tuple[Header, str] | None:
        """Return the header of a file by some of its first bytes, where one like it was read.

        Returns
        -------
        header
            As `parse_header` gives it, but perhaps with the name of another operator.
        op_name
            The operator's.
        """
        last = self._last.get(first[:_LENGTH_BYTES])
        if last is None:
            return None
        (time, behind, name, end), stop, alike = last
        known = alike.get(first[:time] + first[behind:name] + first[end:stop])
        if known is None or stop > len(first) or not _NUMBER.fullmatch(first, time, behind):
            return None
        return known, first[name:end].decode("utf-8", "replace")

    def note(self, first: bytes, header: Header) -> None:
        """Note a header that was read, for files that begin with other times and names."""
        length = first[:_LENGTH_BYTES]
        stop = _LENGTH_BYTES + int.from_bytes(length, "little")
        if header.varying is None or stop > len(first) or self._count >= _MOST_FORMS:
            return
        time, behind, name, end = header.varying
        alike = self._known.setdefault((length, header.varying), {})
        alike[first[:time] + first[behind:name] + first[end:stop]] = header
        self._last[length] = (header.varying, stop, alike)
        self._count += 1

"""File names for what a framework calls its operators: the reference grammar, each name once, times that only rise."""

from __future__ import annotations

import re
import time
from pathlib import Path

from pytest_msdump.readers.filename import ReferenceName

__all__ = ["FileNames", "spelled"]

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME_BYTES = 255
# Where MindSpore's own short names begin.
_FIRST_SHORT = 400_000_000
_INPUT = "_input"


def spelled(op: str) -> str:
    """Write a name with the letters that every tool allows; each other character becomes ``_``.

    Examples
    --------
    >>> spelled("layers.0/conv:1")
    'layers_0_conv_1'
    """
    return _FOREIGN.sub("_", op) or "_"


class FileNames:
    """Gives out the file names of one dump.

    Parameters
    ----------
    first : int, optional
        The time of the first, in µs since 1970; then they are the same every time. The clock's by default.
    """

    def __init__(self, first: int | None = None) -> None:
        self._spellings: dict[str, str] = {}
        self._taken: set[str] = set()
        self._latest = 0 if first is None else first - 1
        self._has_clock = first is None
        self._short: dict[Path, list[tuple[str, str]]] = {}

    def name(self, op: str, io: str, slot: int) -> str:
        """Return ``NAME.SLOT.TIMESTAMP.npy``, later than all before; it may be too long for a file."""
        stem = self._spelling(op) + (_INPUT if io == "input" else "")
        # µs since 1970. What is written later has a later time, also when the clock is set back.
        self._latest = max(self._latest + 1, time.time_ns() // 1000 if self._has_clock else 0)
        return ReferenceName(stem, slot, self._latest).filename

    def shortened(self, folder: Path, name: str) -> tuple[str, str | None]:
        """Return a name that the file system takes; where it is another, also the new text of the folder's mapping."""
        if len(name) <= _LONGEST_NAME_BYTES:
            return name, None
        rows = self._short.setdefault(folder, [])
        rows.append((f"{_FIRST_SHORT + len(rows)}.npy", name))
        return rows[-1][0], "".join(f"{short},{long}\n" for short, long in rows)

    def _spelling(self, op: str) -> str:
        if op not in self._spellings:
            plain, number = spelled(op), 1
            stem = plain
            while {stem, stem + _INPUT} & self._taken:
                number += 1
                stem = f"{plain}_{number}"
            self._spellings[op] = stem
            self._taken |= {stem, stem + _INPUT}
        return self._spellings[op]

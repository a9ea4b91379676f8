"""Lists of like values, made small: a page of thousands of tensors says little that it has not said before."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Pool", "column", "file_columns", "front_coded", "short"]

# Enough to tell a number from its limit by eye; the digits that programs need are in results.json.
_DIGITS = 6
_LARGEST_EXACT = 2**53

# Marks in the template of a file's name: the operator's name, and the time.
_NAME_MARK, _TIME_MARK = "\x01", "\x02"
_TIME = re.compile(r"(?<![0-9])[1-9][0-9]{11,15}(?![0-9])")


class Pool:
    """Texts, or other JSON values, each kept once and named by a number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str | tuple[str], int] = {}

    def add(self, value: Any) -> int:
        """Return the number of `value`; ``None`` is -1."""
        if value is None:
            return -1
        # Of texts there are most; a number and a text that reads like it stay apart.
        key = value if isinstance(value, str) else (json.dumps(value),)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def short(value: Any) -> Any:
    """Return a number with no more digits than a person reads; lists by their parts, anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [short(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, int) and abs(value) < _LARGEST_EXACT:
        return value
    try:
        rounded = float(f"{float(value):.{_DIGITS}g}")
    except OverflowError:
        return str(value)
    if not math.isfinite(rounded):
        return str(value)
    return int(rounded) if rounded.is_integer() and abs(rounded) < _LARGEST_EXACT else rounded


def column(values: Iterable[Any]) -> Any:
    """Return a list, or ``{"all": value}`` where every row has the same one."""
    listed = list(values)
    if listed and all(type(value) is type(listed[0]) and value == listed[0] for value in listed):
        return {"all": listed[0]}
    return listed


def front_coded(texts: Iterable[str]) -> dict[str, Any]:
    """Return how much of the text before each one begins with, and the rest: names of one network begin alike."""
    shared, rest, before = [], [], ""
    for text in texts:
        same = _common(before, text)
        # A pair of surrogates stays whole: programs of a page count it as two.
        shared.append(_units(text[:same]))
        rest.append(text[same:])
        before = text
    return {"shared": column(shared), "rest": column(rest)}


def file_columns(paths: Sequence[str], names: Sequence[str], pool: Pool) -> dict[str, Any]:
    """Return file names as folder, template and time; most templates are shared once the operator's name is out.

    Parameters
    ----------
    paths : sequence of str
        Forward slashes.
    names : sequence of str
        The name of each file's operator as its file has it; where it does not occur nothing is replaced.
    pool : Pool
        Where folders and templates go.
    """
    folders, templates, times, before = [], [], [], 0
    for path, name in zip(paths, names, strict=True):
        folder, slash, base = path.rpartition("/")
        folders.append(pool.add(folder + slash))
        found = _TIME.search(base)
        time = int(found[0]) if found and int(found[0]) < _LARGEST_EXACT else None
        if found and time is not None:
            base = base[: found.start()] + _TIME_MARK + base[found.end() :]
        if len(name) > 1:
            base = base.replace(name, _NAME_MARK, 1)
        templates.append(pool.add(base))
        times.append(0 if time is None else time - before)
        before = before if time is None else time
    return {"folder": column(folders), "template": column(templates), "time": column(times)}


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike; by halves, since names are long and many."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _units(text: str) -> int:
    """The length of a text in UTF-16 units, as the page's program counts."""
    return len(text) + sum(character > "\uffff" for character in text)

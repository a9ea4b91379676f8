"""File names for what a framework calls its operators: the reference grammar, each name once, times that only rise."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_msdump.dumps.file_names import ReferenceName
from pytest_msdump.errors import ConfigError, UnknownNameError, nearest

__all__ = ["FileNames", "Patterns", "calling_line", "chosen", "leaves", "named_leaves", "spelled"]

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


# -- Which line of the user's program is running ---------------------------------------------------------------------


_OURS = f"{Path(__file__).parent}{os.sep}"


def calling_line(*frameworks: str) -> str | None:
    """Return ``path:line`` of the innermost caller that is neither this package nor below a framework's folder."""
    frame: FrameType | None = sys._getframe(1)
    # Names in angle brackets are of code that has no file.
    skipped = (_OURS, "<", *_folders(frameworks))
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(skipped):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _folders(frameworks: Iterable[str]) -> Iterable[str]:
    for name in frameworks:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path:
            yield f"{Path(path).parent}{os.sep}"


# -- Which of a graph's operators are recorded -----------------------------------------------------------------------


Patterns = str | Sequence[str] | None
_MOST_TOLD = 30


def chosen(operators: Mapping[str, str], patterns: Patterns, exclude: Patterns, types: Patterns) -> frozenset[str]:
    """Return the names to record.

    Parameters
    ----------
    operators : mapping of str to str
        Type by name.
    patterns, exclude : str or sequence of str, optional
        Globs on names that are recorded (all when nothing is said), and on those that are not.
    types : str or sequence of str, optional
        Globs on types that are recorded.

    Raises
    ------
    UnknownNameError
        A glob that nothing is called by.
    ConfigError
        Nothing is left.

    Examples
    --------
    >>> sorted(chosen({"conv1": "Conv", "conv2": "Conv", "fc": "Gemm"}, "*", "conv2", None))
    ['conv1', 'fc']
    """
    for pattern in (*_listed(patterns), *_listed(exclude)):
        _check(pattern, operators, "operator is called")
    for pattern in _listed(types):
        _check(pattern, operators.values(), "operator is of type")
    left = frozenset(
        name
        for name, kind in operators.items()
        if _fits(name, _listed(patterns) or ("*",))
        and not _fits(name, _listed(exclude))
        and _fits(kind, _listed(types) or ("*",))
    )
    if not left:
        raise ConfigError(f"none of {len(operators)} operators is left to record")
    return left


def _check(pattern: str, known: Iterable[str], what: str) -> None:
    names = list(dict.fromkeys(known))
    if not any(fnmatchcase(name, pattern) for name in names):
        raise UnknownNameError(f"no {what} '{pattern}'; {nearest(pattern, names[:_MOST_TOLD])}")


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(value: Patterns) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


# -- Tensors inside of what a function takes or gives back, always in the same order ---------------------------------


# Deeper than any model nests its outputs; a value that holds itself ends here.
_DEEPEST = 32


def leaves(value: Any, is_tensor: Callable[[Any], bool]) -> list[Any]:
    """Return the tensors in `value`: of tuples and lists as they stand, of mappings and dataclasses by their order.

    Anything else (``None``, numbers, other objects) is passed over and takes no number.

    Examples
    --------
    >>> leaves((1.5, {"b": 2.5, "a": [3.5, None]}), lambda leaf: isinstance(leaf, float))
    [1.5, 2.5, 3.5]
    """
    return [leaf for _, leaf in named_leaves("", value, is_tensor)]


def named_leaves(name: str, value: Any, is_tensor: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Yield each tensor with the way to it, e.g. ``("x.1.mask", tensor)``."""
    return _walk(name, value, is_tensor, _DEEPEST)


def _walk(name: str, value: Any, is_tensor: Callable[[Any], bool], depth: int) -> Iterator[tuple[str, Any]]:
    if is_tensor(value):
        yield name, value
    elif depth:
        for key, part in _parts(value):
            yield from _walk(f"{name}.{key}" if name else str(key), part, is_tensor, depth - 1)


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """The named parts of a container; none of anything else."""
    # Before dataclasses: outputs of transformers are both, and as mappings leave out what they do not have.
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None) or range(len(value))
        yield from zip(names, value, strict=True)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name, None)) for field in fields(value))

"""Tables of keys: what may stand in a table of a suite file, and what each value must be."""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.limits.policy import Policy
from pytest_msdump.matching.addresses import MapEntry
from pytest_msdump.matching.coordinates import Align
from pytest_msdump.matching.selection import Selection
from pytest_msdump.settings import parse_spec
from pytest_msdump.storage.remote import RemotePath

__all__ = [
    "ENV",
    "Reader",
    "SideChoice",
    "Suite",
    "choice",
    "date",
    "flag",
    "number",
    "path_text",
    "permutation",
    "read_table",
    "require",
    "shown",
    "spec_text",
    "text",
    "texts",
    "whole",
]

# Takes a value and where it stands; returns what it means, or raises ConfigError beginning with that place.
Reader = Callable[[object, str], Any]

# From 3.11 on, Python itself would also take weeks and dates without dashes.
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def shown(value: object) -> str:
    """Say what a value is, in TOML's words and briefly."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, int | float):
        # Beyond float's range Python may refuse to print an integer.
        return f"the number {value}" if abs(value) < 1e300 or not isinstance(value, int) else "a huge number"
    # A datetime is a date, for Python alone.
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (Mapping, "a table"),
        ((list, tuple), "an array"),
        (datetime.datetime, "a date with a time"),
        (datetime.date, "a date"),
        (datetime.time, "a time"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), f"a {type(value).__name__}")


def read_table(table: object, keys: Mapping[str, Reader], where: str, *, join: str = " ") -> dict[str, Any]:
    """Read every key of `table` by its reader.

    Parameters
    ----------
    table : object
        What stands there.
    keys : Mapping
        Every key that may.
    where : str
        The table's place, which each message begins with.
    join : str
        Between the place and a key: ``" "`` after a table's title, ``"."`` inside an inline table.

    Raises
    ------
    ConfigError
        If it is no table, or a value is not what its key takes.
    UnknownNameError
        If a key is unknown.
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table, not {shown(table)}")
    for key in table:
        if key not in keys:
            raise UnknownNameError(f"{where}: unknown key {key!r}; {nearest(key, keys)}")
    return {key: keys[key](value, f"{where}{join}{key}") for key, value in table.items()}


def require(table: Collection[str], names: Iterable[str], where: str) -> None:
    """Refuse a table that lacks one of `names`."""
    lacking = [name for name in names if name not in table]
    if lacking:
        raise ConfigError(f"{where}: needs {' and '.join(repr(name) for name in lacking)}")


def text(value: object, where: str) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str):
        raise ConfigError(f"{where} must be a text, not {shown(value)}")
    if not value:
        raise ConfigError(f"{where} must not be empty")
    return value


def texts(value: object, where: str) -> tuple[str, ...]:
    """Read a text, or an array of them."""
    if isinstance(value, str):
        return (text(value, where),)
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where} must be a text or an array of texts, not {shown(value)}")
    return tuple(text(one, f"{where}[{place}]") for place, one in enumerate(value))


def path_text(value: object, where: str) -> str:
    """Read a path's text with ``~`` expanded; a NUL byte, which no file name may hold, is refused here."""
    if isinstance(value, os.PathLike):
        value = str(value) if isinstance(value, RemotePath) else os.fspath(value)
    path = text(value, where)
    if "\0" in path:
        raise ConfigError(f"{where}: {path!r} holds a NUL byte, which no path can")
    try:
        # Path would also turn "./@env", a directory of that name, into "@env", which means something else.
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        raise ConfigError(f"{where}: {path!r} names a home directory that is not known") from None


def flag(value: object, where: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false, not {shown(value)}")
    return value


def whole(value: object, where: str) -> int:
    """Read a whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{where} must be a whole number, 0 or more, not {shown(value)}")
    return value


def number(value: object, where: str) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{where} must be a number, not {shown(value)}")
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    if not math.isfinite(real):
        raise ConfigError(f"{where} must be a finite number, not {shown(value)}")
    return real


def choice(*words: str) -> Reader:
    """Return a reader of one of `words`."""

    def read(value: object, where: str) -> str:
        word = text(value, where)
        if word not in words:
            raise UnknownNameError(f"{where}: {word!r} is not one of {', '.join(words)}")
        return word

    return read


def date(value: object, where: str) -> datetime.date:
    """Read a local date; a date with a time would be a different day elsewhere."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise ConfigError(f"{where} must be a date such as 2027-01-31, not {shown(value)}")
    return value


def permutation(value: object, where: str) -> tuple[int, ...]:
    """Read axes as `numpy.transpose` takes them, each exactly once."""
    if not isinstance(value, list | tuple) or not value:
        raise ConfigError(f"{where} must be an array of axes such as [0, 3, 1, 2], not {shown(value)}")
    axes = tuple(whole(axis, f"{where}[{place}]") for place, axis in enumerate(value))
    if sorted(axes) != list(range(len(axes))):
        raise ConfigError(f"{where}: {list(axes)} must name each axis from 0 to {len(axes) - 1} once")
    return axes


def spec_text(value: object, where: str) -> str | None:
    """Read a spec, or one number, and return it as text; ``None`` = all."""
    spec = value if isinstance(value, str) else str(whole(value, where))
    return None if parse_spec(spec, where=where) is None else spec


# -- What one gate is ------------------------------------------------------------------------------------------------


# Instead of a directory: where MindSpore's own configuration says that dumps go.
ENV = "@env"


@dataclass(frozen=True, slots=True)
class SideChoice:
    """One side: its directory or file, and which of its coordinates to take.

    Parameters
    ----------
    path : Path
        Absolute; whether it exists is found out when it is opened.
    net : str, optional
        The one net to take.
    rank, graph, iteration : str, optional
        Specs such as ``"0|2-3"``, already checked; ``None`` = all.
    """

    path: Path
    net: str | None = None
    rank: str | None = None
    graph: str | None = None
    iteration: str | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """One gate with everything resolved: command line over suite file over ini over defaults. Can be pickled.

    Parameters
    ----------
    name : str
        How messages and reports call it.
    file : Path, optional
        The suite file or pyproject.toml it was read from.
    left, right : SideChoice
        The run under test, and its reference.
    entries : tuple of MapEntry
        The file's ``[[msdump.map]]``, in its order.
    align : Align
        Who meets whom across differing coordinates.
    selection : Selection
        Which operators, tensors and coordinates are compared.
    left_format, right_format : str, optional
        A side's axis order for 4-D tensors.
    policy : Policy
        Profile, rules, known drift and command-line limits.
    min_coverage : float, optional
        Least share of right tensors that must have a partner, 0 to 1.
    granularity : str
        ``"op"`` or ``"tensor"``: what one test item is.
    report : tuple of str
        Kinds of report to write.
    report_dir : Path
        Where to.
    graph_files : tuple of Path
        Graphs kept outside the dump tree.
    detail : int
        How many failing tensors are written element by element.
    spread : str
        Of which tensors small arrays tell how errors are spread: ``"none"``, ``"failing"`` or ``"all"``.
    jobs : int
        How many pairs are measured side by side.
    cache : str
        How records of earlier runs are found: ``"off"``, ``"files"`` or ``"content"``.
    allow_incomplete : bool
        Whether recordings that have not ended are compared as they are.
    fusion, quant_fusion, close_fusion : Path, optional
        Rule files: the left side's compiled model, what quantisation made of the original one, and the right side's
        model compiled with fusion off.
    options : mapping of str to Any
        Every option of the table that was given, by name, as it was read.
    """

    name: str
    file: Path | None
    left: SideChoice
    right: SideChoice
    entries: tuple[MapEntry, ...]
    align: Align
    selection: Selection
    left_format: str | None
    right_format: str | None
    policy: Policy
    min_coverage: float | None
    granularity: str
    report: tuple[str, ...]
    report_dir: Path
    graph_files: tuple[Path, ...]
    detail: int = 0
    spread: str = "none"
    jobs: int = 1
    cache: str = "off"
    allow_incomplete: bool = False
    fusion: Path | None = None
    quant_fusion: Path | None = None
    close_fusion: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

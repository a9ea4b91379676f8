"""What a value of a suite file may be: a text, number, date, path, or a table. Each refusal begins with its place."""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.core.forms import Form, expected, in_tuple, list_of, table, union
from pytest_msdump.core.forms.values import whole
from pytest_msdump.core.settings.options import parse_spec
from pytest_msdump.core.storage.locations import RemotePath

# From 3.11 on, Python itself would also take weeks and dates without dashes.
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def table_of(keys: Mapping[str, Form], *needs: str, join: str = ".") -> Form:
    """Return the form of a table with these keys."""
    return table(dict, keys, needs=needs, what="a table", join=join)


@Form
def filled_text(value: Any, where: str) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str):
        raise expected("a text", value, where)
    if not value:
        raise ConfigError(f"{where} must not be empty")
    return value


TEXTS = union("a text or an array of texts", (str, in_tuple(filled_text)), ((list, tuple), list_of(filled_text)))
WHOLE = whole("a whole number, 0 or more", most=math.inf)


def path_text(value: object, where: str) -> str:
    """Read a path and expand ``~``; refuse a NUL byte, which no file name may hold."""
    if isinstance(value, os.PathLike):
        value = str(value) if isinstance(value, RemotePath) else os.fspath(value)
    path: str = filled_text.read(value, where)
    if "\0" in path:
        raise ConfigError(f"{where}: {path!r} holds a NUL byte, which no path can")
    try:
        # Path would also turn "./@env", a directory of that name, into "@env", which means something else.
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        raise ConfigError(f"{where}: {path!r} names a home directory that is not known") from None


@Form
def finite_number(value: Any, where: str) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("a number", value, where)
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    if not math.isfinite(real):
        raise expected("a finite number", value, where)
    return real


def choice_of(*words: str) -> Form:
    """Return the form of one of `words`; a mistyped one is an unknown name."""

    def read(value: object, where: str) -> str:
        word: str = filled_text.read(value, where)
        if word not in words:
            raise UnknownNameError(f"{where}: {word!r} is not one of {', '.join(words)}")
        return word

    return Form(read)


@Form
def date(value: Any, where: str) -> datetime.date:
    """Read a local date; a date with a time would be a different day elsewhere."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise expected("a date such as 2027-01-31", value, where)
    return value


@Form
def permutation(value: Any, where: str) -> tuple[int, ...]:
    """Read axes as `numpy.transpose` takes them, each exactly once."""
    what = "an array of axes such as [0, 3, 1, 2]"
    axes: tuple[int, ...] = list_of(WHOLE, what=what).read(value, where)
    if not axes:
        raise expected(what, value, where)
    if sorted(axes) != list(range(len(axes))):
        raise ConfigError(f"{where}: {list(axes)} must name each axis from 0 to {len(axes) - 1} once")
    return axes


def spec_text(value: object, where: str) -> str | None:
    """Read a spec, or one number, and return it as text; ``None`` = all."""
    spec = value if isinstance(value, str) else str(WHOLE.read(value, where))
    return None if parse_spec(spec, where=where) is None else spec

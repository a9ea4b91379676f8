"""Forms: each reads one value of a document, refuses what is not of it, and writes it back.

Files get cut and edited, and options mistyped. So a form says where the wrong value stands, what was expected there,
and what was found; `or_else` takes a default instead. In JSON, NaN and Inf are texts, complex numbers ``[re, im]``.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.text import encode
from pytest_msdump.core.text.message import NONFINITE

# No count, index or address of ours is beyond 64 bits; no exact sum of integers beyond what a float64 can hold.
LARGEST_WHOLE = 2**64
_LARGEST_NUMBER = 2**1023
_DEEPEST = 20
# The default of a key that is always written.
ALWAYS = object()

# Strict JSON in ASCII, so that any byte a file name can hold survives. Looking for circles takes a third of the time,
# and a report has none.
dumps = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False).encode
dumps_tight = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


def as_it_is(value: Any) -> Any:
    """Return the value."""
    return value


class Form(NamedTuple):
    """How one value is read, from where it stands, and written; `required` and `default` are for it as that of a key.

    `read` raises `WrongValueError`.
    """

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any] = as_it_is
    required: bool = True
    default: Any = ALWAYS
    keys: Mapping[str, Any] = {}


class WrongValueError(ConfigError):
    """A value that is not of its form: its place, and either `what` was expected or another problem."""

    # The words of suite files; see `in_words`.
    words = "{place} must be {what}, not {described}"
    ending = ""

    def __init__(self, problem: str, place: str = "", *, what: str = "", value: Any = None) -> None:
        super().__init__(problem)
        self.problem, self.place, self.what, self.value = problem, place, what, value

    def __str__(self) -> str:
        place = self.place.rstrip(": ")
        if not self.what:
            return f"{place}: {self.problem}{self.ending}".removeprefix(": ")
        fields = {"place": place, "what": self.what, "value": self.value, "described": described(self.value)}
        return self.words.format_map(fields) + self.ending


class UnknownKeyError(WrongValueError, UnknownNameError):
    """A key or a word that a form does not know."""


def expected(what: str, value: Any, place: str) -> WrongValueError:
    """Return the error of a value that is something else."""
    return WrongValueError("", place, what=what, value=value)


def unknown_key(key: str, known: Collection[str], place: str) -> WrongValueError:
    """Return the error of a key that is not among those known."""
    return UnknownKeyError(f"unknown key {key!r:.60}; {nearest(str(key)[:60], known)}", place)


@contextmanager
def in_words(words: str, *, start: str = "", ending: str = "") -> Iterator[None]:
    """Say what is wrong as one kind of document does: `words` with ``{place}``, ``{what}`` and ``{value}``."""
    try:
        yield
    except WrongValueError as wrong:
        wrong.words, wrong.ending = words, ending
        wrong.place = start + wrong.place.removeprefix(".")
        raise


def described(value: object) -> str:
    """Describe a value briefly, in TOML's words."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, int | float):
        # Beyond float's range Python may refuse to print an integer.
        return f"the number {value}" if abs(value) < 1e300 or not isinstance(value, int) else "a huge number"
    # In Python a datetime is also a date.
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (Mapping, "a table"),
        ((list, tuple), "an array"),
        (datetime.datetime, "a date with a time"),
        (datetime.date, "a date"),
        (datetime.time, "a time"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), f"a {type(value).__name__}")


def optional(form: Form, default: Any = None) -> Form:
    """Return the form of a key that is left out where its value is the default."""
    return form._replace(required=False, default=default)


def lenient(form: Form) -> Form:
    """Return the form of a key that may be missing from a file, and is always written."""
    return form._replace(required=False)


def nullable(form: Form) -> Form:
    """Return the same form for values that may be null."""
    read = form.read
    return Form(lambda value, place: None if value is None else read(value, place), form.write, keys=form.keys)


def as_given(form: Form) -> Form:
    """Return a form that checks a value, and keeps it as the file has it."""

    def read(value: Any, place: str) -> Any:
        form.read(value, place)
        return shallow(value, place)

    return Form(read, keys=form.keys)


def or_else(form: Form, default: Any = None) -> Form:
    """Return the form of a key that has the default where its value is missing or wrong."""

    def read(value: Any, place: str) -> Any:
        try:
            return form.read(value, place)
        except WrongValueError:
            return default

    return Form(read, form.write, required=False, default=default, keys=form.keys)


def checked(what: str, holds: Callable[[Any], bool]) -> Form:
    """Return the form of a value of which this holds; `what` says so in messages."""

    def read(value: Any, place: str) -> Any:
        if not holds(value):
            raise expected(what, value, place)
        return value

    return Form(read)


def of_type(kind: type, what: str) -> Form:
    """Return the form of the values of one type."""

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, kind):
            raise expected(what, value, place)
        return value

    return Form(read)


def one_of(words: Collection[str], what: str | None = None) -> Form:
    """Return the form of one of these words."""
    return checked(what or f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)


def whole(what: str, least: int = 0, most: float = LARGEST_WHOLE - 1) -> Form:
    """Return the form of a whole number within bounds."""

    def read(value: Any, place: str) -> Any:
        if type(value) is not int or not least <= value <= most:
            raise expected(what, value, place)
        return value

    return Form(read)


def text(what: str = "a text", *, longest: int) -> Form:
    """Return the form of a text that is not empty, of at most so many characters."""
    return checked(what, lambda value: isinstance(value, str) and 0 < len(value) <= longest)


def _read_number(value: Any, place: str) -> Any:
    kind = type(value)
    if kind is float and isfinite(value):
        return value
    if kind is int and abs(value) < _LARGEST_NUMBER:
        return value
    if kind is not str or value not in NONFINITE:
        raise expected("a number", value, place)
    return NONFINITE[value]


def _read_element(value: Any, place: str) -> Any:
    """Read an element of any tensor: also true or false, or [real, imaginary]."""
    if type(value) is list and len(value) == 2:
        return complex(_read_number(value[0], place), _read_number(value[1], place))
    return value if type(value) is bool else _read_number(value, place)


def shallow(value: Any, place: str, levels: int = _DEEPEST) -> Any:
    """Refuse values of any form that are nested too deeply to be written again."""
    if not levels:
        raise WrongValueError(f"is nested more than {_DEEPEST} levels deep", place)
    for item in value.values() if type(value) is dict else value if type(value) is list else ():
        shallow(item, place, levels - 1)
    return value


TEXT = of_type(str, "a text")
FLAG = of_type(bool, "true or false")
WHOLE = whole("a whole number", 1 - LARGEST_WHOLE)
COUNT = whole("a count")
NUMBER = Form(_read_number, encode)
ELEMENT = Form(_read_element, encode)
SHARE = checked("a share of 0 to 1", lambda value: type(value) in (int, float) and 0 <= value <= 1)
SIDE = one_of(("left", "right"))

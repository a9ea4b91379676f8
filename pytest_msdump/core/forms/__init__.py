"""Forms: each reads one value of a document, refuses what is not of it, and writes it back.

Files get cut and edited, and options mistyped. So a form says where the wrong value stands, what was expected there,
and what was found; `or_else` takes a default instead. In JSON, NaN and Inf are texts, complex numbers ``[re, im]``.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.text import encode

# The default of a key that is always written.
ALWAYS = object()


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


def lacking(entry: Collection[str], needs: Iterable[str], place: str) -> WrongValueError:
    """Return the error of what people wrote without something that it needs."""
    return WrongValueError(f"needs {' and '.join(repr(name) for name in needs if name not in entry)}", place)


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


def or_else(form: Form, default: Any = None) -> Form:
    """Return the form of a key that has the default where its value is missing or wrong."""

    def read(value: Any, place: str) -> Any:
        try:
            return form.read(value, place)
        except WrongValueError:
            return default

    return Form(read, form.write, required=False, keys=form.keys)


def list_of(form: Form, *, length: int | None = None, most: int | None = None, what: str = "a list") -> Form:
    """Return the form of a list, of one length or of at most so many; in memory it is a tuple."""
    read_item, write_item = form.read, form.write

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, (list, tuple)) or (most is not None and len(value) > most):
            raise expected(what, value, place)
        if length is not None and len(value) != length:
            raise expected(f"{what} of {length}", value, place)
        return tuple([read_item(item, f"{place}[{number}]") for number, item in enumerate(value)])

    def write(value: Any) -> list[Any]:
        # As in `table`: finite numbers are written as they are.
        if write_item is encode:
            return [item if type(item) is float and -inf < item < inf else encode(item) for item in value]
        return [write_item(item) for item in value]

    return Form(read, list if write_item is as_it_is else write, keys=form.keys)


def union(what: str, *rows: tuple[type | tuple[type, ...], Form]) -> Form:
    """Return the form of values of several types, each with a form of its own; true and false are no number here."""

    def read(value: Any, place: str) -> Any:
        for kind, form in rows:
            if isinstance(value, kind) and not isinstance(value, bool):
                return form.read(value, place)
        raise expected(what, value, place)

    return Form(read)


def in_tuple(form: Form) -> Form:
    """Return the form of one value that stands for a list of it."""
    return Form(lambda value, place: (form.read(value, place),))


def valid_items(form: Form, items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield each name, or number, with what was read of its value; those whose value is wrong are left out."""
    for name, value in items:
        try:
            yield name, form.read(value, "")
        except WrongValueError:  # noqa: PERF203 - each by itself
            continue


def by_name(
    forms: Form | Mapping[str, Form], names: Collection[str] | None = None, *, what: str = "a JSON object"
) -> Form:
    """Return the form of an object with values of one form under any names, or under `names`, or of one form each."""
    single = forms if isinstance(forms, Form) else None
    several = {} if isinstance(forms, Form) else forms
    known = names if single else several

    def read(value: Any, place: str) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise expected(what, value, place)
        found = {}
        for name, item in value.items():
            if known is not None and name not in known:
                raise WrongValueError(f"there is no {name!r:.60} here", place)
            found[name] = (single or several[name]).read(item, f"{place}.{name}")
        return found

    def write(value: Mapping[str, Any]) -> Any:
        entry = {}
        for name, item in value.items():
            put = (single or several[name]).write
            # As in `table`: nearly all are numbers that `encode` would return as they are.
            is_plain = type(item) is int or (type(item) is float and -inf < item < inf)
            is_ready = item is None or put is as_it_is or (is_plain and put is encode)
            entry[name] = item if is_ready else put(item)
        return entry

    return Form(read, write)


def table(
    make: Callable[..., Any],
    keys: Mapping[str, Form],
    *,
    needs: Collection[str] | None = None,
    parts: Callable[[Any], Mapping[str, Any]] | None = None,
    what: str = "a JSON object",
    join: str = ".",
) -> Form:
    """Return the form of an object whose keys have a form each, in the order in which they are written.

    `needs` names the keys that must be there in what people write, where unknown ones are mistakes. Of what programs
    write those are left aside, and the forms themselves say what is `required`. `make` gets the values by key, and
    `parts` returns them again (default: attributes of their names). Between a place and a key stands `join`.
    """
    required = [key for key, form in keys.items() if form.required] if needs is None else needs

    def read(entry: Any, place: str) -> Any:
        if type(entry) is not dict and not isinstance(entry, Mapping):
            raise expected(what, entry, place)
        if needs is not None:
            for key in entry:
                if key not in keys:
                    raise unknown_key(key, keys, place)
        for key in required:
            if key not in entry:
                if needs is None:
                    raise WrongValueError(f"'{key}' is missing", place)
                raise lacking(entry, needs, place)
        before = place + join
        named = keys.items() if needs is None else [(key, keys[key]) for key in entry]
        found = {key: form.read(entry[key], before + key) for key, form in named if key in entry}
        try:
            return make(**found)
        except WrongValueError as wrong:
            wrong.place = wrong.place or place
            raise

    # What is written as it is needs no call, nor does null, or a number that JSON can hold: a report has very many
    # records.
    rows = [
        (key, attrgetter(key), None if form.write is as_it_is else form.write, form.default)
        for key, form in keys.items()
    ]

    def write(value: Any) -> dict[str, Any]:
        entry = {}
        given = None if parts is None else parts(value)
        for key, get, put, default in rows:
            if given is not None and key not in given:
                continue
            part = get(value) if given is None else given[key]
            if default is ALWAYS or part != default:
                is_plain = type(part) is int or (type(part) is float and -inf < part < inf)
                entry[key] = part if put is None or part is None or (is_plain and put is encode) else put(part)
        return entry

    return Form(read, write, keys=keys)

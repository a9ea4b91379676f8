"""Forms of lists and objects: each is made of the forms of its parts, and their place is its own and theirs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import inf
from operator import attrgetter
from typing import Any

from pytest_msdump.core.forms import (
    ALWAYS,
    LARGEST_WHOLE,
    NUMBER,
    TEXT,
    Form,
    WrongValueError,
    as_it_is,
    expected,
    shallow,
    unknown_key,
)
from pytest_msdump.core.text import Message, encode, message_of, say

_MOST_AXES = 64


def list_of(form: Form, *, length: int | None = None, most: int | None = None, what: str = "a list") -> Form:
    """Return the form of a list, of one length or of at most so many; in memory it is a tuple."""
    read_item, write_item = form.read, form.write

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, (list, tuple)) or (most is not None and len(value) > most):
            raise expected(what, value, place)
        if length is not None and len(value) != length:
            raise expected(f"{what} of {length}", value, place)
        return tuple([read_item(item, f"{place}[{number}]") for number, item in enumerate(value)])

    write = list if write_item is as_it_is else lambda value: [write_item(item) for item in value]
    return Form(read, write, keys=form.keys)


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
            entry[name] = item if item is None or (is_plain and put is encode) else put(item)
        return entry

    return Form(read, write)


def lacking(entry: Collection[str], needs: Iterable[str], place: str) -> WrongValueError:
    """Return the error of what people wrote without something that it needs."""
    return WrongValueError(f"needs {' and '.join(repr(name) for name in needs if name not in entry)}", place)


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


def table_with_message(
    make: Callable[..., Any],
    sentence: str,
    attribute: str,
    keys: Mapping[str, Form],
    *,
    parts: Callable[[Any], Mapping[str, Any]] | None = None,
) -> Form:
    """Return the form of an object with a message: the `sentence`, and its ``code`` and ``parameters`` beside it."""

    def read(**found: Any) -> Any:
        code: dict[str, Any] = {key: found.pop(key) for key in ("code", "parameters") if key in found}
        return make(**{attribute: message_of(code, found.pop(sentence))}, **found)

    def message_parts(value: Any) -> Mapping[str, Any]:
        message: Message = getattr(value, attribute)
        plain = {key: getattr(value, key) for key in keys if key not in (sentence, "code", "parameters")}
        return {**plain, sentence: say(message), **message.entry}

    return table(read, keys, parts=parts or message_parts)


def _read_parameter(value: Any, place: str) -> Any:
    """Check a parameter of a message: a text, a number, a list of such, a message, or nothing."""
    shallow(value, place)
    if type(value) in (dict, list):
        (MESSAGE if type(value) is dict else list_of(Form(_read_parameter))).read(value, place)
    elif value is not None and type(value) is not str:
        NUMBER.read(value, place)
    return value


def _read_index(value: Any, place: str) -> Any:
    if type(value) is not list or len(value) > _MOST_AXES:
        raise expected("a list of integers", value, place)
    for length in value:
        if type(length) is not int or not 0 <= length < LARGEST_WHOLE:
            raise expected("a list of integers", value, place)
    return tuple(value)


TEXTS = list_of(TEXT)
NUMBERS = list_of(NUMBER)
INDEX = Form(_read_index, list)
# Reading keeps messages as the file has them: `message_of` makes one of it and of the sentence beside it.
PARAMETERS = by_name(Form(_read_parameter))
MESSAGE = Form(table(dict, {"code": TEXT, "parameters": PARAMETERS}).read, attrgetter("entry"))

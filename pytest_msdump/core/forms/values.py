"""Forms of single values, texts, numbers and messages, and of the short lists of them that many documents have."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from math import isfinite
from operator import attrgetter
from typing import Any

from pytest_msdump.core.forms import Form, WrongValueError, by_name, expected, list_of, table
from pytest_msdump.core.text import Message, encode, message_of, say
from pytest_msdump.core.text.message import NONFINITE

# No count, index or address of ours is beyond 64 bits; no exact sum of integers beyond what a float64 can hold.
LARGEST_WHOLE = 2**64
_LARGEST_NUMBER = 2**1023
_DEEPEST = 20
# Strict JSON in ASCII, so that any byte a file name can hold survives. Looking for circles takes a third of the time,
# and a report has none.
dumps = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False).encode
dumps_tight = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


def as_given(form: Form) -> Form:
    """Return a form that checks a value, and keeps it as the file has it."""

    def read(value: Any, place: str) -> Any:
        form.read(value, place)
        return shallow(value, place)

    return Form(read, keys=form.keys)


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


def whole(what: str, least: float = 0, most: float = LARGEST_WHOLE - 1) -> Form:
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
_MOST_AXES = 64


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

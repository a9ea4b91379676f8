"""Forms of JSON values: each one checks and reads what a file holds, and writes what is in memory.

Saved results get cut and edited, so reading refuses every value that is not of its form and says where it stands.
Numbers are strict JSON: NaN and Inf are strings, exact integers stay integers, complex numbers are ``[re, im]``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from numbers import Integral
from operator import attrgetter
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.comparison import Scalar
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.text import Message, message_of, say

# No count, index or address of ours is beyond 64 bits; no exact sum of integers beyond what a float64 can hold.
_LARGEST_WHOLE = 2**64
_LARGEST_NUMBER = 2**1023
_MOST_AXES = 64
_DEEPEST = 20

_NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ALWAYS = object()

# Strict JSON in ASCII, so that any byte a file name can hold survives. Looking for circles takes a third of the time,
# and a report has none.
dumps = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False).encode
dumps_tight = json.JSONEncoder(allow_nan=False, ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


def encode(value: Scalar | Integral | tuple[float, ...] | None) -> Any:
    """Return `value` as strict JSON can hold it."""
    if type(value) is int or value is None or (type(value) is float and -math.inf < value < math.inf):
        return value
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, complex):
        return [encode(value.real), encode(value.imag)]
    if isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decode(value: Any) -> Scalar:
    """Return the number that `encode` wrote; a list is a complex number, anything else a `ValueError`."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str) and value in _NONFINITE:
        return _NONFINITE[value]
    if isinstance(value, (list, tuple)) and len(value) == 2:
        real, imaginary = (decode(part) for part in value)
        if not isinstance(real, complex) and not isinstance(imaginary, complex):
            return complex(real, imaginary)
    raise ValueError(f"expected a number, found {value!r:.60}")


class WrongValueError(Exception):
    """A value that is not of its form; `path` grows on the way out."""

    def __init__(self, problem: str) -> None:
        self.path = ""
        self.problem = problem


def expected(what: str, found: object) -> WrongValueError:
    """Return the error of a value that is something else."""
    return WrongValueError(f"expected {what}, found {found!r:.60}")


@contextmanager
def refusing(place: str) -> Iterator[None]:
    """Turn the error into the user's: the file, the place in it, what was expected, and what was found."""
    try:
        yield
    except WrongValueError as wrong:
        where = f"{place}: {wrong.path.removeprefix('.')}".removesuffix(": ")
        raise ConfigError(f"{where}: {wrong.problem}; the file was cut or edited: compare again") from None


def _as_it_is(value: Any) -> Any:
    return value


class Form(NamedTuple):
    """How one value is read and written; `required` and `default` concern it as the value of a key."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = _as_it_is
    required: bool = True
    default: Any = _ALWAYS
    keys: Mapping[str, Any] = {}


def optional(form: Form, default: Any = None) -> Form:
    """Return the form of a key that is left out where its value is the default."""
    return form._replace(required=False, default=default)


def lenient(form: Form) -> Form:
    """Return the form of a key that may be missing from a file, and is always written."""
    return form._replace(required=False)


def nullable(form: Form) -> Form:
    """Return the same form for values that may be null."""
    read = form.read
    return Form(lambda value: None if value is None else read(value), form.write, keys=form.keys)


def as_given(form: Form) -> Form:
    """Return a form that checks a value, and keeps it as the file has it."""

    def read(value: Any) -> Any:
        form.read(value)
        return shallow(value)

    return Form(read, keys=form.keys)


def _of(kind: type, what: str) -> Form:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise expected(what, value)
        return value

    return Form(read)


def one_of(words: Collection[str], what: str | None = None) -> Form:
    """Return the form of one of these words."""

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in words:
            raise expected(what or f"one of {', '.join(words)}", value)
        return value

    return Form(read)


def _integer(what: str, least: int) -> Form:
    def read(value: Any) -> Any:
        if type(value) is not int or not least <= value < _LARGEST_WHOLE:
            raise expected(what, value)
        return value

    return Form(read)


def _read_number(value: Any) -> Any:
    kind = type(value)
    if kind is float and isfinite(value):
        return value
    if kind is int and abs(value) < _LARGEST_NUMBER:
        return value
    if kind is not str or value not in _NONFINITE:
        raise expected("a number", value)
    return _NONFINITE[value]


def _read_element(value: Any) -> Any:
    """Read an element of any tensor: also true or false, or [real, imaginary]."""
    if type(value) is list and len(value) == 2:
        return complex(_read_number(value[0]), _read_number(value[1]))
    return value if type(value) is bool else _read_number(value)


def _read_share(value: Any) -> Any:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise expected("a share of 0 to 1", value)
    return value


def _read_index(value: Any) -> Any:
    if type(value) is not list or len(value) > _MOST_AXES:
        raise expected("a list of integers", value)
    for length in value:
        if type(length) is not int or not 0 <= length < _LARGEST_WHOLE:
            raise expected("a list of integers", value)
    return tuple(value)


def shallow(value: Any, levels: int = _DEEPEST) -> Any:
    """Refuse values of any form that are nested too deeply to be written again."""
    if not levels:
        raise WrongValueError(f"is nested more than {_DEEPEST} levels deep")
    for item in value.values() if type(value) is dict else value if type(value) is list else ():
        shallow(item, levels - 1)
    return value


def list_of(form: Form, *, length: int | None = None) -> Form:
    """Return the form of a list; in memory it is a tuple."""
    read_item, write_item = form.read, form.write

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise expected("a list", value)
        if length is not None and len(value) != length:
            raise expected(f"a list of {length}", value)
        found: list[Any] = []
        try:
            for item in value:
                found.append(read_item(item))  # noqa: PERF401 - their number is the place of an error
        except WrongValueError as wrong:
            wrong.path = f"[{len(found)}]{wrong.path}"
            raise
        return tuple(found)

    def write(value: Any) -> list[Any]:
        # As in `table`: finite numbers are written as they are.
        if write_item is encode:
            return [item if type(item) is float and -math.inf < item < math.inf else encode(item) for item in value]
        return [write_item(item) for item in value]

    return Form(read, list if write_item is _as_it_is else write, keys=form.keys)


def by_name(forms: Form | Mapping[str, Form], names: Collection[str] | None = None) -> Form:
    """Return the form of an object with values of one form under any names, or under `names`, or of one form each."""
    single = forms if isinstance(forms, Form) else None
    several = {} if isinstance(forms, Form) else forms
    known = names if single else several

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise expected("a JSON object", value)
        found = {}
        for name, item in value.items():
            if known is not None and name not in known:
                raise WrongValueError(f"there is no {name!r:.60} here")
            try:
                found[name] = (single or several[name]).read(item)
            except WrongValueError as wrong:
                wrong.path = f".{name}{wrong.path}"
                raise
        return found

    def write(value: Mapping[str, Any]) -> Any:
        entry = {}
        for name, item in value.items():
            put = (single or several[name]).write
            # As in `table`: nearly all are numbers that `encode` would return as they are.
            is_plain = type(item) is int or (type(item) is float and -math.inf < item < math.inf)
            entry[name] = item if item is None or (is_plain and put is encode) else put(item)
        return entry

    return Form(read, write)


def table(
    make: Callable[..., Any], keys: Mapping[str, Form], *, parts: Callable[[Any], Mapping[str, Any]] | None = None
) -> Form:
    """Return the form of an object whose keys have a form each, in the order in which they are written."""
    required = [key for key, form in keys.items() if form.required]

    def read(entry: Any) -> Any:
        if type(entry) is not dict:
            raise expected("a JSON object", entry)
        for key in required:
            if key not in entry:
                raise WrongValueError(f"'{key}' is missing")
        found: dict[str, Any] = {}
        key = ""
        try:
            for key, form in keys.items():
                if key in entry:
                    found[key] = form.read(entry[key])
        except WrongValueError as wrong:
            wrong.path = f".{key}{wrong.path}"
            raise
        return make(**found)

    # What is written as it is needs no call, nor does null, or a number that JSON can hold: a report has very many
    # records.
    rows = [
        (key, attrgetter(key), None if form.write is _as_it_is else form.write, form.default)
        for key, form in keys.items()
    ]

    def write(value: Any) -> dict[str, Any]:
        entry = {}
        given = None if parts is None else parts(value)
        for key, get, put, default in rows:
            if given is not None and key not in given:
                continue
            part = get(value) if given is None else given[key]
            if default is _ALWAYS or part != default:
                is_plain = type(part) is int or (type(part) is float and -math.inf < part < math.inf)
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


def _read_parameter(value: Any) -> Any:
    """Check a parameter of a message: a text, a number, a list of such, a message, or nothing."""
    shallow(value)
    if type(value) in (dict, list):
        (MESSAGE if type(value) is dict else list_of(Form(_read_parameter))).read(value)
    elif value is not None and type(value) is not str:
        _read_number(value)
    return value


TEXT = _of(str, "a text")
FLAG = _of(bool, "true or false")
WHOLE = _integer("a whole number", 1 - _LARGEST_WHOLE)
COUNT = _integer("a count", 0)
NUMBER = Form(_read_number, encode)
ELEMENT = Form(_read_element, encode)
SHARE = Form(_read_share)
INDEX = Form(_read_index, list)
SIDE = one_of(("left", "right"))
TEXTS = list_of(TEXT)
NUMBERS = list_of(NUMBER)
# Reading keeps messages as the file has them: `message_of` makes one of it and of the sentence beside it.
PARAMETERS = by_name(Form(_read_parameter))
MESSAGE = Form(table(dict, {"code": TEXT, "parameters": PARAMETERS}).read, attrgetter("entry"))


def _local(sentence: str = "", why: Mapping[str, Any] | None = None, **found: Any) -> Local:
    has_reason = found["outcome"] in ("error", "not_replayable")
    if has_reason and why is None:
        raise WrongValueError("'why' is missing")
    if not has_reason and not found.get("measure"):
        raise WrongValueError("'measure' is missing")
    if found["outcome"] == "pass" and found["measure"] in ("element", "nonfinite"):
        raise WrongValueError(f"'measure' {found['measure']!r} is of what is wrong")
    return Local(why=message_of(why, sentence) if why else None, **found)


LOCAL = table(
    _local,
    {
        "outcome": one_of(("pass", "fail", "error", "not_replayable")),
        "measure": optional(one_of(("score", "flips", "element", "differing", "nonfinite", "")), ""),
        "score": optional(NUMBER),
        "limit": optional(NUMBER),
        "segment": optional(TEXTS, ()),
        "why": optional(MESSAGE),
        "sentence": lenient(TEXT),
    },
    parts=lambda one: {**one._asdict(), "sentence": say(one.message)},
)

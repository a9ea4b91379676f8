"""Fields of JSON that another program wrote; what is not as it should be is one line that says where."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_msdump.core.errors import ConfigError

WHOLE = re.compile(r"-?[0-9]{1,18}")

# Longer ones take minutes to become an int.
_LONGEST_NUMBER = 4000

_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a fraction",
    type(None): "null",
}


def document(data: str | bytes, source: str) -> dict[str, Any]:
    """Read a JSON text whose top level is an object; messages call it `source`. ConfigError for anything else."""
    text = text_of(data, source)
    try:
        model = json.loads(text, parse_int=_number if may_hold_long_number(text) else None)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source}: not JSON, line {error.lineno} column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: not a model's JSON, it is nested too deeply") from error
    except _LongNumberError as error:
        raise ConfigError(f"{source}: not a model's JSON, it holds a number of {error} digits") from error
    top: dict[str, Any] = checked(model, dict, source, "the top level")
    return top


def text_of(data: str | bytes, source: str) -> str:
    """Decode a text that is to be JSON; ConfigError where it is not UTF-8."""
    try:
        return data.decode("utf-8-sig") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: not JSON, byte {error.start} is not UTF-8 text") from error


class _LongNumberError(ValueError):
    """A number of too many digits."""


def may_hold_long_number(text: str) -> bool:
    """Whether a number may be too long: a long run of digits fills one of these pieces."""
    piece = _LONGEST_NUMBER // 2
    return any(text[start : start + piece].isdigit() for start in range(0, len(text), piece))


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise _LongNumberError(len(text))
    return int(text)


def need(holder: Mapping[str, Any], key: str, kind: type, place: str) -> Any:
    """Return a field that must be there and of that kind; `place` is where its object is."""
    if key not in holder:
        raise ConfigError(f"{place}: '{key}' is missing")
    return get(holder, key, kind, None, place)


def get(holder: Mapping[str, Any], key: str, kind: type, default: Any, place: str) -> Any:
    """Return a field that must be of that kind where it is there."""
    value = holder.get(key, default)
    return value if isinstance(value, kind) or key not in holder else checked(value, kind, place, f"'{key}'")


def checked(value: Any, kind: type, place: str, what: str) -> Any:
    """Return the value, which must be of that kind; messages call it `what`."""
    if not isinstance(value, kind):
        raise ConfigError(f"{place}: {what} is {_KINDS[type(value)]}, and must be {_KINDS[kind]}")
    return value


def whole(value: Any, place: str) -> int:
    """Read a whole number of 64 bits, also one in quotes, as protobuf writes them into JSON."""
    # A bool is an int to `isinstance`.
    if type(value) is int and -(2**63) < value < 2**63:
        return value
    if isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    raise ConfigError(f"{place} is {shown(value)}, and must be a whole number of 64 bits")


def wholes(values: Iterable[Any], place: str) -> tuple[int, ...]:
    """Read whole numbers as `whole` does each."""
    return tuple([whole(value, place) for value in values])


def shown(value: object) -> str:
    """Write a value into a message, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"

"""Checks the values of one section of a dump configuration, each by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pytest_msdump.configs.finding import REFUSED, WARNING, ConfigFinding, Setting, refused, warning
from pytest_msdump.errors import nearest
from pytest_msdump.facts.config_keys import ConfigKey

__all__ = ["check_section"]

_STEPS = re.compile(r"[0-9|-]+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PATH = re.compile(r"[A-Za-z0-9/_-]+")
_MOST_STEP = 2**63 - 1
_MOST_SHOWN = 60


def _shown(value: object) -> str:
    """Describe a value in JSON's words."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value[:_MOST_SHOWN]!r}"
        case int() | float():
            return f"the number {str(value)[:_MOST_SHOWN]}"
        case list():
            return "an array"
        case dict():
            return "an object"
    return "null"


def check_section(
    section: Mapping[str, Any], name: str, keys: Iterable[ConfigKey], setting: Setting
) -> Iterator[ConfigFinding]:
    """Yield the findings of the section `name`; `keys` are those of all sections, in any version."""
    mine = [key for key in keys if key.section == name]
    now = {key.name: key for key in mine if key.since <= setting.version < key.until}
    for key in now.values():
        if key.required and key.name not in section:
            yield refused(f"{name}.{key.name}", f"{key.name} is missing: {key.meaning}")
    for said, value in section.items():
        key_now = now.get(said)
        if key_now is not None:
            yield from _value(key_now, value, setting)
        else:
            yield warning(f"{name}.{said}", _unknown(said, mine, now, setting))


def _unknown(said: str, mine: Iterable[ConfigKey], now: Mapping[str, ConfigKey], setting: Setting) -> str:
    version = ".".join(map(str, setting.version))
    for key in mine:
        if key.name == said and key.since > setting.version:
            return f"{said} is known since {'.'.join(map(str, key.since))}; {version} reads on without it"
        if key.name == said:
            return f"{said} was known before {'.'.join(map(str, key.until))}; {version} reads on without it"
    return f"unknown key {said!r} is passed over in silence; {nearest(said, now)}"


def _value(key: ConfigKey, value: object, setting: Setting) -> Iterator[ConfigFinding]:
    place = f"{key.section}.{key.name}"
    wrong = _wrong(key, value, setting)
    if wrong:
        yield ConfigFinding(_level(key, value, setting), place, wrong)
        return
    if setting.mode is not None and setting.mode not in key.modes and not _is_usual(key, value):
        yield warning(place, f"{key.name} has no effect in mode {setting.mode}")
    if key.kind == "steps":
        yield from _step_findings(str(value), place, setting)
    if key.kind == "numbers":
        yield from _number_findings(value, place, setting)


def _level(key: ConfigKey, value: object, setting: Setting) -> str:
    """Return the level of a wrong value: one that is never looked at is not refused."""
    unread = key.name in ("file_format", "statistic_category") and setting.mode not in key.modes
    harmless = key.kind == "texts" and isinstance(value, list)
    return WARNING if unread or harmless or key.name == "statistic_category" else REFUSED


def _is_usual(key: ConfigKey, value: object) -> bool:
    """Whether a value asks only for what the mode does anyway."""
    return key.kind == "numbers" or value == key.default or (key.name, value) in (("enable", True), ("enable", False))


def _wrong(key: ConfigKey, value: object, setting: Setting) -> str:
    """Say why a value is not one that the key takes; empty when it is."""
    here = f"here it is {_shown(value)}"
    if key.kind == "steps" and isinstance(value, int):
        since = "" if key.section == "dump" else " since 1.5"
        return f'{key.name} must be a string{since}, e.g. "0|5-8" or "all"; {here}'
    takes, words = _KINDS[key.kind]
    if not takes(value):
        return f"{key.name} must be {words}; {here}"
    if key.kind == "path":
        return _wrong_path(str(value))
    if key.kind == "name" and not _NAME.fullmatch(str(value)):
        return f"{key.name} may hold letters, digits, '-' and '_' only, and not be empty; {here}"
    if key.kind == "steps" and value != "all" and not _STEPS.fullmatch(str(value)):
        return f"{key.name} may hold digits, '-' and '|' only, or be \"all\"; {here}"
    return _wrong_choice(key, value, setting)


def _wrong_choice(key: ConfigKey, value: object, setting: Setting) -> str:
    strange = [one for one in (value if isinstance(value, list) else [value]) if one not in key.choices]
    if not key.choices or not strange:
        return ""
    known = ", ".join(map(str, key.choices))
    if key.name == "op_debug_mode" and not setting.is_first:
        known = "0, 3, 4"
    return f"{key.name} knows {known}; here it is {', '.join(map(_shown, strange))}"


def _wrong_path(path: str) -> str:
    if path and not path.startswith("/"):
        return f"path must be absolute, so begin with '/'; here it is {path[:_MOST_SHOWN]!r}"
    if path and not _PATH.fullmatch(path):
        odd = "".join(sorted({letter for letter in path if not _PATH.fullmatch(letter)}))
        return f"path may hold letters, digits, '-', '_' and '/' only; here it has {odd[:_MOST_SHOWN]!r}"
    return ""


def _step_findings(text: str, place: str, setting: Setting) -> Iterator[ConfigFinding]:
    """Yield the parts of a choice of steps that silently match nothing."""
    if text == "all":
        return
    parts = text.split("|")
    dead = [part for part in parts if not _is_alive(part)]
    if len(dead) == len(parts):
        yield warning(place, f"{text!r} is accepted and matches no iteration, so nothing would be dumped")
    elif dead:
        listed = ", ".join(repr(part) for part in dead)
        yield warning(place, f"{listed} in {text!r} is accepted and matches no iteration")
    if setting.is_first:
        yield warning(place, "before 1.5 iteration is a number")


def _is_alive(part: str) -> bool:
    match = _RANGE.fullmatch(part)
    if match is None or len(match[1]) > 19 or int(match[1]) > _MOST_STEP:
        return False
    return match[2] is None or (len(match[2]) < 20 and int(match[1]) <= int(match[2]))


def _number_findings(value: Any, place: str, setting: Setting) -> Iterator[ConfigFinding]:
    if setting.mode == "cpu":
        if 0 not in value:
            yield warning(place, "support_device has no effect on CPU: it dumps although 0 is not in it")
        return
    if not value:
        yield warning(place, "support_device is empty, so no device dumps")
    for number in sorted({one for one in value if one < 0 or value.count(one) > 1}):
        yield warning(place, f"device {number} is " + ("no device" if number < 0 else "there twice"))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "uint": (lambda value: _is_number(value) and value >= 0, "a whole number, 0 or more"),
    "bool": (lambda value: isinstance(value, bool), "true or false, without quotes"),
    "text": (lambda value: isinstance(value, str), "a text"),
    "texts": (lambda value: isinstance(value, list), "an array of texts"),
    "numbers": (lambda value: isinstance(value, list) and all(map(_is_number, value)), "an array of whole numbers"),
    "steps": (lambda value: isinstance(value, str), "a text"),
    "path": (lambda value: isinstance(value, str), "a text"),
    "name": (lambda value: isinstance(value, str), "a text"),
    "models": (
        lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
        "an array of objects",
    ),
}

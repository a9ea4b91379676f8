"""What a configuration says, key by key, in sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_msdump.configuring.check import is_acl
from pytest_msdump.configuring.finding import Setting
from pytest_msdump.facts.config_keys import ACL_KEYS, DUMP_KEYS, ConfigKey

__all__ = ["Explained", "explain"]

# (key, value as JSON has it, what the key means)
Explained = tuple[str, str, str]

_STEP = re.compile(r"[0-9]{1,18}")


def explain(document: Mapping[str, Any], setting: Setting) -> Iterator[Explained]:
    """Yield every key that is there, and those that count by their default.

    Parameters
    ----------
    document : mapping
        The parsed JSON, of either kind.
    setting : Setting
        Version and mode.
    """
    keys = ACL_KEYS if is_acl(document) else DUMP_KEYS
    for key in keys:
        if not key.since <= setting.version < key.until or (setting.mode and setting.mode not in key.modes):
            continue
        section = document.get(key.section)
        if not isinstance(section, Mapping):
            continue
        yield from _line(key, section, setting)


def _line(key: ConfigKey, section: Mapping[str, Any], setting: Setting) -> Iterator[Explained]:
    if key.name in section:
        yield f"{key.section}.{key.name}", _shown(section[key.name]), _meaning(key, section[key.name], setting)
    elif key.default is not None:
        yield f"{key.section}.{key.name}", f"{_shown(key.default)} (default)", key.meaning


def _meaning(key: ConfigKey, value: object, setting: Setting) -> str:
    if key.name == "iteration" and setting.is_first:
        return "every iteration" if value == 0 else f"iteration {value}, counted from 0"
    if key.kind == "steps" and isinstance(value, str):
        return "every iteration" if value == "all" else f"{_steps(value)}; {key.meaning}"
    return key.meaning


def _steps(text: str) -> str:
    """The steps of a spec as people count them, from 1."""
    told = []
    for part in text.split("|"):
        first, _, last = part.partition("-")
        if not all(map(_STEP.fullmatch, (first, last or first))):
            told.append(f"{part!r:.60} (nothing)")
        elif last:
            told.append(f"steps {int(first) + 1} to {int(last) + 1}")
        else:
            told.append(f"step {int(first) + 1}")
    return ", ".join(told) + " of the script"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)

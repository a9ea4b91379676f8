"""Findings of the check of a dump configuration; what its `kernels` and layers select."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_msdump.capabilities.config.keys import MODES, SUNK
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.kernel_lists import OF_FULL_NAMES, REGEX, chosen
from pytest_msdump.core.text import Message, Parameter, say

REFUSED, WARNING = "refused", "warning"


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One sentence about one key; `level` is ``"refused"`` (the run would stop) or ``"warning"``."""

    level: str
    key: str
    message: Message

    @property
    def sentence(self) -> str:
        """The sentence in English."""
        return say(self.message)


def refused(place: str, code: str, /, **parameters: Parameter) -> ConfigFinding:
    """Return a finding that stops the run."""
    return ConfigFinding(REFUSED, place, Message(code, parameters))


def warning(place: str, code: str, /, **parameters: Parameter) -> ConfigFinding:
    """Return a finding that does not stop the run."""
    return ConfigFinding(WARNING, place, Message(code, parameters))


@dataclass(frozen=True, slots=True)
class Setting:
    """The version of MindSpore that a configuration is for, and how the network runs; ``None`` for any mode."""

    version: tuple[int, ...] = (2, 10)
    mode: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether it is a release before 1.5, where iterations were numbers."""
        return self.version < (1, 5)

    def runs(self, *modes: str | None) -> bool:
        """Whether the mode is known to be one of these; with ``None``, also whether it is not known."""
        return self.mode in modes


def setting_of(mode: str | None, version: str | None = None) -> Setting:
    """Return the setting of a mode and a version, by default 1.5 for modes of 1.x and else 2.10."""
    number = version or ("1.5" if mode and mode.startswith("r1") else "2.10")
    return Setting(parse_version(number), checked_mode(mode))


def parse_version(text: str) -> tuple[int, ...]:
    """Return a version such as ``2.10`` or ``r1.5`` as numbers; others are refused."""
    fields = text.strip().lower().removeprefix("r").removeprefix("v").split(".")
    if not fields or not all(field.isascii() and field.isdigit() and len(field) < 6 for field in fields):
        raise ConfigError(f"--version: {text!r} is not a version; write e.g. 2.10 or r1.5")
    return tuple(map(int, fields))


def checked_mode(mode: str | None) -> str | None:
    """Return a mode; unknown ones are refused."""
    if mode is not None and mode not in MODES:
        raise ConfigError(f"--mode: unknown mode {mode!r}; known: {', '.join(MODES)}")
    return mode


_KEY = "common_dump_settings.kernels"
_COUNTER = re.compile(r"-op[0-9]+$")
_MOST_LISTED = 3


def would_dump(document: Mapping[str, Any], names: Sequence[str], setting: Setting) -> list[str]:
    """Return the operators that a run dumps with a valid configuration, of the full names of all operators."""
    common = document.get("common_dump_settings")
    if isinstance(common, Mapping):
        kernels = [entry for entry in common.get("kernels") or () if isinstance(entry, str)]
        # Overflow detection looks at every operator.
        if common.get("dump_mode") != 1 or not kernels or common.get("op_debug_mode"):
            return list(names)
        chosen_by = [[entry] if _as_name(entry, setting) else chosen(entry, names) for entry in kernels]
        found = {name for names_of_entry in chosen_by for name in names_of_entry}
        return [name for name in names if name in found]
    models = document["dump"].get("dump_list") or ()
    listed = [model["layer"] for model in models if isinstance(model, Mapping) and model.get("layer")]
    layers = {layer for layers in listed for layer in layers}
    return [name for name in names if name in layers] if len(listed) == len(models) and listed else list(names)


def _as_name(entry: str, setting: Setting) -> Message | None:
    """Say why an expression or a type is taken for a full name here; ``None`` where it is not."""
    # Up to 1.5 there are full names only, in 2.0 types as well; later expressions, and no types with O2.
    if REGEX.fullmatch(entry):
        return Message("config_later_regex") if setting.version < (2, 1) else None
    if any(part in entry for part in OF_FULL_NAMES):
        return None
    if setting.runs(*SUNK):
        return Message("config_no_types", {"mode": setting.mode})
    return Message("config_later_types") if setting.version < (1, 6) else None


def kernel_findings(
    kernels: Sequence[object], names: Sequence[str] | None, setting: Setting, *, counts: bool
) -> Iterator[ConfigFinding]:
    """Yield findings of a `kernels` list; where it `counts`, also of what it matches of the operators' full names."""
    for entry in kernels:
        if not isinstance(entry, str):
            yield warning(_KEY, "config_not_text", name=repr(entry))
            continue
        if because := _as_name(entry, setting):
            if counts and entry not in (names or ()):
                yield warning(_KEY, "config_taken_as_name", name=repr(entry), because=because)
            continue
        try:
            found = chosen(entry, names or ())
        except re.error as error:
            yield refused(_KEY, "config_bad_regex", name=repr(entry), error=str(error))
            continue
        if names is None or not counts:
            continue
        if not found:
            is_beginning = any(name.startswith(entry) for name in names)
            hint = Message("config_beginning", {"entry": entry}) if is_beginning else None
            yield warning(_KEY, "config_matches_none", name=repr(entry), hint=hint)
        elif not any(part in entry for part in OF_FULL_NAMES) and not REGEX.fullmatch(entry):
            yield from _other_types(entry, found)


def _other_types(entry: str, found: Sequence[str]) -> Iterator[ConfigFinding]:
    types = {_COUNTER.sub("", name.rsplit("/", 1)[-1]) for name in found}
    others = sorted(one for one in types if one.lower() != entry.lower())
    if others and len(types) > 1:
        listed = ", ".join(others[:_MOST_LISTED]) + (" …" if len(others) > _MOST_LISTED else "")
        yield warning(_KEY, "config_also_matches", name=repr(entry), others=listed, entry=entry)

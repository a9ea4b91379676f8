"""Findings of the check of a dump configuration; what its `kernels` and layers select."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.config_keys import MODES, SUNK
from pytest_msdump.model.kernel_lists import OF_FULL_NAMES, REGEX, chosen

REFUSED, WARNING = "refused", "warning"


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One sentence about one key; `level` is ``"refused"`` (the run would stop) or ``"warning"``."""

    level: str
    key: str
    sentence: str


def refused(key: str, sentence: str) -> ConfigFinding:
    """Return a finding that stops the run."""
    return ConfigFinding(REFUSED, key, sentence)


def warning(key: str, sentence: str) -> ConfigFinding:
    """Return a finding that does not stop the run."""
    return ConfigFinding(WARNING, key, sentence)


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


def _as_name(entry: str, setting: Setting) -> str:
    """Say why an entry is taken for a full name here, though it is an expression or a type; empty where it is not.

    Documents up to 1.5 have full names only, those of 2.0 types as well; later ones expressions, and no types with O2.
    """
    if REGEX.fullmatch(entry):
        return "name-regex(…) came with a later release" if setting.version < (2, 1) else ""
    if any(part in entry for part in OF_FULL_NAMES):
        return ""
    if setting.runs(*SUNK):
        return f"mode {setting.mode} knows no types; name-regex(…) takes several"
    return "types came with a later release" if setting.version < (1, 6) else ""


def kernel_findings(
    kernels: Sequence[object], names: Sequence[str] | None, setting: Setting, *, counts: bool
) -> Iterator[ConfigFinding]:
    """Yield findings of a `kernels` list; where it `counts`, also of what it matches of the operators' full names."""
    for entry in kernels:
        if not isinstance(entry, str):
            yield warning(_KEY, f"{entry!r} is not text, so it matches no operator")
            continue
        if because := _as_name(entry, setting):
            if counts and entry not in (names or ()):
                yield warning(_KEY, f"{entry!r} is taken for the full name of an operator: {because}")
            continue
        try:
            found = chosen(entry, names or ())
        except re.error as error:
            yield refused(_KEY, f"{entry!r} is not a regular expression: {error}")
            continue
        if names is None or not counts:
            continue
        if not found:
            is_beginning = any(name.startswith(entry) for name in names)
            hint = f"; a beginning is not enough: write name-regex({entry}.*)" if is_beginning else ""
            yield warning(_KEY, f"{entry!r} matches no operator of the graph{hint}")
        elif not any(part in entry for part in OF_FULL_NAMES) and not REGEX.fullmatch(entry):
            yield from _other_types(entry, found)


def _other_types(entry: str, found: Sequence[str]) -> Iterator[ConfigFinding]:
    types = {_COUNTER.sub("", name.rsplit("/", 1)[-1]) for name in found}
    others = sorted(one for one in types if one.lower() != entry.lower())
    if others and len(types) > 1:
        listed = ", ".join(others[:_MOST_LISTED]) + (" …" if len(others) > _MOST_LISTED else "")
        yield warning(_KEY, f"{entry!r} also matches {listed}; name-regex(.*/{entry}-op[0-9]+) does not")

"""What there is to say of a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.config_keys import MODES
from pytest_msdump.model.kernel_lists import OF_FULL_NAMES, REGEX, chosen

__all__ = [
    "REFUSED",
    "WARNING",
    "ConfigFinding",
    "Setting",
    "checked_mode",
    "chosen",
    "kernel_findings",
    "parse_version",
    "would_dump",
]

REFUSED, WARNING = "refused", "warning"


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One sentence about one key; `level` is ``"refused"`` (the run would stop) or ``"warning"``."""

    level: str
    key: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What a configuration is for: a version of MindSpore, and how the network runs; ``None`` = any mode."""

    version: tuple[int, ...] = (2, 10)
    mode: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether it is a release before 1.5, when iterations were numbers."""
        return self.version < (1, 5)

    def runs(self, *modes: str) -> bool:
        """Whether the mode is one of these; when it is not known, none of them is sure."""
        return self.mode in modes


def parse_version(text: str) -> tuple[int, ...]:
    """Return a version such as ``2.10`` or ``r1.5``, as numbers.

    Raises
    ------
    ConfigError
        It is no version.
    """
    fields = text.strip().lower().removeprefix("r").removeprefix("v").split(".")
    if not fields or not all(field.isascii() and field.isdigit() and len(field) < 6 for field in fields):
        raise ConfigError(f"--version: {text!r} is no version; write e.g. 2.10 or r1.5")
    return tuple(map(int, fields))


def checked_mode(mode: str | None) -> str | None:
    """Return a mode that is known.

    Raises
    ------
    ConfigError
        It is not.
    """
    if mode is not None and mode not in MODES:
        raise ConfigError(f"--mode: unknown mode {mode!r}; known: {', '.join(MODES)}")
    return mode


# -- What a configuration names of a graph's operators, and what is odd about its `kernels` lis ----------------------


_KEY = "common_dump_settings.kernels"
_COUNTER = re.compile(r"-op[0-9]+$")
_MOST_LISTED = 3


def would_dump(document: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the operators that a configuration that is not refused makes a run dump.

    Parameters
    ----------
    document : mapping
        Of either kind.
    names : sequence of str
        Full names of all operators there are.
    """
    common = document.get("common_dump_settings")
    if isinstance(common, Mapping):
        kernels = [entry for entry in common.get("kernels") or () if isinstance(entry, str)]
        # Overflow detection looks at every operator.
        if common.get("dump_mode") != 1 or not kernels or common.get("op_debug_mode"):
            return list(names)
        found = {name for entry in kernels for name in chosen(entry, names)}
        return [name for name in names if name in found]
    models = document["dump"].get("dump_list") or ()
    listed = [model["layer"] for model in models if isinstance(model, Mapping) and model.get("layer")]
    layers = {layer for layers in listed for layer in layers}
    return [name for name in names if name in layers] if len(listed) == len(models) and listed else list(names)


def kernel_findings(kernels: Sequence[object], names: Sequence[str] | None) -> Iterator[ConfigFinding]:
    """Yield what is odd about a `kernels` list; what it matches, where the operators' full names are known."""
    for entry in kernels:
        if not isinstance(entry, str):
            yield ConfigFinding(WARNING, _KEY, f"{entry!r} is no text and matches no operator")
            continue
        try:
            found = chosen(entry, names or ())
        except re.error as error:
            yield ConfigFinding(REFUSED, _KEY, f"{entry!r} is no regular expression: {error}")
            continue
        if names is None:
            continue
        if not found:
            yield ConfigFinding(WARNING, _KEY, f"{entry!r} matches no operator of the graph" + _hint(entry, names))
        elif not any(part in entry for part in OF_FULL_NAMES) and not REGEX.fullmatch(entry):
            yield from _other_types(entry, found)


def _hint(entry: str, names: Sequence[str]) -> str:
    if any(name.startswith(entry) for name in names):
        return f"; a beginning is not enough: write name-regex({entry}.*)"
    return ""


def _other_types(entry: str, found: Sequence[str]) -> Iterator[ConfigFinding]:
    types = {_COUNTER.sub("", name.rsplit("/", 1)[-1]) for name in found}
    others = sorted(one for one in types if one.lower() != entry.lower())
    if others and len(types) > 1:
        listed = ", ".join(others[:_MOST_LISTED]) + (" …" if len(others) > _MOST_LISTED else "")
        yield ConfigFinding(WARNING, _KEY, f"{entry!r} also matches {listed}; name-regex(.*/{entry}-op[0-9]+) does not")

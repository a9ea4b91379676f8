"""What there is to say of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.config_keys import MODES

__all__ = ["REFUSED", "WARNING", "ConfigFinding", "Setting", "checked_mode", "parse_version"]

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

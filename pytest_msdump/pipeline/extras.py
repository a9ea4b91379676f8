"""What a command line adds to a comparison and no suite file may: a user's own code, a look at a part only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["NO_EXTRAS", "Extras"]


@dataclass(frozen=True)
class Extras:
    """Code of a user runs only when its directory was named on the command line (INTERFACE 8).

    Parameters
    ----------
    converters : mapping
        (from, to) → what turns one memory format into another.
    algorithms : mapping
        Name → what compares two flat arrays.
    arguments : mapping
        Name of an algorithm → what was passed to it.
    first : int, optional
        Look at so many elements of each tensor only.
    files : tuple of Path
        The files that `converters` and `algorithms` came from, for reports.
    """

    converters: Mapping[tuple[str, str], Callable[..., Any]] = field(default_factory=dict)
    algorithms: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    first: int | None = None
    files: tuple[Path, ...] = ()


NO_EXTRAS = Extras()

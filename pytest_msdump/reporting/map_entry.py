"""An entry of ``[[msdump.map]]`` as a suite file has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_msdump.escape import toml_value

__all__ = ["map_entry_lines"]


def map_entry_lines(entry: Mapping[str, Any]) -> list[str]:
    """Return an entry's lines.

    Parameters
    ----------
    entry : mapping
        `left` and `right`, and whatever else an entry may hold, in the order in which it is written.

    Examples
    --------
    >>> map_entry_lines({"left": "conv1", "right": "c", "transpose": [0, 3, 1, 2], "reshape": True})[1:]
    ['left = "conv1"', 'right = "c"', 'transpose = [0, 3, 1, 2]', 'reshape = true']
    """
    return ["[[msdump.map]]", *(f"{name} = {toml_value(value)}" for name, value in entry.items())]

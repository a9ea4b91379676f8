"""An entry of ``[[msdump.map]]`` as a suite file has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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
    return ["[[msdump.map]]", *(f"{name} = {_value(value)}" for name, value in entry.items())]


def _value(value: Any) -> str:
    """A value of TOML: JSON's, but that DEL is escaped as well."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

"""The standard library's regular expressions, but one costs nothing until something is looked for with it.

`re.compile` is Python and takes a tenth of a millisecond. A comparison of two dumps loads some seventy expressions, for
names and files of every kind, and uses ten. A type checker sees the standard library's own name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["expression"]


class _Expression:
    """What stands for a compiled expression, and compiles it when it is asked for the first time."""

    def __init__(self, text: str | bytes, flags: int = 0) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # From now on it is found before this is called: a method of the compiled one, at its own speed.
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    from re import compile as expression
else:
    expression = _Expression

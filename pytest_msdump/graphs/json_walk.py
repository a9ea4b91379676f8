"""JSON of very many entries, taken one after another: what was taken need not be held until the last one is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["UnusualJsonError", "Walk"]

_SPACE = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")


class UnusualJsonError(ValueError):
    """A text that is not JSON, or not what was looked for: `json.loads` is to say what it is."""


class Walk:
    """A place in a JSON text, which moves on with all that is taken.

    Parameters
    ----------
    text : str
        The whole text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decode = json.JSONDecoder().raw_decode

    def value(self) -> Any:
        """Take the value here, whatever it is."""
        self._next()
        try:
            found, self._at = self._decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            raise UnusualJsonError from error
        return found

    def members(self) -> Iterator[str]:
        """Yield each key of the object here; its value is to be taken before the next one."""
        taken: set[str] = set()
        self._take("{")
        while self._goes_on("}", is_first=not taken):
            key = self.value()
            # Of two members of one name the last counts, which is not known yet.
            if not isinstance(key, str) or key in taken:
                raise UnusualJsonError
            taken.add(key)
            self._take(":")
            yield key

    def items(self) -> Iterator[int]:
        """Yield the number of each item of the list here; the item is to be taken before the next one."""
        number = 0
        self._take("[")
        while self._goes_on("]", is_first=not number):
            yield number
            number += 1

    def values(self) -> Iterator[Any]:
        """Yield the value of each item of the list here."""
        self._take("[")
        if not self._goes_on("]", is_first=True):
            return
        while True:
            yield self.value()
            # Spelled out: there are very many, and between nearly all of them is no more than this.
            between = _BETWEEN.match(self._text, self._at)
            if between is None:
                break
            self._at = between.end()
        self._goes_on("]", is_first=False)

    def end(self) -> None:
        """Refuse whatever follows."""
        if _SPACE.fullmatch(self._text, self._at) is None:
            raise UnusualJsonError

    def _goes_on(self, closing: str, *, is_first: bool) -> bool:
        if self._next() == closing:
            self._at += 1
            return False
        if not is_first:
            self._take(",")
        return True

    def _take(self, char: str) -> None:
        if self._next() != char:
            raise UnusualJsonError
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no space, and go there; empty at the end."""
        char = self._text[self._at : self._at + 1]
        if char > " ":
            return char
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._text[self._at : self._at + 1]

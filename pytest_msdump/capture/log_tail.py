"""Hands on what a program prints as it comes, and keeps the end of it."""

from __future__ import annotations

import codecs
from collections.abc import Callable

__all__ = ["LogTail"]

# Of a log without end: what a person reads, and no more than can be kept of lines without end.
_LINES = 40
_CHARACTERS = 1 << 14


class LogTail:
    """The end of a log.

    Parameters
    ----------
    show : callable
        Takes each piece of text as it comes.
    """

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._kept = ""
        self._cut = False

    @property
    def text(self) -> str:
        """The last lines; a first line of dots where there were more."""
        lines = self._kept.splitlines()
        cut = self._cut or len(lines) > _LINES
        return "\n".join((["..."] if cut else []) + lines[-_LINES:])

    def feed(self, piece: bytes) -> None:
        """Take a piece; a character may be cut in two."""
        self._take(self._decoder.decode(piece))

    def finish(self) -> None:
        """There is no more."""
        self._take(self._decoder.decode(b"", final=True))

    def _take(self, text: str) -> None:
        if not text:
            return
        self._show(text)
        kept = self._kept + text
        self._cut |= len(kept) > _CHARACTERS
        self._kept = kept[-_CHARACTERS:]

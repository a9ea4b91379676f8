"""The form of a message."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Message"]


class Message(NamedTuple):
    """One message; `one` is the English of exactly one, told by the field `n`."""

    en: str
    zh: str
    one: str | None = None

"""The languages that the terminal speaks. By themselves, since a run without dumps needs no word of either."""

from __future__ import annotations

__all__ = ["LANGUAGES"]

LANGUAGES = ("en", "zh")

"""What a failing tensor's operator was initialised with, in few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_msdump.reporting.numbers import one_line_text
from pytest_msdump.reporting.tables import labelled

__all__ = ["argument_lines"]

Entry = Mapping[str, Any]

_MOST_LISTED = 12


def argument_lines(record: Entry, width: int) -> list[str]:
    """Return the arguments that differ between the sides, then those of the kernels.

    Parameters
    ----------
    record : mapping
        As in results.json; without ``kernel_args`` and ``differing_arguments`` there is nothing to tell.
    width : int
        Columns to fill.
    """
    lines: list[str] = []
    differing = record.get("differing_arguments", ())
    for one in differing[:_MOST_LISTED]:
        text = f"{one['kind']} {one['name']}: left {_value(one['left'])}, right {_value(one['right'])}"
        lines += labelled("differs", one_line_text(text), width=width)
    if len(differing) > _MOST_LISTED:
        lines += labelled("", f"and {len(differing) - _MOST_LISTED} more; results.json has them all", width=width)
    for text in _saved(record.get("kernel_args", {})):
        lines += labelled("arguments", one_line_text(text), width=width)
    return lines


def _saved(sides: Mapping[str, Entry]) -> Iterator[str]:
    """The arguments of the kernels: of both sides at once where they are the same."""
    texts = {side: _listed(one) for side, one in sides.items()}
    if len(texts) > 1 and len(set(texts.values())) == 1:
        yield f"{next(iter(texts.values()))} (both sides)"
        return
    yield from (f"{side}: {text}" for side, text in texts.items())


def _listed(one: Entry) -> str:
    if "note" in one:
        return f"{one['file']} {one['note']}"
    values = list(one["values"].items())
    more = f" and {len(values) - _MOST_LISTED} more" if len(values) > _MOST_LISTED else ""
    return (", ".join(f"{name} {value}" for name, value in values[:_MOST_LISTED]) or "none") + more


def _value(value: str | None) -> str:
    return "has none" if value is None else value

"""Pairs that look wrong since another tensor fits far better: who it is, and the entry that would pair it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_msdump.escape import terminal_text
from pytest_msdump.reporting.tables import filled
from pytest_msdump.text import ENGLISH, Phrases

if TYPE_CHECKING:
    from pytest_msdump.model.record import Record
    from pytest_msdump.model.report import Report

__all__ = ["suspicious_line", "suspicious_lines"]

_MOST_PAIRS = 5


def suspicious_line(record: Record, say: Phrases = ENGLISH) -> str:
    """Return what fits better than a failing record's partner; empty where nothing does."""
    found = record.suspicious if record.fails else ()
    if not found:
        return ""
    from pytest_msdump.reporting.fits import fit_text

    names = [terminal_text(one.address) for one in found]
    first = found[0]
    fields = {"names": say.joined(names, "between_names"), "why": fit_text(first.apart, first.shape, say=say)}
    text = say(f"better_{first.side}", **fields)
    return say("ambiguous", text=text, doubt=say(f"doubt_{first.doubt}")) if first.doubt else text


def suspicious_lines(report: Report, *, width: int, unfolded: bool = False, say: Phrases = ENGLISH) -> list[str]:
    """Return which pairs look wrong, and the entries that would set them right; empty where none does.

    Parameters
    ----------
    report : Report
        With `suspicious` in its records.
    width : int
        Columns to fill; a line of an entry is never broken.
    unfolded : bool
        All of them, not only the first few.
    say : Phrases
        The language.
    """
    told = [record for record in report.records if suspicious_line(record)]
    if not told:
        return []
    shown = told if unfolded else told[:_MOST_PAIRS]
    lines = [say("suspicious", n=len(told))]
    for record in shown:
        pair = f"{record.left.address} <-> {record.right.address}"
        lines += _indented(say("after_label", label=pair, text=suspicious_line(record, say)), width)
    if len(told) > len(shown):
        lines.append(f"  {say('more_suspicious', n=len(told) - len(shown))}")
    entries = list(_entries(shown, say))
    return [*lines, *(_indented(say("do_map_instead"), width) if entries else []), *entries]


def _entries(records: Sequence[Record], say: Phrases) -> Iterator[str]:
    """Each entry once: of two that were swapped both sides may tell."""
    from pytest_msdump.reporting.map_entry import map_entry_lines

    seen = set()
    for record in records:
        for one in record.suspicious:
            lines = [] if one.map is None else map_entry_lines(one.map)
            if lines and tuple(lines) not in seen:
                seen.add(tuple(lines))
                if record.how == "mapped" and record.by:
                    yield f"    # {say('in_place_of', entry=terminal_text(record.by))}"
                yield from (f"    {line}" for line in lines)


def _indented(text: str, width: int) -> list[str]:
    first, *others = filled(terminal_text(text), width - 4)
    return [f"  {first}", *(f"    {line}" for line in others)]

"""Counting over a report's records: the questions that several reports ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import floor
from typing import TYPE_CHECKING

from pytest_msdump.text import ENGLISH, Phrases

if TYPE_CHECKING:
    from pytest_msdump.model.record import Record
    from pytest_msdump.model.report import Report

__all__ = [
    "counts",
    "coverage_problems",
    "first_failing",
    "incomplete_sides",
    "partial_runs",
    "percent",
    "sentence_on_uncompared",
    "sentence_on_unseen",
    "sides_are_identical",
    "unseen_text",
]

_COUNTED = ("pass", "warn", "fail", "undefined", "error", "not_run")


def counts(report: Report) -> dict[str, int]:
    """Return how many tensors came to which verdict, and how many found no partner, by side."""
    found = dict.fromkeys((*_COUNTED, "unmatched_left", "unmatched_right"), 0)
    found.update(Counter(record.verdict.outcome for record in report.records))
    for entry in report.unmatched:
        found[f"unmatched_{entry.side}"] += 1
    return found


def first_failing(records: Iterable[Record]) -> Record | None:
    """Return the first record in execution order whose verdict fails, if any does."""
    return next((record for record in records if record.fails), None)


def sides_are_identical(records: Iterable[Record]) -> bool:
    """Whether every pair was run and is bit-equal. False of no pairs at all."""
    entries = list(records)
    return bool(entries) and all(_bit_equal(record) for record in entries)


def sentence_on_unseen(records: Iterable[Record], say: Phrases = ENGLISH) -> str:
    """Say how many pairs were judged by statistics; nothing when there are none."""
    entries = list(records)
    unseen = sum(record.statistics is not None for record in entries)
    return unseen_text(unseen, len(entries), say)


def sentence_on_uncompared(records: Iterable[Record], say: Phrases = ENGLISH) -> str:
    """Say how many compared tensors have occurrences that met no partner; nothing when there are none."""
    found = [sum(record.uncompared) for record in records if any(record.uncompared)]
    return say("uncompared", n=len(found), k=sum(found)) if found else ""


def unseen_text(unseen: int, pairs: int, say: Phrases = ENGLISH) -> str:
    """Say of how many pairs there are statistics only; nothing when there are none."""
    if not unseen:
        return ""
    return say("by_statistics", unseen=unseen, n=pairs)


def coverage_problems(report: Report, say: Phrases = ENGLISH) -> tuple[str, ...]:
    """Return why the item `coverage` fails, a sentence each; empty when it passes (INTERFACE 3)."""
    if not report.ended:
        return (say("not_ended"),)
    coverage, problems = report.coverage, []
    if not coverage.right_paired or not report.records:
        problems.append(say("nothing_compared"))
    if report.missing:
        problems.append(say("missing_fused" if report.network else "missing_mapped", n=len(report.missing)))
    wanted, value = coverage.min_coverage, coverage.value
    if wanted is not None and value < wanted:
        problems.append(
            say(
                "coverage_below",
                share=percent(value),
                wanted=percent(wanted),
                paired=coverage.right_paired,
                total=coverage.right_total,
            )
        )
    return tuple(problems)


def incomplete_sides(report: Report, say: Phrases = ENGLISH) -> tuple[str, ...]:
    """Return a sentence for each side that is a recording which was compared although it is not whole."""
    return tuple(say(f"incomplete_{side}") for side in report.coverage.incomplete)


def partial_runs(report: Report, say: Phrases = ENGLISH) -> list[str]:
    """Return a sentence for each side whose directory holds a second run of some of its tensors only."""
    sides = (("left", report.left.partial_run), ("right", report.right.partial_run))
    return [say("partial_run", side=say(name), newer=run["newer"], n=run["tensors"]) for name, run in sides if run]


def percent(share: float) -> str:
    """Return a share of 1 as a percentage, cut and not rounded: only all is 100 %.

    Examples
    --------
    >>> percent(0.99999), percent(1.0)
    ('99.9 %', '100 %')
    """
    tenths = floor(share * 1000 + 1e-9)
    return f"{tenths / 10:g} %"


def _bit_equal(record: Record) -> bool:
    """Whether both sides hold the same values, bits and dtype; tensors without elements count as equal."""
    comparison = record.comparison
    if comparison is None or not comparison.equal or comparison.values.get("bitwise_mismatch", 0) != 0:
        return False
    is_whole = comparison.total_elements is None and not comparison.sampled
    return is_whole and record.left.dtype == record.right.dtype

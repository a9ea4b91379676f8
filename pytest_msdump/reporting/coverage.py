"""What the item `coverage` says: how much was matched, what was left alone, why, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.model.report import Report, SideInfo
from pytest_msdump.reporting.numbers import one_line_text
from pytest_msdump.reporting.tables import filled, labelled, table
from pytest_msdump.reporting.tally import coverage_problems, percent

__all__ = ["coverage_text"]

_SHOWN_REASONS = 8
_SHOWN_TENSORS = 5
_SUGGEST = "msdump match --suggest looks for them by values, names and order, and writes the entries"


def coverage_text(report: Report, *, width: int = 80) -> str:
    """Return the match report: the problems first when there are any, then counts, reasons and nearest names.

    Parameters
    ----------
    report : Report
        Its records may be missing: only names are told.
    width : int
        Columns to fill.
    """
    problems = coverage_problems(report)
    lines = [line for problem in problems for line in _hanging(f"COVERAGE: {problem}", width)]
    lines += _totals(report, width)
    if report.missing:
        lines += ["", *_missing(report, width)]
    for side in ("left", "right"):
        alone = [entry for entry in report.unmatched if entry["side"] == side]
        if alone:
            lines += ["", *_alone(side, alone, width)]
    if not report.coverage.get("right_paired"):
        lines += ["", *_what_to_do(report, width)]
    elif problems and {entry["side"] for entry in report.unmatched} == {"left", "right"}:
        lines += ["", *_hanging(f"partners: {_SUGGEST}", width)]
    return "\n".join(lines)


def _totals(report: Report, width: int) -> Iterator[str]:
    """Both sides and what they hold, and the share that met."""
    for name, side in (("left", report.left), ("right", report.right)):
        yield from labelled(name, _holds(side), width=width, column=7)
    coverage = report.coverage
    matched = f"{coverage.get('right_paired', 0)} of {coverage.get('right_total', 0)} right tensors in the selection"
    yield from labelled("met", f"{matched} ({percent(coverage.get('value', 0.0))})", width=width, column=7)


def _holds(side: SideInfo) -> str:
    """A side in a few words."""
    if side.reader == "empty":
        return f"{one_line_text(side.directory)} (a folder without files)"
    return f"{one_line_text(side.directory)} ({side.tensors} tensors; reader {side.reader})"


def _missing(report: Report, width: int) -> Iterator[str]:
    """The pairs that were asked for and cannot be made."""
    missing = report.missing
    yield f"  {'mapped or fused' if report.network else 'mapped'}, but not dumped ({len(missing)}):"
    for entry in missing[:_SHOWN_TENSORS]:
        yield from _indented(f"{entry['left']} <-> {entry['right']}: {entry['reason']}{_nearest(entry)}", width)
    yield from _rest(len(missing) - _SHOWN_TENSORS)


def _alone(side: str, alone: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    """One side's tensors without a partner: how many for which reason, and the first of them."""
    yield f"  {side} tensors without a partner ({len(alone)}):"
    reasons = Counter(one_line_text(entry["reason"]) for entry in alone).most_common()
    rows = [(reason, str(count)) for reason, count in reasons[:_SHOWN_REASONS]]
    yield from table(("reason", "tensors"), rows, width=width, right=(1,), flexible=0, indent=4)
    yield from _rest(len(reasons) - _SHOWN_REASONS, "reasons")
    yield "    the first of them:"
    for entry in alone[:_SHOWN_TENSORS]:
        yield from _indented(f"{entry['address']}{_nearest(entry)}", width)
    yield from _rest(len(alone) - _SHOWN_TENSORS)


def _nearest(entry: Mapping[str, Any]) -> str:
    """Whom it may have meant."""
    return f" (nearest: {', '.join(entry['candidates'])})" if entry["candidates"] else ""


def _what_to_do(report: Report, width: int) -> Iterator[str]:
    """The way out when nothing met."""
    if "empty" in (report.left.reader, report.right.reader):
        yield from _hanging("what to do: check that the run wrote its dump there, and that the path is its root", width)
        return
    if not report.unmatched and not report.missing:
        sentence = (
            "what to do: both sides hold tensors, but none is within the selection; "
            "check select, deselect, io, iteration, rank and graph"
        )
        yield from _hanging(sentence, width)
        return
    yield from _hanging("what to do: give both sides the same operator names, or name the pairs in msdump.toml:", width)
    left, right = _example(report)
    yield "    [[msdump.map]]"
    yield f'    left  = "{left}"'
    yield f'    right = "{right}"'
    yield from (f"  {line}" for line in _hanging(_SUGGEST, width - 2))


def _example(report: Report) -> tuple[str, str]:
    """Two addresses to show a map entry with: a left tensor and the right one whose name is nearest."""
    for entry in report.unmatched:
        if entry["side"] == "left" and entry["candidates"]:
            return one_line_text(entry["address"]), one_line_text(entry["candidates"][0])
    return "the left operator", "the right operator"


def _rest(count: int, things: str = "tensors") -> Iterator[str]:
    """That a list goes on."""
    if count > 0:
        yield f"    and {count} more {things}; results.json has them all"


def _indented(text: str, width: int) -> list[str]:
    """An entry of a list."""
    first, *others = filled(one_line_text(text), width - 6)
    return [f"    {first}", *(f"      {line}" for line in others)]


def _hanging(text: str, width: int) -> list[str]:
    """A sentence, its further lines indented."""
    first, *others = filled(one_line_text(text), width - 2)
    return [first, *(f"  {line}" for line in others)]

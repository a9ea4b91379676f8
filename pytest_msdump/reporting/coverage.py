"""What the item `coverage` says: how much was matched, what was left alone, why, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_msdump.escape import terminal_text
from pytest_msdump.reporting.tables import filled, labelled, table
from pytest_msdump.reporting.tally import coverage_problems, incomplete_sides, partial_runs, percent
from pytest_msdump.text import ENGLISH, Phrases

if TYPE_CHECKING:
    from pytest_msdump.model.report import Report, SideInfo, UnmatchedTensor

__all__ = ["coverage_text"]

_SHOWN_REASONS = 8
_SHOWN_TENSORS = 5


def coverage_text(report: Report, *, width: int = 80, say: Phrases = ENGLISH) -> str:
    """Return the match report: the problems first when there are any, then counts, reasons and nearest names.

    Parameters
    ----------
    report : Report
        Its records may be missing: only names are told.
    width : int
        Columns to fill.
    say : Phrases
        The language.
    """
    problems = coverage_problems(report, say)
    lines = [line for problem in problems for line in _hanging(say("coverage_fails", problem=problem), width)]
    lines += [line for sentence in incomplete_sides(report, say) for line in _hanging(sentence, width)]
    lines += _totals(report, width, say)
    if report.missing:
        lines += ["", *_missing(report, width, say)]
    for side in ("left", "right"):
        alone = [one for one in report.unmatched if one.side == side]
        if alone:
            lines += ["", *_alone(side, alone, width, say)]
    if not report.coverage.right_paired:
        lines += ["", *_what_to_do(report, width, say)]
    elif problems and {one.side for one in report.unmatched} == {"left", "right"}:
        lines += ["", *_hanging(say("partners", how=say("do_suggest")), width)]
    return "\n".join(lines)


def _totals(report: Report, width: int, say: Phrases) -> Iterator[str]:
    """Both sides and what they hold, and the share that met."""
    for name, side in (("left", report.left), ("right", report.right)):
        yield from labelled(say(name), _holds(side, say), width=width, column=7)
    coverage = report.coverage
    share = percent(coverage.value)
    text = say("met_of", paired=coverage.right_paired, total=coverage.right_total, share=share)
    yield from labelled(say("met"), text, width=width, column=7)
    for sentence in partial_runs(report, say):
        yield from _hanging(sentence, width)


def _holds(side: SideInfo, say: Phrases) -> str:
    """A side in a few words."""
    if side.reader == "empty":
        return say("holds_nothing", directory=terminal_text(side.directory))
    return say("holds", directory=terminal_text(side.directory), n=side.tensors, reader=side.reader)


def _missing(report: Report, width: int, say: Phrases) -> Iterator[str]:
    """The pairs that were asked for and cannot be made."""
    missing = report.missing
    yield f"  {say('missing_title_fused' if report.network else 'missing_title_mapped', n=len(missing))}"
    for one in missing[:_SHOWN_TENSORS]:
        nearest = _nearest(one.candidates, say)
        yield from _indented(f"{one.left} <-> {one.right}: {say.of(one.why)}{nearest}", width)
    yield from _rest(len(missing) - _SHOWN_TENSORS, "more_tensors", say)


def _alone(side: str, alone: Sequence[UnmatchedTensor], width: int, say: Phrases) -> Iterator[str]:
    """One side's tensors without a partner: how many for which reason, and the first of them."""
    yield f"  {say(f'alone_{side}', n=len(alone))}"
    reasons = Counter(terminal_text(say.of(one.why)) for one in alone).most_common()
    rows = [(reason, str(count)) for reason, count in reasons[:_SHOWN_REASONS]]
    yield from table(
        (say("reason"), say("tensors")), rows, width=width, right=(1,), flexible=0, indent=4, same=say("same")
    )
    yield from _rest(len(reasons) - _SHOWN_REASONS, "rest_reasons", say)
    yield f"    {say('first_of_them')}"
    for one in alone[:_SHOWN_TENSORS]:
        yield from _indented(f"{one.tensor.address}{_nearest(one.candidates, say)}", width)
    yield from _rest(len(alone) - _SHOWN_TENSORS, "more_tensors", say)


def _nearest(candidates: Sequence[str], say: Phrases) -> str:
    """The names that it may have meant."""
    return say("nearest", names=say.joined(candidates, "between_names")) if candidates else ""


def _what_to_do(report: Report, width: int, say: Phrases) -> Iterator[str]:
    """The way out when nothing met."""
    if "empty" in (report.left.reader, report.right.reader):
        yield from _hanging(say("do_check_dump"), width)
        return
    if not report.unmatched and not report.missing:
        yield from _hanging(say("do_check_selection"), width)
        return
    yield from _hanging(say("do_map"), width)
    left, right = _example(report, say)
    yield "    [[msdump.map]]"
    yield f'    left  = "{left}"'
    yield f'    right = "{right}"'
    yield from (f"  {line}" for line in _hanging(say("do_suggest"), width - 2))


def _example(report: Report, say: Phrases) -> tuple[str, str]:
    """Two addresses to show a map entry with: a left tensor and the right one whose name is nearest."""
    for one in report.unmatched:
        if one.side == "left" and one.candidates:
            return terminal_text(one.tensor.address), terminal_text(one.candidates[0])
    return say("the_left_operator"), say("the_right_operator")


def _rest(count: int, message: str, say: Phrases) -> Iterator[str]:
    """That a list goes on."""
    if count > 0:
        yield f"    {say(message, n=count)}"


def _indented(text: str, width: int) -> list[str]:
    """An entry of a list."""
    first, *others = filled(terminal_text(text), width - 6)
    return [f"    {first}", *(f"      {line}" for line in others)]


def _hanging(text: str, width: int) -> list[str]:
    """A sentence, its further lines indented."""
    first, *others = filled(terminal_text(text), width - 2)
    return [first, *(f"  {line}" for line in others)]

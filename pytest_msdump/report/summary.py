"""The header before a run and the few lines after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_msdump.escape import terminal_text
from pytest_msdump.report.causes import role_lines
from pytest_msdump.report.coverage import (
    counts,
    coverage_problems,
    first_failing,
    incomplete_sides,
    partial_runs,
    percent,
    sentence_on_uncompared,
    sentence_on_unseen,
    sides_are_identical,
    unseen_text,
)
from pytest_msdump.report.tables import filled
from pytest_msdump.text import ENGLISH, Phrases

if TYPE_CHECKING:
    from pytest_msdump.model.report import Coverage, Report, SideInfo

__all__ = ["header_lines", "summary_lines"]

# Why a tensor has no partner that a later run into the same directory replaced (INTERFACE 2).
_OLDER_RUN = "older_run"

_SHOWN_REASONS = 3
_SHOWN_WARNINGS = 3
_SHOWN_FILES = 3
_ALARMING_COVERAGE = 0.5

# How a label of a dump is told; others are told as "name value".
_LABELS = {"ms_version": "MindSpore {value}", "framework": "{value}", "device_target": "{value}"}

# Readers whose dumps come from a run under test; a reference folder on the left of one looks swapped.
_RUN_READERS = ("mindspore", "ascend", "converted")
_REFERENCE_READER = "npy-folder"

_COUNTED = ("pass", "warn", "fail", "undefined", "error", "not_run")


def header_lines(
    left: SideInfo,
    right: SideInfo,
    *,
    pairs: int,
    profile: str,
    unseen: int = 0,
    kernel: str = "",
    say: Phrases = ENGLISH,
) -> list[str]:
    """Return the lines before a run: which directory is which, what is known of it, and what looks wrong.

    Parameters
    ----------
    left, right : SideInfo
        The run under test, and the reference.
    pairs : int
        Number of pairs that will be compared.
    profile : str
        The profile in force.
    unseen : int
        Number of pairs of which a tensor was not saved, so that statistics are compared.
    kernel : str
        What measures them; not told when empty.
    say : Phrases
        The language.
    """
    lines = [
        say("header_left", side=_side(left, say)),
        say("header_right", side=_side(right, say)),
        f"        {say('header_pairs', n=pairs, profile=profile)}",
    ]
    if kernel:
        lines.append(f"        {say('header_kernel', kernel=kernel)}")
    if unseen:
        lines.append(f"        {unseen_text(unseen, pairs, say)}")
    if left.reader == _REFERENCE_READER and right.reader in _RUN_READERS:
        lines.append(f"        {say('sides_look_swapped', reader=right.reader)}")
    for name, side in (("left", left), ("right", right)):
        told = [terminal_text(note) for note in side.notes]
        told += [_unexplained(side.unexplained, say)] if side.unexplained else []
        lines += [f"        {say('after_label', label=say(name), text=text)}" for text in told]
    return lines


def summary_lines(
    report: Report,
    *,
    width: int = 80,
    files: Sequence[str] = (),
    unfolded: bool = False,
    say: Phrases = ENGLISH,
) -> list[str]:
    """Return the lines after a run: how much met, how it came out, where it first went wrong, where the reports are.

    Parameters
    ----------
    report : Report
        The whole result of one suite.
    width : int
        Columns to fill.
    files : sequence of str
        The report files that were written.
    unfolded : bool
        Name every operator that inherited a failure.
    say : Phrases
        The language.
    """
    problems, found = coverage_problems(report, say), counts(report)
    # What fails the item `coverage` is told there, with all reasons.
    lines = [
        *_matched(report, found, width, say),
        *(line for sentence in partial_runs(report, say) for line in _wrapped(sentence, width)),
        *(() if problems else _reasons(report, width, say)),
        *_outcomes(report, found, say),
    ]
    unseen = sentence_on_unseen(report.records, say)
    lines += _wrapped(unseen, width) if unseen else []
    uncompared = sentence_on_uncompared(report.records, say)
    lines += _wrapped(uncompared, width) if uncompared else []
    first = first_failing(report.records)
    if first is not None:
        from pytest_msdump.report.failure import one_line

        place, line = first.order + 1, one_line(first, say)
        text = say("first_failing", place=place, operators=report.left.operators, line=line)
        lines += _wrapped(text, width)
    lines += role_lines(report, width=width, unfolded=unfolded, say=say)
    if first is not None:
        from pytest_msdump.report.causes import suspicious_lines

        lines += suspicious_lines(report, width=width, unfolded=unfolded, say=say)
    lines += _warnings(report, width, say) if found["warn"] else []
    if sides_are_identical(report.records):
        alone = any(one.why.code != _OLDER_RUN for one in report.unmatched)
        lines += _wrapped(say("pairs_equal" if alone else "sides_identical"), width)
    for problem in problems:
        lines += _wrapped(say("coverage_is", problem=problem) if report.ended else problem, width)
    for sentence in incomplete_sides(report, say):
        lines += _wrapped(sentence, width)
    for note in report.notes:
        lines += _wrapped(terminal_text(note), width)
    if files:
        lines += _wrapped(say("reports", files=say.joined(files, "between_names")), width)
    return [*lines, *_alarm(report.coverage, width, say)]


def _side(side: SideInfo, say: Phrases) -> str:
    """Directory and what is known of the run."""
    names = [*(name for name in _LABELS if name in side.labels), *(name for name in side.labels if name not in _LABELS)]
    known = [_LABELS.get(name, "{name} {value}").format(name=name, value=side.labels[name]) for name in names]
    reader = say("reader", reader=side.reader)
    about = say.joined((part for part in (say.joined(known), reader) if part), "between_clauses")
    return terminal_text(say("side", directory=side.directory, about=about))


def _unexplained(files: Sequence[str], say: Phrases) -> str:
    """Files that belong to no dump."""
    return say("not_understood", n=len(files), names=say.named(map(terminal_text, files), _SHOWN_FILES))


def _matched(report: Report, found: Mapping[str, int], width: int, say: Phrases) -> list[str]:
    """How much of the right side met the left."""
    coverage = report.coverage
    share = percent(coverage.value)
    text = say("matched", paired=coverage.right_paired, total=coverage.right_total, share=share)
    alone = {side: found[f"unmatched_{side}"] for side in ("left", "right") if found[f"unmatched_{side}"]}
    if alone:
        sides = say.joined(say(f"count_of_{side}", n=count) for side, count in alone.items())
        text = say("without_partner", text=text, sides=sides)
    return _wrapped(text, width)


def _reasons(report: Report, width: int, say: Phrases) -> Iterator[str]:
    """Why tensors were left alone, the commonest reasons first."""
    counted = Counter((one.side, one.why) for one in report.unmatched).most_common()
    for (side, why), count in counted[:_SHOWN_REASONS]:
        first, *others = filled(
            say("after_label", label=say(f"count_of_{side}", n=count), text=terminal_text(say.of(why))),
            width - 4,
        )
        yield f"  {first}"
        yield from (f"    {line}" for line in others)
    rest = counted[_SHOWN_REASONS:]
    if rest:
        yield f"  {say('more_reasons', n=len(rest), tensors=sum(count for _, count in rest))}"


def _outcomes(report: Report, found: Mapping[str, int], say: Phrases) -> Iterator[str]:
    """How many tensors came out how; what did not occur is not named."""
    parts = [say(f"count_{key}", n=found[key]) for key in _COUNTED if found[key]]
    if parts:
        yield say("outcomes", n=len(report.records), counts=say.joined(parts))


def _warnings(report: Report, width: int, say: Phrases) -> Iterator[str]:
    """The first few warnings in full."""
    warned = [record for record in report.records if record.verdict.outcome == "warn"]
    from pytest_msdump.report.failure import one_line

    for record in warned[:_SHOWN_WARNINGS]:
        yield from _wrapped(one_line(record, say), width)
    if len(warned) > _SHOWN_WARNINGS:
        yield say("more_warnings", n=len(warned) - _SHOWN_WARNINGS)


def _alarm(coverage: Coverage, width: int, say: Phrases) -> list[str]:
    """The last line when most of the reference was never looked at and nobody set a limit (INTERFACE 3)."""
    if coverage.min_coverage is not None or coverage.value >= _ALARMING_COVERAGE:
        return []
    share = percent(coverage.value)
    return _wrapped(say("alarm", paired=coverage.right_paired, total=coverage.right_total, share=share), width)


def _wrapped(text: str, width: int) -> list[str]:
    """A line that, when it is too long, goes on indented."""
    first, *others = filled(text, width - 2)
    return [first, *(f"  {line}" for line in others)]

"""The header before a run and the few lines after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_msdump.model.report import Report, SideInfo
from pytest_msdump.reporting.failure import one_line
from pytest_msdump.reporting.numbers import one_line_text
from pytest_msdump.reporting.roles import role_lines
from pytest_msdump.reporting.statistics import sentence_on_unseen, unseen_text
from pytest_msdump.reporting.tables import filled
from pytest_msdump.reporting.tally import counts, coverage_problems, first_failing, percent, sides_are_identical

__all__ = ["header_lines", "summary_lines"]

# The reason of a tensor that a later run into the same directory replaced (INTERFACE 2).
OLDER_RUN = "older run"

_SHOWN_REASONS = 3
_SHOWN_WARNINGS = 3
_SHOWN_FILES = 3
_ALARMING_COVERAGE = 0.5

# How a label of a dump is told; others are told as "name value".
_LABELS = {"ms_version": "MindSpore {value}", "framework": "{value}", "device_target": "{value}"}

# Readers whose dumps come from a run under test; a reference folder on the left of one looks swapped.
_RUN_READERS = ("mindspore", "ascend", "converted")
_REFERENCE_READER = "npy-folder"

_WORDS = {"fail": "fail", "undefined": "undefined", "error": "error", "not_run": "not run"}


def header_lines(left: SideInfo, right: SideInfo, *, pairs: int, profile: str, unseen: int = 0) -> list[str]:
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
    """
    lines = [
        f"msdump: left  = under test  {_side(left)}",
        f"        right = reference   {_side(right)}",
        f"        {pairs} {'pair' if pairs == 1 else 'pairs'} to compare, profile {profile}",
    ]
    if unseen:
        lines.append(f"        {unseen_text(unseen, pairs)}")
    if left.reader == _REFERENCE_READER and right.reader in _RUN_READERS:
        lines.append(
            "        warning: the sides look swapped: the left is a folder of op.index.timestamp.npy files, "
            f"the right a {right.reader} dump; left = run under test, right = reference"
        )
    for name, side in (("left", left), ("right", right)):
        lines += [f"        {name}: {one_line_text(note)}" for note in side.notes]
        if side.unexplained:
            lines.append(f"        {name}: {_unexplained(side.unexplained)}")
    return lines


def summary_lines(report: Report, *, width: int = 80, files: Sequence[str] = (), unfolded: bool = False) -> list[str]:
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
    """
    problems = coverage_problems(report)
    # What fails the item `coverage` is told there, with all reasons.
    lines = [*_matched(report, width), *(() if problems else _reasons(report, width)), *_outcomes(report)]
    unseen = sentence_on_unseen(report.records)
    lines += _wrapped(unseen, width) if unseen else []
    first = first_failing(report.records)
    if first is not None:
        place = f"op {first['order'] + 1} of {report.left.operators}"
        lines += _wrapped(f"first failing: {place}, {one_line(first)}", width)
    lines += role_lines(report, width=width, unfolded=unfolded)
    lines += _warnings(report, width)
    if sides_are_identical(report.records):
        alone = any(entry["reason"] != OLDER_RUN for entry in report.unmatched)
        sentence = "the two sides are identical: every pair is bit-equal; usually a run was compared with itself"
        lines += _wrapped("every pair is bit-equal" if alone else sentence, width)
    for problem in problems:
        lines += _wrapped(f"coverage: {problem}", width)
    for note in report.notes:
        lines += _wrapped(one_line_text(note), width)
    if files:
        lines += _wrapped(f"reports: {', '.join(files)}", width)
    return [*lines, *_alarm(report.coverage, width)]


def _side(side: SideInfo) -> str:
    """Directory and what is known of the run."""
    names = [*(name for name in _LABELS if name in side.labels), *(name for name in side.labels if name not in _LABELS)]
    known = [_LABELS.get(name, "{name} {value}").format(name=name, value=side.labels[name]) for name in names]
    about = "; ".join(part for part in (", ".join(known), f"reader {side.reader}") if part)
    return one_line_text(f"{side.directory}  ({about})")


def _unexplained(files: Sequence[str]) -> str:
    """Files that belong to no dump."""
    named = ", ".join(one_line_text(file) for file in files[:_SHOWN_FILES])
    more = f" and {len(files) - _SHOWN_FILES} more" if len(files) > _SHOWN_FILES else ""
    return f"{len(files)} {'file is' if len(files) == 1 else 'files are'} not understood and left out: {named}{more}"


def _matched(report: Report, width: int) -> list[str]:
    """How much of the right side met the left."""
    coverage, found = report.coverage, counts(report)
    paired, total = coverage.get("right_paired", 0), coverage.get("right_total", 0)
    text = f"matched {paired} of {total} right tensors ({percent(coverage.get('value', 0.0))})"
    alone = [f"{found[f'unmatched_{side}']} {side}" for side in ("left", "right") if found[f"unmatched_{side}"]]
    return _wrapped(f"{text}; without a partner: {', '.join(alone)}" if alone else text, width)


def _reasons(report: Report, width: int) -> Iterator[str]:
    """Why tensors were left alone, the commonest reasons first."""
    counted = Counter((entry["side"], entry["reason"]) for entry in report.unmatched).most_common()
    for (side, reason), count in counted[:_SHOWN_REASONS]:
        first, *others = filled(f"{count} {side}: {one_line_text(reason)}", width - 4)
        yield f"  {first}"
        yield from (f"    {line}" for line in others)
    rest = counted[_SHOWN_REASONS:]
    if rest:
        reasons = "1 more reason" if len(rest) == 1 else f"{len(rest)} more reasons"
        yield f"  {sum(count for _, count in rest)}: {reasons}, in results.json"


def _outcomes(report: Report) -> Iterator[str]:
    """How many tensors came out how; what did not occur is not named."""
    found = counts(report)
    parts = [f"{found[key]} {_WORDS.get(key, key)}" for key in ("pass", "warn", *_WORDS) if found[key]]
    if parts:
        total = len(report.records)
        yield f"{total} {'tensor' if total == 1 else 'tensors'}: {', '.join(parts)}"


def _warnings(report: Report, width: int) -> Iterator[str]:
    """The first few warnings in full."""
    warned = [record for record in report.records if record["verdict"] == "warn"]
    for record in warned[:_SHOWN_WARNINGS]:
        yield from _wrapped(one_line(record), width)
    if len(warned) > _SHOWN_WARNINGS:
        yield f"and {len(warned) - _SHOWN_WARNINGS} more warnings; results.json has them all"


def _alarm(coverage: Mapping[str, float | int | None], width: int) -> list[str]:
    """The last line when most of the reference was never looked at and nobody set a limit (INTERFACE 3)."""
    value = coverage.get("value") or 0.0
    if coverage.get("min_coverage") is not None or value >= _ALARMING_COVERAGE:
        return []
    paired, total = coverage.get("right_paired", 0), coverage.get("right_total", 0)
    share = f"only {paired} of {total} right tensors ({percent(value)}) were matched, and no min_coverage is set"
    return _wrapped(share.upper(), width)


def _wrapped(text: str, width: int) -> list[str]:
    """A line that, when it is too long, goes on indented."""
    first, *others = filled(text, width - 2)
    return [first, *(f"  {line}" for line in others)]

"""The parts of a failing tensor's text: its metrics, its worst elements, the sentences, and what would let it pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_msdump.escape import terminal_text
from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.model.comparison import Nonfinite, Scalar, WorstElement
from pytest_msdump.model.record import Check, Record
from pytest_msdump.model.verdict import Finding
from pytest_msdump.reporting.numbers import beside, index_text, number, plain, told_apart
from pytest_msdump.reporting.tables import columns, filled, labelled, table
from pytest_msdump.reporting.values import encode
from pytest_msdump.text import ENGLISH, Phrases

__all__ = ["metrics_table", "other_numbers", "sentences", "worst_elements", "would_pass"]

# From here on there is room for metric ids; below, their short forms stand, which can be typed as well.
_WIDE = 100

# In the order they are told.
_SHOWN = ("fail", "undefined", "warn", "ok", "skipped")

_TOLD = ("fail", "undefined", "error", "warn", "note")

# A limit on these cannot be written in a suite file as one number.
_FLAG_ONLY = ("allclose", "bitwise_mismatch")

# Counts that the caption of the worst elements tells already.
_COUNTS = ("allclose", "bitwise_mismatch")

# Enough for numbers that nobody set a limit on.
_FEW_DIGITS = 4


def metrics_table(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the limits one by one, what fails first, then those that hold."""
    checks = [check for check in record.checks if check.outcome in _SHOWN and check.limit is not None]
    checks.sort(key=lambda check: _SHOWN.index(check.outcome))
    if not checks:
        return []
    rows = [_table_row(check, width, say) for check in checks]
    titles = tuple(map(say, ("metric", "value", "limit", "rule", "verdict")))
    return table(titles, rows, width=width, right=(1,), flexible=3, same=say("same"))


def other_numbers(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return what has no limit, in few lines: further metrics, NaN and Inf, overflow."""
    lines: list[str] = []
    # What earlier releases wrote has a row without a limit for each of these as well.
    limited = {check.metric for check in record.checks if check.limit is not None}
    measured = record.metrics
    unlimited = [metric for metric in METRICS if metric in measured and metric not in (*limited, *_COUNTS)]
    told = [_measured(record, metric, width, say) for metric in unlimited]
    if told:
        lines += labelled(say("also"), say.joined(told, "between_numbers"), width=width)
    for label, text in (("NaN/Inf", _nonfinite(record.nonfinite, say)), (say("overflow"), _overflow(record, say))):
        if text:
            lines += labelled(label, text, width=width)
    return lines


def worst_elements(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the elements furthest beyond their tolerance, with index and both values."""
    comparison = record.comparison
    if comparison is None or not comparison.worst:
        return []
    rtol, atol = comparison.rtol, comparison.atol
    allowed = f"{plain(atol)} + {plain(rtol)} * |right|" if atol or rtol else "0"
    beyond = record.metrics.get("allclose")
    counted = say("allowed_is" if beyond is None else "exceed", n=beyond, allowed=allowed)
    title = say("worst_elements", differing=comparison.differing, elements=comparison.elements, counted=counted)
    lines = [f"  {line}" for line in filled(title, width - 2)]
    titles = (say("index"), say("left"), say("right"), "|l - r|", say("err_allowed"))
    rows = [_worst_row(element) for element in comparison.worst]
    laid_out = table(titles, rows, width=width, right=(1, 2, 3, 4))
    if max(map(columns, laid_out)) > width:
        laid_out = table(titles[:3] + titles[4:], [row[:3] + row[4:] for row in rows], width=width, right=(1, 2, 3))
    if max(map(columns, laid_out)) > width:
        laid_out = [line for row in rows for line in _stacked(titles, row)]
    return lines + laid_out


def sentences(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the findings that the table does not tell already, and the notes."""
    lines, told = [], set()
    for finding in record.verdict.findings:
        sentence = terminal_text(say.of(finding.message))
        if sentence not in told and not _in_table(finding, record.checks):
            told.add(sentence)
            lines += labelled(_told(finding.outcome, say), sentence, width=width)
    for note in (terminal_text(say.of(note)) for note in record.notes):
        if note not in told:
            lines += labelled(say("told_note"), note, width=width)
    left_out = record.right_zero_mismatch
    if left_out and not any(finding.metric in RELATIVE_METRICS for finding in record.verdict.findings):
        lines += labelled(say("told_note"), say("zeros_left_out", n=left_out), width=width)
    if record.comparison is not None and record.comparison.near_zero:
        lines += labelled(say("told_note"), say("near_zero", n=record.comparison.near_zero), width=width)
    return lines


def _told(outcome: str, say: Phrases) -> str:
    """What stands before a sentence; a file of somebody else's may hold any word."""
    return say(f"told_{outcome}") if outcome in _TOLD else terminal_text(outcome)


def would_pass(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the limits that would have let the tensor pass, as they are typed; a hint, no advice."""
    passing = record.verdict.would_pass
    if not passing:
        return []
    typed = [
        f"--msdump-threshold={metric}={_typed(bound)}" if metric in _FLAG_ONLY else f"{metric} = {_typed(bound)}"
        for metric, bound in passing.items()
    ]
    failing = [finding for finding in record.verdict.findings if finding.outcome in ("fail", "undefined")]
    beyond = [finding.metric or say("the_rest") for finding in failing if finding.metric not in passing]
    text = say("pass_with", limits=say.joined(typed))
    if beyond:
        text = say("not_by_limits", names=say.joined(dict.fromkeys(beyond)), text=text)
    return labelled(say("would_pass"), text, width=width)


def _table_row(check: Check, width: int, say: Phrases) -> tuple[str, ...]:
    """One limit: the value beside it with as many digits as tell them apart."""
    sign = ">=" if _direction(check.metric) == "high" else "<="
    limit = 0.0 if check.limit is None else check.limit
    value, bound = "-", plain(limit)
    if check.value is not None and not isinstance(check.value, tuple):
        value, bound = beside(check.value, limit)
    metric, rule = _named(check.metric, width), terminal_text(check.rule or "")
    return metric, value, f"{sign} {bound}", rule, say(f"is_{check.outcome}")


def _named(metric: str, width: int) -> str:
    """A metric's id where there is room, else its short form; both can be typed."""
    fact = METRICS.get(metric)
    return metric if width >= _WIDE or fact is None else fact.short or metric


def _direction(metric: str) -> str:
    """Which way the metric is good."""
    fact = METRICS.get(metric)
    return fact.direction if fact else "low"


def _measured(record: Record, metric: str, width: int, say: Phrases) -> str:
    """A metric without a limit: name, number, place."""
    value = record.metrics[metric]
    if isinstance(value, tuple):
        texts = [number(item, _FEW_DIGITS) for item in value]
        if len(texts) == 4:
            return say("moments", mean=texts[0], deviation=texts[1], right_mean=texts[2], right_deviation=texts[3])
        return f"{_named(metric, width)} {'; '.join(texts)}"
    place = record.places.get(metric)
    text = f"{_named(metric, width)} {number(value, _FEW_DIGITS)}"
    return say("at", text=text, place=index_text(place)) if place else text


def _nonfinite(counts: Nonfinite, say: Phrases) -> str:
    """Which NaN and Inf there are; nothing when there are none."""
    parts = [
        say(f"on_{key}", n=getattr(counts, f"{kind}_{key}"), title=title)
        for kind, title in (("nan", "NaN"), ("inf", "Inf"))
        for key in ("both", "left", "right")
        if getattr(counts, f"{kind}_{key}")
    ]
    first = counts.first_mismatch
    if parts and first is not None:
        parts.append(say("first_differing", place=index_text(first)))
    return say.joined(parts, "between_clauses")


def _overflow(record: Record, say: Phrases) -> str:
    """How many elements of the left overflowed where the right did not."""
    count = record.metrics.get("saturated_count")
    if not isinstance(count, int) or not count:
        return ""
    place = record.places.get("saturated_count")
    text = say("overflowed", n=count, dtype=record.left.dtype or say("number"))
    return say.joined((text, say("first_at", place=index_text(place))), "between_clauses") if place else text


def _worst_row(element: WorstElement) -> tuple[str, ...]:
    """One element; the difference is exact where both values are integers."""
    index, left, right, ratio = element
    return index_text(index), *told_apart(left, right), _difference(left, right), _three_digits(ratio)


def _difference(left: Scalar, right: Scalar) -> str:
    """|l - r|, or a dash where a side is NaN or Inf."""
    if isinstance(left, int) and isinstance(right, int):
        return number(abs(int(left) - int(right)))
    try:
        distance = abs(left - right)
    except OverflowError:
        return "-"
    return _three_digits(distance) if math.isfinite(distance) else "-"


def _three_digits(value: Scalar) -> str:
    """Enough for a distance or a ratio."""
    return plain(value, 3)


def _stacked(titles: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """An element whose numbers are too long for one line: one number a line."""
    yield f"  {row[0]}"
    for title, text in zip(titles[1:], row[1:], strict=True):
        yield f"    {title}{' ' * (13 - columns(title))}  {text}"


def _in_table(finding: Finding, checks: Sequence[Check]) -> bool:
    """Whether the finding says no more than its row: a value beyond its limit."""
    if finding.outcome not in ("fail", "warn"):
        return False
    return any(_beyond(one) for one in checks if one.metric == finding.metric and one.outcome == finding.outcome)


def _beyond(check: Check) -> bool:
    """Whether a row's value lies beyond its limit."""
    value, limit = check.value, check.limit
    if value is None or limit is None or isinstance(value, tuple):
        return False
    return value < limit if _direction(check.metric) == "high" else value > limit


def _typed(bound: float) -> str:
    """A bound exactly as it has to be typed."""
    return repr(encode(bound)).strip("'")

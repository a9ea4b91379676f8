"""The parts of a failing tensor's text: its metrics, its worst elements, the sentences, and what would let it pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.model.comparison import Scalar
from pytest_msdump.reporting.numbers import beside, index_text, number, one_line_text, plain, told_apart
from pytest_msdump.reporting.tables import filled, labelled, table
from pytest_msdump.reporting.values import decode

__all__ = ["metrics_table", "other_numbers", "sentences", "worst_elements", "would_pass"]

Entry = Mapping[str, Any]

# From here on there is room for metric ids; below, their short forms stand, which can be typed as well.
_WIDE = 100

_SHOWN = {"fail": "FAIL", "undefined": "undefined", "warn": "warn", "ok": "ok", "skipped": "skipped"}

# A limit on these cannot be written in a suite file as one number.
_FLAG_ONLY = ("allclose", "bitwise_mismatch")

# Counts that the caption of the worst elements tells already.
_COUNTS = ("allclose", "bitwise_mismatch")

# Enough for numbers that nobody set a limit on.
_FEW_DIGITS = 4


def metrics_table(record: Entry, width: int) -> list[str]:
    """Return the limits one by one, what fails first, then those that hold."""
    checks = [check for check in record["checks"] if check["outcome"] in _SHOWN and check["limit"] is not None]
    checks.sort(key=lambda check: list(_SHOWN).index(check["outcome"]))
    if not checks:
        return []
    rows = [_table_row(check, width) for check in checks]
    titles = ("metric", "value", "limit", "rule", "verdict")
    return table(titles, rows, width=width, right=(1,), flexible=3)


def other_numbers(record: Entry, width: int) -> list[str]:
    """Return what has no limit, in few lines: further metrics, NaN and Inf, overflow."""
    lines: list[str] = []
    unlimited = [check for check in record["checks"] if check["outcome"] == "-" and check["metric"] not in _COUNTS]
    told = [_measured(record, check, width) for check in unlimited]
    if told:
        lines += labelled("also", ", ".join(told), width=width)
    for label, text in (("NaN/Inf", _nonfinite(record["nonfinite"])), ("overflow", _overflow(record))):
        if text:
            lines += labelled(label, text, width=width)
    return lines


def worst_elements(record: Entry, width: int) -> list[str]:
    """Return the elements furthest beyond their tolerance, with index and both values."""
    if not record["worst"]:
        return []
    rtol, atol = decode(record["rtol"]), decode(record["atol"])
    allowed = f"{plain(atol)} + {plain(rtol)} * |right|" if atol or rtol else "0"
    beyond = record["metrics"].get("allclose")
    counted = f"allowed is {allowed}" if beyond is None else f"{beyond} exceed {allowed}"
    title = f"worst elements: {record['differing']} of {record['elements']} differ; {counted}"
    lines = [f"  {line}" for line in filled(title, width - 2)]
    titles = ("index", "left", "right", "|l - r|", "err / allowed")
    rows = [_worst_row(element) for element in record["worst"]]
    laid_out = table(titles, rows, width=width, right=(1, 2, 3, 4))
    if max(map(len, laid_out)) > width:
        laid_out = table(titles[:3] + titles[4:], [row[:3] + row[4:] for row in rows], width=width, right=(1, 2, 3))
    if max(map(len, laid_out)) > width:
        laid_out = [line for row in rows for line in _stacked(titles, row)]
    return lines + laid_out


def sentences(record: Entry, width: int) -> list[str]:
    """Return the findings that the table does not tell already, and the notes."""
    lines, told = [], set()
    for finding in record["findings"]:
        sentence = one_line_text(finding["sentence"])
        if sentence not in told and not _in_table(finding, record["checks"]):
            told.add(sentence)
            lines += labelled(finding["outcome"], sentence, width=width)
    for note in record["notes"]:
        if one_line_text(note) not in told:
            lines += labelled("note", one_line_text(note), width=width)
    left_out = record.get("right_zero_mismatch", 0)
    if left_out and not any(finding["metric"] in RELATIVE_METRICS for finding in record["findings"]):
        elements = "1 element" if left_out == 1 else f"{left_out} elements"
        text = f"relative errors leave out {elements} where the right is 0 and the left is not"
        lines += labelled("note", text, width=width)
    return lines


def would_pass(record: Entry, width: int) -> list[str]:
    """Return the limits that would have let the tensor pass, as they are typed; a hint, no advice."""
    if not record["would_pass"]:
        return []
    typed = [
        f"--msdump-threshold {metric}={_typed(bound)}" if metric in _FLAG_ONLY else f"{metric} = {_typed(bound)}"
        for metric, bound in record["would_pass"].items()
    ]
    failing = [finding for finding in record["findings"] if finding["outcome"] in ("fail", "undefined")]
    beyond = [finding["metric"] or "the rest" for finding in failing if finding["metric"] not in record["would_pass"]]
    text = f"with {', '.join(typed)}"
    if beyond:
        text = f"not by limits alone ({', '.join(dict.fromkeys(beyond))}); the others {text}"
    return labelled("would pass", text, width=width)


def _table_row(check: Entry, width: int) -> tuple[str, ...]:
    """One limit: the value beside it with as many digits as tell them apart."""
    sign = ">=" if _direction(check["metric"]) == "high" else "<="
    limit = decode(check["limit"])
    value, bound = "-", plain(limit)
    if check["value"] is not None and not isinstance(check["value"], list) and not isinstance(limit, complex):
        measured = decode(check["value"])
        if not isinstance(measured, complex):
            value, bound = beside(measured, limit)
    metric, rule = _named(check["metric"], width), one_line_text(check["rule"] or "")
    return metric, value, f"{sign} {bound}", rule, _SHOWN[check["outcome"]]


def _named(metric: str, width: int) -> str:
    """A metric's id where there is room, else its short form; both can be typed."""
    fact = METRICS.get(metric)
    return metric if width >= _WIDE or fact is None else fact.short or metric


def _direction(metric: str) -> str:
    """Which way the metric is good."""
    fact = METRICS.get(metric)
    return fact.direction if fact else "low"


def _measured(record: Entry, check: Entry, width: int) -> str:
    """A metric without a limit: name, number, place."""
    metric, value = check["metric"], check["value"]
    if isinstance(value, list):
        texts = [number(decode(item), _FEW_DIGITS) for item in value]
        if len(texts) == 4:
            return f"mean {texts[0]} (right {texts[2]}), deviation {texts[1]} (right {texts[3]})"
        return f"{_named(metric, width)} {'; '.join(texts)}"
    place = record["where"].get(metric)
    return f"{_named(metric, width)} {number(decode(value), _FEW_DIGITS)}" + (
        f" at {index_text(place)}" if place else ""
    )


def _nonfinite(counts: Entry) -> str:
    """Which NaN and Inf there are; nothing when there are none."""
    sides = (("the same on both sides", "both"), ("left only", "left"), ("right only", "right"))
    parts = [
        f"{counts[f'{kind}_{key}']} {title} {words}"
        for kind, title in (("nan", "NaN"), ("inf", "Inf"))
        for words, key in sides
        if counts.get(f"{kind}_{key}")
    ]
    first = counts.get("first_mismatch")
    if parts and first is not None:
        parts.append(f"first that differs at {index_text(first)}")
    return "; ".join(parts)


def _overflow(record: Entry) -> str:
    """How many elements of the left overflowed where the right did not."""
    count = record["metrics"].get("saturated_count")
    if not isinstance(count, int) or not count:
        return ""
    place = record["where"].get("saturated_count")
    first = f"; first at {index_text(place)}" if place else ""
    largest = f"at the largest {record['left']['dtype'] or 'number'}"
    told = "element of the left is" if count == 1 else "elements of the left are"
    return f"{count} {told} NaN, Inf or {largest} where the right is finite and different{first}"


def _worst_row(element: Entry) -> tuple[str, ...]:
    """One element; the difference is exact where both values are integers."""
    left, right = decode(element["left"]), decode(element["right"])
    texts = told_apart(left, right)
    ratio = decode(element["ratio"])
    return index_text(element["index"]), *texts, _difference(left, right), _three_digits(ratio)


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
    yield from (f"    {title:<13}  {text}" for title, text in zip(titles[1:], row[1:], strict=True))


def _in_table(finding: Entry, checks: Sequence[Entry]) -> bool:
    """Whether the finding says no more than its row: a value beyond its limit."""
    if finding["outcome"] not in ("fail", "warn"):
        return False
    same = [
        check for check in checks if check["metric"] == finding["metric"] and check["outcome"] == finding["outcome"]
    ]
    return any(_beyond(check) for check in same)


def _beyond(check: Entry) -> bool:
    """Whether a row's value lies beyond its limit."""
    if check["value"] is None or check["limit"] is None or isinstance(check["value"], list):
        return False
    value, limit = decode(check["value"]), decode(check["limit"])
    if isinstance(value, complex) or isinstance(limit, complex):
        return False
    return value < limit if _direction(check["metric"]) == "high" else value > limit


def _typed(bound: Any) -> str:
    """A bound exactly as it has to be typed."""
    return repr(bound).strip("'")

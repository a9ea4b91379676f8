"""The text of a failing test item: numbers, places, the worst elements, and the command to run it again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.facts.metrics import METRICS, RELATIVE_METRICS, ULP_METRICS, title_of
from pytest_msdump.core.model.comparison import Finding, Nonfinite, Scalar
from pytest_msdump.core.model.describe import beside, distinct_texts, index_text, number
from pytest_msdump.core.model.dump import KernelArguments
from pytest_msdump.core.model.record import OF_IDS, Check, Record, ReportedTensor
from pytest_msdump.core.model.tensor import COORDINATES, STRUCTURE, SourceFrame, mangle
from pytest_msdump.core.report.base import summarisers
from pytest_msdump.core.report.shown import short_finding, shown_title, verdict_word, with_causes_first
from pytest_msdump.core.report.tables import (
    columns,
    command,
    filled,
    hanging,
    labelled,
    pieces,
    statistics_table,
    table,
)
from pytest_msdump.core.text import ENGLISH, Phrases, encode, message_of_note, plain

# From here on there is room for metric ids; below, their short forms stand, which can be typed as well.
_WIDE = 100

# In the order of the table; why a limit is skipped is a sentence.
_SHOWN = ("fail", "undefined", "warn", "ok")
_BROKEN = ("fail", "undefined")

# Outcomes that have a word of their own.
_LABELLED = ("fail", "undefined", "error", "warn", "note")

# Counts of elements: a suite file cannot limit them by one number, and the caption of the worst elements has them.
_COUNTS = ("allclose", "bitwise_mismatch")

# Shown where they have a limit: without one they say little that others do not.
_ON_DEMAND = (*ULP_METRICS, "signal_to_noise_ratio")
# So many times the distance of the whole tensor, and one slice is what is wrong with it.
_STANDS_OUT = 10

# The others are in results.json and on the page.
_MOST_WORST = 3
# Before a number that sketches gave.
_ABOUT = "~"

# Of ids it says nothing.
_DISTANCE = "max_absolute_error"

# For numbers without a limit.
_FEW_DIGITS = 4


def metrics_table(record: Record, width: int, say: Phrases = ENGLISH, *, is_brief: bool = False) -> list[str]:
    """Return the limits one by one, what fails first, then those that hold, or without these.

    That nothing of a kind was counted, such as NaN on one side alone, is not worth a row.
    """
    shown = _BROKEN if is_brief else _SHOWN
    checks = [
        check
        for check in record.shown_checks
        if check.outcome in shown and check.limit is not None and (check.outcome != "ok" or check.value or check.limit)
    ]
    checks.sort(key=lambda check: _SHOWN.index(check.outcome))
    if not checks:
        return []
    rows = [_table_row(check, width, say, is_estimate=check.metric in record.estimates) for check in checks]
    titles = tuple(map(say, ("metric", "value", "limit", "rule", "verdict")))
    return table(titles, rows, width=width, right=(1,), flexible=3, same=say("same"))


def other_numbers(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return what numbers without a limit say: NaN and Inf, overflow, one slice; of two files all further metrics."""
    lines: list[str] = []
    if record.is_of_ids:
        return lines
    # Results of earlier releases have checks without a limit, too.
    limited = {check.metric for check in record.checks if check.limit is not None}
    measured = record.metrics
    hidden = {*limited, *_COUNTS, *_ON_DEMAND}
    hidden |= {"underflow_share"} if not measured.get("underflow_share") else set()
    hidden |= set() if _one_slice_stands_out(measured) else {"worst_slice_error"}
    shown = METRICS if record.how == "file" else ("worst_slice_error",)
    unlimited = [metric for metric in shown if metric in measured and metric not in hidden]
    if unlimited:
        texts = [_measured(record, metric, width, say) for metric in unlimited]
        lines += labelled(say("also"), say.joined(texts, "between_numbers"), width=width)
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
    decides = any(check.metric == "allclose" for check in record.checks)
    counted = say("exceed", n=beyond, allowed=allowed) if decides else "" if record.is_of_ids else say("orients")
    title = say("worst_elements", differing=comparison.differing, elements=comparison.elements)
    title = say.joined(filter(None, (title, counted)), "between_clauses")
    lines = [f"  {line}" for line in filled(title, width - 2)]
    titles = (say("index"), say("left"), say("right"), "|l - r|", say("err_allowed"))
    rows = [
        (index_text(index), *distinct_texts(left, right), _difference(left, right), plain(ratio, 3))
        for index, left, right, ratio in comparison.worst[:_MOST_WORST]
    ]
    if record.is_of_ids:
        return lines + table(titles[:3], [row[:3] for row in rows], width=width, right=(1, 2))
    laid_out = table(titles, rows, width=width, right=(1, 2, 3, 4))
    if max(map(columns, laid_out)) > width:
        laid_out = table(titles[:3] + titles[4:], [row[:3] + row[4:] for row in rows], width=width, right=(1, 2, 3))
    if max(map(columns, laid_out)) > width:
        laid_out = [line for row in rows for line in _stacked(titles, row)]
    return lines + laid_out


def sentences(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the findings that are not in the table, and the notes."""
    lines, seen = [], set()
    for finding in record.verdict.findings:
        sentence = terminal_text(say.of(finding.message))
        if sentence not in seen and not _in_table(finding, record):
            seen.add(sentence)
            outcome = finding.outcome
            # A file may hold any word.
            label = say(f"finding_{outcome}") if outcome in _LABELLED else terminal_text(outcome)
            lines += labelled(label, sentence, width=width)
    for note in (terminal_text(say.of(note)) for note in record.notes):
        if note not in seen:
            lines += labelled(say("finding_note"), note, width=width)
    left_out = record.right_zero_mismatch
    if left_out and not any(finding.metric in RELATIVE_METRICS for finding in record.verdict.findings):
        lines += labelled(say("finding_note"), say("zeros_left_out", n=left_out), width=width)
    if record.comparison is not None and record.comparison.near_zero:
        lines += labelled(say("finding_note"), say("near_zero", n=record.comparison.near_zero), width=width)
    return lines


def would_pass(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the limits that would have let the tensor pass, as they are typed."""
    passing = record.verdict.would_pass
    if not passing:
        return []
    typed = [
        f"--msdump-threshold={metric}={_typed(bound)}"
        if metric in _COUNTS
        else f"{_named(metric, width)} = {_typed(bound)}"
        for metric, bound in passing.items()
    ]
    failing = [finding for finding in record.verdict.findings if finding.outcome in ("fail", "undefined")]
    beyond = [finding.metric or say("the_rest") for finding in failing if finding.metric not in passing]
    text = say("pass_with", limits=say.joined(typed))
    if beyond:
        text = say("not_by_limits", names=say.joined(dict.fromkeys(beyond)), text=text)
    return labelled(say("would_pass"), text, width=width)


def _table_row(check: Check, width: int, say: Phrases, *, is_estimate: bool) -> tuple[str, ...]:
    """Return the row of one limit; value and limit have enough digits to differ."""
    sign = ">=" if _direction(check.metric) == "high" else "<="
    limit = 0.0 if check.limit is None else check.limit
    value, bound = "-", plain(limit)
    if check.value is not None and not isinstance(check.value, tuple):
        value, bound = beside(check.value, limit)
        value = f"{_ABOUT}{value}" if is_estimate else value
    metric = _named(check.metric, width) if say.is_english else title_of(check.metric, say.language)
    rule = terminal_text(check.rule or "")
    return metric, value, f"{sign} {bound}", rule, say(f"is_{check.outcome}")


def _named(metric: str, width: int) -> str:
    """Return a metric's id where there is room, else its short form; both can be typed."""
    fact = METRICS.get(metric)
    return metric if width >= _WIDE or fact is None else fact.short or metric


def _direction(metric: str) -> str:
    fact = METRICS.get(metric)
    return fact.direction if fact else "low"


def _measured(record: Record, metric: str, width: int, say: Phrases) -> str:
    """Return a metric without a limit: name, number, place."""
    value = record.metrics[metric]
    if isinstance(value, tuple):
        texts = [number(item, _FEW_DIGITS) for item in value]
        if len(texts) == 4:
            return say("moments", mean=texts[0], deviation=texts[1], right_mean=texts[2], right_deviation=texts[3])
        return f"{_named(metric, width)} {'; '.join(texts)}"
    place = record.places.get(metric)
    if metric == "worst_slice_error" and place:
        text = f"{_named(metric, width)} {number(value, _FEW_DIGITS)}"
        return say("at", text=text, place=say("slice", n=place[0]))
    about = _ABOUT if metric in record.estimates else ""
    text = f"{_named(metric, width)} {about}{number(value, _FEW_DIGITS)}"
    return say("at", text=text, place=index_text(place)) if place else text


def _one_slice_stands_out(metrics: Mapping[str, float | int | tuple[float, ...]]) -> bool:
    """Whether the error of one slice is what the distance of the tensor hides."""
    worst, whole = metrics.get("worst_slice_error"), metrics.get("relative_euclidean_distance")
    if isinstance(worst, tuple) or isinstance(whole, tuple) or worst is None or whole is None:
        return False
    return worst > _STANDS_OUT * whole


def _nonfinite(counts: Nonfinite, say: Phrases) -> str:
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
    """Return how many elements of the left overflowed where the right did not."""
    count = record.metrics.get("saturated_count")
    if not isinstance(count, int) or not count:
        return ""
    place = record.places.get("saturated_count")
    text = say("overflowed", n=count, dtype=record.left.dtype or say("number"))
    return say.joined((text, say("first_at", place=index_text(place))), "between_clauses") if place else text


def _difference(left: Scalar, right: Scalar) -> str:
    """Return |l - r|, or a dash where a side is NaN or Inf."""
    if isinstance(left, int) and isinstance(right, int):
        return number(abs(int(left) - int(right)))
    try:
        distance = abs(left - right)
    except OverflowError:
        return "-"
    return plain(distance, 3) if math.isfinite(distance) else "-"


def _stacked(titles: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """Yield an element whose numbers are too long for one line: one number a line."""
    yield f"  {row[0]}"
    for title, text in zip(titles[1:], row[1:], strict=True):
        yield f"    {title}{' ' * (13 - columns(title))}  {text}"


def _in_table(finding: Finding, record: Record) -> bool:
    """Whether the finding says no more than its row: a value beyond its limit, and not one that is estimated."""
    if finding.outcome not in ("fail", "warn") or finding.metric in record.estimates:
        return False
    if finding.message.code in OF_IDS:
        return False
    # The row has the ratio, not the two errors.
    if (fact := METRICS.get(finding.metric or "")) is not None and fact.golden:
        return False
    return any(_beyond(one) for one in record.checks if one.metric == finding.metric and one.outcome == finding.outcome)


def _beyond(check: Check) -> bool:
    value, limit = check.value, check.limit
    if value is None or limit is None or isinstance(value, tuple):
        return False
    return value < limit if _direction(check.metric) == "high" else value > limit


def _typed(bound: float) -> str:
    """A bound exactly as it has to be typed."""
    return repr(encode(bound)).strip("'")


_MOST_LISTED = 12


def argument_lines(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the arguments that differ between the sides, then those of the kernels."""
    lines: list[str] = []
    differing = record.differing_arguments
    for one in differing[:_MOST_LISTED]:
        both = say("both_sides", left=_value(one.left, say), right=_value(one.right, say))
        text = say("after_label", label=f"{one.kind} {one.name}", text=both)
        lines += labelled(say("differs"), terminal_text(text), width=width)
    if len(differing) > _MOST_LISTED:
        lines += labelled("", say("more_differ", n=len(differing) - _MOST_LISTED), width=width)
    for text in _saved(record.kernel_args, say):
        lines += labelled(say("arguments"), terminal_text(text), width=width)
    return lines


def _saved(sides: Mapping[str, KernelArguments], say: Phrases) -> Iterator[str]:
    """Yield the arguments of the kernels, once where both sides have the same."""
    texts = {side: _listed(one, say) for side, one in sides.items()}
    if len(texts) > 1 and len(set(texts.values())) == 1:
        yield say("in_brackets", text=next(iter(texts.values())), aside=say("on_both_sides"))
        return
    yield from (say("after_label", label=say(side), text=text) for side, text in texts.items())


def _listed(one: KernelArguments, say: Phrases) -> str:
    if one.note:
        return f"{one.source} {one.note}"
    return say.named((f"{name} {value}" for name, value in one.values.items()), _MOST_LISTED) or say("none")


def _value(value: str | None, say: Phrases) -> str:
    return say("has_none") if value is None else value


_SHOWN_DOUBTFUL = 2


def diagnosis_lines(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return a line for the sure diagnosis, or one for each of the likely ones."""
    sure = [one for one in record.diagnosis if one.confidence == "high"]
    likely = [one for one in record.diagnosis if one.confidence == "medium"][:_SHOWN_DOUBTFUL]
    lines: list[str] = []
    for one in sure or likely:
        title = say(f"looks_{one.id}") if say.knows(f"looks_{one.id}") else one.id
        title = say("in_brackets", text=title, aside=say(f"confidence_{one.confidence}"))
        text = terminal_text(say("after_label", label=title, text=say.of(one.evidence)))
        lines += labelled(say("looks_like"), text, width=width)
    return lines


_HOW = {
    "name": "same_name",
    "mangled": "same_name_as",
    "scope": "same_scope",
    "graph": "same_graph",
    "mapped": "by_map",
    "fused": "by_rule_file",
}
# By these no rule has to be named.
_WITHOUT_RULE = ("name", "mangled", "scope", "graph")

_NARROWEST = 80


def failure_text(
    records: Sequence[Record],
    *,
    operators: int,
    width: int = 80,
    rerun: Sequence[str] = (),
    is_brief: bool = False,
    in_full: bool = False,
    by_name: bool = False,
    say: Phrases = ENGLISH,
) -> str:
    """Return the text of one operator: its first failing tensor in full, the others on a line each.

    With `in_full` each failing tensor is told in full; where nothing fails, the first tensor is.
    """
    width = max(width, _NARROWEST)
    failing = with_causes_first(record for record in records if record.fails)
    whole = (failing if in_full else failing[:1]) or list(records[:1])
    lines: list[str] = []
    for record in whole:
        lines += ["", *_block(record, (operators, by_name), width, say, is_brief=is_brief)]
    told = {record.left.address for record in whole}
    for record in records:
        if not any(record is one for one in whole):
            lines += hanging(_briefly(record, say, is_same_left=record.left.address in told), width, indent=2)
    if rerun:
        lines += ["", *command(rerun, width=width, label=say("rerun"))]
    return "\n".join(lines[1:])


def _briefly(record: Record, say: Phrases, *, is_same_left: bool) -> str:
    """Return another tensor of an operator, or another partner of the same one, on a line."""
    name = say("against", name=record.right.address) if is_same_left else record.title
    label = f"{verdict_word(record, say)}  {terminal_text(name)}"
    return say("after_label", label=label, text=short_finding(record, say)) if record.fails else label


def one_line(record: Record, say: Phrases = ENGLISH) -> str:
    """Return a record as one line: ``DRIFT conv2:output:0: cosine_similarity 0.39 is below 0.999; max abs 1.37``."""
    verdict, address = record.verdict.outcome, shown_title(record, say)
    findings = [finding for finding in record.verdict.findings if finding.outcome == verdict]
    parts = [terminal_text(say.of(findings[0].message))] if findings else []
    if len(findings) > 1:
        parts.append(say("and_more", n=len(findings) - 1))
    if not findings and (record.elements is not None or record.statistics is not None):
        parts.append(say("equal" if record.equal else "every_limit_met"))
    if record.statistics is not None:
        parts.append(say("sketches_only" if record.estimates else "statistics_only"))
    parts += _largest_error(record, findings[:1], say)
    source = record.line
    line = f" [{terminal_text(source.file.rpartition('/')[2])}:{source.line}]" if source else ""
    text = f"{_where_in_run(f'{verdict_word(record, say)} {address}', record, say)}{line}"
    return say("after_label", label=text, text=say.joined(parts, "between_clauses")) if parts else text


def _where_in_run(text: str, record: Record, say: Phrases) -> str:
    """Add the coordinates that are not 0."""
    at = record.left.at
    named = (("rank", at.rank), ("graph", at.graph), ("iteration", at.iteration), ("occurrence", at.occurrence))
    later = [f"{name} {value}" for name, value in named if value]
    return say("in_brackets", text=text, aside=say.joined(later)) if later else text


def _largest_error(record: Record, shown: Sequence[Finding], say: Phrases) -> list[str]:
    """Return the greatest difference and its place, unless a shown finding has it."""
    value = record.metrics.get(_DISTANCE)
    if value is None or isinstance(value, tuple) or record.equal or record.is_of_ids:
        return []
    if any(finding.metric == _DISTANCE for finding in shown):
        return []
    place = record.places.get(_DISTANCE)
    text = say("largest_error", value=number(value))
    return [say("at", text=text, place=index_text(place)) if place else text]


def _block(record: Record, run: tuple[int, bool], width: int, say: Phrases, *, is_brief: bool = False) -> Iterator[str]:
    """One failing tensor in full, or only which limits it breaks; `run` is `operators` and `by_name`."""
    yield from _heading(record, run, width, say)
    for label, side in (("left", record.left), ("right", record.right)):
        yield from _side(label, side, width, say)
    beside = statistics_table(record, width, say)
    if beside:
        yield from ("", *beside)
    lines = metrics_table(record, width, say, is_brief=is_brief)
    if not is_brief:
        lines += [*other_numbers(record, width, say), *worst_elements(record, width, say)]
        lines += [*diagnosis_lines(record, width, say), *argument_lines(record, width, say)]
        lines += [*sentences(record, width, say), *would_pass(record, width, say)]
    if lines:
        yield from ("", *lines)


def _heading(record: Record, run: tuple[int, bool], width: int, say: Phrases) -> Iterator[str]:
    """Yield verdict and address, its role, its place in the run, how the pair was made, the lines that made it."""
    word = verdict_word(record, say)
    indent = " " * (columns(word) + 2)
    first, *rest = pieces(shown_title(record, say, has_own_name=True), width - len(indent))
    yield f"{word}  {first}"
    told = [
        line
        for teller in summarisers(is_notable=record.fails or record.role is not None)
        for line in teller.record_lines(record, say)
    ]
    parts = (_place(record, *run, say), _at(record, say), _paired(record, say), _transform(record, say))
    placed = terminal_text(say.joined(filter(None, (*parts, *_made_by(record, say))), "between_clauses"))
    for line in filter(None, (*told, _local_line(record, say), placed)):
        rest += filled(line, width - len(indent))
    yield from (indent + line for line in rest)


def _place(record: Record, operators: int, by_name: bool, say: Phrases) -> str:
    """Return the place of the operator in the run; two loose files are in no run."""
    if record.how == "file":
        return ""
    return say("place_by_name" if by_name else "place", place=record.order + 1, operators=operators)


def _at(record: Record, say: Phrases) -> str:
    """Return the coordinates that the left side has, with those of the right side that differ."""
    found = []
    for name in COORDINATES:
        value, other = getattr(record.left.at, name), getattr(record.right.at, name)
        # The first of each is the ordinary case.
        if value is not None and (value or other):
            is_other = other is not None and other != value
            found.append(f"{name} {say('right_is', value=value, other=other) if is_other else value}")
    return say.joined(found)


def _paired(record: Record, say: Phrases) -> str:
    """Return how the pair was made; nothing for two loose files."""
    how = record.how
    if how == "file":
        return ""
    if how in _WITHOUT_RULE or (how in _HOW and not record.by):
        return say("paired", by=say(_HOW[how], name=mangle(record.left.key.op.label), scope=record.by))
    return say("paired", by=say.of(message_of_note(record.by)) if how == STRUCTURE else record.by or how)


def _made_by(record: Record, say: Phrases) -> Iterator[str]:
    """Yield the line of the user's program; also the right side's if it is another."""
    source, other = record.left.source, record.right.source
    if source:
        yield _line(say("made_by"), source)
    if other and other != source:
        yield _line(say("right_made_by"), other)


def _line(label: str, source: SourceFrame) -> str:
    place = f"{label} {source.file}:{source.line}"
    return f"{place}  {source.text}" if source.text else place


def _transform(record: Record, say: Phrases) -> str:
    """Return how the right side was brought to the left; an axis order concerns 4-D tensors alone."""
    transform, shape = record.transform, record.right.shape
    formats = (("left", transform.left_format), ("right", transform.right_format))
    parts = []
    if shape is None or len(shape) == 4:
        parts += [say(f"{side}_read_as", memory_format=name) for side, name in formats if name is not None]
    if transform.transpose is not None:
        parts.append(say("right_transposed", axes=index_text(transform.transpose)))
    if transform.reshape:
        parts.append(say("right_reshaped"))
    if transform.piece is not None:
        side, shape, ranges = transform.piece
        said = [say("piece_range", start=start, last=stop - 1, axis=axis) for axis, start, stop in ranges]
        parts.append(say("piece", side=side, shape=shape, ranges=say.joined(said)))
    return say.joined(parts)


def _side(label: str, side: ReportedTensor, width: int, say: Phrases) -> Iterator[str]:
    """Yield one side: its file in the dump, and what is in the file, on one line where it fits."""
    title = say(label)
    start, column = f"  {title}{' ' * (5 - columns(title))}  ", 9
    path = terminal_text(side.file)
    path = path if side.row is None else say("row_of_file", file=path, row=side.row)
    described = [side.dtype or say("dtype_unknown")]
    described += [side.memory_format] if side.memory_format else []
    described.append(say("shape_unknown") if side.shape is None else str(tuple(side.shape)))
    if side.logical_shape is not None:
        described.append(f"-> {tuple(side.logical_shape)}")
    text = terminal_text(" ".join(described))
    lines = [f"{path}  {text}"]
    if columns(lines[0]) > width - column:
        lines = [*pieces(path, width - column), *filled(text, width - column)]
    yield start + lines[0]
    yield from (" " * column + line for line in lines[1:])


def path_below(root: str, file: str) -> str:
    """Return the file below its dump; a dump of one file is that file."""
    if not root or file.startswith("/") or root == file or root.endswith(f"/{file}"):
        return root if root.endswith(file) else file
    return f"{root.rstrip('/')}/{file}"


def _local_line(record: Record, say: Phrases) -> str:
    """Return what a replay says of a record, if it is none of its findings; empty where there was no replay."""
    local = record.local
    return "" if local is None or local.outcome == "fail" else terminal_text(say.of(local.message))

"""What the page is drawn from: results.json by columns, each number with the digits that a person reads."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import commonprefix
from typing import Any

from pytest_msdump.capabilities.causes.summarised import loose_limits
from pytest_msdump.core.facts.metrics import METRICS, title_of
from pytest_msdump.core.limits.permissions import permission_sentences
from pytest_msdump.core.model.comparison import Finding
from pytest_msdump.core.model.record import COUNTS_IDS, OF_IDS, Check, Local, Record, ReportedTensor
from pytest_msdump.core.model.report import Report, UnmatchedTensor
from pytest_msdump.core.model.tensor import COORDINATES, SourceFrame
from pytest_msdump.core.report.coverage import coverage_problems, sentence_on_unseen
from pytest_msdump.core.report.json_report import MISSING, UNMATCHED, head_json
from pytest_msdump.core.report.record_json import to_json
from pytest_msdump.core.text import Message, Phrases, encode, say
from pytest_msdump.core.text.message import LANGUAGES

# For the eye; results.json has all digits.
_DIGITS = 6
_LARGEST_EXACT = 2**53

# Marks in the template of a file's name: the operator's name, the number of its task, and the time.
_NAME_MARK, _TIME_MARK, _TASK_MARK = "\x01", "\x02", "\x03"
_TASK = re.compile(rf"(?<={_NAME_MARK}\.)(?:0|[1-9][0-9]{{0,8}})(?=\.)")
_TIME = re.compile(r"(?<![0-9])[1-9][0-9]{11,15}(?![0-9])")


class Pool:
    """Texts, or other JSON values, each kept once and named by a number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str | tuple[str], int] = {}

    def add(self, value: Any) -> int:
        """Return the number of `value`; ``None`` is -1."""
        if value is None:
            return -1
        # Of texts there are most; a number and a text that reads like it stay apart.
        key = value if isinstance(value, str) else (json.dumps(value),)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


class Exactly(float):
    """A number that is written with all its digits."""


def short(value: Any) -> Any:
    """Return a number with no more digits than a person reads; lists by their parts, anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [short(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, int) and abs(value) < _LARGEST_EXACT:
        return value
    try:
        rounded = float(f"{float(value):.{_DIGITS}g}")
    except OverflowError:
        return str(value)
    if not math.isfinite(rounded):
        return str(value)
    return int(rounded) if rounded.is_integer() and abs(rounded) < _LARGEST_EXACT else rounded


def column(values: Iterable[Any]) -> Any:
    """Return a list, or ``{"all": value}`` where every row has the same one."""
    listed = list(values)
    if listed and all(type(value) is type(listed[0]) and value == listed[0] for value in listed):
        return {"all": listed[0]}
    return listed


def front_coded(texts: Iterable[str]) -> dict[str, Any]:
    """Return how much of the text before each one begins with, and the rest: names of one network begin alike."""
    shared, rest, before = [], [], ""
    for text in texts:
        # A pair of surrogates stays whole: programs of a page count in UTF-16, where it is two units.
        same = commonprefix([before, text])  # noqa: RUF071 - characters are meant
        shared.append(len(same) + sum(character > "\uffff" for character in same))
        rest.append(text[len(same) :])
        before = text
    return {"shared": column(shared), "rest": column(rest)}


def file_columns(paths: Sequence[str], names: Sequence[str], pool: Pool) -> dict[str, Any]:
    """Return file names as folder, template, task and time; templates are shared once what differs is out of them."""
    folders, templates, times, before = [], [], [], 0
    tasks, task_before = [], 0
    for path, name in zip(paths, names, strict=True):
        folder, slash, base = path.rpartition("/")
        folders.append(pool.add(folder + slash))
        found = _TIME.search(base)
        time = int(found[0]) if found and int(found[0]) < _LARGEST_EXACT else None
        if found and time is not None:
            base = base[: found.start()] + _TIME_MARK + base[found.end() :]
        if len(name) > 1:
            base = base.replace(name, _NAME_MARK, 1)
        task = _TASK.search(base)
        tasks.append(0 if task is None else int(task[0]) - task_before)
        if task is not None:
            task_before, base = int(task[0]), _TASK.sub(_TASK_MARK, base, count=1)
        templates.append(pool.add(base))
        times.append(0 if time is None else time - before)
        before = before if time is None else time
    return {
        "folder": column(folders),
        "template": column(templates),
        "task": column(tasks),
        "time": column(times),
    }


_COSINE = "cosine_similarity"

# Two million bytes for five thousand tensors, of which the columns take more than half.
_ROOM_BYTES = 550_000
# Less than this is not worth looking for something that fits.
_LITTLE_BYTES = 100

_ROLES = {"cause": 0, "unknown": 1, "accumulated": 1}
_AS_SAVED = ("differing_arguments", "kernel_args", "custom", "statistics", "spread")
_NONFINITE = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "saturated", "mismatch")


def details(records: Sequence[Record], pool: Pool) -> tuple[dict[str, Any], set[Message]]:
    """Return what only the drawer shows, and the messages in it."""
    ranked = sorted(range(len(records)), key=lambda number: _rank(records[number], number))
    kept: dict[int, dict[str, Any]] = {}
    messages: set[Message] = set()
    room, left_out = _ROOM_BYTES, set()
    for details_of, messages_of in ((_sentences, _messages), (_elements, _notes)):
        for number in ranked:
            found = {} if room < _LITTLE_BYTES else _filled(details_of(records[number], pool))
            new = {one for one in messages_of(records[number]) if one not in messages} if found else set()
            size = len(json.dumps(found)) + 12 + sum(len(json.dumps(say(one, "zh"))) for one in new) if found else 0
            if room < _LITTLE_BYTES or size > room:
                left_out.add(number)
            elif found:
                room -= size
                messages |= new
                kept.setdefault(number, {}).update(found)
    return {"of": {str(number): kept[number] for number in sorted(kept)}, "left_out": sorted(left_out)}, messages


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, [], {}, "")}


def _rank(record: Record, number: int) -> tuple[int, int, int]:
    """Sort causes first, then other failures, warnings, and the rest; each in execution order."""
    severity = 0 if record.fails or record.role_why is not None else 1 if record.verdict.outcome == "warn" else 2
    return severity, _ROLES.get(record.role or "", 2), number


def _sentences(record: Record, pool: Pool) -> dict[str, Any]:
    """Return why it fails, and where to look."""
    entry = to_json(record)
    return {
        "findings": [[one.outcome, one.sentence] for one in record.verdict.findings if not _in_table(one, record)],
        "undefined_in": entry["undefined"],
        "causes": [pool.add(cause) for cause in record.causes],
        "suspects": [pool.add(suspect) for suspect in record.suspects],
        **_reason(record, pool),
        "suspicious": [{key: one[key] for key in one if key != "why"} for one in entry.get("suspicious", ())],
        # Its sentence is said in both languages; the message itself is for programs.
        "diagnosis": [
            {key: one[key] for key in one if key not in ("code", "parameters")} for one in entry.get("diagnosis", ())
        ],
        "local": record.local and say(record.local.message),
        "amplification": short(entry.get("amplification")),
        "source": _source(record.left.source, pool),
        "right_source": _source(record.right.source, pool),
    }


def _elements(record: Record, _pool: Pool) -> dict[str, Any]:
    entry = to_json(record)
    if record.is_of_ids:
        # How far ids are apart says nothing.
        worst = [[one["index"], one["left"], one["right"]] for one in entry["worst"]]
        return {"notes": list(dict.fromkeys(map(say, _notes(record)))), "worst": worst}
    return {
        "notes": list(dict.fromkeys(map(say, _notes(record)))),
        "overflows": entry["left"].get("overflows"),
        "transform": entry["transform"],
        "would_pass": entry["would_pass"],
        "where": entry["where"],
        "moments": short(entry["metrics"].get("standard_deviation")),
        "nonfinite": {key: entry["nonfinite"][key] for key in _NONFINITE if entry["nonfinite"].get(key)},
        "worst": [[one["index"], *(short(one[key]) for key in ("left", "right", "ratio"))] for one in entry["worst"]],
        **{key: entry.get(key) for key in _AS_SAVED},
    }


def _messages(record: Record) -> Iterator[Message]:
    """Yield the messages in `_sentences`."""
    yield from (one.message for one in record.verdict.findings if not _in_table(one, record))
    yield from (one.evidence for one in record.diagnosis)
    if record.local is not None:
        yield record.local.message
    if record.comparison is not None:
        yield from filter(None, record.comparison.undefined.values())


def _notes(record: Record) -> Iterator[Message]:
    yield from record.notes
    if record.pair_note is not None:
        yield record.pair_note


def _reason(record: Record, pool: Pool) -> dict[str, Any]:
    """Return the parts of the sentence on its role, or the sentence of an older release."""
    why = record.role_why
    if why is None:
        return {"role_reason": record.role_reason}
    suspects = [
        [pool.add(one.operator), pool.add(one.state), *([] if one.before is None else [one.before])]
        for one in why.suspects
    ]
    names = {name: [pool.add(one) for one in getattr(why, name)] for name in ("given", "before", "left_out")}
    growth = why.growth and {**why.growth._asdict(), "at": pool.add(why.growth.at)}
    shown = growth and {name: short(encode(value)) for name, value in growth.items()}
    where = why.region and {
        "module": pool.add(why.region.module),
        "after": [pool.add(one) for one in why.region.after],
        "end": pool.add(why.region.end),
        "io": why.region.io,
        "operators": [pool.add(one) for one in why.region.operators],
        "lines": pool.add(why.region.lines),
    }
    return {
        "role_why": _filled(
            {
                "why": why.why,
                "suspects": suspects,
                **names,
                "growth": shown,
                "region": where,
                "certainty": why.certainty,
            }
        )
    }


def _source(source: SourceFrame | None, pool: Pool) -> list[Any] | None:
    return None if source is None else [pool.add(source.file), source.line, source.text]


def _numbers(record: Record) -> Mapping[str, Any]:
    """Return the metrics of a record that a reader sees."""
    found = dict(record.metrics)
    cosine = found.get(_COSINE)
    if isinstance(cosine, float) and math.isfinite(cosine) and record.verdict.outcome != "pass":
        # Of one that is nearly 1, what it lacks of that is what says something.
        found[_COSINE] = Exactly(1 - short(1 - cosine))
    return {name: found[name] for name in found if name in COUNTS_IDS} if record.is_of_ids else found


def _in_table(finding: Finding, record: Record) -> bool:
    """Whether the table of limits shows it: a number that is no estimate, and the limit that it does not meet."""
    if finding.message.code in OF_IDS:
        return False
    is_known = finding.metric is not None and finding.value is not None and finding.limit is not None
    return is_known and finding.outcome in ("fail", "warn") and finding.metric not in record.estimates


_OF_A_SIDE = ("op_type", "dtype", "shape", "memory_format", "logical_shape")

# Copied from results.json, if they are there.
_HEAD = (
    *("left", "right", "run", "profile", "limits", "complete"),
    *("counts", "coverage", "missing", "notes", "rerun", "localised_by"),
)

# A longer list is not read; results.json has all of it.
_MOST_UNMATCHED = 10_000


def content(report: Report) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the page's data, and what its English sentences are in Chinese."""
    pool = Pool()
    values, records = head_json(report) | {"missing": list(map(MISSING.write, report.missing))}, report.records
    numbers = list(map(_numbers, records))
    limited = [[check for check in record.shown_checks if check.limit is not None] for record in records]
    named = {name for one in numbers for name, value in one.items() if not isinstance(value, tuple)}
    metrics = [*(name for name in METRICS if name in named), *sorted(named - METRICS.keys())]
    data: dict[str, Any] = {
        **{key: values[key] for key in _HEAD if key in values},
        "unseen": {language: sentence_on_unseen(records, Phrases(language)) for language in LANGUAGES},
        "loose_limits": {language: loose_limits(records, Phrases(language)) for language in LANGUAGES},
        "permissions": {language: list(permission_sentences(report, Phrases(language))) for language in LANGUAGES},
        "problems": {language: list(coverage_problems(report, Phrases(language))) for language in LANGUAGES},
        "metrics": [[name, *_fact(name)] for name in metrics],
        "rows": len(records),
        "tensors": {
            **_counts(records),
            **{key: column(map(pool.add, texts)) for key, texts in _words(records)},
            "left": _side([record.left for record in records], pool),
            "right": _side([record.right for record in records], pool),
            "values": {name: column(_number(one.get(name)) for one in numbers) for name in metrics},
            "limits": column(
                pool.add([[one.metric, encode(one.limit), one.level, one.rule, *_base(one)] for one in checks])
                for checks in limited
            ),
            "outcomes": column(pool.add([one.outcome for one in checks]) for checks in limited),
        },
        "heirs": _heirs(records),
        "unmatched": _unmatched(report.unmatched, pool),
        **({"edges": [number for edge in values["edges"] for number in edge]} if values.get("edges") else {}),
    }
    found, messages = details(records, pool)
    messages |= {one.why for one in report.missing} | {one.why for one in report.unmatched[:_MOST_UNMATCHED]}
    chinese = {say(message): say(message, "zh") for message in messages}
    differing = {english: chinese[english] for english in sorted(chinese) if chinese[english] != english}
    return {**data, "details": found, "pool": pool.values}, differing


def _heirs(records: Sequence[Record]) -> dict[str, int]:
    """Return by number of a cause's record how many tensors of its part of the run inherited from it."""
    inherited = Counter(
        (record.left.at.part, cause)
        for record in records
        if record.role == "inherited"
        for cause in record.causes
        # Not the cause itself in a later iteration.
        if cause != record.left.address
    )
    found = {str(number): inherited[record.left.at.part, record.left.address] for number, record in enumerate(records)}
    return {number: count for number, count in found.items() if count}


def _base(check: Check) -> Iterable[float]:
    return () if check.base is None else (check.base,)


def _counts(records: Sequence[Record]) -> dict[str, Any]:
    measured = [record.comparison for record in records]
    return {
        "order": column(record.order for record in records),
        "elements": column(None if one is None else one.elements for one in measured),
        "differing": column(None if one is None else one.differing for one in measured),
        "right_zero_mismatch": column(None if one is None else one.right_zero_mismatch for one in measured),
        "local_ratio": column(short(encode(_local_ratio(record.local))) for record in records),
        "equal": column(None if one is None else int(one.equal) for one in measured),
        "estimated": column(1 if record.estimates else None for record in records),
        "total_elements": column(None if one is None else one.total_elements for one in measured),
    }


def _local_ratio(local: Local | None) -> float | None:
    """Return the score of a replay over its limit; above 1 is wrong, as with an error over its limit."""
    if local is None or local.score is None:
        return None
    return local.score / local.limit if local.limit else local.score and math.inf


def _words(records: Sequence[Record]) -> Iterable[tuple[str, list[Any]]]:
    """Yield the columns with few different values."""
    yield "verdict", [record.verdict.outcome for record in records]
    yield "local", [record.local and record.local.outcome for record in records]
    for name in ("role", "how", "by", "judged_as", "known_drift"):
        yield name, [getattr(record, name) for record in records]
    for name in ("rtol", "atol"):
        measured = [record.comparison for record in records]
        yield name, [None if one is None else encode(getattr(one, name)) for one in measured]
    for name in COORDINATES:
        yield name, [getattr(record.left.at, name) for record in records]


def _fact(name: str) -> tuple[str, str, str]:
    return (title_of(name, "en"), METRICS[name].direction if name in METRICS else "low", title_of(name, "zh"))


def _number(value: Any) -> Any:
    """Return a metric's number; means and deviations stand in the drawer."""
    if isinstance(value, tuple):
        return None
    return float(value) if isinstance(value, Exactly) else short(encode(value))


def _side(sides: Sequence[ReportedTensor], pool: Pool) -> dict[str, Any]:
    addresses = [side.address for side in sides]
    return {
        "label": front_coded(map(_label, addresses)),
        "slot": column(pool.add(_slot(address)) for address in addresses),
        "name": column(pool.add(_other_name(side)) for side in sides),
        **{key: column(pool.add(getattr(side, key)) for side in sides) for key in _OF_A_SIDE},
        **file_columns([side.file for side in sides], list(map(_in_file, addresses)), pool),
    }


def _label(address: str) -> str:
    return address.rsplit(":", 2)[0]


def _slot(address: str) -> str:
    return address[len(_label(address)) :]


def _in_file(address: str) -> str:
    """Return the operator's name as file names have it."""
    return _label(address).replace("/", "_")


def _other_name(side: ReportedTensor) -> str | None:
    """Return the dump's own name if it does not follow from the address."""
    return None if side.name in (None, _label(side.address), _in_file(side.address)) else side.name


def _unmatched(tensors: Sequence[UnmatchedTensor], pool: Pool) -> dict[str, Any]:
    listed = tensors[:_MOST_UNMATCHED]
    entries = list(map(UNMATCHED.write, listed))
    addresses = [one.tensor.address for one in listed]
    return {
        "rows": len(listed),
        "all": len(tensors),
        "label": front_coded(map(_label, addresses)),
        "slot": column(pool.add(_slot(address)) for address in addresses),
        **{
            key: column(pool.add(entry.get(key)) for entry in entries)
            for key in ("side", "op_type", "dtype", "shape", "reason", "candidates", "suggestions", "order")
        },
        **file_columns([one.tensor.file for one in listed], list(map(_in_file, addresses)), pool),
    }

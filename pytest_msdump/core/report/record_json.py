"""One pair's record as an entry of `tensors` in results.json: one table of keys to check, to read and to write it.

The keys stand in the order in which they are written; ``docs/reference/results_json.md`` says what each one means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, is_dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any

from pytest_msdump.core import ports
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.facts.dtypes import VALUE_KINDS
from pytest_msdump.core.facts.metrics import METRICS, STATISTICS
from pytest_msdump.core.forms import (
    Form,
    WrongValueError,
    by_name,
    expected,
    in_words,
    lenient,
    list_of,
    nullable,
    optional,
    table,
    union,
)
from pytest_msdump.core.forms.values import (
    COUNT,
    FLAG,
    INDEX,
    MESSAGE,
    NUMBER,
    NUMBERS,
    PARAMETERS,
    SIDE,
    TEXT,
    TEXTS,
    WHOLE,
    as_given,
    dumps,
    one_of,
    shallow,
    table_with_message,
)
from pytest_msdump.core.model.comparison import (
    FAILING,
    OUTCOMES,
    CustomResult,
    Finding,
    Interval,
    StatisticComparison,
    Verdict,
)
from pytest_msdump.core.model.dump import ArgumentDifference, KernelArguments
from pytest_msdump.core.model.record import (
    AxisErrors,
    BetterFit,
    Check,
    Diagnosis,
    ErrorGrowth,
    Histogram,
    Local,
    MagnitudeErrors,
    Record,
    Region,
    ReportedTensor,
    RoleReason,
    Spread,
    Suspect,
    ValueCounts,
)
from pytest_msdump.core.model.tensor import (
    COORDINATES,
    AxisRange,
    Coordinates,
    SourceFrame,
    Statistics,
    TensorPiece,
    Transform,
)
from pytest_msdump.core.report.comparison_json import MEASURED, UNMEASURED, comparison_of, measured_parts
from pytest_msdump.core.text import Message, encode, message_of, say

_SIDES = ("left", "right")


def refusing(place: str) -> AbstractContextManager[None]:
    """Turn the error into the user's: the file, the place in it, what was expected, and what was found."""
    ending = "; the file was cut or edited: compare again"
    return in_words("{place}: expected {what}, found {value!r:.60}", start=f"{place}: ", ending=ending)


def to_text(record: Record) -> str:
    """Return a record as a line of results.json: strict JSON in ASCII."""
    return dumps(to_json(record))


def to_json(record: Record) -> dict[str, Any]:
    """Return a record as results.json holds it: only dict, list, str, int, float, bool and None."""
    entry: dict[str, Any] = _RECORD.write(record)
    return entry


def from_json(entry: Any) -> Record:
    """Return the record that `to_json` wrote; what an earlier release did not write has its default."""
    with refusing("a record"):
        record: Record = _RECORD.read(entry, "")
        return record


def checked_record(entry: Any, *, place: str) -> Record:
    """Read a record of a file that may have been edited: it is also refused where its values contradict each other."""
    with refusing(place):
        record: Record = RECORD.read(entry, "")
        return record


def _read_address(value: Any, place: str) -> Any:
    label, io, slot = value.rsplit(":", 2) if type(value) is str and value.count(":") >= 2 else ("", "", "")
    is_slot = slot.isascii() and slot.isdecimal() and len(slot) <= 9
    if not label or io not in ("input", "output") or not is_slot:
        raise expected("OP:input:SLOT or OP:output:SLOT", value, place)
    return value


ADDRESS = Form(_read_address)
AT: Mapping[str, Form] = {
    "rank": nullable(COUNT),
    "net": nullable(TEXT),
    "graph": nullable(COUNT),
    "iteration": nullable(COUNT),
    "occurrence": nullable(COUNT),
}
_SOURCE = table(SourceFrame, {"file": TEXT, "line": WHOLE, "text": TEXT})
_TENSOR: Mapping[str, Form] = {
    "address": ADDRESS,
    "op_type": nullable(TEXT),
    "file": TEXT,
    "dtype": nullable(TEXT),
    "shape": nullable(INDEX),
    "memory_format": nullable(TEXT),
    "name": nullable(TEXT),
    "true_name": nullable(TEXT),
    "overflows": optional(TEXTS, ()),
    "device_address": optional(nullable(WHOLE)),
    "logical_shape": optional(nullable(INDEX)),
    "source": optional(_SOURCE),
    "row": optional(nullable(WHOLE)),
    "at": table(Coordinates, {name: optional(form) for name, form in AT.items()}),
}
RIGHT = table(ReportedTensor, _TENSOR)
# The coordinates and the source of the left side stand in the record itself.
LEFT = table(dict, {key: form for key, form in _TENSOR.items() if key not in ("at", "source")})


def _message(entry: Mapping[str, Any] | None, sentence: str | None) -> Message | None:
    """Return the message of a sentence that may be missing or empty; earlier releases wrote no code beside it."""
    return message_of(entry or {}, sentence) if sentence else None


def _read_sides(value: Any, place: str) -> Any:
    named = list_of(SIDE).read(value, place)
    if not named:
        raise WrongValueError("no side is unseen", place)
    return tuple(side for side in _SIDES if side in named)


def _interval(value: float, low: float, high: float) -> Interval:
    if not low <= value <= high:
        raise WrongValueError(f"intervals: {value} is not between {low} and {high}")
    return Interval(value, low, high)


_KINDS = {"digest": TEXT, "count": COUNT}
_STATISTIC = {name: nullable(_KINDS.get(fact.kind, NUMBER)) for name, fact in STATISTICS.items()}
_STATISTICS_KEYS: Mapping[str, Form] = {
    "unseen": Form(_read_sides, list),
    "compared": list_of(one_of(STATISTICS, "a statistic")),
    "elements": nullable(COUNT),
    "left": by_name(_STATISTIC),
    "right": by_name(_STATISTIC),
    "digits": table(dict, dict.fromkeys(_SIDES, nullable(COUNT)), parts=dict),
    "at_least": lenient(by_name(NUMBER, METRICS)),
    "intervals": optional(by_name(table(_interval, dict.fromkeys(Interval._fields, NUMBER)), METRICS), {}),
    "equal_bits": lenient(nullable(FLAG)),
    "note": lenient(nullable(TEXT)),
    "note_said": optional(MESSAGE),
}


def _statistics_parts(compared: StatisticComparison) -> dict[str, Any]:
    names = ("unseen", "compared", "elements", "at_least", "intervals", "equal_bits")
    return {name: getattr(compared, name) for name in names} | {
        "left": compared.left.values,
        "right": compared.right.values,
        "digits": {"left": compared.left.digits, "right": compared.right.digits},
        "note": say(compared.note) if compared.note else "",
        "note_said": compared.note,
    }


def _statistics(**found: Any) -> StatisticComparison:
    for name in found["compared"]:
        if name not in found["left"] or name not in found["right"]:
            raise WrongValueError(f"compared: {name} is not there on both sides")
    digits, note = found.pop("digits"), _message(found.pop("note_said", None), found.pop("note", None))
    left, right = (Statistics(found.pop(side), digits[side]) for side in _SIDES)
    return StatisticComparison(left, right, note=note, **found)


def parts_form(kind: str) -> Form:
    """Return the form of what capabilities add, whose dataclasses are their rows of this kind, by the capability."""

    def read(value: Any, place: str) -> Mapping[str, Any]:
        parts: dict[str, Any] = by_name(Form(shallow)).read(value, place)
        for name, target in ports.values(kind).items():
            if name in parts:
                try:
                    parts[name] = ports.load(target)(**parts[name])
                except TypeError as error:
                    raise WrongValueError(f"{name}: {error}", place) from None
        return parts

    def write(parts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: asdict(part) if is_dataclass(part) else part for name, part in parts.items()}  # type: ignore[arg-type]

    return Form(read, write)


CODE: Mapping[str, Form] = {"code": lenient(TEXT), "parameters": lenient(PARAMETERS)}
_RANGE = Form(lambda value, place: AxisRange(*list_of(COUNT, length=3).read(value, place)), list)
SHAPE_RELATION = one_of(("same", "transposed", "reshaped"))

_TRANSFORM = table(
    Transform,
    {
        "left_format": optional(TEXT),
        "right_format": optional(TEXT),
        "transpose": optional(INDEX),
        "reshape": optional(FLAG, default=False),
        "left_logical_shape": optional(INDEX),
        "left_logical_format": optional(TEXT),
        "piece": optional(table(TensorPiece, {"side": SIDE, "shape": INDEX, "ranges": list_of(_RANGE)})),
        "crop": optional(union("an axis", (int, WHOLE), (str, TEXT))),
    },
)
_UNCOMPARED = table(
    lambda left, right: (left, right),
    dict.fromkeys(_SIDES, COUNT),
    parts=lambda counts: dict(zip(_SIDES, counts, strict=True)),
)
_SHARES = {"left": NUMBER, "right": NUMBER, "kept": COUNT}
# By code: the parameters of each remark on a file.
_REMARKS: Mapping[str, Form] = {
    code: table(dict, keys)
    for code, keys in {
        "trailing_bytes": {"side": SIDE, "bytes": COUNT},
        "not_as_in_graph": {"side": SIDE, "graph": TEXT, "said": TEXT, "held": TEXT},
        "shape_from_graph": {"side": SIDE, "stored": INDEX, "used": INDEX},
        "cropped": {"side": SIDE, **dict.fromkeys(("n", "of", "kept", "axis"), COUNT)},
        "coarser_values": {"side": SIDE, "dtype": TEXT, "values": one_of(VALUE_KINDS)},
        "computed_in": {"side": SIDE, "dtype": TEXT, "values": one_of(VALUE_KINDS)},
        "zero_in_exact_arithmetic": {
            **dict.fromkeys(("left", "right", "floor"), NUMBER),
            "dtype": TEXT,
            "terms": COUNT,
        },
        **{code: {**_SHARES, "distance": NUMBER} for code in ("random_masks", "random_masks_kept_differ")},
        **dict.fromkeys(("random_masks_differ", "random_masks_swapped"), _SHARES),
    }.items()
}


@cache
def _remarks() -> Mapping[str, Form]:
    """Return the parameters of each remark, also of those that capabilities make."""
    added = map(ports.load, ports.values("REMARKS").values())
    return {**_REMARKS, **{code: table(dict, keys) for row in added for code, keys in row.items()}}


def _read_remark(value: Any, place: str) -> Message:
    known = _remarks()
    code = table(dict, {"code": one_of(known, "a known remark"), "parameters": PARAMETERS}).read(value, place)["code"]
    table(dict, {"parameters": known[code]}).read(value, place)
    return Message.of_entry(value)


_DIAGNOSIS_KEYS = {"id": TEXT, "confidence": TEXT, "evidence": TEXT, **CODE}
_DIAGNOSIS = table_with_message(Diagnosis, "evidence", "evidence", _DIAGNOSIS_KEYS)


def _read_diagnosis(value: Any, place: str) -> Diagnosis:
    found: Diagnosis = _DIAGNOSIS.read(value, place)
    return replace(
        found, details={key: shallow(one, place) for key, one in value.items() if key not in _DIAGNOSIS_KEYS}
    )


def _same_length(part: type, *names: str) -> Callable[..., Any]:
    def make(**found: Any) -> Any:
        if len({len(found[name]) for name in names}) > 1:
            raise WrongValueError(f"{' and '.join(names)} have not the same length")
        return part(**found)

    return make


def _read_rectangle(value: Any, place: str) -> Any:
    rows = list_of(NUMBERS).read(value, place)
    if len({len(row) for row in rows}) > 1:
        raise WrongValueError("its rows have not the same length", place)
    return rows


_SPREAD = table(
    Spread,
    {
        "histogram": optional(table(Histogram, {"low": WHOLE, "counts": list_of(COUNT)})),
        "magnitude": optional(
            table(_same_length(MagnitudeErrors, "mean", "largest"), {"low": WHOLE, "mean": NUMBERS, "largest": NUMBERS})
        ),
        "axis": optional(table(AxisErrors, {"axis": COUNT, "step": COUNT, "values": NUMBERS})),
        "heat": optional(Form(_read_rectangle, list_of(NUMBERS).write), ()),
        "heat_axes": optional(INDEX, ()),
        "values": optional(
            table(
                _same_length(ValueCounts, "left", "right"),
                {"low": NUMBER, "high": NUMBER, "left": list_of(COUNT), "right": list_of(COUNT)},
            )
        ),
    },
)


def _kernel_arguments(**found: Any) -> KernelArguments:
    if len(found) == 1:
        raise WrongValueError("neither 'values' nor 'note' is there")
    return KernelArguments(found.pop("file"), **found)


_KERNEL_ARGUMENTS = table(
    _kernel_arguments,
    {"file": TEXT, "values": lenient(by_name(TEXT)), "note": lenient(TEXT)},
    parts=lambda one: {"file": one.source, **({"note": one.note} if one.note else {"values": one.values})},
)
_ARGUMENT_DIFFERENCE = table(
    ArgumentDifference, {"kind": TEXT, "name": TEXT, "left": nullable(TEXT), "right": nullable(TEXT)}
)
_FINDING = table_with_message(
    Finding,
    "sentence",
    "message",
    {
        "outcome": one_of((*OUTCOMES, "note")),
        "metric": nullable(one_of(METRICS, "a metric")),
        "value": nullable(NUMBER),
        "limit": nullable(NUMBER),
        "rule": nullable(TEXT),
        "sentence": TEXT,
        **CODE,
    },
)


def _read_value(value: Any, place: str) -> Any:
    return (NUMBERS if type(value) is list else nullable(NUMBER)).read(value, place)


def _read_outcome(value: Any, place: str) -> Any:
    """Earlier releases wrote capitals."""
    if type(value) is not str or value.lower() not in ("ok", "skipped", *OUTCOMES):
        raise expected("an outcome", value, place)
    return value.lower()


CHECK = table(
    Check,
    {
        "metric": one_of(METRICS, "a metric"),
        "value": Form(_read_value, encode),
        "limit": nullable(NUMBER),
        "level": nullable(TEXT),
        "rule": nullable(TEXT),
        "outcome": Form(_read_outcome),
        "base": optional(NUMBER),
    },
)
_ROLE_REASON = table(
    RoleReason,
    {
        "why": TEXT,
        "suspects": list_of(table(Suspect, {"operator": TEXT, "state": TEXT, "before": optional(COUNT)})),
        "given": TEXTS,
        "before": optional(TEXTS, ()),
        "left_out": optional(TEXTS, ()),
        "growth": optional(
            table(ErrorGrowth, {"start": NUMBER, "end": NUMBER, "operators": COUNT, "step": NUMBER, "at": TEXT})
        ),
        "certainty": optional(one_of(("proven", "bounded", "first_seen", "")), ""),
        "region": optional(
            table(
                Region,
                {
                    "module": TEXT,
                    "after": TEXTS,
                    "end": TEXT,
                    "io": one_of(("input", "output")),
                    "operators": optional(TEXTS, ()),
                    "lines": optional(TEXT, ""),
                },
            )
        ),
    },
)
_BETTER_FIT = table(
    BetterFit,
    {
        "side": SIDE,
        "address": ADDRESS,
        "confidence": TEXT,
        "why": TEXT,
        "apart": NUMBER,
        "shape": SHAPE_RELATION,
        "doubt": optional(one_of(("several", "values", "names")), ""),
        "map": optional(
            as_given(table(dict, {"left": TEXT, "right": TEXT, "reshape": lenient(FLAG), "transpose": lenient(INDEX)}))
        ),
    },
)


def _local(sentence: str = "", why: Mapping[str, Any] | None = None, **found: Any) -> Local:
    has_reason = found["outcome"] in ("error", "not_replayable")
    if has_reason and why is None:
        raise WrongValueError("'why' is missing")
    if not has_reason and not found.get("measure"):
        raise WrongValueError("'measure' is missing")
    if found["outcome"] == "pass" and found["measure"] in ("element", "nonfinite"):
        raise WrongValueError(f"'measure' {found['measure']!r} is of what is wrong")
    return Local(why=message_of(why, sentence) if why else None, **found)


LOCAL = table(
    _local,
    {
        "outcome": one_of(("pass", "fail", "error", "not_replayable")),
        "measure": optional(one_of(("score", "flips", "element", "differing", "nonfinite", "")), ""),
        "score": optional(NUMBER),
        "limit": optional(NUMBER),
        "segment": optional(TEXTS, ()),
        "after": optional(TEXTS, ()),
        "before": optional(TEXTS, ()),
        "why": optional(MESSAGE),
        "sentence": lenient(TEXT),
    },
    parts=lambda one: {**one._asdict(), "sentence": say(one.message)},
)
RECORD_KEYS: Mapping[str, Form] = {
    "order": COUNT,
    "left": LEFT,
    "right": RIGHT,
    **AT,
    "source": optional(_SOURCE),
    "how": TEXT,
    "by": TEXT,
    "transform": _TRANSFORM,
    "verdict": one_of((*OUTCOMES, "not_run")),
    **MEASURED,
    "pair_note": optional(TEXT),
    "pair_note_said": optional(MESSAGE),
    "uncompared": optional(_UNCOMPARED, (0, 0)),
    "golden": optional(TEXT),
    "third": optional(TEXT),
    "statistics": optional(table(_statistics, _STATISTICS_KEYS, parts=_statistics_parts)),
    "file_remarks": optional(list_of(Form(_read_remark, MESSAGE.write, keys=CODE)), ()),
    "diagnosis": optional(
        list_of(Form(_read_diagnosis, lambda one: {**_DIAGNOSIS.write(one), **one.details}, keys=_DIAGNOSIS_KEYS)), ()
    ),
    "spread": optional(_SPREAD),
    "custom": optional(by_name(table(CustomResult, {"value": TEXT, "message": TEXT})), {}),
    "would_pass": by_name(NUMBER, METRICS),
    "findings": list_of(_FINDING),
    "checks": list_of(CHECK),
    "judged_as": TEXT,
    "nan": TEXT,
    "known_drift": nullable(TEXT),
    "notes": TEXTS,
    "notes_said": optional(list_of(MESSAGE), ()),
    "kernel_args": optional(by_name(_KERNEL_ARGUMENTS, _SIDES), {}),
    "differing_arguments": optional(list_of(_ARGUMENT_DIFFERENCE), ()),
    "role": optional(one_of(("cause", "accumulated", "inherited", "unknown"))),
    "causes": lenient(TEXTS),
    "suspects": lenient(TEXTS),
    "role_reason": lenient(TEXT),
    "role_why": optional(nullable(_ROLE_REASON)),
    "amplification": optional(NUMBER),
    "suspicious": optional(list_of(_BETTER_FIT), ()),
    "local": optional(LOCAL),
    "parts": optional(parts_form("RECORD_PART"), {}),
}
_ROLE = ("causes", "suspects", "role_reason")
# Attributes of a record under their own names.
_PLAIN = [name for name in Record.__slots__ if name in RECORD_KEYS.keys() - {"verdict", "pair_note", "notes", *_ROLE}]
_plain_of, _coordinates_of = attrgetter(*_PLAIN), attrgetter(*COORDINATES)


def parts_of(record: Record) -> dict[str, Any]:
    """Return what to write of a record, by key."""
    left, verdict, note = record.left, record.verdict, record.pair_note
    role = {name: getattr(record, name) for name in _ROLE} if record.role is not None else {}
    return {
        **dict(zip(_PLAIN, _plain_of(record), strict=True)),
        **dict(zip(COORDINATES, _coordinates_of(left.at), strict=True)),
        **(UNMEASURED if record.comparison is None else measured_parts(record.comparison)),
        **role,
        "source": left.source,
        "verdict": verdict.outcome,
        "would_pass": verdict.would_pass,
        "findings": verdict.findings,
        "pair_note": note and say(note),
        "pair_note_said": note,
        "notes": [say(one) for one in record.notes],
        "notes_said": record.notes,
        "file_remarks": record.remarks,
    }


def _record(**found: Any) -> Record:
    at = Coordinates(**{name: found.pop(name) for name in COORDINATES})
    left = ReportedTensor(**found.pop("left"), at=at, source=found.pop("source", None))
    verdict = Verdict(found.pop("verdict"), found.pop("findings"), found.pop("would_pass"))
    comparison = comparison_of({key: found.pop(key) for key in MEASURED if key in found})
    note = _message(found.pop("pair_note_said", None), found.pop("pair_note", None))
    notes, known = found.pop("notes"), found.pop("notes_said", ())
    known = known if len(known) == len(notes) else [{}] * len(notes)
    return Record(
        left=left,
        verdict=verdict,
        comparison=comparison,
        pair_note=note,
        notes=tuple(message_of(one, text) for one, text in zip(known, notes, strict=True)),
        remarks=found.pop("file_remarks", ()),
        **found,
    )


_RECORD = table(_record, RECORD_KEYS, parts=parts_of)


def _read_consistent(entry: Any, place: str) -> Record:
    """Read a record whose verdict and numbers fit each other; a file may have been edited to pass."""
    record: Record = _RECORD.read(entry, place)
    comparison, outcome = record.comparison, record.verdict.outcome
    if comparison is not None:
        counts = comparison.finite, comparison.differing, comparison.right_zero_mismatch, comparison.near_zero
        if max(*counts, *(one.elements for one in comparison.dominated)) > comparison.elements:
            raise WrongValueError("elements: there are fewer than were counted", place)
    is_measured = comparison is not None or record.statistics is not None
    for side, tensor in (("left", record.left), ("right", record.right)) if is_measured else ():
        if tensor.dtype is None or canonical(tensor.dtype) is None:
            raise WrongValueError(f"was measured, but {side}.dtype is {tensor.dtype!r:.60}", place)
    for key in _ROLE if record.role is not None else ():
        if key not in entry:
            raise WrongValueError(f"'{key}' is missing", place)
    if outcome in ("pass", "warn"):
        outcomes = [one.outcome for one in record.verdict.findings] + [one.outcome for one in record.checks]
        if not set(outcomes).isdisjoint(FAILING):
            raise WrongValueError(f"the verdict is {outcome}, but a limit was not met", place)
        if not is_measured:
            raise WrongValueError(f"the verdict is {outcome}, but nothing was measured", place)
    return record


RECORD = _RECORD._replace(read=_read_consistent)

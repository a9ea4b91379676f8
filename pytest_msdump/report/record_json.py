"""One pair's record as results.json has it: `to_json` writes an entry of `tensors`, `from_json` reads one.

`report.entries` checks what was read from a file; `from_json` relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pytest_msdump.causes.reasons import reason_text
from pytest_msdump.facts.metrics import STATISTICS
from pytest_msdump.model.comparison import (
    Comparison,
    CustomResult,
    Finding,
    Measurement,
    Nonfinite,
    Verdict,
    WorstElement,
)
from pytest_msdump.model.graph import ArgumentDifference, KernelArguments
from pytest_msdump.model.json_values import NONFINITE, decode, dumps, encode
from pytest_msdump.model.pairing import Transform
from pytest_msdump.model.record import (
    AxisErrors,
    BetterFit,
    Check,
    Diagnosis,
    Histogram,
    MagnitudeErrors,
    Record,
    ReportedTensor,
    RoleReason,
    Spread,
    Suspect,
)
from pytest_msdump.model.statistics import StatisticComparison, Statistics
from pytest_msdump.model.tensor import COORDINATES, Coordinates, SourceFrame
from pytest_msdump.text import Message, message_of, say

__all__ = ["from_json", "to_json", "to_text"]

Entry = Mapping[str, Any]

_SIDES = ("left", "right")
_COUNTS = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "saturated", "mismatch")
_OF_DIAGNOSES = ("id", "confidence", "evidence", "code", "parameters")


# -- writing -----------------------------------------------------------------------------------------------------------


def to_text(record: Record) -> str:
    """Return a record as a line of results.json: strict JSON in ASCII."""
    return dumps(to_json(record))


def to_json(record: Record) -> dict[str, Any]:
    """Return a record as results.json holds it: only dict, list, str, int, float, bool and None."""
    left, right, verdict = record.left, record.right, record.verdict
    entry: dict[str, Any] = {
        "order": record.order,
        "left": _tensor_json(left),
        "right": {**_tensor_json(right, right.source), "at": _known(right.at)},
        **_coordinates(left.at),
    }
    if left.source is not None:
        entry["source"] = _source_json(left.source)
    entry |= {"how": record.how, "by": record.by, "transform": _transform_json(record.transform)}
    entry["verdict"] = verdict.outcome
    entry |= _UNMEASURED if record.comparison is None else _comparison_json(record.comparison)
    entry |= _rest_json(record)
    entry["would_pass"] = {metric: encode(bound) for metric, bound in verdict.would_pass.items()}
    entry["findings"] = [_finding_json(finding) for finding in verdict.findings]
    entry["checks"] = [_check_json(check) for check in record.checks]
    entry |= {"judged_as": record.judged_as, "nan": record.nan, "known_drift": record.known_drift}
    entry["notes"] = [say(note) for note in record.notes]
    if record.notes:
        entry["notes_said"] = [note.entry for note in record.notes]
    if record.kernel_args:
        entry["kernel_args"] = {side: _kernel_json(one) for side, one in record.kernel_args.items()}
    if record.differing_arguments:
        entry["differing_arguments"] = [one._asdict() for one in record.differing_arguments]
    if record.role is not None:
        entry |= _role_json(record)
    if record.amplification is not None:
        entry["amplification"] = encode(record.amplification)
    if record.suspicious:
        entry["suspicious"] = [_fit_json(fit) for fit in record.suspicious]
    return entry


# Every key is there, empty, when nothing was measured.
_UNMEASURED: Entry = {
    "elements": None,
    "equal": None,
    "metrics": {},
    "undefined": {},
    "not_applicable": {},
    "where": {},
    "vendor": {},
    "nonfinite": {},
    "worst": [],
}


def _tensor_json(tensor: ReportedTensor, source: SourceFrame | None = None) -> dict[str, Any]:
    """One side of a record; the source of the left one stands in the record itself."""
    entry: dict[str, Any] = {
        "address": tensor.address,
        "op_type": tensor.op_type,
        "file": tensor.file,
        "dtype": tensor.dtype,
        "shape": _index_json(tensor.shape),
        "memory_format": tensor.memory_format,
        "name": tensor.name,
        "true_name": tensor.true_name,
    }
    if tensor.overflows:
        entry["overflows"] = list(tensor.overflows)
    if tensor.device_address is not None:
        entry["device_address"] = tensor.device_address
    if tensor.logical_shape is not None:
        entry["logical_shape"] = list(tensor.logical_shape)
    if source is not None:
        entry["source"] = _source_json(source)
    if tensor.row is not None:
        entry["row"] = tensor.row
    return entry


def _coordinates(at: Coordinates) -> dict[str, Any]:
    """All five coordinates, null where the dump does not have one."""
    return {name: getattr(at, name) for name in COORDINATES}


def _known(at: Coordinates) -> dict[str, Any]:
    """The coordinates that the dump has."""
    return {name: value for name, value in _coordinates(at).items() if value is not None}


def _source_json(source: SourceFrame) -> dict[str, Any]:
    return {"file": source.file, "line": source.line, "text": source.text}


@lru_cache(maxsize=1024)
def _transform_json(transform: Transform) -> dict[str, Any]:
    """What was done to bring the sides together; shared by all records that it was done for."""
    values = {name: getattr(transform, name) for name in Transform.__slots__}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values.items() if one or one == ()}


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    entry: dict[str, Any] = {"elements": comparison.elements}
    if comparison.total_elements is not None:
        entry["total_elements"] = comparison.total_elements
    if comparison.near_zero:
        entry["near_zero"] = comparison.near_zero
    if comparison.sampled:
        entry["sampled"] = True
    entry |= {
        "equal": comparison.equal,
        "finite": comparison.finite,
        "differing": comparison.differing,
        "right_zero_mismatch": comparison.right_zero_mismatch,
        "rtol": encode(comparison.rtol),
        "atol": encode(comparison.atol),
        "absolute_error_sum": encode(comparison.absolute_error_sum),
        "metrics": {name: encode(value) for name, value in comparison.values.items()},
        "undefined": _said(comparison.undefined),
        "not_applicable": _said(comparison.not_applicable),
        "where": {name: list(place) for name, place in comparison.places.items()},
        "vendor": {name: encode(value) for name, value in comparison.vendor.items()},
    }
    reasons = {**comparison.undefined, **comparison.not_applicable}
    if reasons:
        entry["reasons"] = {name: None if why is None else why.entry for name, why in reasons.items()}
    counts = comparison.nonfinite
    entry["nonfinite"] = counts._asdict() | {
        "first_mismatch": _index_json(counts.first_mismatch),
        "first_nonfinite": _index_json(counts.first_nonfinite),
    }
    entry["worst"] = [
        {"index": list(index), "left": encode(left), "right": encode(right), "ratio": encode(ratio)}
        for index, left, right, ratio in comparison.worst
    ]
    return entry


def _rest_json(record: Record) -> dict[str, Any]:
    """What only some records have."""
    entry: dict[str, Any] = {}
    if record.pair_note is not None:
        entry["pair_note"] = say(record.pair_note)
        entry["pair_note_said"] = record.pair_note.entry
    if any(record.uncompared):
        entry["uncompared"] = dict(zip(_SIDES, record.uncompared, strict=True))
    if record.statistics is not None:
        entry["statistics"] = _statistics_json(record.statistics)
    if record.remarks:
        entry["file_remarks"] = [one.entry for one in record.remarks]
    if record.diagnosis:
        entry["diagnosis"] = [
            {
                "id": one.id,
                "confidence": one.confidence,
                "evidence": say(one.evidence),
                **one.evidence.entry,
                **one.details,
            }
            for one in record.diagnosis
        ]
    if record.spread is not None:
        entry["spread"] = _spread_json(record.spread)
    if record.custom:
        entry["custom"] = {name: {"value": one.value, "message": one.message} for name, one in record.custom.items()}
    return entry


def _statistics_json(compared: StatisticComparison) -> dict[str, Any]:
    """Both sides' numbers as far as each has them, and what they say."""
    sides = {"left": compared.left, "right": compared.right}
    return {
        "unseen": list(compared.unseen),
        "compared": list(compared.compared),
        "elements": compared.elements,
        **{
            side: {name: value if isinstance(value, str) else encode(value) for name, value in one.values.items()}
            for side, one in sides.items()
        },
        "digits": {side: one.digits for side, one in sides.items()},
        "at_least": {metric: encode(value) for metric, value in compared.at_least.items()},
        "equal_bits": compared.equal_bits,
        "note": "" if compared.note is None else say(compared.note),
        **({} if compared.note is None else {"note_said": compared.note.entry}),
    }


def _spread_json(spread: Spread) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for name, part in (("histogram", spread.histogram), ("magnitude", spread.magnitude), ("axis", spread.axis)):
        if part is not None:
            entry[name] = {key: encode(one) for key, one in part._asdict().items()}
    if spread.heat:
        entry["heat"] = [encode(row) for row in spread.heat]
    return entry


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "outcome": finding.outcome,
        "metric": finding.metric,
        "value": encode(finding.value),
        "limit": encode(finding.limit),
        "rule": finding.rule,
        "sentence": finding.sentence,
        **finding.message.entry,
    }


def _said(reasons: Mapping[str, Message | None]) -> dict[str, str | None]:
    return {name: None if why is None else say(why) for name, why in reasons.items()}


def _check_json(check: Check) -> dict[str, Any]:
    metric, value, limit, level, rule, outcome = check
    return {
        "metric": metric,
        "value": encode(value),
        "limit": encode(limit),
        "level": level,
        "rule": rule,
        "outcome": outcome,
    }


def _kernel_json(arguments: KernelArguments) -> dict[str, Any]:
    rest = {"note": arguments.note} if arguments.note else {"values": dict(arguments.values)}
    return {"file": arguments.source, **rest}


def _role_json(record: Record) -> dict[str, Any]:
    why = record.role_why
    entry: dict[str, Any] = {
        "role": record.role,
        "causes": list(record.causes),
        "suspects": list(record.suspects),
        "role_reason": reason_text(why) if why is not None and not record.role_reason else record.role_reason,
    }
    if why is not None:
        entry["role_why"] = {
            "why": why.why,
            "suspects": [
                {"operator": one.operator, "state": one.state} | ({} if one.before is None else {"before": one.before})
                for one in why.suspects
            ],
            "given": list(why.given),
            **({"before": list(why.before)} if why.before else {}),
        }
    return entry


def _fit_json(fit: BetterFit) -> dict[str, Any]:
    return {
        "side": fit.side,
        "address": fit.address,
        "confidence": fit.confidence,
        "why": fit.why,
        "apart": encode(fit.apart),
        "shape": fit.shape,
        **({"doubt": fit.doubt} if fit.doubt else {}),
        **({} if fit.map is None else {"map": dict(fit.map)}),
    }


def _index_json(index: Sequence[int] | None) -> list[int] | None:
    return None if index is None else list(index)


# -- reading ---------------------------------------------------------------------------------------------------------


def from_json(entry: Entry) -> Record:
    """Return the record that `to_json` wrote; what an earlier release did not write has its default."""
    uncompared = entry.get("uncompared", {"left": 0, "right": 0})
    why = entry.get("role_why")
    return Record(
        order=entry["order"],
        left=_tensor(entry["left"], entry, entry.get("source")),
        right=_tensor(entry["right"], entry["right"]["at"], entry["right"].get("source")),
        verdict=_verdict(entry),
        how=entry["how"],
        by=entry["by"],
        transform=_transform(entry["transform"]),
        pair_note=_note(entry, "pair_note"),
        uncompared=(uncompared["left"], uncompared["right"]),
        judged_as=entry["judged_as"],
        nan=entry["nan"],
        known_drift=entry["known_drift"],
        notes=_notes(entry),
        checks=tuple([_check(one) for one in entry["checks"]]),
        comparison=None if entry["elements"] is None else _comparison(entry),
        statistics=_statistics(entry["statistics"]) if "statistics" in entry else None,
        custom={name: CustomResult(one["value"], one["message"]) for name, one in entry.get("custom", {}).items()},
        remarks=tuple(Message.of_entry(one) for one in entry.get("file_remarks", ())),
        diagnosis=tuple(_diagnosis(one) for one in entry.get("diagnosis", ())),
        spread=_spread(entry["spread"]) if "spread" in entry else None,
        kernel_args={
            side: KernelArguments(one["file"], one.get("values", {}), one.get("note", ""))
            for side, one in entry.get("kernel_args", {}).items()
        },
        differing_arguments=tuple(
            ArgumentDifference(one["kind"], one["name"], one["left"], one["right"])
            for one in entry.get("differing_arguments", ())
        ),
        role=entry.get("role"),
        causes=tuple(entry.get("causes", ())),
        suspects=tuple(entry.get("suspects", ())),
        role_reason=entry.get("role_reason", ""),
        role_why=None if why is None else _reason(why),
        amplification=_real(entry["amplification"]) if "amplification" in entry else None,
        suspicious=tuple(_fit(one) for one in entry.get("suspicious", ())),
    )


def _note(entry: Entry, key: str) -> Message | None:
    """The message of a sentence that may be missing or empty; its code stands beside it."""
    return message_of(entry.get(f"{key}_said", {}), entry[key]) if entry.get(key) else None


def _notes(entry: Entry) -> tuple[Message, ...]:
    notes, said = entry["notes"], entry.get("notes_said", ())
    codes = said if len(said) == len(notes) else [{}] * len(notes)
    return tuple(message_of(one, note) for one, note in zip(codes, notes, strict=True))


def _tensor(side: Entry, at: Entry, source: Entry | None) -> ReportedTensor:
    """One side of a record; `at` holds its coordinates among other things."""
    return ReportedTensor(
        address=side["address"],
        file=side["file"],
        name=side["name"],
        true_name=side["true_name"],
        op_type=side["op_type"],
        at=_place(*[at.get(name) for name in COORDINATES]),
        dtype=side["dtype"],
        shape=_index(side["shape"]),
        memory_format=side["memory_format"],
        logical_shape=_index(side.get("logical_shape")),
        device_address=side.get("device_address"),
        overflows=tuple(side.get("overflows", ())),
        row=side.get("row"),
        source=None if source is None else SourceFrame(source["file"], source["line"], source["text"]),
    )


def _transform(entry: Entry) -> Transform:
    return Transform(
        left_format=entry.get("left_format"),
        right_format=entry.get("right_format"),
        transpose=_index(entry.get("transpose")),
        reshape=entry.get("reshape", False),
        left_logical_shape=_index(entry.get("left_logical_shape")),
        left_logical_format=entry.get("left_logical_format"),
    )


# One object for all records of one place.
@lru_cache(maxsize=1024)
def _place(*values: Any) -> Coordinates:
    return Coordinates(*values)


def _verdict(entry: Entry) -> Verdict:
    findings = [
        Finding(
            one["outcome"],
            message_of(one, one["sentence"]),
            one["metric"],
            _number(one["value"]),
            _number(one["limit"]),
            one["rule"],
        )
        for one in entry["findings"]
    ]
    would_pass = {metric: _real(bound) for metric, bound in entry["would_pass"].items()}
    return Verdict(entry["verdict"], tuple(findings), would_pass)


def _check(one: Entry) -> Check:
    value = one["value"]
    return Check(
        one["metric"],
        tuple(map(_real, value)) if isinstance(value, list) else _number(value),
        _number(one["limit"]),
        one["level"],
        one["rule"],
        one["outcome"].lower(),
    )


def _comparison(entry: Entry) -> Comparison:
    return Comparison(
        elements=entry["elements"],
        finite=entry["finite"],
        differing=entry["differing"],
        right_zero_mismatch=entry["right_zero_mismatch"],
        near_zero=entry.get("near_zero", 0),
        measurements=_measurements(entry),
        nonfinite=_nonfinite(entry["nonfinite"]),
        worst=tuple(_worst(item) for item in entry["worst"]),
        rtol=_real(entry["rtol"]),
        atol=_real(entry["atol"]),
        absolute_error_sum=_number(entry.get("absolute_error_sum")),
        vendor={metric: _real(value) for metric, value in entry["vendor"].items()},
        total_elements=entry.get("total_elements"),
        sampled=entry.get("sampled", False),
    )


def _measurements(entry: Entry) -> dict[str, Measurement]:
    """One measurement for each metric that has a value or a reason."""
    metrics, where = entry["metrics"], entry["where"]
    undefined, not_applicable, reasons = entry["undefined"], entry["not_applicable"], entry.get("reasons", {})
    found: dict[str, Measurement] = {}
    for metric in {**metrics, **undefined, **not_applicable}:
        value, why = metrics.get(metric), not_applicable.get(metric, undefined.get(metric))
        found[metric] = Measurement(
            metric,
            value=tuple(map(_real, value)) if isinstance(value, list) else _number(value),
            undefined=None if why is None else message_of(reasons.get(metric) or {}, why),
            applies=metric not in not_applicable,
            where=_index(where.get(metric)),
        )
    return found


def _nonfinite(entry: Entry) -> Nonfinite:
    return Nonfinite(
        **{name: entry[name] for name in _COUNTS},
        first_mismatch=_index(entry.get("first_mismatch")),
        first_nonfinite=_index(entry.get("first_nonfinite")),
    )


def _worst(entry: Entry) -> WorstElement:
    return WorstElement(tuple(entry["index"]), decode(entry["left"]), decode(entry["right"]), _real(entry["ratio"]))


def _statistics(entry: Entry) -> StatisticComparison:
    left, right = (
        Statistics({name: _statistic(name, value) for name, value in entry[side].items()}, entry["digits"][side])
        for side in _SIDES
    )
    return StatisticComparison(
        left,
        right,
        tuple(side for side in _SIDES if side in entry["unseen"]),
        compared=tuple(entry["compared"]),
        at_least={metric: _real(value) for metric, value in entry.get("at_least", {}).items()},
        equal_bits=entry.get("equal_bits"),
        elements=entry["elements"],
        note=_note(entry, "note"),
    )


def _statistic(name: str, value: Any) -> Any:
    return value if value is None or STATISTICS[name].kind == "digest" else decode(value)


def _diagnosis(entry: Entry) -> Diagnosis:
    details = {name: value for name, value in entry.items() if name not in _OF_DIAGNOSES}
    return Diagnosis(entry["id"], entry["confidence"], message_of(entry, entry["evidence"]), details)


def _spread(entry: Entry) -> Spread:
    histogram, magnitude, axis = (entry.get(name) for name in ("histogram", "magnitude", "axis"))
    return Spread(
        histogram=None if histogram is None else Histogram(histogram["low"], tuple(histogram["counts"])),
        magnitude=None
        if magnitude is None
        else MagnitudeErrors(magnitude["low"], _reals(magnitude["mean"]), _reals(magnitude["largest"])),
        axis=None if axis is None else AxisErrors(axis["axis"], axis["step"], _reals(axis["values"])),
        heat=tuple(_reals(row) for row in entry.get("heat", ())),
    )


def _reason(why: Entry) -> RoleReason:
    return RoleReason(
        why["why"],
        tuple(Suspect(one["operator"], one["state"], one.get("before")) for one in why["suspects"]),
        tuple(why["given"]),
        tuple(why.get("before", ())),
    )


def _fit(entry: Entry) -> BetterFit:
    return BetterFit(
        side=entry["side"],
        address=entry["address"],
        confidence=entry["confidence"],
        why=entry["why"],
        apart=_real(entry["apart"]),
        shape=entry["shape"],
        doubt=entry.get("doubt", ""),
        map=entry.get("map"),
    )


def _index(value: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(value)


def _reals(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(map(_real, values))


def _number(value: Any) -> float | int | None:
    return None if value is None else _real(value)


def _real(value: Any) -> float | int:
    found: float | int = NONFINITE[value] if isinstance(value, str) else value
    return found

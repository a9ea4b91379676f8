"""A record read back from results.json, so that its saved numbers can be judged again.

What `json_report.report_from` returns was held against the table of `reporting.entries`; nothing is checked again here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_msdump.model.comparison import Comparison, Measurement, Nonfinite, WorstElement
from pytest_msdump.model.statistics import StatisticComparison
from pytest_msdump.model.tensor import COORDINATES, Coordinates, OpKey, TensorKey
from pytest_msdump.model.verdict import FileRemark
from pytest_msdump.reporting.statistics import statistics_of_entry
from pytest_msdump.reporting.values import NONFINITE, decode

__all__ = ["StoredRecord", "from_json"]

_COUNTS = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "saturated", "mismatch")


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A pair's saved numbers with what judging needs to know of it.

    `comparison` is ``None`` when nothing had been measured: then the verdict stands as it is.
    `overflows` and `right_overflows` are what the devices' own checks said, `pair_note` what is
    to be told of the pair whatever its limits, `remarks` what is to be told of their files. `statistics` are those of a
    pair that has no `comparison` because a tensor was not saved. `uncompared` counts occurrences that met no partner,
    left and right.
    """

    left_key: TensorKey
    right_key: TensorKey
    left_dtype: str | None
    right_dtype: str | None
    comparison: Comparison | None
    overflows: tuple[str, ...] = ()
    right_overflows: tuple[str, ...] = ()
    pair_note: str | None = None
    statistics: StatisticComparison | None = None
    remarks: tuple[FileRemark, ...] = ()
    uncompared: tuple[int, int] = (0, 0)


def from_json(entry: Mapping[str, Any]) -> StoredRecord:
    """Read one entry of `tensors` that was checked, the inverse of `reporting.records.to_json`."""
    left, right = entry["left"], entry["right"]
    uncompared = entry.get("uncompared", {"left": 0, "right": 0})
    return StoredRecord(
        left_key=_key(left, entry),
        right_key=_key(right, right["at"]),
        left_dtype=left["dtype"],
        right_dtype=right["dtype"],
        comparison=None if entry["elements"] is None else _comparison(entry),
        overflows=tuple(left.get("overflows", ())),
        right_overflows=tuple(right.get("overflows", ())),
        pair_note=entry.get("pair_note"),
        statistics=statistics_of_entry(entry["statistics"]) if "statistics" in entry else None,
        remarks=tuple(FileRemark(one["code"], one["parameters"]) for one in entry.get("file_remarks", ())),
        uncompared=(uncompared["left"], uncompared["right"]),
    )


def _key(side: Mapping[str, Any], at: Mapping[str, Any]) -> TensorKey:
    """Who the tensor is."""
    label, io, slot = side["address"].rsplit(":", 2)
    name = side.get("name")
    operator = OpKey(
        name=label if name is None else name,
        at=Coordinates(**{name: at.get(name) for name in COORDINATES}),
        op_type=side.get("op_type"),
        true_name=side.get("true_name"),
    )
    return TensorKey(operator, io, int(slot))


def _comparison(entry: Mapping[str, Any]) -> Comparison:
    """The saved numbers."""
    total = entry.get("absolute_error_sum")
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
        absolute_error_sum=None if total is None else _real(total),
        vendor={metric: _real(value) for metric, value in entry["vendor"].items()},
        total_elements=entry.get("total_elements"),
        sampled=entry.get("sampled", False),
    )


def _measurements(entry: Mapping[str, Any]) -> dict[str, Measurement]:
    """One measurement for each metric that has a value or a reason."""
    metrics, where = entry["metrics"], entry["where"]
    undefined, not_applicable = entry["undefined"], entry["not_applicable"]
    found: dict[str, Measurement] = {}
    for metric in {**metrics, **undefined, **not_applicable}:
        value = metrics.get(metric)
        found[metric] = Measurement(
            metric,
            value=tuple(map(_real, value)) if isinstance(value, list) else None if value is None else _real(value),
            undefined=not_applicable.get(metric, undefined.get(metric)),
            applies=metric not in not_applicable,
            where=_index(where.get(metric)),
        )
    return found


def _nonfinite(entry: Mapping[str, Any]) -> Nonfinite:
    """The counts of NaN, Inf and saturation."""
    return Nonfinite(
        **{name: entry[name] for name in _COUNTS},
        first_mismatch=_index(entry.get("first_mismatch")),
        first_nonfinite=_index(entry.get("first_nonfinite")),
    )


def _worst(entry: Mapping[str, Any]) -> WorstElement:
    """One of the worst elements."""
    left, right = decode(entry["left"]), decode(entry["right"])
    return WorstElement(tuple(entry["index"]), left, right, _real(entry["ratio"]))


def _index(value: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(value)


def _real(value: Any) -> float | int:
    found: float | int = NONFINITE[value] if isinstance(value, str) else value
    return found

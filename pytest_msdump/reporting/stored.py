"""A record read back from results.json, so that its saved numbers can be judged again. The file is not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.lazy_dataclass import dataclass
from pytest_msdump.model.comparison import Comparison, Measurement, Nonfinite, WorstElement
from pytest_msdump.model.statistics import StatisticComparison
from pytest_msdump.model.tensor import COORDINATES, Coordinates, OpKey, TensorKey
from pytest_msdump.model.verdict import FileRemark
from pytest_msdump.reporting.statistics import statistics_of_entry
from pytest_msdump.reporting.values import decode

__all__ = ["StoredRecord", "from_json"]

_VERDICTS = ("pass", "warn", "fail", "undefined", "error", "not_run")
_COUNTS = ("nan_both", "nan_left", "nan_right", "inf_both", "inf_left", "inf_right", "saturated", "mismatch")


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A pair's saved numbers with what judging needs to know of it.

    `comparison` is ``None`` when nothing had been measured: then `outcome` stands as it is. `raw` is the entry itself.
    `overflows` and `right_overflows` are what the devices' own checks said, `pair_note` what is
    to be told of the pair whatever its limits, `remarks` what is to be told of their files. `statistics` are those of a
    pair that has no `comparison` because a tensor was not saved.
    """

    left_key: TensorKey
    right_key: TensorKey
    left_dtype: str | None
    right_dtype: str | None
    comparison: Comparison | None
    outcome: str
    raw: Mapping[str, Any]
    overflows: tuple[str, ...] = ()
    right_overflows: tuple[str, ...] = ()
    pair_note: str | None = None
    statistics: StatisticComparison | None = None
    remarks: tuple[FileRemark, ...] = ()


def from_json(mapping: Mapping[str, Any], *, place: str = "record") -> StoredRecord:
    """Read one entry of `tensors`, the inverse of `reporting.records.to_json`.

    Parameters
    ----------
    mapping : mapping
        As `json` gives it.
    place : str
        Where the entry stands, for the error text: ``"results.json: tensors[3]"``.

    Raises
    ------
    ConfigError
        The entry is not what this package writes; the text names the key.
    """
    entry = _Entry(mapping, place)
    left, right = entry.table("left"), entry.table("right")
    outcome = entry.text("verdict")
    if outcome not in _VERDICTS:
        raise entry.wrong("verdict", f"one of {', '.join(_VERDICTS)}")
    return StoredRecord(
        left_key=_key(left, _at(entry)),
        right_key=_key(right, _at(right.table("at"))),
        left_dtype=left.optional_text("dtype"),
        right_dtype=right.optional_text("dtype"),
        comparison=None if entry.get("elements") is None else _comparison(entry),
        outcome=outcome,
        raw=mapping,
        overflows=left.texts("overflows"),
        right_overflows=right.texts("overflows"),
        pair_note=entry.optional_text("pair_note"),
        statistics=statistics_of_entry(entry.get("statistics"), place=place) if "statistics" in mapping else None,
        remarks=tuple(map(_remark, entry.tables("file_remarks"))) if "file_remarks" in mapping else (),
    )


class _Entry:
    """A JSON object that knows where it stands, and whose values are checked as they are taken."""

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{place}: expected a JSON object, found {value!r:.60}; write the report again")
        self._values = value
        self._place = place

    def wrong(self, key: str, expected: str) -> ConfigError:
        """The error of one key."""
        found = f"found {self._values[key]!r:.60}" if key in self._values else "the key is missing"
        return ConfigError(f"{self._place}.{key}: expected {expected}, {found}; write the report again")

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def names(self) -> list[str]:
        return list(self._values)

    def table(self, key: str) -> _Entry:
        if not isinstance(self.get(key), Mapping):
            raise self.wrong(key, "a JSON object")
        return _Entry(self.get(key), f"{self._place}.{key}")

    def tables(self, key: str) -> list[_Entry]:
        if not isinstance(self.get(key), (list, tuple)):
            raise self.wrong(key, "a list")
        return [_Entry(item, f"{self._place}.{key}[{number}]") for number, item in enumerate(self.get(key))]

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self.get(key) is None else self.text(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty when the key is missing."""
        values = self.get(key) if key in self._values else []
        if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
            raise self.wrong(key, "a list of texts")
        return tuple(values)

    def count(self, key: str) -> int:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(key, "a count")
        return value

    def optional_count(self, key: str) -> int | None:
        return None if self.get(key) is None else self.count(key)

    def scalar(self, key: str) -> bool | int | float | complex:
        try:
            return decode(self.get(key))
        except ValueError:
            raise self.wrong(key, "a number") from None

    def number(self, key: str) -> float | int:
        value = self.scalar(key)
        if isinstance(value, complex):
            raise self.wrong(key, "a number")
        return value

    def value(self, key: str) -> float | int | tuple[float, ...]:
        """A metric's number; the only list is that of means and deviations."""
        items = self.get(key)
        if not isinstance(items, (list, tuple)):
            return self.number(key)
        members = _Entry({str(number): item for number, item in enumerate(items)}, f"{self._place}.{key}")
        return tuple(members.number(name) for name in members.names())

    def index(self, key: str) -> tuple[int, ...]:
        value = self.get(key)
        if not isinstance(value, (list, tuple)) or any(isinstance(i, bool) or not isinstance(i, int) for i in value):
            raise self.wrong(key, "a list of integers")
        return tuple(value)

    def optional_index(self, key: str) -> tuple[int, ...] | None:
        return None if self.get(key) is None else self.index(key)


def _remark(entry: _Entry) -> FileRemark:
    """What was said of a file; codes and parameters as `judging.wording.FILE_REMARKS` has them."""
    code, parameters = entry.text("code"), entry.table("parameters")
    side = parameters.text("side")
    if side not in ("left", "right"):
        raise parameters.wrong("side", "left or right")
    if code == "trailing_bytes":
        return FileRemark(code, {"side": side, "bytes": parameters.count("bytes")})
    if code == "shape_from_graph":
        shapes = {name: list(parameters.index(name)) for name in ("stored", "used")}
        return FileRemark(code, {"side": side, **shapes})
    raise entry.wrong("code", "trailing_bytes or shape_from_graph")


def _at(entry: _Entry) -> Coordinates:
    """The coordinates written in `entry`."""
    numbers = {name: entry.optional_count(name) for name in COORDINATES if name != "net"}
    return Coordinates(net=entry.optional_text("net"), **numbers)


def _key(side: _Entry, at: Coordinates) -> TensorKey:
    """Who the tensor is."""
    address = side.text("address")
    label, io, slot = address.rsplit(":", 2) if address.count(":") >= 2 else ("", "", "")
    if io not in ("input", "output") or not slot.isdecimal() or not slot.isascii():
        raise side.wrong("address", "OP:input:SLOT or OP:output:SLOT")
    name = side.optional_text("name")
    operator = OpKey(
        name=label if name is None else name,
        at=at,
        op_type=side.optional_text("op_type"),
        true_name=side.optional_text("true_name"),
    )
    return TensorKey(operator, io, int(slot))


def _comparison(entry: _Entry) -> Comparison:
    """The saved numbers."""
    vendor = entry.table("vendor")
    return Comparison(
        elements=entry.count("elements"),
        finite=entry.count("finite"),
        differing=entry.count("differing"),
        right_zero_mismatch=entry.count("right_zero_mismatch"),
        measurements=_measurements(entry),
        nonfinite=_nonfinite(entry.table("nonfinite")),
        worst=tuple(_worst(item) for item in entry.tables("worst")),
        rtol=entry.number("rtol"),
        atol=entry.number("atol"),
        absolute_error_sum=None if entry.get("absolute_error_sum") is None else entry.number("absolute_error_sum"),
        vendor={metric: vendor.number(metric) for metric in vendor.names()},
        total_elements=entry.optional_count("total_elements"),
        sampled=entry.get("sampled") is True,
    )


def _measurements(entry: _Entry) -> dict[str, Measurement]:
    """One measurement for each metric that has a value or a reason."""
    metrics, where = entry.table("metrics"), entry.table("where")
    undefined, not_applicable = entry.table("undefined"), entry.table("not_applicable")
    names = dict.fromkeys([*metrics.names(), *undefined.names(), *not_applicable.names()])
    found: dict[str, Measurement] = {}
    for metric in names:
        applies = metric not in not_applicable.names()
        found[metric] = Measurement(
            metric,
            value=metrics.value(metric) if metric in metrics.names() else None,
            undefined=(undefined if applies else not_applicable).optional_text(metric),
            applies=applies,
            where=where.optional_index(metric),
        )
    return found


def _nonfinite(entry: _Entry) -> Nonfinite:
    """The counts of NaN, Inf and saturation."""
    return Nonfinite(
        **{name: entry.count(name) for name in _COUNTS},
        first_mismatch=entry.optional_index("first_mismatch"),
        first_nonfinite=entry.optional_index("first_nonfinite"),
    )


def _worst(entry: _Entry) -> WorstElement:
    """One of the worst elements."""
    return WorstElement(entry.index("index"), entry.scalar("left"), entry.scalar("right"), entry.number("ratio"))

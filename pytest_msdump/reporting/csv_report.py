"""ops.csv: the vendor's network result table, so that scripts made for it go on working.

Titles and their order are those of msaccucmp 26.2.0, duplicates included, since scripts read by position. Both sides
are npy files, and then that tool leaves out both Address columns; OverFlow belongs to an option that is not given here.
Verdict and Reason come last.

References
----------
Ascend "Accuracy Comparison Tool", network-wide comparison result, release 26.2.0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.model.report import Report
from pytest_msdump.reporting.atomic import write_file
from pytest_msdump.reporting.values import NONFINITE

__all__ = ["TITLES", "csv_rows", "write_csv"]

# The vendor's ten algorithms in the vendor's order, which is that of `facts.metrics`.
_ALGORITHMS = tuple(name for name, fact in METRICS.items() if fact.vendor_title)

TITLES: tuple[str, ...] = (
    "Index",
    "OpType",
    "NPUDump",
    "DataType",
    "GroundTruth",
    "DataType",
    "TensorIndex",
    "Shape",
    *(str(METRICS[name].vendor_title) for name in _ALGORITHMS),
    "CompareFailReason",
    "Verdict",
    "Reason",
)

_UNDEFINED = "NaN"
_NOBODY = "*"


def write_csv(report: Report, directory: Path) -> Path:
    """Write ops.csv into `directory` and return its path.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TITLES)
    writer.writerows(csv_rows(report))
    return write_file(directory, "ops.csv", text.getvalue().encode("utf-8", errors="surrogateescape"))


def csv_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the table without its titles: by left operator in execution order, then what only the right side has."""
    left_alone = [entry for entry in report.unmatched if entry["side"] == "left"]
    numbered = [(record["order"], _compared(record)) for record in report.records]
    # A left tensor of an earlier run may belong to no operator of this one; it stands after all of them.
    after = report.left.operators
    for entry in left_alone:
        order = after if entry["order"] is None else entry["order"]
        numbered.append((order, _alone(entry, str(order))))
    numbered.sort(key=lambda row: row[0])
    first = max([after, *(order + 1 for order, _ in numbered)])
    return [*(cells for _, cells in numbered), *_right_alone(report, first)]


def _right_alone(report: Report, first: int) -> Iterator[tuple[str, ...]]:
    """Rows of right tensors without a partner; each operator takes the next number."""
    numbers: dict[str, int] = {}
    for entry in report.unmatched:
        if entry["side"] == "right":
            operator = _operator(entry["address"])
            number = numbers.setdefault(operator, first + len(numbers))
            yield _alone(entry, str(number))


def _compared(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The row of one pair."""
    left, right = record["left"], record["right"]
    shape = left.get("logical_shape", left["shape"])
    return (
        str(record["order"]),
        left["op_type"] or _UNDEFINED,
        _operator(left["address"]),
        left["dtype"] or _UNDEFINED,
        _operator(right["address"]),
        right["dtype"] or _UNDEFINED,
        left["address"],
        _UNDEFINED if shape is None else f"[{','.join(map(str, shape))}]",
        *(_cell(record, metric) for metric in _ALGORITHMS),
        _fail_reason(record),
        record["verdict"],
        "; ".join(finding["sentence"] for finding in record["findings"] if finding["outcome"] != "note"),
    )


def _alone(entry: Mapping[str, Any], index: str) -> tuple[str, ...]:
    """The row of one tensor without a partner: a star for the side that has none, and no numbers."""
    operator, dtype = _operator(entry["address"]), entry["dtype"] or _UNDEFINED
    if entry["side"] == "left":
        names = (entry["op_type"] or _UNDEFINED, operator, dtype, _NOBODY, _UNDEFINED)
    else:
        names = (_UNDEFINED, _NOBODY, _UNDEFINED, operator, dtype)
    numbers = (_UNDEFINED,) * len(_ALGORITHMS)
    return (index, *names, entry["address"], _UNDEFINED, *numbers, entry["reason"], "unmatched", entry["reason"])


def _operator(address: str) -> str:
    """The operator's name: the address without ``:io:slot``."""
    return address.rsplit(":", 2)[0]


def _cell(record: Mapping[str, Any], metric: str) -> str:
    """One number as the vendor prints it; where its definition differs from ours, the vendor's number."""
    value = record["vendor"].get(metric, record["metrics"].get(metric))
    if value is None:
        return _UNDEFINED
    if metric == "standard_deviation":
        left_mean, left_deviation, right_mean, right_deviation = (_three_decimals(number) for number in value)
        return f"({left_mean};{left_deviation}),({right_mean};{right_deviation})"
    if isinstance(value, int):
        # Formatting as a float would round integers beyond 2^53.
        return f"{value}.000000"
    return str(NONFINITE[value]) if isinstance(value, str) else f"{value:.6f}"


def _three_decimals(value: Any) -> str:
    """A mean or deviation; the vendor prints what is below a thousandth as nought, without a sign."""
    number = NONFINITE[value] if isinstance(value, str) else value
    return "0.000" if abs(number) < 0.001 else f"{number:.3f}"


def _fail_reason(record: Mapping[str, Any]) -> str:
    """Why cells of this row are empty."""
    if record["verdict"] == "not_run":
        return "not run"
    if record["elements"] is None:
        return ", ".join(finding["sentence"] for finding in record["findings"])
    reasons: dict[str, list[str]] = {}
    for metric in _ALGORITHMS:
        reason = record["undefined"].get(metric) or record["not_applicable"].get(metric)
        if reason:
            reasons.setdefault(reason, []).append(str(METRICS[metric].vendor_title))
    return ", ".join(f"{' and '.join(titles)}: {reason}" for reason, titles in reasons.items())

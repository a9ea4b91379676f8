"""Lines of the vendor's result tables before they are laid out, and their cells as msaccucmp 26.2.0 prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report, UnmatchedTensor
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.text import say

# Rank, net, graph and iteration: the vendor makes one table for each.
Place = tuple[Any, ...]


@dataclass(slots=True)
class Line:
    """One line; ``None`` is printed as NaN. It is changed in place to what the table of its kind has."""

    index: int
    op_type: str | None = None
    left: str | None = None
    left_dtype: str | None = None
    left_address: int | None = None
    right: str | None = None
    right_dtype: str | None = None
    right_address: int | None = None
    tensor: str | None = None
    shape: Sequence[int] | None = None
    stored: Sequence[int] | None = None
    memory_format: str | None = None
    logical_format: str | None = None
    elements: int | None = None
    place: Place = ()
    unmatched: UnmatchedTensor | None = None
    record: Record | None = None
    reason: str = ""
    verdict: str = "unmatched"
    sequence: int | None = None


def compared(record: Record) -> Line:
    """Return the line of a pair, whether it could be measured or not."""
    left, right, comparison = record.left, record.right, record.comparison
    elements = record.elements
    if comparison is not None and comparison.total_elements is not None:
        elements = comparison.total_elements
    return Line(
        record.order,
        op_type=left.op_type,
        left=_operator(left.address),
        left_dtype=left.dtype,
        left_address=left.device_address,
        right=_operator(right.address),
        right_dtype=right.dtype,
        right_address=right.device_address,
        tensor=left.address,
        shape=left.shape if left.logical_shape is None else left.logical_shape,
        stored=left.shape,
        memory_format=left.memory_format,
        logical_format=record.transform.left_logical_format,
        elements=elements,
        place=_place(left.at),
        record=record,
    )


def alone(unmatched: UnmatchedTensor, index: int, missing: frozenset[tuple[str, str]]) -> Line:
    """Return the line of a tensor without a partner: a star for the other side; `missing` as of `missing_of`."""
    on_left, tensor = unmatched.side == "left", unmatched.tensor
    operator, dtype, address = operator_of(unmatched), tensor.dtype, tensor.device_address
    return Line(
        index,
        op_type=tensor.op_type if on_left else None,
        left=operator if on_left else NO_PARTNER,
        left_dtype=dtype if on_left else None,
        left_address=address if on_left else None,
        right=NO_PARTNER if on_left else operator,
        right_dtype=None if on_left else dtype,
        right_address=None if on_left else address,
        tensor=tensor.address,
        stored=tensor.shape,
        place=_place(tensor.at),
        unmatched=unmatched,
        reason=unmatched.reason,
        verdict="missing" if (unmatched.side, tensor.address) in missing else "unmatched",
    )


def missing_of(report: Report) -> frozenset[tuple[str, str]]:
    """Return the tensors, as (side, address), whose partner should have been dumped."""
    return frozenset(side for one in report.missing for side in (("left", one.left), ("right", one.right)))


def operator_of(unmatched: UnmatchedTensor) -> str:
    """Return the name of the operator of a tensor without a partner: the address without ``:io:slot``."""
    return _operator(unmatched.tensor.address)


def left_lines(report: Report) -> list[Line]:
    """Return a line for each left tensor: by operator in execution order, and inside of one inputs, then outputs."""
    last, missing = report.left.operators, missing_of(report)
    lines = [compared(record) for record in report.records]
    lines += [
        alone(one, last if one.order is None else one.order, missing) for one in report.unmatched if one.side == "left"
    ]
    return sorted(lines, key=_position)


def joined(texts: Iterable[str], separator: str = ", ") -> str:
    """Join texts, each once, in their order."""
    return separator.join(dict.fromkeys(text for text in texts if text))


def _place(at: Coordinates) -> Place:
    return at.rank, at.net, at.graph, at.iteration


def _operator(address: str) -> str:
    return address.rsplit(":", 2)[0]


def port_of(line: Line) -> str:
    """Return ``io:slot``, of the left side where there are two; empty of an operator that was not dumped."""
    return "" if line.tensor is None else ":".join(line.tensor.rsplit(":", 2)[1:])


def _position(line: Line) -> tuple[int, bool, int]:
    io, slot = port_of(line).split(":")
    return line.index, io != "input", int(slot)


UNDEFINED = "NaN"
# Where one side has a NaN or Inf that the other has not.
_NOT_FINITE = "nan"
NO_PARTNER = "*"

# The vendor's ten algorithms in the vendor's order, which is that of `facts.metrics`.
ALGORITHMS = tuple(name for name, fact in METRICS.items() if fact.vendor_title)

# Means and standard deviations are printed as nought below it.
_LEAST = 0.001

# Mean and standard deviation of the left side, and of the right.
_DEVIATIONS = "(%.3f;%.3f),(%.3f;%.3f)"

# The tool looks for overflow in this data type alone.
_OVERFLOW_DTYPE = "float16"


def algorithm_title(name: str) -> str:
    """Return the title of an algorithm's column: the vendor's, or the name of a user's own algorithm.

    >>> algorithm_title("kl_divergence"), algorithm_title("MyAlg")
    ('KullbackLeiblerDivergence', 'MyAlg')
    """
    fact = METRICS.get(name)
    return fact.vendor_title if fact and fact.vendor_title else name


def number_cells(record: Record, names: Sequence[str]) -> list[str]:
    """Return the algorithms' numbers, by the vendor's definition where it differs; a user's own returned its text."""
    measured = record.comparison
    known = {} if measured is None else {**measured.values, **measured.vendor}
    cells = [_cell(known.get(name)) for name in names]
    if measured is not None and measured.nonfinite.mismatch:
        # Scripts read these cells alone: numbers of what is finite on both sides would say that all is well.
        cells = [_NOT_FINITE] * len(names)
    return [
        record.custom[name].value if name in record.custom else cell for name, cell in zip(names, cells, strict=True)
    ]


def _cell(value: float | int | tuple[float, ...] | None) -> str:
    """Print a number as the vendor does."""
    if type(value) is float and isfinite(value):
        return f"{value:.6f}"
    if value is None:
        return UNDEFINED
    if isinstance(value, tuple):
        return _DEVIATIONS % tuple([0.0 if -_LEAST < one < _LEAST else one for one in value])
    # To format an integer as a float would round it beyond 2^53.
    return f"{value}.000000" if isinstance(value, int) else str(value)


def shape_cell(shape: Sequence[int] | None) -> str:
    """Return a shape as the vendor writes it.

    >>> shape_cell([2, 19, 5, 7]), shape_cell(None)
    ('[2,19,5,7]', 'NaN')
    """
    return UNDEFINED if shape is None else str([*shape]).replace(" ", "")


def overflow_cell(dtype: str | None, has_overflow: bool | None) -> str:
    """Return the cell of the column OverFlow; the vendor looks at float16 alone, and ``None`` was not looked at."""
    if dtype != _OVERFLOW_DTYPE or has_overflow is None:
        return UNDEFINED
    return "YES" if has_overflow else "NO"


def reason_cell(record: Record, names: Sequence[str]) -> str:
    """Return why cells of the algorithms `names` are empty."""
    if not record.was_run:
        return "not run"
    if record.comparison is None:
        return ", ".join(finding.sentence for finding in record.verdict.findings)
    custom, undefined, left_out = record.custom, record.comparison.undefined, record.comparison.not_applicable
    reasons: dict[str, list[str]] = {}
    for name in names:
        why = undefined.get(name) or left_out.get(name)
        reason = custom[name].message if name in custom else "" if why is None else say(why)
        if reason:
            reasons.setdefault(reason, []).append(algorithm_title(name))
    return ", ".join(f"{' and '.join(titles)}: {reason}" for reason, titles in reasons.items())

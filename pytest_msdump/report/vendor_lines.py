"""One line of the vendor's result tables before it is written, made from an entry of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report, UnmatchedTensor
from pytest_msdump.model.tensor import Coordinates
from pytest_msdump.report.vendor_cells import NOBODY

__all__ = [
    "Line",
    "Place",
    "alone",
    "compared",
    "joined",
    "left_lines",
    "missing_of",
    "operator_of",
    "port_of",
]

# Rank, net, graph and iteration: the vendor makes one table for each.
Place = tuple[Any, ...]


@dataclass(slots=True)
class Line:
    """What a line says; what is ``None`` is printed as NaN.

    It is made of an entry, and then told what the table of its kind says otherwise: nobody else has it meanwhile.

    Parameters
    ----------
    index : int
        Number of the operator, or of the group of operators that were fused together.
    op_type, left, right : str, optional
        Type of the left operator, and both sides' names: of a whole group where operators were fused.
    left_dtype, right_dtype, left_address, right_address
        Data types, and addresses on the device.
    tensor : str, optional
        ``OP:io:slot`` of the left side; of the right where the left has no such tensor.
    shape, stored : sequence of int, optional
        As the vendor would print it, and as the left side stores it.
    memory_format, logical_format : str, optional
        The left side's, and how the axes of the logical shape are ordered where they were brought into an order.
    elements : int, optional
        How many the pair has; ``None`` where nothing was compared.
    place : tuple
        Where in a run the tensor was dumped, but for its occurrence; nowhere of an operator that was not dumped.
    unmatched : UnmatchedTensor, optional
        The tensor without a partner that the line is of.
    record : Record, optional
        The pair that the line is of.
    reason, verdict : str
        Of a line without a record; where there is one, it tells.
    sequence : int, optional
        Number of the operator in its model.
    """

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
    """Return the line of a tensor without a partner: a star for the side that has none, and no numbers."""
    on_left, tensor = unmatched.side == "left", unmatched.tensor
    operator, dtype, address = operator_of(unmatched), tensor.dtype, tensor.device_address
    return Line(
        index,
        op_type=tensor.op_type if on_left else None,
        left=operator if on_left else NOBODY,
        left_dtype=dtype if on_left else None,
        left_address=address if on_left else None,
        right=NOBODY if on_left else operator,
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
    """Return the tensors, as (side, address), of which the partner ought to have been dumped."""
    return frozenset(side for one in report.missing for side in (("left", one.left), ("right", one.right)))


def operator_of(unmatched: UnmatchedTensor) -> str:
    """Return the name of the operator of a tensor without a partner: the address without ``:io:slot``."""
    return _operator(unmatched.tensor.address)


def left_lines(report: Report) -> list[Line]:
    """Return a line for each left tensor: by operator in execution order, and inside of one inputs, then outputs.

    Their numbers are the operators' `order`. A left tensor of an earlier run may belong to no operator of this one; it
    stands after all of them.
    """
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
    return _port(line.tensor)[1:]


def _port(address: str | None) -> str:
    return "" if address is None else address[len(_operator(address)) :]


def _position(line: Line) -> tuple[int, tuple[bool, int]]:
    return line.index, _place_of_port(_port(line.tensor))


# Few differ.
@lru_cache(maxsize=1024)
def _place_of_port(port: str) -> tuple[bool, int]:
    # Addresses of a saved report may have been edited.
    io, slot = (*port.split(":")[1:], "", "")[:2]
    return io != "input", int(slot) if slot.isdecimal() else 0

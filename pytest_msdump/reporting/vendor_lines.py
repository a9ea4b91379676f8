"""One line of the vendor's result tables before it is written, made from an entry of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_msdump.lazy_dataclass import dataclass
from pytest_msdump.model.report import Report
from pytest_msdump.reporting.vendor_cells import NOBODY

__all__ = [
    "Entry",
    "Line",
    "Place",
    "alone",
    "compared",
    "in_order",
    "joined",
    "missing_of",
    "operator_of",
    "place_of",
    "port_of",
]

# An entry of `tensors` or of `unmatched` in results.json.
Entry = Mapping[str, Any]

# Rank, net, graph and iteration: the vendor makes one table for each.
Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says; what is ``None`` is printed as NaN.

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
    shape : sequence of int, optional
        As the vendor would print it.
    entry : mapping, optional
        What the line was made from; ``None`` for an operator that was not dumped.
    record : mapping, optional
        The same where it has numbers; ``None`` where nothing was compared.
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
    entry: Entry | None = None
    record: Entry | None = None
    reason: str = ""
    verdict: str = "unmatched"
    sequence: int | None = None


def compared(record: Entry, index: int) -> Line:
    """Return the line of a pair, whether it could be measured or not."""
    left, right = record["left"], record["right"]
    return Line(
        index,
        op_type=left["op_type"],
        left=operator_of(record),
        left_dtype=left["dtype"],
        left_address=left.get("device_address"),
        right=_operator(right["address"]),
        right_dtype=right["dtype"],
        right_address=right.get("device_address"),
        tensor=left["address"],
        shape=left.get("logical_shape", left["shape"]),
        entry=record,
        record=record,
    )


def alone(entry: Entry, index: int, missing: frozenset[tuple[str, str]]) -> Line:
    """Return the line of a tensor without a partner: a star for the side that has none, and no numbers.

    Parameters
    ----------
    entry : mapping
        An entry of `unmatched`.
    index : int
        The line's number.
    missing : frozenset of (side, address)
        Tensors of which the partner ought to have been dumped.
    """
    on_left = entry["side"] == "left"
    operator, dtype, address = operator_of(entry), entry["dtype"], entry.get("device_address")
    return Line(
        index,
        op_type=entry["op_type"] if on_left else None,
        left=operator if on_left else NOBODY,
        left_dtype=dtype if on_left else None,
        left_address=address if on_left else None,
        right=NOBODY if on_left else operator,
        right_dtype=None if on_left else dtype,
        right_address=None if on_left else address,
        tensor=entry["address"],
        entry=entry,
        reason=entry["reason"],
        verdict="missing" if (entry["side"], entry["address"]) in missing else "unmatched",
    )


def missing_of(report: Report) -> frozenset[tuple[str, str]]:
    """Return the tensors, as (side, address), of which the partner ought to have been dumped."""
    return frozenset((side, str(one[side])) for one in report.missing for side in ("left", "right"))


def operator_of(entry: Entry) -> str:
    """Return the operator's name, of the left side where there are two: the address without ``:io:slot``."""
    return _operator(_own(entry)["address"])


def place_of(entry: Entry) -> Place:
    """Return where in a run a tensor was dumped, but for its occurrence."""
    return tuple(entry[name] for name in ("rank", "net", "graph", "iteration"))


def in_order(entries: Iterable[Entry], last: int) -> list[Entry]:
    """Sort left tensors by operator in execution order, and inside of one: inputs, then outputs.

    Parameters
    ----------
    entries : iterable of mapping
        Of the left side.
    last : int
        The order of what is not part of this run: tensors of an earlier one.
    """
    return sorted(
        entries, key=lambda entry: (last if entry["order"] is None else entry["order"], *_rank_of_port(entry))
    )


def joined(texts: Iterable[str], separator: str = ", ") -> str:
    """Join texts, each once, in their order."""
    return separator.join(dict.fromkeys(text for text in texts if text))


def _own(entry: Entry) -> Entry:
    side: Entry = entry.get("left", entry)
    return side


def _operator(address: str) -> str:
    return address.rsplit(":", 2)[0]


def port_of(entry: Entry) -> str:
    """Return ``io:slot``, of the left side where there are two."""
    return ":".join(_own(entry)["address"].rsplit(":", 2)[1:])


def _rank_of_port(entry: Entry) -> tuple[bool, int]:
    io, _, slot = port_of(entry).partition(":")
    # Addresses of a saved report may have been edited.
    return io != "input", int(slot) if slot.isdecimal() else 0

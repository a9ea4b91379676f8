"""Put a report together from two dumps, their pairing and the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_msdump.core.compare.coverage import coverage_of
from pytest_msdump.core.model.record import Record, ReportedTensor, relative_file
from pytest_msdump.core.model.report import NetworkOperator, Report, SideInfo, UnmatchedTensor
from pytest_msdump.core.model.tensor import OpKey

if TYPE_CHECKING:
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.pairing import Pairing, Unmatched


def assemble(
    left: Dump,
    right: Dump,
    pairing: Pairing,
    records: Iterable[Record],
    *,
    profile: str,
    sides: tuple[SideInfo, SideInfo] | None = None,
    further: Mapping[str, SideInfo] = MappingProxyType({}),
    limits: Mapping[str, Any] | None = None,
    min_coverage: float | None = None,
    first: int | None = None,
    network: Iterable[NetworkOperator] = (),
    notes: tuple[str, ...] = (),
    rerun: tuple[str, ...] = (),
) -> Report:
    """Return the report of one suite."""
    of_left, of_right = sides or (side_info(left), side_info(right))
    orders: dict[OpKey, int] = {}
    for ref in left.refs if pairing.unmatched_left else ():
        orders.setdefault(ref.key.op, len(orders))
    return Report(
        left=of_left,
        right=of_right,
        profile=profile,
        limits=dict(limits or {}),
        records=tuple(records),
        unmatched=(
            *(_unmatched(one, left.root, orders.get(one.ref.key.op)) for one in pairing.unmatched_left),
            *(_unmatched(one, right.root, None) for one in pairing.unmatched_right),
        ),
        missing=pairing.missing,
        coverage=coverage_of(pairing, left, right, min_coverage=min_coverage, first=first),
        network=tuple(network),
        notes=notes,
        rerun=rerun,
        golden=further.get("golden"),
        third=further.get("third"),
    )


def side_info(dump: Dump) -> SideInfo:
    """Return what a report says of one side."""
    return SideInfo(
        directory=str(dump.root),
        reader=dump.reader,
        labels=dict(dump.labels),
        notes=dump.notes,
        unexplained=tuple(path.as_posix() for path in dump.unexplained),
        operators=dump.operators,
        tensors=len(dump.refs),
        partial_run={"newer": dump.partial.newer, "tensors": dump.partial.tensors} if dump.partial else {},
        by_name=bool(dump.refs) and all(ref.place is None and ref.source.timestamp is None for ref in dump.refs),
    )


def _unmatched(one: Unmatched, root: Path, order: int | None) -> UnmatchedTensor:
    """Return a tensor without a partner as reports have it; `order` is of left tensors only."""
    key, source, spec = one.ref.key, one.ref.source, one.ref.spec
    tensor = ReportedTensor(
        address=key.address,
        file=relative_file(source.location, root),
        op_type=key.op.op_type,
        at=key.op.at,
        dtype=spec.dtype,
        shape=spec.shape,
        device_address=source.device_address,
    )
    return UnmatchedTensor(one.side, tensor, one.why, one.candidates, order)

"""Put a report together from two dumps, their pairing and the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isclose, prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_msdump.core.compare.opening import logical_shape
from pytest_msdump.core.model.dump import PARAMETER, Dump
from pytest_msdump.core.model.kernel_lists import OF_FULL_NAMES, REGEX, names_operator
from pytest_msdump.core.model.record import Record, ReportedTensor, relative_file
from pytest_msdump.core.model.report import Coverage, NetworkOperator, Report, SideInfo, Uncompared, UnmatchedTensor
from pytest_msdump.core.model.tensor import UNCOUNTED, OpKey, Pair, Pairing, TensorRef

if TYPE_CHECKING:
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.tensor import Pairing, Unmatched

# How much of the right side is compared: the mean of the shares of its tensors; and which are left out.

_MOST_NAMED = 5
_OLDER_RUN = "older_run"
# The left's list of operators says that it lacks a tensor; or says so of most, but not of which, since names differ.
_NOT_LISTED = "not_dumped_kernels"
_PERHAPS_LISTED = frozenset({"some_kernels_dumped", "not_dumped_by_script"})


def coverage_of(
    pairing: Pairing, left: Dump, right: Dump, *, min_coverage: float | None = None, first: int | None = None
) -> Coverage:
    """Return how much of the right side is compared, the least that must be, and which sides are not whole."""
    shares: dict[int, tuple[float, TensorRef]] = {}
    pieces: dict[int, dict[object, float]] = {}
    for pair in pairing.pairs:
        share = _compared_share(pair, first)
        # One right tensor may meet several left ones; those that are parts of it are so many shares.
        known, piece = shares.get(place := id(pair.right)), pair.transform.piece
        if piece is not None and piece.side == "right" and piece.ranges:
            pieces.setdefault(place, {})[piece.ranges] = share * piece.share
            share = min(1.0, sum(pieces[place].values()))
            share = 1.0 if isclose(share, 1.0) else share
        if known is None or share > known[0]:
            shares[place] = share, pair.right
    alone = [one for one in pairing.unmatched_right if one.why.code not in UNCOUNTED and one.why.code != _OLDER_RUN]
    counted = [one for one in alone if one.why.code != _NOT_LISTED and one.why.code not in _PERHAPS_LISTED]
    perhaps = sum(one.why.code in _PERHAPS_LISTED for one in alone)
    # Of listed operators with other names on the right, each that found no partner leaves one right tensor out.
    waiting = list(_listed_alone(pairing, left))[:perhaps] if perhaps else []
    unlisted = len(alone) - len(counted) - len(waiting)
    parts = [(share, ref) for share, ref in shares.values() if share < 1]
    lost = [ref for _, ref in pairing.lost_outputs]
    # The model's own outputs come first.
    counted.sort(key=lambda one: one.ref not in lost)
    uncompared = (
        *(Uncompared(_short(one.ref)) for one in counted[:_MOST_NAMED]),
        *(Uncompared(name, side="left") for name in waiting[:_MOST_NAMED]),
        *(Uncompared(_short(ref), share) for share, ref in parts[:_MOST_NAMED]),
    )
    total = pairing.right_total - unlisted
    return Coverage(
        right_total=total,
        right_paired=pairing.right_paired,
        value=(pairing.right_paired - sum(1 - share for share, _ in parts)) / total if total else 0.0,
        min_coverage=min_coverage,
        incomplete=tuple(name for name, dump in (("left", left), ("right", right)) if dump.incomplete),
        partly=len(parts),
        unlisted=unlisted,
        uncompared=tuple(dict.fromkeys(uncompared))[:_MOST_NAMED],
        outputs=tuple(_short(ref) if not name else f"{name} ({_short(ref)})" for name, ref in pairing.lost_outputs),
    )


def _compared_share(pair: Pair, first: int | None) -> float:
    """Return the share of a right tensor that is compared with this left one, without its padding."""
    left, right = pair.left, pair.right
    share = 1.0
    if left.parts or right.parts:
        if any(part.problem is not None for part in (*left.parts.values(), *right.parts.values())):
            return 0.0
        share = prod(part.share for part in right.parts.values())
    if first is None and left.sample is None and pair.transform.crop is None:
        return share
    shape = logical_shape(right)
    if shape is None:
        return share
    if pair.transform.crop is not None:
        axis, other = pair.transform.crop_axis, logical_shape(left)
        if axis is None or other is None or not -min(len(shape), len(other)) <= axis < min(len(shape), len(other)):
            return 0.0
        share *= min(1.0, other[axis] / max(shape[axis], 1))
    if left.sample is not None and shape and shape[0] > left.sample:
        share *= left.sample / shape[0]
    return share if first is None else min(share, first / max(prod(shape), first))


def _listed_alone(pairing: Pairing, left: Dump) -> Iterator[str]:
    """Yield left tensors without a partner, then the operators that a list of the dump configuration names in vain."""
    for one in pairing.unmatched_left:
        if one.ref.key.op.op_type != PARAMETER and one.why.code not in UNCOUNTED and one.why.code != _OLDER_RUN:
            yield _short(one.ref)
    entries = {entry for run in (left.run.configurations if left.run else ()) for entry in run.kernels}
    ops = {ref.key.op for ref in left.refs}
    for entry in sorted(entries):
        # What names a kind of operator, or an expression, may well name none.
        if REGEX.fullmatch(entry) or not any(part in entry for part in OF_FULL_NAMES):
            continue
        if not any(
            names_operator(entry, name=op.label, op_type=op.op_type, is_true_name=op.true_name is not None)
            for op in ops
        ):
            yield entry


def _short(ref: TensorRef) -> str:
    """Return the address as a person would type it."""
    return ref.key.address.removesuffix(":output:0")


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

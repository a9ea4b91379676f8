"""Which operators overflowed: by the device's own check where it left files, by the values themselves always."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pytest_msdump.comparison.device_overflow import Culprit, culprits_of
from pytest_msdump.comparison.opening import open_view
from pytest_msdump.comparison.planning import Plan
from pytest_msdump.comparison.user_code import Watch, unwatched
from pytest_msdump.dumps.npy import write_npy
from pytest_msdump.dumps.opdebug import OverflowFile, overflow_files
from pytest_msdump.errors import MsdumpError
from pytest_msdump.inspect.overflow_scan import OneSide, scan, scanned
from pytest_msdump.layouts.converters import Converters
from pytest_msdump.layouts.device_layout import logical, target
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.pairing import Transform
from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.model.tensor import OpKey, TensorRef
from pytest_msdump.storage.files import write_file

__all__ = ["OperatorOverflow", "Overflows", "find_overflows", "with_overflow", "write_overflow_files"]


@dataclass(frozen=True)
class OperatorOverflow:
    """One operator that overflowed.

    Parameters
    ----------
    op : OpKey
        Who.
    order : int
        Its 0-based place among all operators of the dump.
    role : str
        ``"origin"``: its dumped inputs are finite; ``"propagated"``: an input overflows already; ``"unknown"``: its
        inputs were not dumped.
    reported : tuple of Culprit
        What the device's own check says of it.
    tensors : tuple of (TensorRef, OneSide)
        Its tensors that hold NaN, Inf, or values at their dtype's maximum.
    """

    op: OpKey
    order: int
    role: str
    reported: tuple[Culprit, ...] = ()
    tensors: tuple[tuple[TensorRef, OneSide], ...] = ()


@dataclass(frozen=True)
class Overflows:
    """All that was found in one dump: `operators` in execution order, entries without a dump, what cannot be read."""

    dump: Dump
    files: tuple[OverflowFile, ...]
    operators: tuple[OperatorOverflow, ...]
    unplaced: tuple[Culprit, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing overflowed, and everything could be looked at."""
        return not (self.operators or self.unplaced or self.unreadable)


def find_overflows(dump: Dump, *, watch: Watch = unwatched) -> Overflows:
    """Look through one dump.

    Parameters
    ----------
    dump : Dump
        Its index, in execution order.
    watch : Watch
        Is told how many operators were looked at.

    Returns
    -------
    Overflows
        An entry whose status is 0 is no overflow and is left out.
    """
    files = overflow_files(dump.root)
    reported: defaultdict[OpKey, list[Culprit]] = defaultdict(list)
    unplaced: list[Culprit] = []
    for culprit in culprits_of(dump, files):
        if culprit.refs:
            reported[culprit.refs[0].key.op].append(culprit)
        else:
            unplaced.append(culprit)
    unreadable = [(str(file.path), file.problem) for file in files if file.problem]
    operators = []
    for order, (op, refs) in enumerate(watch(list(_by_operator(dump.refs).items()), "operators")):
        seen = dict(_scanned(refs, unreadable))
        bad = {ref: side for ref, side in seen.items() if side.nan or side.inf or side.saturated}
        if bad or reported[op]:
            operators.append(
                OperatorOverflow(op, order, _role(seen, bad), tuple(reported[op]), tuple(bad.items())),
            )
    return Overflows(dump, files, tuple(operators), tuple(unplaced), tuple(unreadable))


def _by_operator(refs: Iterable[TensorRef]) -> Mapping[OpKey, Sequence[TensorRef]]:
    operators: dict[OpKey, list[TensorRef]] = {}
    for ref in refs:
        operators.setdefault(ref.key.op, []).append(ref)
    return operators


def _scanned(refs: Iterable[TensorRef], unreadable: list[tuple[str, str]]) -> Iterator[tuple[TensorRef, OneSide]]:
    for ref in refs:
        side = scanned(ref)
        if isinstance(side, str):
            unreadable.append((ref.key.address, side))
        elif side.elements:
            yield ref, side


def _role(seen: Mapping[TensorRef, OneSide], bad: Mapping[TensorRef, OneSide]) -> str:
    if any(ref.key.io == "input" for ref in bad):
        return "propagated"
    return "origin" if any(ref.key.io == "input" for ref in seen) else "unknown"


# -- Files of ``msdump overflow -out`` -------------------------------------------------------------------------------


_RULE = "="
_RULE_WIDTH = 102


def write_overflow_files(found: Overflows, directory: Path, *, first: int, now: datetime) -> list[Path]:
    """Write what the first overflow files say.

    Parameters
    ----------
    found : Overflows
        What was found in a dump.
    directory : Path
        Is made when it is not there.
    first : int
        How many overflow files, the earliest first.
    now : datetime
        For the summary's name.

    Returns
    -------
    list of Path
        ``{overflow file}.output.{k}.json`` with the vendor's keys, ``{dump file}.{io}.{k}.npy`` of each culprit in its
        stored shape, and ``overflow_summary_{time}.txt``.

    Raises
    ------
    MsdumpError
        A file cannot be written.
    """
    written: list[Path] = []
    summary: list[str] = []
    for number, file in enumerate(found.files[:first], 1):
        for slot, document in file.documents.items():
            name = file.path.name if file.name.is_json else f"{file.path.name}.output.{slot}.json"
            written.append(write_file(directory, name, json.dumps(document, indent=4).encode()))
        summary += [f"[{number}]".center(_RULE_WIDTH, _RULE), *_told(found, file, directory, written)]
    name = f"overflow_summary_{now:%Y%m%d%H%M%S}.txt"
    return [*written, write_file(directory, name, ("\n".join(summary) + "\n").encode())]


def _told(found: Overflows, file: OverflowFile, directory: Path, written: list[Path]) -> Iterator[str]:
    """Yield the summary's lines about one overflow file, and write its culprits' tensors."""
    if file.problem:
        yield f" {file.problem}"
        return
    culprits = list(culprits_of(found.dump, [file]))
    if not culprits:
        yield " [no unit reports an overflow: every status is 0]"
    refs: dict[TensorRef, None] = {}
    for culprit in culprits:
        refs.update(dict.fromkeys(culprit.refs))
        yield from _head(culprit)
    yield f" [timestamp:{file.name.timestamp}]"
    for ref in refs:
        yield from _tensor(ref, directory, written)


def _head(culprit: Culprit) -> Iterator[str]:
    if culprit.refs:
        op = culprit.refs[0].key.op
        yield f"[{op.op_type}] {op.label}"
    entry = culprit.entry
    status = str(entry.status[0]) if len(entry.status) == 1 else str(list(entry.status))
    yield f" [{entry.unit}][TaskId:{entry.task_id}][StreamId:{entry.stream_id}][Status:{status}]"


def _tensor(ref: TensorRef, directory: Path, written: list[Path]) -> Iterator[str]:
    name = f"{ref.source.path.name}.{ref.key.io}.{ref.key.slot}.npy"
    try:
        with closing(open_view(ref)) as view:
            written.append(write_npy(view, directory / name))
            side = scan(view)
            spec = view.spec
    except (MsdumpError, OSError) as error:
        yield f" {name}"
        yield f" -[{error}]"
        return
    yield f" {name}"
    yield (
        f" -[Format: {spec.memory_format or 'ND'}] [Shape: {spec.shape}] [Dtype: {spec.dtype}] [Max: {side.maximum}] "
        f"[Min: {side.minimum}] [Mean: {side.mean}]{_classes(side)}"
    )


def _classes(side: OneSide) -> str:
    """What range and mean, which are of finite elements, do not say."""
    counts = (("NaN", side.nan), ("Inf", side.inf), ("Saturated", side.saturated))
    return "".join(f" [{name}: {count}]" for name, count in counts if count)


# -- Whether each left tensor holds an overflow, for the vendor's column OverFlow ------------------------------------


# The vendor's column says nothing of other data types, so they are not read.
_DTYPE = "float16"


def with_overflow(plan: Plan, report: Report) -> Report:
    """Mark each left tensor of a report, compared or not, that may have overflowed.

    Parameters
    ----------
    plan : Plan
        What `report` was made of.
    report : Report
        Its records are in the order of the plan's pairs.

    Returns
    -------
    Report
        `has_overflow` of a float16 left tensor is whether a NaN, an Inf or 65504 of either sign is in it; ``None``
        where it cannot be read, or its padding cannot be told from its values.
    """
    converters = plan.extras.converters
    alone = iter(plan.pairing.unmatched_left)
    return replace(
        report,
        records=tuple(
            _marked(record, _has_overflow(pair.left, pair.transform, converters))
            for record, pair in zip(report.records, plan.pairing.pairs, strict=True)
        ),
        unmatched=tuple(
            replace(
                one,
                tensor=replace(one.tensor, has_overflow=_has_overflow(next(alone).ref, Transform(), converters)),
            )
            if one.side == "left"
            else one
            for one in report.unmatched
        ),
    )


def _marked(record: Record, has_overflow: bool | None) -> Record:
    return replace(record, left=replace(record.left, has_overflow=has_overflow))


def _has_overflow(ref: TensorRef, transform: Transform, converters: Converters) -> bool | None:
    if ref.spec.dtype not in (_DTYPE, None):
        return None
    try:
        with closing(open_view(ref)) as view:
            if view.dtype != _DTYPE:
                return None
            shape, axes = target(
                view.spec, rule_format=transform.left_logical_format, rule_shape=transform.left_logical_shape
            )
            found = scan(logical(view, logical_shape=shape, logical_format=axes, converters=converters))
    except (MsdumpError, OSError):
        # Why it cannot be read is told by its record.
        return None
    return bool(found.nan or found.inf or found.saturated)

"""Find operators that overflowed: by the device's own check if it left files, and by the values of every tensor."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from pathlib import Path

from pytest_msdump.capabilities.arrays.writer import write_view
from pytest_msdump.capabilities.overflow.contents import Contents, contents, contents_of_statistics
from pytest_msdump.capabilities.overflow.indexing import ReportedOverflow, reported_overflows
from pytest_msdump.capabilities.overflow.opdebug import OverflowFile, overflow_files
from pytest_msdump.core.compare.opening import OpenDump, Tensor, as_path, index, open_logical, open_tensor, open_view
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.layouts.converters import Converters
from pytest_msdump.core.layouts.device_layout import logical, target
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import OpKey, Statistics, TensorRef, Transform
from pytest_msdump.core.storage.files import write_file
from pytest_msdump.core.text import say

_NONFINITE_COUNTS = {"nan_count", "negative_inf_count", "positive_inf_count"}


@dataclass(frozen=True)
class OperatorOverflow:
    """One operator that overflowed."""

    op: OpKey
    order: int
    role: str
    reported: tuple[ReportedOverflow, ...] = ()
    tensors: tuple[tuple[TensorRef, Contents], ...] = ()


@dataclass(frozen=True)
class Overflows:
    """The overflows of one dump: `operators` in execution order, `unplaced` entries of operators that were not dumped.

    `unreadable` are addresses or files that cannot be read, and why.
    """

    dump: Dump
    files: tuple[OverflowFile, ...]
    operators: tuple[OperatorOverflow, ...]
    unplaced: tuple[ReportedOverflow, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing overflowed, and everything could be read."""
        return not (self.operators or self.unplaced or self.unreadable)


def find_overflows(dump: Dump, *, watch: Watch = unwatched) -> Overflows:
    """Look for overflow in every tensor of a dump, and in the files of the device's own check (status 0 is none)."""
    files = overflow_files(dump.root)
    reported: defaultdict[OpKey, list[ReportedOverflow]] = defaultdict(list)
    unplaced: list[ReportedOverflow] = []
    for report in reported_overflows(dump, files):
        (reported[report.refs[0].key.op] if report.refs else unplaced).append(report)
    unreadable = [(str(file.path), file.problem) for file in files if file.problem]
    members: defaultdict[OpKey, list[TensorRef]] = defaultdict(list)
    for ref in dump.refs:
        members[ref.key.op].append(ref)
    operators = []
    for order, (op, refs) in enumerate(watch(list(members.items()), "operators")):
        seen: dict[TensorRef, Contents] = {}
        for ref in refs:
            side = scan_ref(ref)
            if isinstance(side, str):
                unreadable.append((ref.key.address, side))
            elif side.elements:
                seen[ref] = side
        bad = {ref: side for ref, side in seen.items() if side.overflows}
        if bad or reported[op]:
            role = _role(seen, bad)
            operators.append(OperatorOverflow(op, order, role, tuple(reported[op]), tuple(bad.items())))
    return Overflows(dump, files, tuple(operators), tuple(unplaced), tuple(unreadable))


def _role(seen: Mapping[TensorRef, Contents], bad: Mapping[TensorRef, Contents]) -> str:
    if any(ref.key.io == "input" for ref in bad):
        return "propagated"
    return "origin" if any(ref.key.io == "input" for ref in seen) else "unknown"


def scan_ref(ref: TensorRef) -> Contents | str:
    """Look for overflow in one tensor of a dump, or in its saved statistics; return why if that cannot be done."""
    if not ref.is_unseen:
        try:
            with closing(open_logical(ref)) as view:
                return contents(view, ranges=None)
        except (MsdumpError, OSError) as error:
            return str(error)
    saved, shape = ref.statistics or Statistics(), ref.spec.shape
    known = [name for name, value in saved.values.items() if isinstance(value, int | float)]
    elements = 1 if shape is None else math.prod(shape)
    found = contents_of_statistics(saved.values, elements=elements, dtype=ref.spec.dtype or "", digits=saved.digits)
    if found is None or ("l2_norm" not in known and not _NONFINITE_COUNTS.issubset(known)):
        names = ", ".join(known) or "nothing"
        return f"it was saved as statistics only, and these ({names}) do not show whether it has NaN or Inf"
    return found


_RULE_WIDTH = 102


def write_overflow_files(found: Overflows, directory: Path, *, first: int, now: datetime) -> list[Path]:
    """Write the contents of the first overflow files and the tensors of their operators; return the files written."""
    written: list[Path] = []
    summary: list[str] = []
    for number, file in enumerate(found.files[:first], 1):
        for slot, document in file.documents.items():
            name = file.path.name if file.name.is_json else f"{file.path.name}.output.{slot}.json"
            written.append(write_file(directory, name, json.dumps(document, indent=4).encode()))
        summary += [f"[{number}]".center(_RULE_WIDTH, "="), *_file_lines(found.dump, file, directory, written)]
    name = f"overflow_summary_{now:%Y%m%d%H%M%S}.txt"
    return [*written, write_file(directory, name, ("\n".join(summary) + "\n").encode())]


def _file_lines(dump: Dump, file: OverflowFile, directory: Path, written: list[Path]) -> Iterator[str]:
    """Yield the summary's lines of one overflow file, and write the tensors of its operators."""
    if file.problem:
        yield f" {file.problem}"
        return
    reports = list(reported_overflows(dump, [file]))
    if not reports:
        yield " [no unit reports an overflow: every status is 0]"
    for report in reports:
        if report.refs:
            op = report.refs[0].key.op
            yield f"[{op.op_type}] {op.label}"
        entry = report.entry
        status = str(entry.status[0]) if len(entry.status) == 1 else str(list(entry.status))
        yield f" [{entry.unit}][TaskId:{entry.task_id}][StreamId:{entry.stream_id}][Status:{status}]"
    yield f" [timestamp:{file.name.timestamp}]"
    for ref in dict.fromkeys(ref for report in reports for ref in report.refs):
        yield from _tensor_lines(ref, directory, written)


def _tensor_lines(ref: TensorRef, directory: Path, written: list[Path]) -> Iterator[str]:
    name = ref.source.name
    # What has one file for each tensor says in its name which tensor it is.
    stem = name[:-4] if name.endswith((".npy", ".bin")) else f"{name}.{ref.key.io}.{ref.key.slot}"
    name = f"{stem}.npy"
    yield f" {name}"
    try:
        with closing(open_view(ref)) as view:
            written.append(write_view(view, directory / name))
            side, spec = contents(view, ranges=None), view.spec
    except (MsdumpError, OSError) as error:
        yield f" -[{error}]"
        return
    counts = (("NaN", side.nan), ("Inf", side.inf), ("Saturated", side.saturated))
    yield (
        f" -[Format: {spec.memory_format or 'ND'}] [Shape: {spec.shape}] [Dtype: {spec.dtype}] [Max: {side.maximum}] "
        f"[Min: {side.minimum}] [Mean: {side.mean}]" + "".join(f" [{name}: {count}]" for name, count in counts if count)
    )


# The vendor's column is about this data type only, so others are not read.
_DTYPE = "float16"


def with_overflow(plan: Plan, report: Report) -> Report:
    """Mark each left tensor of a report of this plan, compared or not, that may have overflowed."""
    converters = plan.extras.converters
    alone = iter(plan.pairing.unmatched_left)
    records = [
        replace(record, left=record.left._replace(has_overflow=_has_overflow(pair.left, pair.transform, converters)))
        for record, pair in zip(report.records, plan.pairing.pairs, strict=True)
    ]
    unmatched = [
        replace(one, tensor=one.tensor._replace(has_overflow=_has_overflow(next(alone).ref, Transform(), converters)))
        if one.side == "left"
        else one
        for one in report.unmatched
    ]
    return replace(report, records=tuple(records), unmatched=tuple(unmatched))


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
            stored = logical(view, logical_shape=shape, logical_format=axes, converters=converters)
            return contents(stored, ranges=None).overflows
    except (MsdumpError, OSError):
        # Its record says why it cannot be read.
        return None


_SHOWN_OVERFLOWS = 10


def assert_no_overflow(dump_or_array: OpenDump | Dump | Tensor) -> None:
    """Fail when a dump, a tensor file or an array holds NaN, Inf, or values at their dtype's maximum.

    So do overflow files (Opdebug) of the device's own check that lie in a dump.

    Parameters
    ----------
    dump_or_array : OpenDump, str or Path of a dump or tensor file, TensorView, array_like
        One side alone; there is nothing to compare with.

    Raises
    ------
    AssertionError
        Names each tensor with its counts and first position, in execution order.
    """
    __tracebackhide__ = True
    dump = _dump_of(dump_or_array)
    reported: list[str] = []
    scanned: Iterable[tuple[str, Contents | str]]
    with ExitStack() as stack:
        if dump is not None:
            reported += _reported(dump)
            scanned = ((ref.key.address, scan_ref(ref)) for ref in dump.refs)
        else:
            _, view = open_tensor(dump_or_array, "tensor", stack)
            scanned = [("tensor", contents(view, ranges=None))] if view.size else []
    found: list[str] = []
    seen = 0
    for name, side in scanned:
        seen += 1
        if isinstance(side, str):
            found.append(f"{name}: {side}")
        elif side.nan or side.inf or side.saturated:
            found.append(f"{name}: {say(side.overflow)}")
    if not seen:
        raise AssertionError(f"nothing was checked: {dump_or_array!s:.80} holds no element")
    lines = [*reported, *found]
    if lines:
        more = [f"and {len(lines) - _SHOWN_OVERFLOWS} more"] if len(lines) > _SHOWN_OVERFLOWS else []
        heads = [f"the device's own check has {len(reported)} to report"] if reported else []
        heads += [f"{len(found)} of {seen} tensors overflow or cannot be read"] if found else []
        head = f"{'; '.join(heads)}; first in execution order:"
        raise AssertionError("\n  ".join([head, *lines[:_SHOWN_OVERFLOWS], *more]))


def _dump_of(given: OpenDump | Dump | Tensor) -> Dump | None:
    """The dump that was given, if it is one; a tensor file is a dump, too."""
    if isinstance(given, (str, PathLike)):
        return index(as_path(given))
    dump = given.dump if isinstance(given, OpenDump) else given
    return dump if isinstance(dump, Dump) else None


def _reported(dump: Dump) -> Iterator[str]:
    """What the device's own check says, and its files that cannot be read."""
    files = overflow_files(dump.root)
    for report in reported_overflows(dump, files):
        name = report.refs[0].key.op.label if report.refs else "an operator that was not dumped"
        yield f"{name}: {report.entry.sentence}"
    yield from (f"{file.path.name}: {file.problem}" for file in files if file.problem)

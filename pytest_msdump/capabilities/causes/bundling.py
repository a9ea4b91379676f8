"""A folder for each cause: its tensors of both sides, its limits, and the command that compares just this again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from pytest_msdump.capabilities.arrays.writer import whole_file, write_view
from pytest_msdump.capabilities.causes.summarised import role_line
from pytest_msdump.core.compare.align import align
from pytest_msdump.core.compare.opening import open_logical, open_view
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.user_code import Extras
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import shell_line, terminal_text
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import OpKey, Pair, TensorRef
from pytest_msdump.core.report.record_json import to_json
from pytest_msdump.core.report.shown import with_causes_first
from pytest_msdump.core.storage.files import make_folder

_MOST_CAUSES = 10

_INDEX = "causes.txt"
_LONGEST_NAME = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")

# Keys of a record on its limits and their outcome.
_LIMITS = (
    *("left", "right", "verdict", "role", "suspects", "role_reason", "judged_as", "nan", "known_drift"),
    *("rtol", "atol", "checks", "findings", "would_pass", "transform", "worst", "notes"),
)


def write_bundle(plan: Plan, report: Report, directory: Path, *, is_whole: bool = False) -> list[Path]:
    """Write a folder for each of the first ten causes, if it `is_whole` for each; return what the index lists."""
    placed = with_causes_first(record for record in report.records if record.role is not None)
    causes = [record for record in placed if record.role == "cause"] or [
        record for record in placed if record.role in ("unknown", "accumulated") and not record.causes
    ]
    orders = list(dict.fromkeys(record.order for record in causes))
    if not orders:
        return []
    by_order: dict[int, list[int]] = {}
    for number, record in enumerate(report.records):
        by_order.setdefault(record.order, []).append(number)
    lines: list[str] = []
    written = orders if is_whole else orders[:_MOST_CAUSES]
    for order in written:
        lines += _write_cause(plan, report, directory, by_order[order])
    if len(orders) > len(written):
        lines.append(f"{len(orders) - len(written)} more are left out; --msdump-all (--all) writes them")
    return [_write_text(directory / _INDEX, lines)]


def _write_cause(plan: Plan, report: Report, directory: Path, numbers: Sequence[int]) -> Iterator[str]:
    """Write the folder of one operator, and yield what is in it."""
    records = [report.records[number] for number in numbers]
    pairs = [plan.pairing.pairs[number] for number in numbers]
    op = pairs[0].left.key.op
    # It cannot leave the folder, whatever the operator is called; the number makes it unique.
    name = f"op{records[0].order + 1}_{_UNSAFE.sub('_', op.label)[-_LONGEST_NAME:].strip('_')}"
    folder = directory / name
    roles = [record for record in records if record.role is not None] or records
    yield f"{folder.name}  {terminal_text(op.label)}"
    yield f"  {role_line(roles[0])}"
    for pair in pairs:
        yield from _written(folder, f"{pair.left.key.io}_{pair.left.key.slot}", pair, plan.extras)
    for side, dump, keys in (
        ("left", plan.left, {pair.left.key.op for pair in pairs}),
        ("right", plan.right, {pair.right.key.op for pair in pairs}),
    ):
        compared = {getattr(pair, side).key for pair in pairs}
        inputs = [ref for ref in dump.refs if ref.key.io == "input" and ref.key.op in keys and ref.key not in compared]
        # A number distinguishes several operators.
        operators: dict[OpKey, int] = {}
        for ref in inputs:
            number = operators.setdefault(ref.key.op, len(operators))
            among = f"_of_{number}" if number else ""
            yield from _alone(folder, f"input_{ref.key.slot}{among}_{side}", ref)
    entries = [to_json(record) for record in records]
    tensors = [{key: entry[key] for key in _LIMITS if key in entry} for entry in entries]
    limits = {"profile": report.profile, "limits": dict(report.limits), "tensors": tensors}
    _write_text(folder / "limits.json", [json.dumps(limits, indent=1, allow_nan=False)])
    _write_text(folder / "command.txt", [shell_line(report.again(op.label))])


def _written(folder: Path, name: str, pair: Pair, extras: Extras) -> Iterator[str]:
    """Write both tensors as they were compared: one shape, without padding."""
    paths = (folder / f"{name}_left.npy", folder / f"{name}_right.npy")
    try:
        if pair.left.is_unseen or pair.right.is_unseen:
            raise MsdumpError("only statistics were saved of it")
        with closing(open_view(pair.left)) as left, closing(open_view(pair.right)) as right:
            aligned = align(pair, left, right, extras.converters)
            for view, path in zip((aligned.left, aligned.right), paths, strict=True):
                make_folder(folder, kind=MsdumpError)
                write_view(view, path)
    except (MsdumpError, OSError) as error:
        _check_folder(folder)
        yield f"  {name} was not written as it was compared: {terminal_text(str(error))}"
        for side, ref in (("left", pair.left), ("right", pair.right)):
            yield from _alone(folder, f"{name}_{side}", ref)
    else:
        yield from (f"  {path.name}" for path in paths)


def _alone(folder: Path, name: str, ref: TensorRef) -> Iterator[str]:
    """Write one tensor in its logical shape."""
    path = folder / f"{name}.npy"
    try:
        if ref.is_unseen:
            raise MsdumpError("only statistics were saved of it")
        with closing(open_logical(ref)) as view:
            make_folder(folder, kind=MsdumpError)
            write_view(view, path)
    except (MsdumpError, OSError) as error:
        _check_folder(folder)
        yield f"  {name} was not written: {terminal_text(str(error))}"
    else:
        yield f"  {path.name}"


def _check_folder(folder: Path) -> None:
    """Raise if the folder cannot be written; a tensor that cannot be read is only left out."""
    make_folder(folder, kind=MsdumpError)
    with whole_file(folder / "command.txt"):
        pass


def _write_text(path: Path, lines: Iterable[str]) -> Path:
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
    make_folder(path.parent, kind=MsdumpError)
    with whole_file(path) as stream:
        stream.write(content)
    return path

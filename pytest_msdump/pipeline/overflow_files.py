"""Files of ``msdump overflow -out``: the records as JSON, the culprits' tensors as npy, and a summary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from pytest_msdump.errors import MsdumpError
from pytest_msdump.metrics.overflow import OneSide, scan
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.pipeline.culprits import Culprit, culprits_of
from pytest_msdump.pipeline.opening import open_view
from pytest_msdump.pipeline.overflow import Overflows
from pytest_msdump.readers.npy_writer import write_npy
from pytest_msdump.readers.opdebug_files import OverflowFile
from pytest_msdump.reporting.atomic import write_file

__all__ = ["write_overflow_files"]

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

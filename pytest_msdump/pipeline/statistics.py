"""What a run saved of its tensors as numbers: put beside them, and taken in the place of those that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import Coordinates, TensorRef
from pytest_msdump.readers.ascend import AscendReader
from pytest_msdump.readers.converted import ConvertedReader
from pytest_msdump.readers.mindspore import MindSporeReader
from pytest_msdump.readers.mindspore_runs import placed
from pytest_msdump.readers.statistics import READER, read_statistics

__all__ = ["is_unseen", "with_statistics"]

# Folders of a reference are nobody's run: a table in one is not about its tensors.
_OF_RUNS = frozenset({MindSporeReader.name, AscendReader.name, ConvertedReader.name})

# Operator, type, coordinates, input or output, slot: a name that a table spells with slashes is the same tensor.
_Identity = tuple[str, str | None, Coordinates, str, int]


def is_unseen(ref: TensorRef) -> bool:
    """Whether only statistics of a tensor were saved."""
    return ref.reader == READER


def with_statistics(dump: Dump) -> Dump:
    """Attach the statistics of a run to its tensors; those without a tensor become tensors that cannot be opened.

    Parameters
    ----------
    dump : Dump
        As its reader gives it, before anything beside it tells more: keys are those of file names.

    Returns
    -------
    Dump
        In order. `reader` is ``"statistics"`` where no tensor was saved at all; tables are no longer unexplained.
    """
    if dump.reader not in _OF_RUNS or not dump.root.is_dir():
        return dump
    tables = read_statistics(dump.root)
    notes = (*dump.notes, *(note for note in tables.notes if note not in dump.notes))
    files: frozenset[Path] = frozenset(tables.files)
    dump = replace(dump, notes=notes, unexplained=tuple(path for path in dump.unexplained if path not in files))
    if not (tables.rows or tables.older):
        return dump
    refs, alone = _joined(dump.refs, tables.rows)
    older, _ = _joined(dump.older, tables.older)
    if not refs and not older:
        return replace(dump, reader=READER, refs=tables.rows, older=tables.older)
    if alone:
        count = "1 tensor was" if len(alone) == 1 else f"{len(alone)} tensors were"
        notes = (*notes, f"{count} saved as statistics only, e.g. {alone[0].key.address}")
    return replace(dump, refs=placed((*refs, *alone)) if alone else refs, older=older, notes=notes)


def _joined(
    refs: Iterable[TensorRef], rows: Iterable[TensorRef]
) -> tuple[tuple[TensorRef, ...], tuple[TensorRef, ...]]:
    """Return the tensors with their statistics, and the rows that are about none of them."""
    left: dict[_Identity, TensorRef] = {_identity(row): row for row in rows}
    joined = tuple(_attached(ref, left) for ref in refs)
    known = {_identity(ref) for ref in joined}
    return joined, tuple(row for identity, row in left.items() if identity not in known)


def _attached(ref: TensorRef, rows: Mapping[_Identity, TensorRef]) -> TensorRef:
    row = rows.get(_identity(ref))
    return ref if row is None else replace(ref, statistics=row.statistics)


def _identity(ref: TensorRef) -> _Identity:
    op = ref.key.op
    return (op.name, op.op_type, op.at, ref.key.io, ref.key.slot)

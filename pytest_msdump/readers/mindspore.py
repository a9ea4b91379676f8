"""The tree a MindSpore run dumps: ``rank_<R>/<net>/<graph>/<iteration>/*.npy`` and the files around it.

References
----------
MindSpore "Dump" documentation, releases 1.5 to 2.10, "synchronous dump"; trees written by 2.10 on CPU.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import placed_by_time
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorView
from pytest_msdump.readers.base import Reader
from pytest_msdump.readers.filename import MindSporeName, number, parse_mindspore
from pytest_msdump.readers.listing import Folder, walk
from pytest_msdump.readers.repeats import sort_out
from pytest_msdump.readers.sidefiles import MAPPING, read_mapping, read_run_labels

__all__ = ["MindSporeReader"]

_RANK = re.compile(r"rank_(0|[1-9][0-9]{0,8})")
# rank, net, graph, iteration.
_LEVELS = 4
# Constants of a graph are dumped once, beside its iterations.
_CONSTANTS = "constants"
_RANK_FOLDERS = frozenset({".dump_metadata", "graphs", "execution_order"})
_RUN_LABELS = (".dump_metadata", "config.json")
_TENSOR_SIDE_FILES = frozenset({MAPPING, "statistic.csv"})
_RANK_SIDE_FILES = frozenset({"hccl.json"})


class _Contents(NamedTuple):
    """What one directory holds, and sentences about it."""

    refs: list[TensorRef]
    unexplained: list[Path]
    notes: list[str]


class MindSporeReader(Reader):
    """A dump tree of ``.npy`` files, or any directory within one, down to the files of one iteration.

    Coordinates come from the path. A directory that was copied out of its tree is read too: what its path no longer
    tells (rank, net, graph) is unknown and matches any value, and a directory of files alone is iteration 0.
    """

    name = "mindspore"
    looks_for = "a MindSpore dump tree, rank_R/NET/GRAPH/ITERATION/*.npy, whose file names have 9 or 10 fields"
    precedence = 10

    def recognises(self, root: Path) -> bool:
        """Tell whether any file name below `root` is one of MindSpore's, or all are side files of a rank."""
        if not root.is_dir():
            return False
        only_side_files = False
        foreign = False
        for folder in walk(root):
            if _holds_tensors(root, folder):
                return True
            known = _side_files(root, folder, has_tensors=False)
            explained = [name in known for name in folder.files]
            only_side_files |= any(explained)
            foreign |= not all(explained) or bool(folder.closed)
        return only_side_files and not foreign

    def index(self, root: Path) -> Dump:
        """List the tensors of the tree; see `Reader.index`."""
        refs: list[TensorRef] = []
        unexplained: list[Path] = []
        notes: list[str] = []
        labels: dict[str, set[str]] = {}
        for folder in walk(root):
            contents = _contents(root, folder, self.name)
            refs += contents.refs
            unexplained += contents.unexplained
            notes += contents.notes
            if folder.parts[-1:] == _RUN_LABELS[:1] and _RUN_LABELS[1] in folder.files:
                notes += _add_labels(labels, root, folder.relative(_RUN_LABELS[1]))
        nets = {ref.key.op.at.net for ref in refs if ref.key.op.at.net is not None}
        if len(nets) == 1:
            labels["net"] = nets
        repeats = sort_out(refs)
        return Dump(
            root=root,
            reader=self.name,
            refs=placed_by_time(repeats.newest),
            older=repeats.older,
            unexplained=tuple(sorted(unexplained)),
            labels=tuple((name, ", ".join(sorted(values))) for name, values in sorted(labels.items())),
            notes=(*repeats.notes, *notes),
        )

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        from pytest_msdump.readers.npy import open_npy

        return open_npy(ref.source.path, ref.spec)


def _add_labels(labels: dict[str, set[str]], root: Path, relative: Path) -> list[str]:
    """Add what a rank's ``config.json`` knows of the run; return a sentence when it cannot be read."""
    found, note = read_run_labels(root / relative)
    for name, value in found:
        labels.setdefault(name, set()).add(value)
    return [f"{relative.as_posix()} {note}"] if note else []


def _holds_tensors(root: Path, folder: Folder) -> bool:
    """Whether there are tensors in a directory, by names alone."""
    if _coordinates(root, folder.parts) is None:
        return False
    if any(parse_mindspore(name) for name in folder.files):
        return True
    # Directories in which every name was too long: numbers, and the table of their meaning.
    return _in_tree(root, folder.parts) and MAPPING in folder.files and any(map(_is_numbered, folder.files))


def _is_numbered(name: str) -> bool:
    return name.endswith(".npy") and number(name[: -len(".npy")]) is not None


def _contents(root: Path, folder: Folder, reader: str) -> _Contents:
    """Sort the files of one directory into tensors, known side files, and the rest."""
    at = _coordinates(root, folder.parts)
    originals, notes = _originals(root, folder) if at else ({}, [])
    path = folder.below(root)
    refs: list[TensorRef] = []
    rest: list[str] = []
    for name in folder.files:
        parsed = _parse(name, originals) if at else None
        if at and parsed:
            refs.append(_ref(parsed, at, path / name, reader))
        else:
            rest.append(name)
    known = _side_files(root, folder, has_tensors=bool(refs))
    unexplained = [name for name in rest if name not in known]
    return _Contents(refs, [folder.relative(name) for name in (*unexplained, *folder.closed)], notes)


def _originals(root: Path, folder: Folder) -> tuple[Mapping[str, str], list[str]]:
    """Return the names that were too long for the file system, by the names they were given, and sentences."""
    if MAPPING not in folder.files:
        return {}, []
    relative = folder.relative(MAPPING)
    originals, note = read_mapping(root / relative)
    notes = [f"{relative.as_posix()} {note}"] if note else []
    absent = sorted(set(originals) - set(folder.files))
    if absent:
        count = "1 that is" if len(absent) == 1 else f"{len(absent)} that are"
        notes.append(f"{relative.as_posix()} names {count} not there, e.g. {absent[0]}")
    return originals, notes


def _parse(name: str, originals: Mapping[str, str]) -> MindSporeName | None:
    return parse_mindspore(name) or parse_mindspore(originals.get(name, ""))


def _ref(parsed: MindSporeName, at: Coordinates, path: Path, reader: str) -> TensorRef:
    op = OpKey(name=parsed.op, at=at, op_type=parsed.op_type)
    return TensorRef(
        key=TensorKey(op, parsed.io, parsed.slot),
        spec=parsed.spec,
        source=TensorSource(path, parsed.timestamp),
        reader=reader,
    )


def _coordinates(root: Path, parts: tuple[str, ...]) -> Coordinates | None:
    """Say where in a run the files of a directory were dumped; ``None`` when such a directory holds no tensors."""
    if len(parts) > _LEVELS:
        return None
    return next(_readings(root, parts), None)


def _in_tree(root: Path, parts: tuple[str, ...]) -> bool:
    """Whether a directory is a whole ``rank_R/NET/GRAPH/ITERATION``, the parents of `root` included."""
    at = _coordinates(root, parts)
    return at is not None and at.rank is not None


def _readings(root: Path, parts: tuple[str, ...]) -> Iterator[Coordinates]:
    """Read the last four levels of the absolute path; if they are no such tree, what is known below `root` alone."""
    whole = (*_absolute(root).parts[1:], *parts)[-_LEVELS:]
    unknown = (None,) * (_LEVELS - len(parts))
    for levels in (whole, (*unknown, *parts)):
        if len(levels) == _LEVELS and (at := _from_levels(*levels)):
            yield at


def _absolute(root: Path) -> Path:
    # Not `resolve`: a link that is called rank_0 is that rank, wherever it leads.
    return Path(os.path.abspath(root))  # noqa: PTH100


def _from_levels(rank: str | None, net: str | None, graph: str | None, last: str | None) -> Coordinates | None:
    """Turn four directory names into coordinates; a level that is unknown is ``None``."""
    rank_match = _RANK.fullmatch(rank or "")
    graph_number, iteration = _plain_number(graph), _plain_number(last)
    fits = (
        (rank is None or rank_match)
        and (graph is None or graph_number is not None)
        and (last in (None, _CONSTANTS) or iteration is not None)
    )
    if not fits:
        return None
    return Coordinates(
        rank=int(rank_match[1]) if rank_match else None,
        net=net,
        graph=graph_number,
        iteration=0 if last is None else iteration,
        occurrence=0,
    )


def _plain_number(text: str | None) -> int | None:
    """Return the value of a number as MindSpore writes it: without zeros in front."""
    value = number(text or "")
    return value if value is not None and str(value) == text else None


def _side_files(root: Path, folder: Folder, *, has_tensors: bool) -> frozenset[str]:
    """Return the files that are no tensors but that MindSpore writes at this place."""
    if has_tensors or _in_tree(root, folder.parts):
        # Arguments of kernels are saved as OP_TYPE.OP.json beside the tensors.
        return frozenset(name for name in folder.files if name in _TENSOR_SIDE_FILES or name.endswith(".json"))
    in_rank = _below_rank(root, folder.parts)
    if in_rank is None:
        return frozenset()
    if not in_rank:
        return _RANK_SIDE_FILES
    return frozenset(folder.files) if in_rank[0] in _RANK_FOLDERS else frozenset()


def _below_rank(root: Path, parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the directory's parts below its ``rank_R``; ``None`` when it is in none."""
    if parts and _RANK.fullmatch(parts[0]):
        return parts[1:]
    return parts if _RANK.fullmatch(_absolute(root).name) else None

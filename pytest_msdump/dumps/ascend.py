"""Dumps of Ascend devices: binary files, each with all inputs and outputs of one operator, or of one slice of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from pytest_msdump.dumps.ascend_names import (
    AscendName,
    Found,
    Remarks,
    parse_ascend,
    parse_converted,
    parse_protobuf,
    refs_of,
)
from pytest_msdump.dumps.base import Reader
from pytest_msdump.dumps.dump_tree import Place, place_of
from pytest_msdump.dumps.filename import may_tell_io, number, parse_mindspore, parse_reference
from pytest_msdump.dumps.listing import Folder, walk
from pytest_msdump.dumps.mindspore_runs import sort_out_runs
from pytest_msdump.dumps.opdebug import parse_opdebug
from pytest_msdump.dumps.sidefiles import MAPPING, originals_in
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import placed_by_time
from pytest_msdump.model.tensor import Coordinates, TensorRef, TensorView

__all__ = ["AscendReader"]

# Seconds since 1970 have ten digits. `libx.so.1.2.3` has the form of a dump's name, too.
_PLAUSIBLE_TIME = 10**9
_OVERFLOW_TYPE = "Opdebug"
_SIDE_FILE = re.compile(r"mapping\.csv|convert_failed_file_list\.txt|statistic\.csv|acl_dump_[0-9]+\.json|hccl\.json")
_RANK = re.compile(r"rank_[0-9]{1,9}")
_RANK_FOLDERS = frozenset({".dump_metadata", "graphs", "execution_order"})

_OVERFLOW = "{files} of the overflow check (Opdebug), which are no tensors to compare, e.g. {example}"
_NO_NAME = "{files} with a number for a name that no mapping.csv explains, e.g. {example}"
_TASK_TYPE = "{files} with a task type other than 0 to 4 in the name, which are left out, e.g. {example}"
_MADE_OF_DUMPS = "{files} made of dumps that are still beside them, which are read instead, e.g. {example}"
_OTHER_KIND = (
    "{files} of another dump format beside Ascend dumps, left out: give them a folder of their own; e.g. {example}"
)


class AscendReader(Reader):
    """Binary dump files in a flat folder, in the tree of CANN or in one of MindSpore's asynchronous dump.

    Unlike other readers it reads a little of every file, the header, since nothing else tells which tensors are in it.
    Files of other formats beside them (``op.index.timestamp.npy``, ``.pb``) are listed as unexplained.
    """

    name = "ascend"
    looks_for = (
        "Ascend dump files, OP_TYPE.OP.TASK[.STREAM].TIMESTAMP, in one folder, in TIME/DEVICE/MODEL/MODEL_ID/INDEX "
        "or in rank_R/NET/GRAPH/ITERATION"
    )
    # Above readers of arrays, which dumps have beside them once a tool has converted them.
    precedence = 12

    def recognises(self, root: Path) -> bool:
        """Tell whether a file at or below `root` is named like a dump, with a time of ten digits or more.

        Not so where MindSpore wrote its own arrays and left the device's files only where it could not convert them.
        """
        if not root.is_dir():
            return _is_certain(root.name)
        folders = [folder for folder in walk(root) if place_of(root, folder.parts) is not None]
        if any(map(_has_arrays, folders)):
            return False
        if any(map(_has_dumps, folders)):
            return True
        # Overflow files alone do not make a dump of a device out of arrays that were made of one.
        return not any(map(_has_array_files, folders)) and any(map(_has_overflow, folders))

    def index(self, root: Path) -> Dump:
        """List the tensors of `root`; reads the header of each file, never more than 64 MiB of it."""
        remarks = Remarks()
        if not root.is_dir():
            return _index_file(root, remarks, self.name)
        refs: list[TensorRef] = []
        unexplained: list[Path] = []
        labels: dict[str, set[str]] = {}
        for folder in walk(root):
            place = place_of(root, folder.parts)
            found, rest = _sorted_out(root, folder, place, remarks)
            refs += refs_of(found, remarks, reader=self.name)
            unexplained += map(folder.relative, (*rest, *folder.closed))
            for title, value in place.labels if found and place else ():
                labels.setdefault(title, set()).add(value)
        repeats = sort_out_runs(root, refs)
        return Dump(
            root=root,
            reader=self.name,
            refs=placed_by_time(repeats.newest, repeats.partial),
            older=repeats.older,
            partial=repeats.partial,
            unexplained=tuple(sorted(unexplained)),
            labels=tuple((title, ", ".join(sorted(values))) for title, values in sorted(labels.items())),
            notes=(*repeats.notes, *remarks.notes),
        )

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily in its stored axes; see `Reader.open`."""
        if ref.source.pieces:
            from pytest_msdump.dumps.ffts import open_sliced

            return open_sliced(ref.source.pieces, ref.source.part)
        return self._open_part(ref.source.location, ref.source.part, ref.source.noted)

    # Importing it costs as much as all else that happens above, and it brings numpy.
    @cached_property
    def _open_part(self) -> Callable[[Path | str, int | None, object], TensorView]:
        from pytest_msdump.dumps.array_reader import open_part

        return open_part


def _is_certain(name: str) -> bool:
    parsed = parse_ascend(name)
    return parsed is not None and parsed.timestamp >= _PLAUSIBLE_TIME


def _has_overflow(folder: Folder) -> bool:
    return any(parse_opdebug(name) is not None for name in folder.files)


def _has_array_files(folder: Folder) -> bool:
    return any(name.endswith(".npy") for name in folder.files)


def _has_dumps(folder: Folder) -> bool:
    if any(_is_certain(name) and parse_opdebug(name) is None for name in folder.files):
        return True
    return MAPPING in folder.files and any(map(_is_hashed, folder.files))


def _has_arrays(folder: Folder) -> bool:
    """Whether there are arrays of MindSpore's other than those made of dumps that are still beside them."""
    if not may_tell_io(folder.files):
        return False
    arrays = (name for name in folder.files if parse_mindspore(name))
    first = next(arrays, None)
    if first is None:
        return False
    runs = {_run(parsed) for parsed in map(parse_ascend, folder.files) if parsed}
    return not all(_is_made_of(name, runs) for name in (first, *arrays)) if runs else True


def _run(parsed: AscendName) -> tuple[object, ...]:
    """Identify one run of an operator; its name may be shorter in arrays that were made of its dump."""
    return (parsed.op_type, parsed.task, parsed.stream, parsed.timestamp)


def _is_made_of(name: str, runs: Container[tuple[object, ...]]) -> bool:
    """Whether an array was made of one of the dumps `runs`."""
    converted = parse_converted(name)
    return converted is not None and _run(converted.dump) in runs


def _is_hashed(name: str) -> bool:
    """Whether a name is the number that stands for one too long for the file system."""
    return number(name) is not None


def _index_file(path: Path, remarks: Remarks, reader: str) -> Dump:
    parsed = parse_ascend(path.name)
    found = [Found(path.parent, path.name, parsed, Coordinates())] if parsed else []
    refs = placed_by_time(refs_of(found, remarks, reader=reader))
    return Dump(root=path, reader=reader, refs=refs, notes=remarks.notes)


def _sorted_out(
    root: Path, folder: Folder, place: Place | None, remarks: Remarks
) -> tuple[Sequence[Found], Sequence[str]]:
    """Sort the files of one directory into dumps and unexplained ones; known side files are neither."""
    originals = _originals(root, folder, remarks)
    below = folder.below(root)
    found: list[Found] = []
    others: list[tuple[str, AscendName | None]] = []
    for name in folder.files:
        parsed = parse_ascend(originals.get(name, name))
        if parsed and place and parsed.is_known and parsed.op_type != _OVERFLOW_TYPE:
            found.append(Found(below, name, parsed, place.at))
        else:
            others.append((name, parsed))
    runs = {_run(one.name) for one in found} if others else set()
    rest: list[str] = []
    for name, parsed in others:
        if _is_made_of(name, runs):
            remarks.add(_MADE_OF_DUMPS, folder.relative(name).as_posix())
        elif not _is_side_file(root, folder, name, parsed, remarks):
            rest.append(name)
            _remark(folder.relative(name), parsed, remarks)
    return found, rest


def _originals(root: Path, folder: Folder, remarks: Remarks) -> Mapping[str, str]:
    """Return the names that were too long for the file system, by the numbers they were given."""
    originals, notes = originals_in(root, folder)
    remarks.say(*notes)
    return {new: original for new, original in originals.items() if _is_hashed(new)}


def _is_side_file(root: Path, folder: Folder, name: str, parsed: AscendName | None, remarks: Remarks) -> bool:
    """Whether a file is no tensor, but one that is written beside them."""
    if parsed and parsed.op_type == _OVERFLOW_TYPE:
        remarks.add(_OVERFLOW, folder.relative(name).as_posix())
        return True
    levels = (root.name, *folder.parts)
    in_rank = any(_RANK.fullmatch(above) and below in _RANK_FOLDERS for above, below in pairwise(levels))
    return in_rank or _SIDE_FILE.fullmatch(name) is not None


def _remark(relative: Path, parsed: AscendName | None, remarks: Remarks) -> None:
    """Say why a file that looks like a tensor is left out."""
    name = relative.name
    if parsed and not parsed.is_known:
        remarks.add(_TASK_TYPE, relative.as_posix())
    elif _is_hashed(name):
        remarks.add(_NO_NAME, relative.as_posix())
    elif any(parse(name) for parse in (parse_reference, parse_mindspore, parse_converted, parse_protobuf)):
        remarks.add(_OTHER_KIND, relative.as_posix())

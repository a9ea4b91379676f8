"""The trees that MindSpore dumps, of every release since 1.2, whatever mixture of files is in them.

References
----------
MindSpore "Dump" documentation, releases 1.2 to 2.10; trees written by 2.10 on CPU.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.dumps.array_reader import open_flat
from pytest_msdump.core.dumps.base import DumpBuilder, Reader, reader
from pytest_msdump.core.dumps.dump_tree import (
    FIRST_FOLDERS,
    MADE_OF_DUMPS,
    OVERFLOW_FILES,
    RANK_FOLDERS,
    FoundDump,
    TreePlace,
    below_rank,
    is_first_layout,
    mindspore_place,
)
from pytest_msdump.core.dumps.file_names import (
    AscendName,
    MindSporeName,
    number,
    parse_ascend,
    parse_converted,
    parse_flat,
    parse_flat_npy,
    parse_mindspore,
    parse_opdebug,
    run_of,
)
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import order_by_time, separate_tree_runs
from pytest_msdump.core.dumps.sidefiles import MAPPING, STATISTICS_FILE, originals_in, read_run_labels
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

# The reader of a device's dump files.
_DEVICE = "ascend"
_METADATA, _CONFIG = ".dump_metadata", "config.json"
_RAW, _NPY, _CSV = ".bin", ".npy", ".csv"

_RANK_SIDE_FILE = "hccl.json"
# Arguments of a kernel, OP_TYPE.OP.json.
_ARGUMENTS = re.compile(r"[^.]+\..+\.json", re.DOTALL)
# Options and output of the compiler, wherever a user keeps them, and graphs.
_ANYWHERE = re.compile(
    r"acl_dump_[0-9]+\.json|hccl\.json|ge_(?:proto|onnx)_.+\.(?:txt|pbtxt)|convert_failed_file_list\.txt"
    r"|ms_output_trace_code_graph_[0-9]+\.(?:ir|pb)|ms_(?:global_)?execution_order_graph_[0-9]+\.csv"
)
_SHAPE = re.compile(r"[0-9x]+")


class MindSporeReader(Reader):
    """A dump tree with arrays that MindSpore wrote, or any directory within one, down to the files of one iteration."""

    name = "mindspore"
    looks_for = (
        "a MindSpore dump tree, rank_R/NET/GRAPH/ITERATION/*.npy, whose file names have 9 or 10 fields, or "
        "NET/device_D/iteration_N/*.bin"
    )
    precedence = 10

    def recognises(self, root: Path) -> bool:
        """Return whether any file name below `root` is one of MindSpore's, or all are side files of a run."""
        if not root.is_dir():
            return False
        only_side_files = False
        foreign = False
        for folder in walk(root):
            place = mindspore_place(root, folder.parts)
            if place and _has_own_tensors(root, folder, place):
                return True
            known = _side_files(root, folder, place, has_tensors=False)
            only_side_files |= bool(known)
            foreign |= len(known) < len(folder.files) or bool(folder.closed)
        return only_side_files and not foreign

    def index(self, root: Path) -> Dump:
        """List the tensors of the tree; see `Reader.index`. Of a device's dump files it reads the header."""
        builder = DumpBuilder(root, self.name)
        for folder in walk(root):
            _index_folder(builder, folder, mindspore_place(root, folder.parts))
            if folder.parts[-1:] == (_METADATA,) and _CONFIG in folder.files:
                labels, note = read_run_labels(folder.below(root) / _CONFIG)
                for name, value in labels.items():
                    builder.labels[name].add(value)
                if note:
                    builder.note(f"{folder.text(_CONFIG)} {note}")
        nets = {ref.key.op.at.net for ref in builder.refs if ref.key.op.at.net is not None}
        if len(nets) == 1:
            builder.labels["net"] = nets
        return builder.build(separate_tree_runs(root, builder.refs), order=order_by_time)

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        if ref.reader == _DEVICE:
            return reader(_DEVICE).open(ref)
        if ref.source.name.endswith(_RAW):
            return open_flat(ref.source.path, ref.spec)
        return open_npy(ref.source.location, ref.spec, of_mindspore=True)


class _Array(NamedTuple):
    """A tensor in a file of its own; `dump` is what its name says of the dump file that it may have been made of."""

    op: str
    op_type: str | None
    io: str
    slot: int
    timestamp: int | None
    spec: TensorSpec
    dump: MindSporeName | AscendName | None = None
    true_name: str | None = None


def _index_folder(builder: DumpBuilder, folder: Folder, place: TreePlace | None) -> None:
    """Add the files of one directory; `place` is ``None`` for one that holds no tensors."""
    originals = _originals(builder, folder) if place else {}
    path, is_first = folder.below(builder.root), is_first_layout(builder.root, folder.parts)
    arrays: list[tuple[str, _Array]] = []
    dumps: list[FoundDump] = []
    rest: list[str] = []
    reads_dumps = builder.reader in ports.rows("BESIDE")
    for name in folder.files:
        names = (name, originals[name]) if name in originals else (name,)
        if place and (array := next(filter(None, (_parse_array(one, is_first=is_first) for one in names)), None)):
            arrays.append((name, array))
        elif place and reads_dumps and (dump := next(filter(None, map(_parse_dump, names)), None)):
            dumps.append(FoundDump(path, name, dump, place.at))
        else:
            rest.append(name)
    runs = {run_of(dump.name) for dump in dumps}
    refs: list[TensorRef] = []
    for name, array in arrays:
        if array.dump and run_of(array.dump) in runs:
            builder.note_file(MADE_OF_DUMPS, folder.text(name))
        elif place:
            key = TensorKey(OpKey(array.op, place.at, array.op_type, array.true_name), array.io, array.slot)
            source = TensorSource(path, name, array.timestamp)
            refs.append(TensorRef(key, array.spec, source, builder.reader))
    for name in rest:
        if parse_opdebug(name):
            builder.note_file(OVERFLOW_FILES, folder.text(name))
    known = _side_files(builder.root, folder, place, has_tensors=bool(arrays or dumps))
    builder.leave_out(folder, (name for name in rest if name not in known))
    builder.add_labels(place if refs or dumps else None)
    builder.refs += refs
    if dumps:
        builder.refs += ports.load(ports.rows("BESIDE")[builder.reader])(dumps, builder, reader=_DEVICE)


def _originals(builder: DumpBuilder, folder: Folder) -> Mapping[str, str]:
    originals, notes = originals_in(builder.root, folder)
    builder.note(*notes)
    absent = sorted(set(originals) - set(folder.files))
    if absent:
        count = "1 that is" if len(absent) == 1 else f"{len(absent)} that are"
        builder.note(f"{folder.text(MAPPING)} names {count} not there, e.g. {absent[0]}")
    return originals


def _parse_array(name: str, *, is_first: bool) -> _Array | None:
    parsed = parse_mindspore(name)
    # A shape in the place of the memory format is the mark of the vendor's first tool.
    is_sure = parsed is not None and not _SHAPE.fullmatch(parsed.dtype or parsed.memory_format)
    converted = None if is_sure else parse_converted(name)
    if parsed and (is_sure or (converted and not converted.has_shape)):
        return _Array(parsed.op, parsed.op_type, parsed.io, parsed.slot, parsed.timestamp, parsed.spec, parsed)
    if converted:
        dump, spec = converted.dump, TensorSpec(memory_format=converted.memory_format)
        return _Array(dump.op, dump.op_type, converted.io, converted.slot, dump.timestamp, spec, dump)
    flat = parse_flat(name) or (parse_flat_npy(name) if is_first else None)
    return (
        _Array(flat.op, flat.op_type, flat.io, flat.slot, None, flat.spec, true_name=flat.true_name) if flat else None
    )


def _parse_dump(name: str) -> AscendName | None:
    parsed = parse_ascend(name)
    return parsed if parsed and parsed.is_known and not parse_opdebug(name) else None


def _has_own_tensors(root: Path, folder: Folder, place: TreePlace) -> bool:
    """Whether MindSpore itself wrote arrays to a directory, by names alone."""
    if any(map(parse_mindspore, folder.files)) or any(map(parse_flat, folder.files)):
        return True
    if is_first_layout(root, folder.parts) and any(map(parse_flat_npy, folder.files)):
        return True
    # Directories in which every name was too long: numbers, and the table of their meaning.
    is_mapped = place.at.rank is not None and MAPPING in folder.files
    return is_mapped and any(
        name.endswith(_NPY) and number(name.removesuffix(_NPY)) is not None for name in folder.files
    )


def _side_files(root: Path, folder: Folder, place: TreePlace | None, *, has_tensors: bool) -> Collection[str]:
    """Return the names in a directory that are no tensors but that MindSpore writes at this place."""
    in_rank = below_rank(root, folder)
    if (in_rank and in_rank[0] in RANK_FOLDERS) or FIRST_FOLDERS.fullmatch("/".join(folder.parts)):
        return frozenset(folder.files)
    is_sure = has_tensors or (place is not None and place.at.rank is not None)

    def is_side_file(name: str) -> bool:
        if name == _RANK_SIDE_FILE and in_rank == ():
            return True
        if name == STATISTICS_FILE and (is_sure or not folder.parts):
            return True
        if is_sure and (name == MAPPING or _ARGUMENTS.fullmatch(name)):
            return True
        if place and (parse_opdebug(name) or (name.endswith(_CSV) and parse_ascend(name.removesuffix(_CSV)))):
            return True
        return _ANYWHERE.fullmatch(name) is not None

    # None of them is an array, and arrays are what a directory is full of.
    return frozenset(name for name in folder.files if not name.endswith(_NPY) and is_side_file(name))

"""Dumps of Ascend devices: binary files, each with all inputs and outputs of one operator, or of one slice of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from pytest_msdump.capabilities.ascend.dump_file import open_output, open_part, read_header
from pytest_msdump.capabilities.ascend.dump_proto import DataType
from pytest_msdump.capabilities.ascend.header import Header
from pytest_msdump.capabilities.ascend.slices import open_sliced
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.array_reader import open_flat
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.dump_tree import (
    FIRST_FOLDERS,
    MADE_OF_DUMPS,
    OVERFLOW_FILES,
    RANK_FOLDERS,
    FoundDump,
    TreePlace,
    place_of,
)
from pytest_msdump.core.dumps.file_names import (
    PROTOBUF_SUFFIXES,
    AscendName,
    is_time,
    number,
    parse_ascend,
    parse_converted,
    parse_converted_bin,
    parse_mindspore,
    parse_opdebug,
    parse_protobuf,
    parse_reference,
    run_of,
    slice_name,
    slice_number,
)
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import Reruns, separate_runs, separate_tree_runs
from pytest_msdump.core.dumps.sidefiles import MAPPING, originals_in
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.dump import Dump, file_spelling
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
    location_of,
)

# Sentences of `DumpBuilder.note_file`.
_NO_NAME = "note_no_name"
_TASK_TYPE = "note_task_type"
_OTHER_KIND = "note_other_kind"
_UNREADABLE = "note_header_unread"
_WITHOUT_TENSORS = "note_without_tensors"
_UNTYPED = "note_untyped"
_TRAILING = "note_trailing"
_FIRST_THREAD = "note_first_thread"

# Seconds since 1970 have ten digits. `libx.so.1.2.3` has the form of a dump's name, too.
_PLAUSIBLE_TIME = 10**9
_OVERFLOW_TYPE = "Opdebug"
_SIDE_FILE = re.compile(r"mapping\.csv|convert_failed_file_list\.txt|statistic\.csv|acl_dump_[0-9]+\.json|hccl\.json")
_RANK = re.compile(r"rank_[0-9]{1,9}")


class AscendReader(Reader):
    """Binary dump files in a flat folder, in the tree of CANN or in one of MindSpore's asynchronous dump."""

    name = "ascend"
    looks_for = (
        "Ascend dump files, OP_TYPE.OP.TASK[.STREAM].TIMESTAMP, in one folder, in TIME/DEVICE/MODEL/MODEL_ID/INDEX "
        "or in rank_R/NET/GRAPH/ITERATION"
    )
    # Above readers of arrays, which dumps have beside them once a tool has converted them.
    precedence = 12

    def recognises(self, root: Path) -> bool:
        """Return whether a file at or below `root` is named like a dump, with a time of ten digits or more."""
        if not root.is_dir():
            return _is_certain(root.name)
        folders = [folder for folder in walk(root) if place_of(root, folder.parts) is not None]
        if any(map(_has_own_arrays, folders)):
            return False
        if any(map(_has_dumps, folders)):
            return True
        # Overflow files alone do not make a dump of a device out of arrays that were made of one.
        names = [name for folder in folders for name in folder.files]
        return not any(name.endswith(".npy") for name in names) and any(map(parse_opdebug, names))

    def index(self, root: Path) -> Dump:
        """List the tensors of `root`; reads the header of each file, never more than 64 MiB of it."""
        builder = DumpBuilder(root, self.name)
        if not root.is_dir():
            parsed = parse_ascend(root.name)
            found = [FoundDump(root.parent, root.name, parsed, Coordinates())] if parsed else []
            return builder.build(Reruns(tuple(index_headers(found, builder, reader=self.name))))
        for folder in walk(root):
            place = place_of(root, folder.parts)
            found = _sort_files(builder, folder, place)
            builder.refs += index_headers(found, builder, reader=self.name)
            builder.add_labels(place if found else None)
        return builder.build(separate_tree_runs(root, builder.refs))

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily in its stored axes; see `Reader.open`."""
        if ref.source.pieces:
            return open_sliced(ref.source.pieces, ref.source.part)
        return open_part(ref.source.location, ref.source.part)


def _is_certain(name: str) -> bool:
    parsed = parse_ascend(name)
    return parsed is not None and parsed.timestamp >= _PLAUSIBLE_TIME


def _is_hashed(name: str) -> bool:
    """Whether a name is the number that stands for one too long for the file system."""
    return number(name) is not None


def _has_dumps(folder: Folder) -> bool:
    if any(parse_opdebug(name) is None for name in filter(_is_certain, folder.files)):
        return True
    return MAPPING in folder.files and any(map(_is_hashed, folder.files))


def _has_own_arrays(folder: Folder) -> bool:
    """Whether there are arrays of MindSpore other than those made of dumps that are still beside them."""
    runs = {run_of(parsed) for parsed in map(parse_ascend, folder.files) if parsed}
    return any(not _is_made_of(name, runs) for name in filter(parse_mindspore, folder.files))


def _is_made_of(name: str, runs: Container[tuple[object, ...]]) -> bool:
    converted = parse_converted(name)
    return converted is not None and run_of(converted.dump) in runs


def _sort_files(builder: DumpBuilder, folder: Folder, place: TreePlace | None) -> list[FoundDump]:
    """Return the dumps of one directory; other files are unexplained, but for known side files."""
    originals, notes = originals_in(builder.root, folder)
    builder.note(*notes)
    below = folder.below(builder.root)
    found: list[FoundDump] = []
    others: list[tuple[str, AscendName | None]] = []
    for name in folder.files:
        parsed = parse_ascend(originals.get(name, name) if _is_hashed(name) else name)
        if parsed and place and parsed.is_known and parsed.op_type != _OVERFLOW_TYPE:
            found.append(FoundDump(below, name, parsed, place.at))
        else:
            others.append((name, parsed))
    runs = {run_of(one.name) for one in found}
    levels = (builder.root.name, *folder.parts)
    is_beside = FIRST_FOLDERS.fullmatch("/".join(folder.parts)) is not None or any(
        _RANK.fullmatch(above) and below in RANK_FOLDERS for above, below in pairwise(levels)
    )
    unexplained: list[str] = []
    for name, parsed in others:
        if _is_made_of(name, runs):
            builder.note_file(MADE_OF_DUMPS, folder.text(name))
        elif parsed and parsed.op_type == _OVERFLOW_TYPE:
            builder.note_file(OVERFLOW_FILES, folder.text(name))
        elif not is_beside and not _SIDE_FILE.fullmatch(name):
            unexplained.append(name)
            if why := _why_left_out(name, parsed):
                builder.note_file(why, folder.text(name))
    builder.leave_out(folder, unexplained)
    return found


def _why_left_out(name: str, parsed: AscendName | None) -> str:
    """Return what to say of a file that looks like a tensor; empty for others."""
    if parsed and not parsed.is_known:
        return _TASK_TYPE
    if _is_hashed(name):
        return _NO_NAME
    others = (parse_reference, parse_mindspore, parse_converted, parse_protobuf)
    return _OTHER_KIND if any(parse(name) for parse in others) else ""


def index_headers(found: Iterable[FoundDump], builder: DumpBuilder, *, reader: str) -> list[TensorRef]:
    """Read the headers of one directory's files; return a reference for each input and output, and note what is odd."""
    sliced: defaultdict[tuple[str, str], list[FoundDump]] = defaultdict(list)
    refs: list[TensorRef] = []
    for one in found:
        if one.name.is_ffts:
            sliced[one.name.op_type, slice_name(one.name.op).op].append(one)
        else:
            refs += _refs((one,), builder, reader)
    for files in sliced.values():
        for members in _passes(files):
            refs += _refs(members, builder, reader)
    return refs


def _passes(files: Sequence[FoundDump]) -> Sequence[Sequence[FoundDump]]:
    """Separate the runs of one sliced operator: the first file of every slice, the second of every slice, and so on."""
    by_number: defaultdict[int, list[FoundDump]] = defaultdict(list)
    for one in sorted(files, key=lambda each: (each.name.timestamp, each.file)):
        by_number[slice_number(one.name)].append(one)
    ordered = [by_number[number] for number in sorted(by_number)]
    repeats = any(len(members) > 1 for members in ordered)
    if repeats and (len(set(map(len, ordered))) > 1 or not all(is_time(one.name.timestamp) for one in files)):
        return [[one for members in ordered for one in members]]
    return list(zip(*ordered, strict=True))


def _refs(members: Sequence[FoundDump], builder: DumpBuilder, reader: str) -> Iterator[TensorRef]:
    """Yield the tensors of one operator, from one file or from those of its slices."""
    headers = [_header(one, builder) for one in members]
    first, header = members[0], headers[0]
    is_sliced = first.name.is_ffts
    pieces = tuple(one.path for one in members) if is_sliced else ()
    timestamp = min(one.name.timestamp for one in members)
    if header is None:
        source = TensorSource(first.folder, first.file, timestamp, pieces=pieces)
        yield TensorRef(TensorKey(_key(first, ""), "output", 0), TensorSpec(), source, reader)
        return
    op = _key(first, header.op_name)
    by_threads = len(members) > 1 and slice_name(first.name.op).number is None
    for part, tensor in enumerate(header.tensors):
        if tensor.io == "input" and by_threads:
            builder.note_file(_FIRST_THREAD, first.file)
        source = TensorSource(first.folder, first.file, timestamp, part, pieces, tensor.address)
        # Shapes are known when the slices are joined.
        shape, original_shape = (None, None) if is_sliced else (tensor.shape, tensor.original_shape)
        claimed = _claimed(tensor.data_type, shape, tensor.memory_format, original_shape, tensor.groups)
        yield TensorRef(TensorKey(op, tensor.io, tensor.slot), claimed, source, reader)


def _header(one: FoundDump, builder: DumpBuilder) -> Header | None:
    try:
        header, size = read_header(location_of(one.folder, one.file))
    except TensorFileError:
        builder.note_file(_UNREADABLE, one.file)
        return None
    if not header.tensors:
        builder.note_file(_WITHOUT_TENSORS, one.file)
    if header.raw:
        builder.note_file(_UNTYPED, one.file)
    if size > header.end:
        builder.note_file(_TRAILING, one.file)
    return header


def _key(one: FoundDump, header_name: str) -> OpKey:
    """Name an operator as its file does, and truly when the header's name is that name before it was mangled."""
    name, true_name = one.name.op, header_name
    if one.name.is_ffts:
        sliced = slice_name(name)
        name, origin = sliced.op, sliced.origin
        true_name = slice_name(header_name).origin
        if file_spelling(true_name) != file_spelling(origin):
            true_name = origin
    elif true_name != name and (spelling := file_spelling(true_name)) != name and spelling != file_spelling(name):
        true_name = name
    return OpKey(name, one.at, one.name.op_type, true_name if true_name != name else None)


# A network has many tensors and few kinds of them, which share their memory.
@lru_cache(maxsize=2048)
def _claimed(
    data_type: DataType,
    shape: tuple[int, ...] | None,
    memory_format: str,
    original_shape: tuple[int, ...] | None,
    groups: int,
) -> TensorSpec:
    return TensorSpec(canonical(data_type.dtype), shape, memory_format, original_shape, groups)


_RAW = ".bin"
# What the tool leaves beside them.
_UNTYPED_FILE = re.compile(r".+\.(?:l1buffer|space)\.[0-9]{1,9}\.bin", re.DOTALL)
_SIDE_FILES = frozenset({MAPPING, "convert_failed_file_list.txt", "simple_op_mapping.csv"})


class ConvertedReader(Reader):
    """Arrays whose names are those of dump files and, behind, the tensor's number and maybe its shape; raw bytes, too.

    They hold what the tool made of the tensor, whose memory format is unknown where the name does not have it. Names
    that have it are those of MindSpore's own arrays, too: a directory with nothing but such is left to that reader.
    """

    name = "converted"
    looks_for = "arrays made of Ascend dump files, OP_TYPE.OP.TASK[.STREAM].TIMESTAMP.output.K[.2x3x4].npy, or .bin"
    precedence = 11

    def recognises(self, root: Path) -> bool:
        """Return whether a name below `root` has this form and no other."""
        if not root.is_dir():
            return False
        names: list[str] = []
        for folder in walk(root):
            if place_of(root, folder.parts):
                originals, _ = originals_in(root, folder)
                names += [originals.get(name, name) for name in folder.files]
        own = set(filter(_is_own, names))
        return bool(own) and not any(parse_mindspore(name) for name in names if name not in own)

    def index(self, root: Path) -> Dump:
        """List the tensors of `root` by name; see `Reader.index`."""
        builder = DumpBuilder(root, self.name)
        for folder in walk(root):
            place = place_of(root, folder.parts)
            originals, notes = originals_in(root, folder)
            builder.note(*notes)
            unexplained = []
            for name in folder.files:
                original = originals.get(name, name)
                parsed = (parse_converted(original) or parse_converted_bin(original)) if place else None
                if place and parsed:
                    dump = parsed.dump
                    key = TensorKey(OpKey(dump.op, place.at, dump.op_type), parsed.io, parsed.slot)
                    source = TensorSource(folder.below(root), name, dump.timestamp)
                    builder.refs.append(TensorRef(key, parsed.spec, source, self.name))
                elif name not in _SIDE_FILES and not parse_opdebug(name) and not _UNTYPED_FILE.fullmatch(name):
                    unexplained.append(name)
            builder.leave_out(folder, unexplained)
        return builder.build(separate_tree_runs(root, builder.refs))

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        if ref.source.path.suffix == _RAW:
            return open_flat(ref.source.path, ref.spec)
        return open_npy(ref.source.path, ref.spec)


def _is_own(name: str) -> bool:
    if name.endswith(_RAW):
        return parse_converted_bin(name) is not None
    parsed = parse_converted(name)
    # MindSpore's names have a stream, which those of older devices lack.
    return parsed is not None and (parsed.memory_format is None or parse_mindspore(name) is None)


# A folder of ``op.index.timestamp.pb`` (or ``.quant``) files: outputs of TensorFlow and Caffe as protobuf dumps.


class ProtoFolderReader(Reader):
    """Outputs of an original model in a flat folder, one in each file; the folder is iteration 0."""

    name = "proto-folder"
    looks_for = "a folder of OP.INDEX.TIMESTAMP.pb or .quant files"
    precedence = 1

    def recognises(self, root: Path) -> bool:
        """Return whether `root`, or a file directly in it, has such a name."""
        names = next(iter(walk(root))).files if root.is_dir() else (root.name,)
        return any(map(parse_protobuf, names))

    def index(self, root: Path) -> Dump:
        """List the tensors of `root` by name; see `Reader.index`."""
        builder = DumpBuilder(root, self.name)
        if not root.is_dir():
            return builder.build(Reruns(tuple(_refs_to([root], Coordinates(), self.name))))
        paths: list[Path] = []
        beside: list[str] = []
        for folder in walk(root):
            known = [] if folder.parts else [name for name in folder.files if parse_protobuf(name)]
            paths += [root / name for name in known]
            others = set(folder.files) - set(known)
            beside += filter(parse_reference, (*others, *folder.closed))
            builder.leave_out(folder, others)
        if len({path.suffix for path in paths}) > 1:
            builder.note(f"{' and '.join(PROTOBUF_SUFFIXES)} files in one folder: of two models? Give each its own")
        if beside:
            builder.note(
                f"{len(beside)} .npy beside .pb or .quant, left out: give them a folder of their own; "
                f"e.g. {min(beside)}"
            )
        return builder.build(separate_runs(_refs_to(paths, Coordinates(iteration=0, occurrence=0), self.name)))

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        return open_output(ref.source.path, ref.key.slot)


def _refs_to(paths: Iterable[Path], at: Coordinates, reader: str) -> Iterable[TensorRef]:
    for path in paths:
        parsed = parse_protobuf(path.name)
        if parsed:
            key = TensorKey(OpKey(parsed.op, at), "output", parsed.slot)
            yield TensorRef(key, TensorSpec(), TensorSource.of(path, parsed.timestamp), reader)

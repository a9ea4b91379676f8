"""Arrays that the vendor's tool made of dump files, one of each tensor, without the files they were made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pytest_msdump.capabilities.ascend.dump_file import open_output
from pytest_msdump.core.dumps.array_reader import open_flat
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.dump_tree import place_of
from pytest_msdump.core.dumps.file_names import (
    PROTOBUF_SUFFIXES,
    parse_converted,
    parse_converted_bin,
    parse_mindspore,
    parse_opdebug,
    parse_protobuf,
    parse_reference,
)
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import Reruns, separate_runs, separate_tree_runs
from pytest_msdump.core.dumps.sidefiles import MAPPING, originals_in
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
)

_RAW = ".bin"
# What the tool leaves beside them.
_UNTYPED = re.compile(r".+\.(?:l1buffer|space)\.[0-9]{1,9}\.bin", re.DOTALL)
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
                elif name not in _SIDE_FILES and not parse_opdebug(name) and not _UNTYPED.fullmatch(name):
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
            return builder.build(Reruns(tuple(_refs([root], Coordinates(), self.name))))
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
        return builder.build(separate_runs(_refs(paths, Coordinates(iteration=0, occurrence=0), self.name)))

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        return open_output(ref.source.path, ref.key.slot)


def _refs(paths: Iterable[Path], at: Coordinates, reader: str) -> Iterable[TensorRef]:
    for path in paths:
        parsed = parse_protobuf(path.name)
        if parsed:
            key = TensorKey(OpKey(parsed.op, at), "output", parsed.slot)
            yield TensorRef(key, TensorSpec(), TensorSource.of(path, parsed.timestamp), reader)

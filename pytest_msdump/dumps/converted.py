"""Arrays that the vendor's tool made of dump files, one of each tensor, without the files they were made of."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_msdump.core.dumps.array_reader import open_flat
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.dump_tree import place_of
from pytest_msdump.core.dumps.file_names import (
    parse_converted,
    parse_converted_bin,
    parse_mindspore,
    parse_opdebug,
)
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import separate_tree_runs
from pytest_msdump.core.dumps.sidefiles import MAPPING, originals_in
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorView

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

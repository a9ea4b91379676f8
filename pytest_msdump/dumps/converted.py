"""Arrays that the vendor's tool made of dump files, one of each tensor, without the files they were made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pytest_msdump.dtypes import canonical
from pytest_msdump.dumps.ascend_names import ConvertedBin, ConvertedName, parse_converted, parse_converted_bin
from pytest_msdump.dumps.base import Reader
from pytest_msdump.dumps.dump_tree import place_of
from pytest_msdump.dumps.filename import may_tell_io, parse_mindspore
from pytest_msdump.dumps.listing import Folder, walk
from pytest_msdump.dumps.mindspore_runs import sort_out_runs
from pytest_msdump.dumps.opdebug import parse_opdebug
from pytest_msdump.dumps.sidefiles import MAPPING, originals_in
from pytest_msdump.facts.memory_formats import may_be_padded
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import placed_by_time
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

__all__ = ["ConvertedReader"]

_RAW = ".bin"
# What the tool leaves beside them.
_UNTYPED = re.compile(r".+\.(?:l1buffer|space)\.[0-9]{1,9}\.bin", re.DOTALL)
_SIDE_FILES = frozenset({MAPPING, "convert_failed_file_list.txt", "simple_op_mapping.csv"})


class ConvertedReader(Reader):
    """Arrays whose names are those of dump files and, behind, the tensor's number and maybe its shape; raw bytes, too.

    They hold what the tool made of the tensor, whose memory format is unknown where the name does not tell it. Names
    that tell it are those of MindSpore's own arrays, too: a directory with nothing but such is left to that reader.
    """

    name = "converted"
    looks_for = "arrays made of Ascend dump files, OP_TYPE.OP.TASK[.STREAM].TIMESTAMP.output.K[.2x3x4].npy, or .bin"
    precedence = 11

    def recognises(self, root: Path) -> bool:
        """Tell whether a name below `root` has this form and no other."""
        if not root.is_dir():
            return False
        folders = [folder for folder in walk(root) if place_of(root, folder.parts)]
        names = [original for folder in folders for original, _ in _originals(root, folder)[0]]
        # Of a tree of MindSpore's the first name tells; of what is ours every name has to be looked at anyway.
        return may_tell_io(names) and not any(map(_is_mindspores, names)) and any(map(_is_ours, names))

    def index(self, root: Path) -> Dump:
        """List the tensors of `root` by name; see `Reader.index`."""
        refs: list[TensorRef] = []
        unexplained: list[Path] = []
        notes: list[str] = []
        for folder in walk(root):
            place = place_of(root, folder.parts)
            names, note = _originals(root, folder)
            notes += note
            unexplained += map(folder.relative, folder.closed)
            for original, name in names:
                parsed = (parse_converted(original) or parse_converted_bin(original)) if place else None
                if place and parsed:
                    refs.append(_ref(parsed, folder.below(root) / name, place.at, self.name))
                elif not _is_side_file(name):
                    unexplained.append(folder.relative(name))
        repeats = sort_out_runs(root, refs)
        return Dump(
            root=root,
            reader=self.name,
            refs=placed_by_time(repeats.newest, repeats.partial),
            older=repeats.older,
            partial=repeats.partial,
            unexplained=tuple(sorted(unexplained)),
            notes=(*repeats.notes, *notes),
        )

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        from pytest_msdump.dumps.flat_bin import open_flat
        from pytest_msdump.dumps.npy import open_npy

        if ref.source.path.suffix == _RAW:
            return open_flat(ref.source.path, ref.spec)
        return open_npy(ref.source.path, ref.spec)


def _is_side_file(name: str) -> bool:
    return name in _SIDE_FILES or parse_opdebug(name) is not None or _UNTYPED.fullmatch(name) is not None


def _is_ours(name: str) -> bool:
    if name.endswith(_RAW):
        return parse_converted_bin(name) is not None
    parsed = parse_converted(name)
    # MindSpore's names have a stream, which those of older devices lack.
    return parsed is not None and (parsed.memory_format is None or parse_mindspore(name) is None)


def _is_mindspores(name: str) -> bool:
    return parse_mindspore(name) is not None and not _is_ours(name)


def _originals(root: Path, folder: Folder) -> tuple[Sequence[tuple[str, str]], Sequence[str]]:
    """Return a directory's names, each behind what it was before it was shortened, and what is to be told."""
    originals, notes = originals_in(root, folder)
    return [(originals.get(name, name), name) for name in folder.files], notes


def _ref(parsed: ConvertedName | ConvertedBin, path: Path, at: Coordinates, reader: str) -> TensorRef:
    return TensorRef(
        key=TensorKey(OpKey(parsed.dump.op, at, parsed.dump.op_type), parsed.io, parsed.slot),
        spec=_spec(parsed),
        source=TensorSource.of(path, parsed.dump.timestamp),
        reader=reader,
    )


def _spec(parsed: ConvertedName | ConvertedBin) -> TensorSpec:
    if isinstance(parsed, ConvertedName):
        return TensorSpec(memory_format=parsed.memory_format)
    # Flat, a tensor in blocks cannot be put in order again: its lengths are lost.
    is_flat = len(parsed.shape) == 1 and may_be_padded(parsed.memory_format)
    return TensorSpec(canonical(parsed.dtype), parsed.shape, None if is_flat else parsed.memory_format)

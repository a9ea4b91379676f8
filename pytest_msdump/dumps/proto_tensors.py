"""A folder of ``op.index.timestamp.pb`` (or ``.quant``) files: outputs of TensorFlow and Caffe as protobuf dumps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_msdump.dumps.ascend_names import PROTOBUF_SUFFIXES, parse_protobuf
from pytest_msdump.dumps.base import Reader
from pytest_msdump.dumps.filename import parse_reference
from pytest_msdump.dumps.listing import walk
from pytest_msdump.dumps.repeats import sort_out
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import placed_by_time
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

__all__ = ["ProtoFolderReader"]


class ProtoFolderReader(Reader):
    """Outputs of an original model in a flat folder, one in each file; the folder is iteration 0.

    The operator and the output's index come from the file's name. Files below the folder, and ``.npy`` files beside,
    are listed as unexplained.
    """

    name = "proto-folder"
    looks_for = "a folder of OP.INDEX.TIMESTAMP.pb or .quant files"
    precedence = 1

    def recognises(self, root: Path) -> bool:
        """Tell whether `root`, or a file directly in it, has such a name."""
        if not root.is_dir():
            return parse_protobuf(root.name) is not None
        return any(parse_protobuf(name) for name in next(iter(walk(root))).files)

    def index(self, root: Path) -> Dump:
        """List the tensors of `root` by name; see `Reader.index`."""
        if not root.is_dir():
            return Dump(root, self.name, placed_by_time(_refs([root], Coordinates(), self.name)))
        unexplained: list[Path] = []
        paths: list[Path] = []
        for folder in walk(root):
            known = [] if folder.parts else [name for name in folder.files if parse_protobuf(name)]
            paths += [root / name for name in known]
            unexplained += map(folder.relative, (*(set(folder.files) - set(known)), *folder.closed))
        repeats = sort_out(_refs(paths, Coordinates(iteration=0, occurrence=0), self.name))
        return Dump(
            root=root,
            reader=self.name,
            refs=placed_by_time(repeats.newest, repeats.partial),
            older=repeats.older,
            partial=repeats.partial,
            unexplained=tuple(sorted(unexplained)),
            notes=(*repeats.notes, *_notes(paths, unexplained)),
        )

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`.

        Raises
        ------
        TensorFileError
            When the file holds no output, or several of which none has the index of its name.
        """
        from pytest_msdump.dumps.array_reader import open_output

        return open_output(ref.source.path, ref.key.slot)


def _refs(paths: Iterable[Path], at: Coordinates, reader: str) -> Iterable[TensorRef]:
    for path in paths:
        parsed = parse_protobuf(path.name)
        if parsed:
            key = TensorKey(OpKey(parsed.op, at), "output", parsed.slot)
            yield TensorRef(key, TensorSpec(), TensorSource.of(path, parsed.timestamp), reader)


def _notes(paths: Iterable[Path], unexplained: Iterable[Path]) -> Iterable[str]:
    if len({path.suffix for path in paths}) > 1:
        yield f"{' and '.join(PROTOBUF_SUFFIXES)} files in one folder: of two models? Give each its own"
    beside = sorted(path.name for path in unexplained if parse_reference(path.name))
    if beside:
        yield f"{len(beside)} .npy beside .pb or .quant, left out: give them a folder of their own; e.g. {beside[0]}"

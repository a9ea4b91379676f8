"""A folder of ``op.index.timestamp.pb`` (or ``.quant``) files: outputs of TensorFlow and Caffe as protobuf dumps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.file_names import PROTOBUF_SUFFIXES, parse_protobuf, parse_reference
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.dumps.reruns import Reruns, separate_runs
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
from pytest_msdump.dumps.ascend_file import open_output


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

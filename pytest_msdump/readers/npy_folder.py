"""A folder of ``op.index.timestamp.npy`` files, as reference runs of PyTorch, TensorFlow, Caffe or ONNX are saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import placed_by_time
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView
from pytest_msdump.readers.base import Reader
from pytest_msdump.readers.filename import ReferenceName, number, parse_reference
from pytest_msdump.readers.listing import Folder, walk
from pytest_msdump.readers.repeats import sort_out

__all__ = ["NpyFolderReader"]


class NpyFolderReader(Reader):
    """Outputs of a reference run, flat or with one iteration in each sub-folder whose name is a plain number.

    A flat folder is iteration 0. Where numbered sub-folders hold tensors, files beside these sub-folders belong to no
    iteration and are listed as unexplained. Of two sub-folders with the same number (``1`` and ``01``) the shorter
    name counts.
    """

    name = "npy-folder"
    looks_for = "a folder of OP.INDEX.TIMESTAMP.npy files, or of numbered sub-folders of them"

    def recognises(self, root: Path) -> bool:
        """Tell whether a file directly in `root`, or in a numbered sub-folder, has such a name."""
        return root.is_dir() and any(_holds_tensors(folder) for folder in walk(root) if _may_hold(folder))

    def index(self, root: Path) -> Dump:
        """List the tensors of `root`; see `Reader.index`."""
        folders = tuple(walk(root))
        iterations = _iterations(folders)
        refs: list[TensorRef] = []
        unexplained: list[Path] = []
        for folder in folders:
            unexplained += map(folder.relative, folder.closed)
            iteration = iterations.get(folder.parts)
            at, path = Coordinates(iteration=iteration, occurrence=0), folder.below(root)
            for name in folder.files:
                parsed = None if iteration is None else parse_reference(name)
                if parsed is None:
                    unexplained.append(folder.relative(name))
                else:
                    refs.append(_ref(parsed, at, path / name, self.name))
        repeats = sort_out(refs)
        return Dump(
            root=root,
            reader=self.name,
            refs=placed_by_time(repeats.newest),
            older=repeats.older,
            unexplained=tuple(sorted(unexplained)),
            notes=repeats.notes,
        )

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        from pytest_msdump.readers.npy import open_npy

        return open_npy(ref.source.path, ref.spec)


def _may_hold(folder: Folder) -> bool:
    return not folder.parts or (len(folder.parts) == 1 and number(folder.parts[0]) is not None)


def _holds_tensors(folder: Folder) -> bool:
    return any(parse_reference(name) for name in folder.files)


def _iterations(folders: Sequence[Folder]) -> Mapping[tuple[str, ...], int]:
    """Say which directories hold an iteration, and which one."""
    holding = [folder.parts for folder in folders if _may_hold(folder) and _holds_tensors(folder)]
    numbered = sorted((parts for parts in holding if parts), key=lambda parts: (len(parts[0]), parts), reverse=True)
    if not numbered:
        return {(): 0}
    # Shorter names come last and win: of `1` and `01`, `1` is the iteration.
    by_number = {int(parts[0]): parts for parts in numbered}
    return {parts: iteration for iteration, parts in by_number.items()}


def _ref(parsed: ReferenceName, at: Coordinates, path: Path, reader: str) -> TensorRef:
    return TensorRef(
        key=TensorKey(OpKey(name=parsed.op, at=at), "output", parsed.slot),
        spec=TensorSpec(),
        source=TensorSource(path, parsed.timestamp),
        reader=reader,
    )

"""The trees that MindSpore dumps, of every release since 1.2, whatever mixture of files is in them.

References
----------
MindSpore "Dump" documentation, releases 1.2 to 2.10; trees written by 2.10 on CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pytest_msdump.dumps.ascend import AscendReader
from pytest_msdump.dumps.ascend_names import Remarks, refs_of
from pytest_msdump.dumps.base import Reader
from pytest_msdump.dumps.dump_tree import mindspore_place
from pytest_msdump.dumps.listing import walk
from pytest_msdump.dumps.mindspore_runs import contents_of, has_own_tensors, placed, side_files, sort_out_runs
from pytest_msdump.dumps.sidefiles import read_run_labels
from pytest_msdump.facts.memory_formats import may_be_padded
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import ForwardingView, TensorRef, TensorSpec, TensorView

__all__ = ["MindSporeReader"]

_RUN_LABELS = (".dump_metadata", "config.json")
_RAW = ".bin"


class MindSporeReader(Reader):
    """A dump tree with arrays that MindSpore wrote, or any directory within one, down to the files of one iteration.

    Coordinates come from the path. A directory that was copied out of its tree is read too: what its path no longer
    tells (rank, net, graph) is unknown and matches any value, and a directory of files alone is iteration 0. Dump files
    of a device and arrays that were made of such are read where they lie beside MindSpore's own; a tree of nothing else
    is left to the readers of these.
    """

    name = "mindspore"
    looks_for = (
        "a MindSpore dump tree, rank_R/NET/GRAPH/ITERATION/*.npy, whose file names have 9 or 10 fields, or "
        "NET/device_D/iteration_N/*.bin"
    )
    precedence = 10

    def recognises(self, root: Path) -> bool:
        """Tell whether any file name below `root` is one of MindSpore's, or all are side files of a run."""
        if not root.is_dir():
            return False
        only_side_files = False
        foreign = False
        for folder in walk(root):
            place = mindspore_place(root, folder.parts)
            if place and has_own_tensors(root, folder, place):
                return True
            known = side_files(root, folder, place, has_tensors=False)
            explained = [name in known for name in folder.files]
            only_side_files |= any(explained)
            foreign |= not all(explained) or bool(folder.closed)
        return only_side_files and not foreign

    def index(self, root: Path) -> Dump:
        """List the tensors of the tree; see `Reader.index`. Of a device's dump files it reads the header."""
        remarks = Remarks()
        refs: list[TensorRef] = []
        unexplained: list[Path] = []
        labels: defaultdict[str, set[str]] = defaultdict(set)
        for folder in walk(root):
            place = mindspore_place(root, folder.parts)
            contents = contents_of(root, folder, place, remarks, reader=self.name)
            refs += contents.arrays
            refs += refs_of(contents.dumps, remarks, reader=AscendReader.name)
            unexplained += map(folder.relative, (*contents.unexplained, *folder.closed))
            for title, value in place.labels if place and (contents.arrays or contents.dumps) else ():
                labels[title].add(value)
            if folder.parts[-1:] == _RUN_LABELS[:1] and _RUN_LABELS[1] in folder.files:
                _add_labels(labels, root, folder.relative(_RUN_LABELS[1]), remarks)
        nets = {ref.key.op.at.net for ref in refs if ref.key.op.at.net is not None}
        if len(nets) == 1:
            labels["net"] = nets
        repeats = sort_out_runs(root, refs)
        return Dump(
            root=root,
            reader=self.name,
            refs=placed(repeats.newest, repeats.partial),
            older=repeats.older,
            partial=repeats.partial,
            unexplained=tuple(sorted(unexplained)),
            labels=tuple((name, ", ".join(sorted(values))) for name, values in sorted(labels.items())),
            notes=(*repeats.notes, *remarks.notes),
        )

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        if ref.reader == AscendReader.name:
            return self._ascend.open(ref)
        if ref.source.name.endswith(_RAW):
            from pytest_msdump.dumps.flat_bin import open_flat

            return open_flat(ref.source.path, ref.spec)
        view = self._open_npy(ref.source.location, ref.spec)
        if not may_be_padded(ref.spec.memory_format):
            return view

        return PaddedView(view, ref.spec.logical_shape)

    @cached_property
    def _ascend(self) -> AscendReader:
        return AscendReader()

    # Importing it costs more than all else that happens above, and it brings numpy, which listing needs not.
    @cached_property
    def _open_npy(self) -> Callable[[Path | str, TensorSpec], TensorView]:
        from pytest_msdump.dumps.npy import open_npy

        return open_npy


def _add_labels(labels: defaultdict[str, set[str]], root: Path, relative: Path, remarks: Remarks) -> None:
    """Add what a rank's ``config.json`` knows of the run, or say that it cannot be read."""
    found, note = read_run_labels(root / relative)
    for name, value in found:
        labels[name].add(value)
    if note:
        remarks.say(f"{relative.as_posix()} {note}")


# -- An array in a device's memory format ----------------------------------------------------------------------------


class PaddedView(ForwardingView):
    """A `TensorView` as it is, but for its logical shape. Without trans_flag nothing in a file tells it.

    Parameters
    ----------
    view : TensorView
        In stored axes.
    logical_shape : tuple of int, optional
        What a graph of the run tells; ``None`` where none does.
    """

    def __init__(self, view: TensorView, logical_shape: tuple[int, ...] | None = None) -> None:
        super().__init__(view)
        self._logical_shape = logical_shape

    @property
    def spec(self) -> TensorSpec:
        """What the file holds, and the logical shape that was told."""
        return replace(self._view.spec, logical_shape=self._logical_shape)

    def permuted(self, axes: tuple[int, ...]) -> PaddedView:
        """Return this tensor with its stored axes in another order."""
        return PaddedView(self._view.permuted(axes), self._logical_shape)

"""Folders of npy files that only have a name, with sub-folders as scopes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_msdump.core.dumps.array_files import dump_of_names, in_counted_order, output_of
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.file_names import parse_converted, parse_mindspore, parse_reference
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import TensorRef, TensorSource, TensorSpec, TensorView

_SUFFIX = ".npy"
_UNKNOWN = TensorSpec()


class NpyTreeReader(Reader):
    """Arrays that `numpy.save` wrote by name: the operator is the path below the root, with ``/``, without ``.npy``."""

    name = "npy-tree"
    looks_for = "a folder of NAME.npy files, with or without sub-folders"
    # Below all others: any name fits.
    precedence = -2

    def recognises(self, root: Path) -> bool:
        """Return whether there is an npy file at any depth, and none that another format's grammar fits."""
        if not root.is_dir():
            return False
        names = [name for folder in walk(root) for name in _arrays(folder)]
        return bool(names) and not any(map(_is_of_another_format, names))

    def index(self, root: Path) -> Dump:
        """List the arrays by name; see `Reader.index`."""
        builder = DumpBuilder(root, self.name)
        refs = []
        for folder in walk(root):
            path, arrays = folder.below(root), _arrays(folder)
            for name in arrays:
                op = folder.text(name).removesuffix(_SUFFIX)
                refs.append(output_of(op, TensorSource(path, name), self.name, _UNKNOWN))
            known = set(arrays)
            builder.leave_out(folder, [name for name in folder.files if name not in known])
        ordered = in_counted_order(builder, refs)
        return dump_of_names(builder, refs) if ordered is None else ordered

    def open(self, ref: TensorRef) -> TensorView:
        """Open an array lazily; see `Reader.open`."""
        return open_npy(ref.source.location, ref.spec)


def _arrays(folder: Folder) -> Sequence[str]:
    return [name for name in folder.files if name.endswith(_SUFFIX) and name != _SUFFIX]


def _is_of_another_format(name: str) -> bool:
    reference = parse_reference(name)
    is_timed = reference is not None and reference.timestamp is not None
    return is_timed or parse_mindspore(name) is not None or parse_converted(name) is not None

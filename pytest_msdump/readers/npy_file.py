"""One ``.npy`` file as a dump of one tensor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView
from pytest_msdump.readers.base import Reader
from pytest_msdump.readers.filename import number, parse_mindspore, parse_reference
from pytest_msdump.readers.manifest import read_manifest

if TYPE_CHECKING:
    from pytest_msdump.model.manifest import TensorEntry

__all__ = ["NpyFileReader"]


class NpyFileReader(Reader):
    """A single file. It has no coordinates; its operator's name is what the file name says, or all of it."""

    name = "npy-file"
    looks_for = "a single .npy file"

    def recognises(self, root: Path) -> bool:
        """Tell whether `root` is a file that ends in ``.npy``."""
        return root.is_file() and root.suffix.lower() == ".npy"

    def index(self, root: Path) -> Dump:
        """List the one tensor; a manifest beside it, or beside its iteration's folder, tells what its name does not."""
        key, spec, timestamp = _parse(root.name)
        ref = TensorRef(key=key, spec=spec, source=TensorSource(root, timestamp), reader=self.name, place=0)
        entry = _entry(root)
        if entry is not None:
            from pytest_msdump.readers.recorded import told

            ref = told(ref, entry)
        return Dump(root=root, reader=self.name, refs=(ref,))

    def open(self, ref: TensorRef) -> TensorView:
        """Open the tensor lazily; see `Reader.open`."""
        from pytest_msdump.readers.npy import open_npy

        return open_npy(ref.source.path, ref.spec)


def _entry(path: Path) -> TensorEntry | None:
    """What the manifest of the dump that this file is of says of it."""
    whole = path.absolute()
    folder = whole.parent.parent if number(whole.parent.name) is not None else whole.parent
    for root in (whole.parent, folder):
        manifest, _ = read_manifest(root)
        if manifest is not None:
            return manifest.tensors.get(whole.relative_to(root).as_posix())
    return None


def _parse(name: str) -> tuple[TensorKey, TensorSpec, int | None]:
    """Read a file name by the first grammar that fits."""
    dumped = parse_mindspore(name)
    if dumped:
        op = OpKey(name=dumped.op, op_type=dumped.op_type)
        return TensorKey(op, dumped.io, dumped.slot), dumped.spec, dumped.timestamp
    reference = parse_reference(name)
    if reference:
        return TensorKey(OpKey(reference.op), "output", reference.slot), TensorSpec(), reference.timestamp
    return TensorKey(OpKey(Path(name).stem), "output", 0), TensorSpec(), None

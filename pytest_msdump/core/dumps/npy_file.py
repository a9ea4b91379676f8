"""One npy file, or raw bytes whose name says what they are."""

from __future__ import annotations

from pathlib import Path

from pytest_msdump.core.dumps.array_reader import open_flat
from pytest_msdump.core.dumps.base import Reader
from pytest_msdump.core.dumps.file_names import (
    number,
    parse_converted_bin,
    parse_flat,
    parse_mindspore,
    parse_reference,
)
from pytest_msdump.core.dumps.manifest import apply_entry, read_manifest
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.model.dump import Dump, TensorEntry
from pytest_msdump.core.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

_SUFFIX = ".npy"
_UNKNOWN = TensorSpec()


class NpyFileReader(Reader):
    """A single file of one tensor. It has no coordinates; its operator's name is what the file name says, or all of it.

    Raw bytes are read where their name says what they are, as of MindSpore 1.3 and of ``msdump convert --to bin``.
    """

    name = "npy-file"
    looks_for = "a single .npy file, or a .bin file whose name has type and shape"

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is a file that ends in ``.npy``, or whose name describes its bytes."""
        return root.is_file() and (root.suffix.lower() == _SUFFIX or _raw(root.name) is not None)

    def index(self, root: Path) -> Dump:
        """List the one tensor; a manifest beside it, or beside its iteration's folder, says what its name does not."""
        key, spec, timestamp = _parse(root.name)
        ref = TensorRef(key=key, spec=spec, source=TensorSource.of(root, timestamp), reader=self.name, place=0)
        return Dump(root=root, reader=self.name, refs=(apply_entry(ref, _manifest_entry(root)),))

    def open(self, ref: TensorRef) -> TensorView:
        """Open the tensor lazily; see `Reader.open`."""
        path = ref.source.path
        return open_npy(path, ref.spec) if _raw(path.name) is None else open_flat(path, ref.spec)


def _raw(name: str) -> tuple[TensorKey, TensorSpec, int | None] | None:
    if flat := parse_flat(name):
        op = OpKey(flat.op, op_type=flat.op_type, true_name=flat.true_name)
        return TensorKey(op, flat.io, flat.slot), flat.spec, None
    if made := parse_converted_bin(name):
        op = OpKey(made.dump.op, op_type=made.dump.op_type)
        return TensorKey(op, made.io, made.slot), made.spec, made.dump.timestamp
    return None


def _manifest_entry(path: Path) -> TensorEntry | None:
    """Return what the manifest of the dump that this file belongs to says of it."""
    whole = path.absolute()
    folder = whole.parent.parent if number(whole.parent.name) is not None else whole.parent
    for root in (whole.parent, folder):
        manifest, _ = read_manifest(root)
        if manifest is not None:
            return manifest.tensors.get(whole.relative_to(root).as_posix())
    return None


def _parse(name: str) -> tuple[TensorKey, TensorSpec, int | None]:
    if raw := _raw(name):
        return raw
    dumped = parse_mindspore(name)
    if dumped:
        op = OpKey(name=dumped.op, op_type=dumped.op_type)
        return TensorKey(op, dumped.io, dumped.slot), dumped.spec, dumped.timestamp
    reference = parse_reference(name)
    if reference:
        return TensorKey(OpKey(reference.op), "output", reference.slot), _UNKNOWN, reference.timestamp
    return TensorKey(OpKey(Path(name).stem), "output", 0), _UNKNOWN, None

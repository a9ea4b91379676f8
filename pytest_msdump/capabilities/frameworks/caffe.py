"""Records Caffe nets after a forward pass: every top of every layer, by the layer's name and the top's index.

References: Caffe, pycaffe: ``Net.blobs``, ``Net.params``, ``Net.inputs``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from filecmp import cmp
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.graphs.text_proto import PHASES, CaffeLayer, layers_in_phase, read_layers
from pytest_msdump.capabilities.record.writer import DumpWriter, safe_name
from pytest_msdump.core.dumps.npy_folder import NpyFolderReader
from pytest_msdump.core.errors import ConfigError, DumpNotFoundError
from pytest_msdump.core.storage.files import read_user_file

_LARGEST_BYTES = 256 * 2**20


class Top(NamedTuple):
    """One output of a layer, and the in-place layer that has overwritten it since."""

    layer: CaffeLayer
    slot: int
    blob: str
    over: str | None


def from_caffe(
    net: Any, prototxt: str | PathLike[str], directory: str | PathLike[str], *, phase: str = "TEST", device: str = ""
) -> Path:
    """Write what a net holds after its forward pass.

    Parameters
    ----------
    net : caffe.Net
        Or anything with ``.blobs[top].data``; of ``.params`` and ``.inputs``, where it has them, the manifest keeps
        digests.
    prototxt : path
        The network that `net` was made of.
    directory : path
        An empty folder, or one that will be made.
    phase : str
        ``"TEST"`` or ``"TRAIN"``: as `net` was made.
    device : str
        For the manifest, e.g. ``"CPU"``.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    DumpNotFoundError
        No such prototxt file.
    ConfigError
        It is not the network of `net`; the folder is not empty.

    Warns
    -----
    UserWarning
        Layers are in place, so that their blob holds what the last of them wrote. It is recorded under that layer
        alone; the others are left out.

    Notes
    -----
    Caffe keeps one memory for a layer and those in place on it. Scripts that save the blob once for each of these
    layers give the bytes of the last one the names of all of them, and a comparison then blames the wrong layer.
    """
    tops = written_tops(prototxt, phase)
    absent = sorted({top.blob for top in tops} - set(net.blobs))
    if absent:
        raise ConfigError(
            f"{prototxt}: its blob '{absent[0]}' is not in the net; give the file that the net was made of"
        )
    version = str(getattr(sys.modules.get("caffe"), "__version__", ""))
    with DumpWriter(directory, framework="caffe", version=version, device=device) as writer:
        made = {top.blob for top in tops}
        # What a layer in place has written over is no input any more.
        gone = {top.blob for top in tops if top.slot in top.layer.in_place}
        names = [name for name in getattr(net, "inputs", ()) if name in net.blobs and name not in gone]
        inputs = {name: net.blobs[name].data for name in names}
        for name, data in inputs.items():
            if name not in made:
                writer.write(name, data, op_type="Input")
        for top in tops:
            if top.over is None:
                writer.write(top.layer.name, net.blobs[top.blob].data, slot=top.slot, op_type=top.layer.type or None)
        blobs = ((layer, enumerate(parts)) for layer, parts in getattr(net, "params", {}).items())
        weights = {f"{layer}.{index}": blob.data for layer, parts in blobs for index, blob in parts}
        writer.describe(inputs=inputs, weights=weights)
    _warn([top for top in tops if top.over is not None], Path(prototxt))
    return writer.directory


def written_tops(prototxt: str | PathLike[str], phase: str) -> list[Top]:
    """Return every output of every layer that the net has in a phase, and which layer overwrote it."""
    if phase not in PHASES:
        raise ConfigError(f"phase {phase!r}; it is one of {', '.join(PHASES)}")
    content = read_user_file(Path(prototxt), _LARGEST_BYTES, want="give the prototxt file that the net was made of")
    layers = layers_in_phase(read_layers(content.decode("utf-8", "surrogateescape"), source=str(prototxt)), phase)
    last = {top.name: layer for layer in layers for top in layer.tops}
    return [
        Top(layer, slot, top.name, None if last[top.name] is layer else last[top.name].name)
        for layer in layers
        for slot, top in enumerate(layer.tops)
    ]


def _warn(left_out: Sequence[Top], prototxt: Path) -> None:
    if not left_out:
        return
    shown = ", ".join(f"{top.layer.name} (written over by {top.over})" for top in left_out[:5])
    more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    warnings.warn(
        f"{prototxt}: layers in place share their bytes, so these were not recorded: {shown}{more}; to have each, make "
        f"the net of new_{prototxt.name}, which 'msdump prototxt {prototxt}' writes",
        UserWarning,
        stacklevel=3,
    )


class Shared(NamedTuple):
    """A layer whose files hold what the layer `over` wrote into the same `blob`."""

    layer: str
    over: str
    blob: str


def shared_bytes(prototxt: Path, directory: Path, *, phase: str = "TEST") -> list[Shared]:
    """Return the layers of a reference whose files have the bytes of a layer that is in place on them.

    `prototxt` is the network that the reference in `directory` was made of. A layer that the one in place changes
    nothing of looks the same.
    """
    if not directory.is_dir():
        raise DumpNotFoundError(f"{directory}: no such directory; give the folder of the reference")
    reader = NpyFolderReader()
    if not reader.recognises(directory):
        raise ConfigError(f"{directory}: is not a reference; a reference is {reader.looks_for}")
    files: dict[tuple[str, int], dict[int | None, Path]] = {}
    for ref in reader.index(directory).refs:
        if ref.key.io == "output":
            key = (safe_name(ref.key.op.label), ref.key.slot)
            files.setdefault(key, {})[ref.key.op.at.iteration] = ref.source.path
    return list(_found(prototxt, phase, files))


def _found(prototxt: Path, phase: str, files: dict[tuple[str, int], dict[int | None, Path]]) -> Iterator[Shared]:
    tops = written_tops(prototxt, phase)
    last = {top.blob: top for top in tops if top.over is None}
    for top in tops:
        if top.over is None:
            continue
        over = files.get((safe_name(top.over), last[top.blob].slot), {})
        own = files.get((safe_name(top.layer.name), top.slot), {})
        if any(at in over and _is_same(path, over[at]) for at, path in own.items()):
            yield Shared(top.layer.name, top.over, top.blob)


def _is_same(first: Path, second: Path) -> bool:
    try:
        return cmp(first, second, shallow=False)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror or error}") from error

"""Finds layers of a Caffe reference that were saved after a layer in place had written over them."""

from __future__ import annotations

from collections.abc import Iterator
from filecmp import cmp
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.capture.caffe_blobs import written_tops
from pytest_msdump.capture.names import spelled
from pytest_msdump.errors import ConfigError, DumpNotFoundError
from pytest_msdump.readers.npy_folder import NpyFolderReader

__all__ = ["Shared", "shared_bytes"]


class Shared(NamedTuple):
    """A layer whose files hold what `over` wrote into the `blob` that both write."""

    layer: str
    over: str
    blob: str


def shared_bytes(prototxt: Path, directory: Path, *, phase: str = "TEST") -> list[Shared]:
    """Compare the files of layers with those of the layers that are in place on them.

    Parameters
    ----------
    prototxt : Path
        The network that the reference was made of.
    directory : Path
        The reference.
    phase : str
        ``"TEST"`` or ``"TRAIN"``.

    Returns
    -------
    list of Shared
        Layers with the bytes of another. One that a layer in place changes nothing of looks the same.

    Raises
    ------
    DumpNotFoundError
        No such file, no such directory.
    ConfigError
        No network, no reference.
    """
    if not directory.is_dir():
        raise DumpNotFoundError(f"{directory}: no such directory; give the folder of the reference")
    reader = NpyFolderReader()
    if not reader.recognises(directory):
        raise ConfigError(f"{directory}: is no reference; it would be {reader.looks_for}")
    files: dict[tuple[str, int], dict[int | None, Path]] = {}
    for ref in reader.index(directory).refs:
        if ref.key.io == "output":
            key = (spelled(ref.key.op.label), ref.key.slot)
            files.setdefault(key, {})[ref.key.op.at.iteration] = ref.source.path
    return list(_found(prototxt, phase, files))


def _found(prototxt: Path, phase: str, files: dict[tuple[str, int], dict[int | None, Path]]) -> Iterator[Shared]:
    tops = written_tops(prototxt, phase)
    last = {top.blob: top for top in tops if top.over is None}
    for top in tops:
        if top.over is None:
            continue
        over = files.get((spelled(top.over), last[top.blob].slot), {})
        own = files.get((spelled(top.layer.name), top.slot), {})
        if any(at in over and _is_same(path, over[at]) for at, path in own.items()):
            yield Shared(top.layer.name, top.over, top.blob)


def _is_same(first: Path, second: Path) -> bool:
    try:
        return cmp(first, second, shallow=False)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror or error}") from error

"""A dump of any format as sketches, tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pytest_msdump.comparison.opening import open_logical
from pytest_msdump.dumps.manifest import read_manifest
from pytest_msdump.errors import ConfigError
from pytest_msdump.model.dump import Dump
from pytest_msdump.record.writer import DumpWriter

__all__ = ["sketch_dump"]

_KEPT = ("framework", "version", "device", "dtype_policy", "seeds", "inputs", "weights", "command", "key", "notes")


def sketch_dump(dump: Dump, directory: Path, *, full: Sequence[str] = ()) -> int:
    """Write a dump's sketches into a new folder, and return how many tensors there were.

    `full` are globs of operators that are kept whole. What a manifest says of the run is taken over. ConfigError for a
    dump of several ranks, nets or graphs, for one of statistics, and for a folder that is not empty; TensorFileError,
    and a folder that is marked as incomplete, where a tensor cannot be read.
    """
    places = {(ref.key.op.at.rank, ref.key.op.at.net, ref.key.op.at.graph) for ref in dump.refs}
    if len(places) > 1:
        raise ConfigError(f"{dump.root}: holds several ranks, nets or graphs; sketch the folder of each by itself")
    if unseen := [ref for ref in dump.refs if ref.is_unseen]:
        raise ConfigError(f"{dump.root}: {unseen[0].key.address} was not saved, so there is nothing to sketch")
    several = len({ref.key.op.at.iteration for ref in dump.refs}) > 1
    with DumpWriter(directory, iterations=several, save="sketch", full=full) as writer:
        manifest, _ = read_manifest(dump.root) if dump.root.is_dir() else (None, ())
        if manifest is not None:
            writer.adopt({name: getattr(manifest, name) for name in _KEPT}, manifest.graph)
        for ref in dump.refs:
            with closing(open_logical(ref)) as view:
                writer.write_view(ref, view)
    return len(dump.refs)

"""A dump of any format as sketches, tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pytest_msdump.comparison.opening import open_logical
from pytest_msdump.dumps.manifest import read_manifest
from pytest_msdump.errors import ConfigError
from pytest_msdump.metrics.count_sketch import BUCKETS
from pytest_msdump.model.dump import DistributedRank, Dump
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.record.manifest import marked_incomplete
from pytest_msdump.record.writer import DESCRIBED, DumpWriter, check_save

_KEPT = (*DESCRIBED, "seeds", "inputs", "weights", "distributed")


def sketch_dump(dump: Dump, directory: Path, *, full: Sequence[str] = (), buckets: int = BUCKETS) -> int:
    """Write a dump's sketches into a new folder, and return how many tensors there were.

    `full` are globs of operators that are kept whole, `buckets` is as of `record.writer.DumpWriter`. What a manifest
    says of the run is taken over. Of several ranks each gets a recording of its own. ConfigError for a dump of several
    nets or graphs, for one of statistics, and for a folder that is not empty; TensorFileError, and a folder that is
    marked as incomplete, where a tensor cannot be read.
    """
    check_save("sketch", buckets)
    parts: dict[int | None, list[TensorRef]] = {rank: [] for rank in dump.ranks}
    for ref in dump.refs:
        parts.setdefault(ref.key.op.at.rank, []).append(ref)
    if len({(ref.key.op.at.net, ref.key.op.at.graph) for ref in dump.refs}) > 1 or (None in parts and len(parts) > 1):
        raise ConfigError(f"{dump.root}: holds several nets or graphs; sketch the folder of each by itself")
    if unseen := [ref for ref in dump.refs if ref.is_unseen]:
        raise ConfigError(f"{dump.root}: {unseen[0].key.address} was not saved, so there is nothing to sketch")
    if directory.is_dir() and any(directory.iterdir()):
        raise ConfigError(f"{directory}: is not empty; empty it, or give another folder")
    # So that some of the ranks are not taken for all of them.
    with marked_incomplete(directory):
        for rank, refs in parts.items():
            _write(
                dump, refs, directory, None if len(parts) == 1 and not dump.ranks else rank, full=full, buckets=buckets
            )
    return len(dump.refs)


def _write(dump: Dump, refs: Sequence[TensorRef], directory: Path, rank: int | None, **saving: Any) -> None:
    """Write the sketches of one rank into its folder, or those of the whole dump."""
    several = len({ref.key.op.at.iteration for ref in refs}) > 1
    root = dump.root / f"rank_{rank}" if rank in dump.ranks else dump.root
    manifest, _ = read_manifest(root) if root.is_dir() else (None, ())
    own = None if rank is None else (manifest and manifest.distributed) or DistributedRank(rank)
    with DumpWriter(directory, iterations=several, save="sketch", distributed=own, **saving) as writer:
        if manifest is not None:
            writer.adopt({name: value for name in _KEPT if (value := getattr(manifest, name))}, manifest.graph)
        for ref in refs:
            with closing(open_logical(ref)) as view:
                writer.write_view(ref, view)

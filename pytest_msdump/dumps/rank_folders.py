"""Recordings of the processes of one distributed run, each in its ``rank_R``, as one dump."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count

from pytest_msdump.dumps.dump_tree import RANK_FOLDER
from pytest_msdump.dumps.listing import Folder
from pytest_msdump.model.dump import JOURNAL_FILE, MANIFEST_FILE, Dump, PartialRun
from pytest_msdump.model.ordering import in_order, placed_at
from pytest_msdump.model.tensor import TensorRef


def recorded_ranks(folders: Iterable[Folder]) -> Mapping[int, str]:
    """Return the folders directly below the root that hold the recording of a rank, by rank."""
    names = [folder.parts[0] for folder in folders if len(folder.parts) == 1 and _is_recording(folder)]
    return dict(sorted((int(match[1]), name) for name in names if (match := RANK_FOLDER.fullmatch(name))))


def _is_recording(folder: Folder) -> bool:
    return MANIFEST_FILE in folder.files or JOURNAL_FILE in folder.files


def at_rank(dump: Dump, rank: int) -> Dump:
    """Return a dump as that of a rank."""
    return replace(
        dump,
        refs=tuple(_at_rank(ref, rank) for ref in dump.refs),
        older=tuple(_at_rank(ref, rank) for ref in dump.older),
        graphs=tuple((replace(where, rank=rank), graph) for where, graph in dump.graphs),
    )


def _at_rank(ref: TensorRef, rank: int) -> TensorRef:
    op = ref.key.op
    return placed_at(ref, ref.place, key=replace(ref.key, op=replace(op, at=replace(op.at, rank=rank))))


def joined(whole: Dump, recordings: Mapping[int, Dump]) -> Dump:
    """Return the recordings of ranks as one dump; `whole` is what lies around them."""
    ranks = {rank: at_rank(dump, rank) for rank, dump in recordings.items()}
    dumps = [whole, *ranks.values()]
    manifests = {rank: dump.manifest for rank, dump in ranks.items() if dump.manifest is not None}
    names = {rank: f"rank_{rank}" for rank in ranks}
    outside = [path for path in whole.unexplained if path.parts[0] not in names.values()]
    inside = [names[rank] / path for rank, dump in ranks.items() for path in dump.unexplained]
    return replace(
        whole,
        refs=in_order(ref for dump in dumps for ref in dump.refs),
        older=in_order(ref for dump in dumps for ref in dump.older),
        partial=PartialRun.total(dump.partial for dump in dumps),
        unexplained=tuple(sorted((*outside, *inside))),
        labels=tuple(sorted({label for dump in dumps for label in dump.labels})),
        notes=(*whole.notes, *(f"{names[rank]}: {note}" for rank, dump in ranks.items() for note in dump.notes)),
        graphs=tuple(graph for dump in dumps for graph in dump.graphs),
        manifest=replace(next(iter(manifests.values())), inputs={}, weights={}, seeds={}, distributed=None),
        ranks=manifests,
        incomplete=whole.incomplete or _why_incomplete(ranks),
    )


def _why_incomplete(ranks: Mapping[int, Dump]) -> str:
    """Return what is missing of a whole run, empty where every rank is there and whole."""
    sizes: dict[int | None, int] = {}
    for rank, dump in ranks.items():
        said = dump.manifest.distributed if dump.manifest is not None else None
        if dump.incomplete:
            return f"rank_{rank}: {dump.incomplete}"
        if said is None or said.rank != rank:
            return f"rank_{rank}/{MANIFEST_FILE} does not say that it is of rank {rank}, and how many there were"
        sizes.setdefault(said.world_size, rank)
    (size, one), *others = sizes.items()
    for other_size, other in others:
        return f"rank_{one} is of a run of {size} ranks, rank_{other} of one of {other_size}"
    if size is None or size == len(ranks):
        return ""
    absent = next(rank for rank in count() if rank not in ranks)
    return f"{size - len(ranks)} of {size} ranks have no recording, e.g. rank_{absent}"

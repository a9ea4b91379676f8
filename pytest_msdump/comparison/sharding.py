"""Make one tensor of the shards that the ranks of a run have of it, by name; and judge copies that should be equal."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from math import nan, prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.comparison.opening import open_sharded
from pytest_msdump.errors import ConfigError
from pytest_msdump.limits.judge import verdict_from
from pytest_msdump.matching.selection import PairFilter, Selection
from pytest_msdump.model.comparison import OUTCOMES, Finding
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import in_order
from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.record import Record
from pytest_msdump.model.shards import DimsEntry, Mesh, ShardedTensor, Sharding, ShardLayout
from pytest_msdump.model.tensor import TensorKey, TensorRef, TensorSource, TensorSpec
from pytest_msdump.text import Message, Parameter, say

__all__ = ["put_together", "with_copies_judged"]

_RANK_FOLDER = re.compile(r"rank_?(\d{1,9})", re.ASCII | re.IGNORECASE)
_NUMBERED = re.compile(r"([a-z]+(?:_[a-z]+)*?)(?:_rank)?[_=-]?(\d{1,9})(?=[_,.=-]|$)", re.ASCII)


class _Shard(NamedTuple):
    """A tensor of one rank, without what its folder says, and where that rank is on the mesh."""

    ref: TensorRef
    key: TensorKey
    coordinates: Mapping[str, int]


def put_together(dump: Dump, side: str, sharding: Sharding | None) -> Dump:
    """Return a dump with the tensors of all its ranks as whole ones; as it is where `sharding` has no mesh for `side`.

    Opens no file. What cannot be put together says why when it is opened. ConfigError where the ranks are not those of
    the mesh.
    """
    mesh = None if sharding is None else {"left": sharding.left, "right": sharding.right}[side]
    if sharding is None or mesh is None or not dump.refs:
        return dump
    groups: defaultdict[TensorKey, list[_Shard]] = defaultdict(list)
    alone = []
    for ref in dump.refs:
        shard = _shard_of(ref, dump.root, mesh, side)
        if shard is None:
            alone.append(ref)
        else:
            groups[shard.key].append(shard)
    if not groups:
        raise ConfigError(
            f"[msdump.shards] {side}: {dump.root} has no ranks, in folders such as "
            f"{_folder_example(mesh)}; leave {side} out there, or name the folder that holds those of all ranks"
        )
    choose = _chooser(entry for entry in sharding.dims if entry.side in (None, side))
    whole = [_whole(key, shards, mesh, choose) for key, shards in groups.items()]
    count = sum(map(len, groups.values()))
    note = say(Message("shards_joined", {"n": len(whole), "shards": count, "axes": mesh.text}))
    return replace(dump, refs=in_order((*alone, *whole)), notes=(*dump.notes, note))


def _folder_example(mesh: Mesh) -> str:
    return "_".join(f"{name}0" for name, _ in mesh.axes) if mesh.by_folder else "rank_0"


def _shard_of(ref: TensorRef, root: Path, mesh: Mesh, side: str) -> _Shard | None:
    """Find out which rank a tensor is of; ``None`` where neither the dump nor its folders say so."""
    rank, key, found = ref.key.op.at.rank, ref.key, None
    folders = ref.source.folder.relative_to(root).parts if ref.source.folder.is_relative_to(root) else ()
    for depth, name in enumerate(folders, 1):
        found = _axes_in(name, mesh) if mesh.by_folder else None
        match = _RANK_FOLDER.fullmatch(name)
        if found is not None or (rank is None and match):
            rank = int(match[1]) if match and rank is None else rank
            key = _without_folder(key, "/".join(folders[:depth]), name)
            break
    if found is None and rank is None:
        return None
    if found is None and (rank is None or rank >= mesh.size):
        raise ConfigError(
            f"[msdump.shards] {side}: {ref.source.path} is of rank {rank}, but {mesh.text or 'no axes'} make "
            f"{mesh.size}; correct axes"
        )
    coordinates = mesh.coordinates(rank or 0) if found is None else found
    for name, size in mesh.axes:
        if coordinates[name] >= size:
            raise ConfigError(
                f"[msdump.shards] {side}: {ref.source.path} is number {coordinates[name]} of {name}={size}"
            )
    op = replace(key.op, at=replace(key.op.at, rank=None))
    return _Shard(ref, replace(key, op=op), coordinates)


def _axes_in(name: str, mesh: Mesh) -> Mapping[str, int] | None:
    """Read the numbers along the axes from the name of a folder; ``None`` unless all are there."""
    said = {axis: int(number) for axis, number in _NUMBERED.findall(name.lower())}
    found = {axis: said[axis.lower()] for axis, _ in mesh.axes if axis.lower() in said}
    return found if len(found) == len(mesh.axes) else None


def _without_folder(key: TensorKey, path: str, folder: str) -> TensorKey:
    """Take the folder of a rank out of a name that was made of folders."""
    if not key.op.name.startswith(f"{path}/"):
        return key
    name = f"{path[: -len(folder)]}{key.op.name[len(path) + 1 :]}"
    return replace(key, op=replace(key.op, name=name, true_name=None if key.op.true_name is None else name))


def _chooser(entries: Iterable[DimsEntry]) -> Callable[[TensorRef], DimsEntry | None]:
    """Return what finds the last entry that matches a tensor."""
    filters = [(PairFilter(Selection((entry.match,), io="all")), entry) for entry in entries][::-1]
    return lambda ref: next((entry for one, entry in filters if one.takes_ref(ref)), None)


def _whole(
    key: TensorKey, shards: Sequence[_Shard], mesh: Mesh, choose: Callable[[TensorRef], DimsEntry | None]
) -> TensorRef:
    """Return the tensor that shards make, or one that cannot be opened and says why."""
    refs = [shard.ref for shard in shards]
    first = refs[0]
    dtypes = {ref.spec.dtype for ref in refs}
    whole = TensorRef(
        key,
        TensorSpec(dtypes.pop() if len(dtypes) == 1 else None),
        TensorSource.of(first.source.path, first.source.timestamp, pieces=tuple(ref.source.path for ref in refs)),
        reader=first.reader,
        place=first.place,
        line=first.line,
        overflows=tuple(dict.fromkeys(entry for ref in refs for entry in ref.overflows)),
        computed=first.computed,
    )
    # A tensor of which a rank has only statistics is opened, too, so that it says so.
    saved = next((ref.reader for ref in refs if not ref.is_unseen), "")
    return replace(whole, reader=saved, shards=_sharded(shards, mesh, choose(whole)))


def _sharded(shards: Sequence[_Shard], mesh: Mesh, entry: DimsEntry | None) -> ShardedTensor:
    """Put shards where they belong."""
    if unseen := [shard.ref for shard in shards if shard.ref.is_unseen or shard.ref.sample is not None]:
        return ShardedTensor(problem=Message("shards_not_saved", {"file": unseen[0].source.name}))
    if entry is None:
        return ShardedTensor(problem=_ambiguous("ambiguous_dims", axes=mesh.text))
    layout = entry.dims.layout(mesh)
    if isinstance(layout, Message):
        return ShardedTensor(problem=layout)
    stages = sorted({layout.stage(shard.coordinates) for shard in shards})
    if len(stages) > 1:
        return ShardedTensor(problem=_ambiguous("ambiguous_stages", stages=tuple(stages)))
    places: dict[tuple[int, int], list[_Shard]] = defaultdict(list)
    for shard in shards:
        places[layout.place(shard.coordinates)].append(shard)
    count = prod(layout.grid)
    if lacking := count * layout.copy_count - len(places):
        return ShardedTensor(layout, problem=_incomplete(layout, places, stages[0], lacking))
    if twice := next((held for held in places.values() if len(held) > 1), None):
        files = tuple(f"{source.folder.name}/{source.name}" for source in (shard.ref.source for shard in twice[:2]))
        return ShardedTensor(layout, problem=_ambiguous("ambiguous_files", files=files))
    copies = range(layout.copy_count)
    return ShardedTensor(layout, tuple(tuple(places[copy, n][0].ref for n in range(count)) for copy in copies))


def _ambiguous(code: str, **parameters: Parameter) -> Message:
    return Message("ambiguous", {"why": Message(code, parameters)})


def _incomplete(layout: ShardLayout, places: Container[tuple[int, int]], stage: int, lacking: int) -> Message:
    """Say how many ranks are missing, and which is the first."""
    for rank in range(layout.mesh.size):
        at = layout.mesh.coordinates(rank)
        if layout.stage(at) == stage and layout.place(at) not in places:
            axes = ", ".join(f"{name}={number}" for name, number in at.items())
            wanted = prod(layout.grid) * layout.copy_count
            return Message("incomplete", {"n": lacking, "shards": wanted, "rank": rank, "axes": axes})
    raise AssertionError("what is lacking is of a rank")


def with_copies_judged(record: Record, pair: Pair, compare: Callable[[Pair], Record]) -> Record:
    """Add what is found of copies that ranks hold of one shard: they are held to the limits of the pair.

    `compare` measures and judges the first copy of the whole tensor against each further one. Copies that differ
    within the limits are a warning.
    """
    found = [
        _differing_copies(side, ref, ref.shards, compare)
        for side, ref in (("left", pair.left), ("right", pair.right))
        if ref.shards is not None
    ]
    findings = [finding for finding in found if finding is not None]
    if not findings:
        return record
    return replace(record, verdict=verdict_from((*findings, *record.verdict.findings), record.verdict.would_pass))


def _differing_copies(
    side: str, ref: TensorRef, shards: ShardedTensor, compare: Callable[[Pair], Record]
) -> Finding | None:
    """Return what is found of copies that are not the first one's equals; of several the worst, the first such."""
    first = replace(ref, shards=shards.copy(0), overflows=()) if shards.copies else ref
    found: list[tuple[str, int, Record]] = []
    for number in range(1, len(shards.copies)):
        one = compare(Pair(first, replace(first, shards=shards.copy(number)), how="name"))
        if not one.equal:
            found.append((one.verdict.outcome if one.fails else "warn", number, one))
    if not found:
        return None
    outcome, number, worst = max(found, key=lambda each: OUTCOMES.index(each[0]))
    if worst.comparison is None:
        return worst.verdict.findings[0]
    place = worst.nonfinite.first_mismatch or worst.places.get("max_absolute_error", ())
    rank, other = (_rank_at(shards.copy(each), place) for each in (number, 0))
    said: dict[str, Parameter] = {"n": len(found), "side": side, "rank": rank, "first": other, "place": place}
    return Finding(outcome, Message("replica", {**said, "value": worst.metrics.get("max_absolute_error", nan)}))


def _rank_at(shards: ShardedTensor, place: Sequence[int]) -> str:
    """Name the rank, or the folder, that holds an element."""
    with closing(open_sharded(shards)) as view:
        ref = shards.copies[0][view.shards_at(place)[0]]
    rank = ref.key.op.at.rank
    return ref.source.folder.name if rank is None else f"rank {rank}"

"""Make one tensor of the shards that the ranks of a run have of it, by name; and judge copies that should be equal."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain
from math import nan, prod
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pytest_msdump.capabilities.shards.model import (
    STAGES,
    CommonTokens,
    Dims,
    DimsEntry,
    Mesh,
    ShardedTensor,
    Sharding,
    ShardLayout,
    parse_dims,
    shards_of,
    tokens_of,
)
from pytest_msdump.capabilities.shards.views import ShardedView, TokenView
from pytest_msdump.core.compare.opening import open_logical, open_view
from pytest_msdump.core.dumps.base import EMPTY, reader
from pytest_msdump.core.errors import ConfigError, TensorShapeError, UnknownNameError, nearest
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.limits.judge import verdict_from
from pytest_msdump.core.matching.leaving import Names
from pytest_msdump.core.matching.selection import PairFilter, Selection
from pytest_msdump.core.model.comparison import OUTCOMES, Finding
from pytest_msdump.core.model.dump import Dump, in_order
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import Pair, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView, mangle
from pytest_msdump.core.suite import Suite
from pytest_msdump.core.text import Message, Parameter, say

_RANK_FOLDER = re.compile(r"rank_?(\d{1,9})", re.ASCII | re.IGNORECASE)
_NUMBERED = re.compile(r"([a-z]+(?:_[a-z]+)*?)(?:_rank)?[_=-]?(\d{1,9})(?=[_,.=-]|$)", re.ASCII)


_Choose: TypeAlias = Callable[[TensorRef], "DimsEntry | None"]


class _Shard(NamedTuple):
    """A tensor of one rank, without what its folder says, and where that rank is on the mesh."""

    ref: TensorRef
    key: TensorKey
    coordinates: Mapping[str, int]
    sizes: Mapping[str, int]
    own: tuple[str, ...] = ()


def with_recorded(sharding: Sharding, dumps: Mapping[str, Dump]) -> Sharding:
    """Add the meshes that manifests of ranks say, where the suite says none and left and right are not cut alike."""
    cut = {
        side: _groups(dump) for side, dump in dumps.items() if dump.ranks and any(ref.placement for ref in dump.refs)
    }
    alike = cut["left"] if "left" in cut and cut["left"] == cut.get("right") else None
    said = {side: Mesh((), "meta") for side, groups in cut.items() if groups != alike}
    return replace(sharding, meshes={**said, **sharding.meshes})


def _groups(dump: Dump) -> Mapping[int, Mapping[str, Sequence[int]]]:
    """Return the groups of each rank, by axis, as manifests say them."""
    said = {rank: manifest.distributed for rank, manifest in dump.ranks.items()}
    return {rank: {} if one is None else one.groups for rank, one in said.items()}


def put_together(dump: Dump, side: str, sharding: Sharding) -> Dump:
    """Return a dump with the tensors of all its ranks as whole ones; as it is where `sharding` has no mesh for `side`.

    Opens no file, but for those that alone say where they belong (`Reader.with_placements`). What cannot be put
    together says why when it is opened. ConfigError where the ranks are not those of the mesh.
    """
    mesh = sharding.meshes.get(side)
    if mesh is None or not dump.refs:
        return dump
    groups: defaultdict[TensorKey, list[_Shard]] = defaultdict(list)
    alone = []
    choose = _chooser((entry for entry in sharding.dims if entry.side in (None, side)), Names(dump))
    if mesh.source == "meta" and dump.reader != EMPTY:
        dump = reader(dump.reader).with_placements(dump)
    at = _by_manifests(dump) if mesh.source == "meta" else None
    for ref in dump.refs:
        if at is None:
            shard = _shard_of(ref, dump.root, mesh, side, choose)
        else:
            # What neither a manifest nor the suite places is each rank's own.
            is_placed = ref.placement or choose(ref) is not None
            shard = _shard_at(ref, at.get(ref.key.op.at.rank), mesh) if is_placed else None
        if shard is None:
            alone.append(ref)
        else:
            groups[shard.key].append(shard)
    if not groups:
        example = "_".join(f"{name}0" for name, _ in mesh.axes) if mesh.source == "dir" else "rank_0"
        raise ConfigError(
            f"[msdump.shards] {side}: {dump.root} has no ranks, in folders such as "
            f"{example}; leave {side} out there, or name the folder that holds those of all ranks"
        )
    every = [*chain.from_iterable(groups.values())]
    stages = _absent_stages(every)
    whole = [_whole(key, shards, mesh, side, choose, stages) for key, shards in groups.items()]
    axes = mesh.strategy.name if mesh.strategy else (mesh if at is None else _mesh_of(every)).text
    notes = [say(Message("shards_joined", {"n": len(whole), "shards": len(every), "axes": axes}))]
    if at is None and mesh.strategy is None and (absent := _absent(mesh, every)):
        notes.append(say(Message("ranks_absent", {"n": len(absent), "ranks": mesh.size, "at": absent[0]})))
    ops = {shard.ref.key.op: shard.key.op for shards in groups.values() for shard in shards}
    around = {ops.get(op, op): ops.get(outer, outer) for op, outer in dump.around.items()}
    return replace(dump, refs=in_order((*alone, *whole)), notes=(*dump.notes, *notes), around=around)


def put_all_together(dumps: Mapping[str, Dump], suite: Suite) -> Mapping[str, Dump]:
    """Return the dumps of all sides with whole tensors, as suite and manifests of ranks say; see `put_together`."""
    sharding = with_recorded(suite.sharding or Sharding(), dumps)
    return {side: put_together(dump, side, sharding) for side, dump in dumps.items()}


def open_shards(ref: TensorRef) -> TensorView:
    """Open a tensor that ranks have shards of."""
    return open_sharded(shards_of(ref) or ShardedTensor())


def open_sharded(tensor: ShardedTensor) -> ShardedView:
    """Open the first copy of a tensor that ranks have shards of; TensorShapeError where these cannot be joined."""
    if tensor.layout is None or tensor.problem is not None:
        raise TensorShapeError(tensor.problem or "")
    with ExitStack() as stack:
        views = [stack.enter_context(closing(open_logical(ref))) for ref in tensor.copies[0]]
        for view in views:
            if view.spec.logical_shape is None and may_be_padded(view.spec.memory_format):
                raise TensorShapeError(Message("shards_padded", {"memory_format": view.spec.memory_format}))
        whole = ShardedView(views, tensor.layout)
        stack.pop_all()
    return whole


def _by_manifests(dump: Dump) -> Mapping[int | None, Mapping[str, tuple[int, int]]]:
    """Return the number of each rank along each axis of its manifest, and the size of that axis."""
    said = {rank: manifest.distributed for rank, manifest in dump.ranks.items()}
    return {rank: {} if one is None else one.coordinates for rank, one in said.items()}


def _shard_at(ref: TensorRef, at: Mapping[str, tuple[int, int]] | None, mesh: Mesh) -> _Shard | None:
    """Return a tensor of a rank that is at `at`."""
    if at is None:
        return None
    sizes = {axis: size for axis, (_, size) in at.items()}
    return _renumbered(ref, ref.key, {axis: number for axis, (number, _) in at.items()}, sizes, mesh)


def _renumbered(
    ref: TensorRef, key: TensorKey, coordinates: Mapping[str, int], sizes: Mapping[str, int], mesh: Mesh
) -> _Shard:
    """Return a tensor of a rank by its name in the whole, with the numbers of layers and experts that it has there."""
    op, own = key.op._replace(at=key.op.at._replace(rank=None)), []
    for rule in mesh.renumber:
        if rule.axis not in sizes:
            raise UnknownNameError(f"{rule.where}: {nearest(rule.axis, sizes)}")
        name = rule.renamed(op.label, coordinates[rule.axis], sizes[rule.axis])
        if name is not None:
            op = op._replace(name=mangle(name), true_name=name) if op.true_name is not None else op._replace(name=name)
            own.append(rule.axis)
    return _Shard(ref, key._replace(op=op), coordinates, sizes, tuple(own))


def _shard_of(ref: TensorRef, root: Path, mesh: Mesh, side: str, choose: _Choose) -> _Shard | None:
    """Find out which rank a tensor is of; ``None`` where neither the dump nor its folders say so."""
    rank, key, found = ref.key.op.at.rank, ref.key, None
    folders = ref.source.folder.relative_to(root).parts if ref.source.folder.is_relative_to(root) else ()
    for depth, name in enumerate(folders, 1):
        found = _axes_in(name, mesh) if mesh.source == "dir" else None
        match = _RANK_FOLDER.fullmatch(name)
        if found is not None or (rank is None and match):
            rank = int(match[1]) if match and rank is None else rank
            key = _without_folder(key, "/".join(folders[:depth]), name)
            break
    if found is None and rank is None:
        return None
    if mesh.strategy is not None and rank is not None and choose(replace(ref, key=key)) is None:
        names = filter(None, (key.op.true_name, key.op.name))
        placement = next(filter(None, (mesh.strategy.at(name, rank) for name in names)), None)
        if placement is not None:
            own = Mesh(placement.axes)
            return _renumbered(replace(ref, placement=placement.dims), key, own.coordinates(rank), dict(own.axes), mesh)
        if not mesh.axes:
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
    return _renumbered(ref, key, coordinates, dict(mesh.axes), mesh)


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
    return key._replace(op=key.op._replace(name=name, true_name=None if key.op.true_name is None else name))


def _chooser(entries: Iterable[DimsEntry], names: Names) -> _Choose:
    """Return what finds the last entry that matches a tensor."""
    filters = [(PairFilter(Selection((entry.match,), io="all"), names), entry) for entry in entries][::-1]
    return lambda ref: next((entry for one, entry in filters if one.takes_ref(ref)), None)


def _absent(mesh: Mesh, shards: Iterable[_Shard]) -> list[str]:
    """Name the ranks of a mesh that have no file at all."""
    ranks = map(mesh.coordinates, range(mesh.size))
    seen = {tuple(shard.coordinates.get(name) for name, _ in mesh.axes) for shard in shards}
    return [_rank_text(mesh, rank, at) for rank, at in enumerate(ranks) if tuple(at.values()) not in seen]


def _absent_stages(shards: Iterable[_Shard]) -> Set[int]:
    """Return the stages of a pipeline that have no file at all."""
    staged = [shard for shard in shards if STAGES in shard.sizes]
    count = max((shard.sizes[STAGES] for shard in staged), default=0)
    return {*range(count)} - {shard.coordinates[STAGES] for shard in staged}


def _rank_text(mesh: Mesh, rank: int, at: Mapping[str, int]) -> str:
    axes = ", ".join(f"{name}={number}" for name, number in at.items())
    # Elsewhere the number of a rank does not follow from its place.
    return f"rank {rank} ({axes})" if mesh.source == "order" else axes


def _whole(
    key: TensorKey, shards: Sequence[_Shard], mesh: Mesh, side: str, choose: _Choose, absent: Set[int]
) -> TensorRef:
    """Return the tensor that shards make, or one that cannot be opened and says why."""
    whole = joined(key, [shard.ref for shard in shards])
    entry = choose(whole)
    return replace(
        whole,
        parts={**whole.parts, "shards": _sharded(shards, mesh, side, None if entry is None else entry.dims, absent)},
    )


def joined(key: TensorKey, refs: Sequence[TensorRef]) -> TensorRef:
    """Return what is known of a tensor that is to be made of several."""
    first = refs[0]
    dtypes = {ref.spec.dtype for ref in refs}
    return TensorRef(
        key,
        TensorSpec(dtypes.pop() if len(dtypes) == 1 else None),
        TensorSource.of(
            first.source.path,
            first.source.timestamp,
            pieces=tuple(path for ref in refs for path in ref.source.pieces or (ref.source.path,)),
        ),
        # One of which only statistics were saved is opened, too, so that it says so.
        reader=next((ref.reader for ref in refs if not ref.is_unseen), ""),
        place=first.place,
        line=first.line,
        overflows=tuple(dict.fromkeys(entry for ref in refs for entry in ref.overflows)),
        computed=first.computed,
    )


def _recorded_dims(shards: Sequence[_Shard]) -> Dims | Message | None:
    """Return the dimensions that manifests say; a message where those of ranks differ, or mean nothing."""
    said = sorted({shard.ref.placement for shard in shards})
    if len(said) > 1:
        return _ambiguous("ambiguous_placements", placements=tuple(one or "none" for one in said))
    try:
        return parse_dims(said[0], where="placement") if said[0] else None
    except ConfigError:
        return _ambiguous("ambiguous_placements", placements=tuple(said))


def _mesh_of(shards: Iterable[_Shard], axes: Container[str] | None = None, *, source: str = "meta") -> Mesh:
    """Return the mesh of some ranks: of `axes`, and of any further ones that tell apart ranks which these do not."""
    found: dict[str, int] = {}
    seen: dict[tuple[int, ...], Mapping[str, int]] = {}
    for shard in shards:
        found |= {axis: size for axis, size in shard.sizes.items() if axes is None or axis in axes}
        if axes is not None:
            place = tuple(number for axis, number in shard.coordinates.items() if axis in axes)
            first = seen.setdefault(place, shard.coordinates)
            found |= {axis: shard.sizes[axis] for axis, number in first.items() if shard.coordinates[axis] != number}
    return Mesh(tuple(found.items()), source)


def _sharded(shards: Sequence[_Shard], mesh: Mesh, side: str, dims: Dims | None, absent: Set[int]) -> ShardedTensor:
    """Put shards where they belong."""
    if unseen := [shard.ref for shard in shards if shard.ref.is_unseen or shard.ref.sample is not None]:
        return ShardedTensor(problem=Message("shards_not_saved", {"file": unseen[0].source.name}))
    if mesh.source == "meta" or (mesh.strategy is not None and dims is None):
        if len(meshes := sorted({Mesh(tuple(shard.sizes.items())).text for shard in shards})) > 1:
            return ShardedTensor(problem=_ambiguous("ambiguous_placements", placements=tuple(meshes)))
        said = dims or _recorded_dims(shards)
        if isinstance(said, Message):
            return ShardedTensor(problem=said)
        axes = None if mesh.strategy else () if said is None else said.axes
        dims, mesh = said, _mesh_of(shards, axes, source=mesh.source)
    if dims is None:
        return ShardedTensor(problem=_ambiguous("ambiguous_dims", axes=mesh.text))
    layout = dims.layout(mesh, shards[0].own)
    if isinstance(layout, Message):
        return ShardedTensor(problem=layout)
    stages = sorted({layout.stage(shard.coordinates) for shard in shards})
    if len(stages) > 1:
        return ShardedTensor(problem=_ambiguous("ambiguous_stages", **_stages(layout, stages)))
    places: dict[tuple[int, int], list[_Shard]] = defaultdict(list)
    for shard in shards:
        places[layout.place(shard.coordinates)].append(shard)
    # A stage may hold no copy, as those between the two ends of tied embeddings do.
    holding = {shard.coordinates[STAGES] for shard in shards} | absent if STAGES in layout.copies else set()
    count = prod(layout.grid) * layout.copy_count
    if len(places) < (count // dict(mesh.axes)[STAGES] * len(holding) if holding else count):

        def is_wanted(at: Mapping[str, int]) -> bool:
            return layout.stage(at) == stages[0] and (not holding or at[STAGES] in holding)

        return ShardedTensor(layout, problem=_incomplete(layout, places, is_wanted, side))
    if twice := next((held for held in places.values() if len(held) > 1), None):
        files = tuple(f"{source.folder.name}/{source.name}" for source in (shard.ref.source for shard in twice[:2]))
        return ShardedTensor(layout, problem=_ambiguous("ambiguous_files", files=files))
    shown = range(prod(layout.grid))
    copies = sorted({copy for copy, _ in places})
    return ShardedTensor(layout, tuple(tuple(places[copy, n][0].ref for n in shown) for copy in copies))


def _ambiguous(code: str, **parameters: Parameter) -> Message:
    return Message("ambiguous", {"why": Message(code, parameters)})


def _stages(layout: ShardLayout, stages: Sequence[tuple[int, ...]]) -> dict[str, Parameter]:
    """Return the first axis along which ranks have tensors of one name, and which ranks."""
    place = next(place for place in range(len(layout.own)) if len({stage[place] for stage in stages}) > 1)
    return {"axis": layout.own[place], "stages": tuple(sorted({stage[place] for stage in stages}))}


def _incomplete(
    layout: ShardLayout, places: Container[tuple[int, int]], is_wanted: Callable[[Mapping[str, int]], bool], side: str
) -> Message:
    """Say how many ranks are missing, and where on the mesh the first is."""
    ranks = enumerate(map(layout.mesh.coordinates, range(layout.mesh.size)))
    wanted = [(rank, at) for rank, at in ranks if is_wanted(at)]
    lacking = [(rank, at) for rank, at in wanted if layout.place(at) not in places]
    at_rank = _rank_text(layout.mesh, *lacking[0])
    return Message("incomplete", {"n": len(lacking), "shards": len(wanted), "side": side, "at": at_rank})


def with_copies_judged(pair: Pair, record: Record, compare: Callable[[Pair], Record]) -> Record:
    """Add what is found of copies that ranks hold of one shard: they are held to the limits of the pair."""
    sides = {"left": pair.left, "right": pair.right, "golden": pair.golden, "third": pair.third}
    found = [_differing_copies(side, ref, compare) for side, ref in sides.items() if ref is not None]
    findings = [finding for finding in found if finding is not None]
    if not findings:
        return record
    return replace(record, verdict=verdict_from((*findings, *record.verdict.findings), record.verdict.would_pass))


def _copy(ref: TensorRef, number: int) -> TensorRef:
    """Return a tensor of one copy of its shards, in each step that it has."""
    parts, shards, tokens = dict(ref.parts), shards_of(ref), ref.parts.get("tokens")
    if shards is not None and shards.copies:
        parts["shards"] = shards.copy(min(number, shards.copy_count - 1))
    if isinstance(tokens, CommonTokens):
        parts["tokens"] = replace(tokens, steps=tuple(_copy(step, number) for step in tokens.steps))
    return replace(ref, parts=parts, overflows=())


def _differing_copies(side: str, ref: TensorRef, compare: Callable[[Pair], Record]) -> Finding | None:
    """Return what is found of copies that are not the first one's equals; of several the worst, the first such."""
    copies = max(
        (shards.copy_count for one in (ref, *tokens_of(ref).steps) if (shards := shards_of(one)) is not None), default=0
    )
    found: list[tuple[str, int, Record]] = []
    for number in range(1, copies):
        one = compare(Pair(_copy(ref, 0), _copy(ref, number), how="name"))
        if not one.equal:
            found.append((one.verdict.outcome if one.fails else "warn", number, one))
    if not found:
        return None
    outcome, number, worst = max(found, key=lambda each: OUTCOMES.index(each[0]))
    if worst.comparison is None:
        return worst.verdict.findings[0]
    place = worst.nonfinite.first_mismatch or worst.places.get("max_absolute_error", ())
    rank, other = (_rank_at(_copy(ref, each), place) for each in (number, 0))
    said: dict[str, Parameter] = {"n": len(found), "side": side, "rank": rank, "first": other, "place": place}
    return Finding(outcome, Message("replica", {**said, "value": worst.metrics.get("max_absolute_error", nan)}))


def _rank_at(ref: TensorRef, place: Sequence[int]) -> str:
    """Name the rank, or the folder, that holds an element of a tensor of one copy."""
    with closing(open_view(ref)) as whole:
        if isinstance(whole, TokenView):
            step, place = whole.source_of(place)
            steps = tokens_of(ref).steps
            ref = steps[step] if steps else ref
    shards = shards_of(ref) or ShardedTensor()
    with closing(open_sharded(shards)) as view:
        ref = shards.copies[0][view.shards_at(place)[0]]
    rank = ref.key.op.at.rank
    return ref.source.folder.name if rank is None else f"rank {rank}"

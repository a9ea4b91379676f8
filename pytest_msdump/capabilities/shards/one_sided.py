"""Pairs of which one side alone is cut over ranks: padding that cutting needs, and parts that nothing puts together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from pytest_msdump.capabilities.shards.model import ShardedTensor, ShardLayout, shards_of
from pytest_msdump.core.compare.opening import logical_shape
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Pair, Pairing, TensorRef
from pytest_msdump.core.text import Message, Parameter, say
from pytest_msdump.core.text.phrases import ENGLISH

Shape = tuple[int, ...]


class _Part(NamedTuple):
    """A tensor of one rank, by its last name, and along which axis it is cut of how much."""

    name: str
    shape: Shape
    axis: int | None = None
    cut: _Cut | None = None
    whole: int = 0


class _Cut(NamedTuple):
    """How a run is cut that nothing puts together: over so many ranks, along an axis of the mesh."""

    axis: str
    ranks: int


def with_cuts_known(pairing: Pairing, dumps: Mapping[str, Dump]) -> tuple[Pairing, Mapping[str, tuple[str, ...]]]:
    """Return the pairs with what cutting explains of their shapes: an axis to crop, or that one is a rank's part."""
    pairs = [_cropped(pair) for pair in pairing.pairs]
    padded = [pair for pair, before in zip(pairs, pairing.pairs, strict=True) if pair.transform != before.transform]
    cuts = {side: found for side in ("left", "right") if (found := _cuts_of(dumps[side]))}
    notes = _told(padded)
    if len(cuts) == 1:
        ((side, axes),) = cuts.items()
        parts = [_part_of_rank(pair, side, axes) for pair in pairs]
        if any(part is not None and part.axis is not None for part in parts):
            notes[side] = (_entries(side, axes, [part for part in parts if part is not None]),)
        pairs = [_marked(pair, side, part) for pair, part in zip(pairs, parts, strict=True)]
    return replace(pairing, pairs=tuple(pairs)), notes


def _cropped(pair: Pair) -> Pair:
    """Return a pair with the axis to crop: the one that is named so, or one that was padded to be cut."""
    layouts = [shards.layout if (shards := shards_of(ref)) else None for ref in (pair.left, pair.right)]
    crop = pair.transform.crop
    if isinstance(crop, str):
        found = [axis for layout in layouts if layout for axis in _named(layout, crop)]
        return replace(pair, transform=replace(pair.transform, crop=found[0])) if found else pair
    if crop is not None or pair.transform.piece is not None or (layouts[0] is None) == (layouts[1] is None):
        return pair
    cut, whole = (pair.left, pair.right) if layouts[0] else (pair.right, pair.left)
    layout, shapes = layouts[0] or layouts[1], (logical_shape(cut), logical_shape(whole))
    axis = _padded(layout, shapes[0], shapes[1]) if layout and shapes[0] and shapes[1] else None
    return pair if axis is None else replace(pair, transform=replace(pair.transform, crop=axis))


def _told(padded: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """Return what is said of tensors that were padded to be cut, by the side that was."""
    found: defaultdict[tuple[str, tuple[int, int, int]], list[str]] = defaultdict(list)
    for pair in padded:
        side, crop = ("left" if shards_of(pair.left) else "right"), pair.transform.crop
        shapes = [logical_shape(ref) or () for ref in (pair.left, pair.right)]
        cut, whole = shapes if side == "left" else shapes[::-1]
        if isinstance(crop, int):
            place = len(cut) + crop, cut[crop] - whole[crop], cut[crop]
            found[side, place].append((pair.left if side == "left" else pair.right).key.address)
    notes: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for (side, (axis, count, length)), names in found.items():
        said: dict[str, Parameter] = {"axis": axis, "n": count, "of": length, "names": ENGLISH.named(names, 3)}
        notes[side] += (say(Message("padded_to_be_cut", said)),)
    return notes


def _named(layout: ShardLayout, name: str) -> Iterable[int]:
    return [number - len(layout.dims) for number, dim in enumerate(layout.dims) if dim.name == name]


def _padded(layout: ShardLayout, cut: Shape, whole: Shape) -> int | None:
    """Return the axis, counted from the end, that is longer only by what makes all shards equally long."""
    for axis in range(-min(len(cut), len(whole)), 0):
        dim, extra = layout.dims[axis], cut[axis] - whole[axis]
        is_plain = len(dim.blocks) == 1 and not any(one.packed or one.zigzag for one in dim.cuts)
        around = [prod(shape) // max(shape[axis], 1) for shape in (cut, whole)]
        if is_plain and dim.cuts and 0 < extra * dim.parts < cut[axis] and around[0] == around[1]:
            return axis
    return None


def _cuts_of(dump: Dump) -> tuple[_Cut, ...]:
    """Return how a dump is cut that has tensors of several ranks, by its manifests or its folders."""
    if any("shards" in ref.parts for ref in dump.refs):
        return ()
    sizes = {
        axis: len(ranks)
        for one in dump.ranks.values()
        if one is not None and one.distributed is not None
        for axis, ranks in one.distributed.groups.items()
        if len(ranks) > 1
    }
    ranks = {ref.key.op.at.rank for ref in dump.refs} - {None}
    return tuple(_Cut(*each) for each in sizes.items()) or ((_Cut("tp", len(ranks)),) if len(ranks) > 1 else ())


def _part_of_rank(pair: Pair, side: str, cuts: tuple[_Cut, ...]) -> _Part | None:
    """Return how a tensor of one rank is cut, or that it is whole; ``None`` where neither can be said."""
    part, whole = (pair.left, pair.right) if side == "left" else (pair.right, pair.left)
    if part.key.op.at.rank is None or whole.key.op.at.rank is not None:
        return None
    here, there = logical_shape(part), logical_shape(whole)
    if here is None or there is None or len(here) != len(there):
        return None
    name = part.key.op.label.replace("/", ".").rpartition(".")[2]
    apart = [axis for axis, lengths in enumerate(zip(here, there, strict=True)) if lengths[0] != lengths[1]]
    if not apart:
        return _Part(name, here)
    axis = apart[0]
    cut = next((one for one in cuts if here[axis] * one.ranks == there[axis]), None)
    return None if cut is None or len(apart) > 1 else _Part(name, here, axis, cut, there[axis])


def _marked(pair: Pair, side: str, part: _Part | None) -> Pair:
    """Return the pair of a rank's part so that it says why it cannot be compared."""
    if part is None or part.axis is None or part.cut is None:
        return pair
    said: dict[str, Parameter] = {"here": part.shape[part.axis], "there": part.whole, "n": part.cut.ranks}
    said |= {"axis": part.axis, "side": side, "mesh": f"{part.cut.axis} = {part.cut.ranks}"}
    problem = ShardedTensor(problem=Message("cut_over_ranks", said))

    def of(ref: TensorRef) -> TensorRef:
        return replace(ref, parts={**ref.parts, "shards": problem})

    return replace(pair, left=of(pair.left)) if side == "left" else replace(pair, right=of(pair.right))


def _entries(side: str, cuts: tuple[_Cut, ...], parts: Sequence[_Part]) -> str:
    """Return the note with what to write into a suite file."""
    axes = ", ".join(f"{axis} = {ranks}" for axis, ranks in cuts)
    copied = " ".join(f"{axis}:replicated" for axis, _ in cuts)
    usual = Counter(len(part.shape) for part in parts if part.axis is None).most_common(1)
    entries = {"*": _dims(usual[0][0], copied)} if usual else {}
    for part in parts:
        if part.axis is not None and part.cut is not None:
            others = " ".join(f"{axis}:replicated" for axis, _ in cuts if axis != part.cut.axis)
            entries[f"*{part.name}"] = _dims(len(part.shape), others, part.axis, part.cut.axis)
        elif len(part.shape) != usual[0][0]:
            entries[f"*{part.name}"] = _dims(len(part.shape), copied)
    rows = ", ".join(f'{{ match = "{name}", dims = "{dims}" }}' for name, dims in entries.items())
    shards = f"shards = {{ {side} = {{ axes = {{ {axes} }} }} }}"
    return say(Message("cut_over_ranks_entries", {"axes": axes, "shards": shards, "dims": f"dims = [{rows}]"}))


def _dims(count: int, copied: str, cut: int | None = None, axis: str = "") -> str:
    named = " ".join(f"d{number}[{axis}]" if number == cut else f"d{number}" for number in range(count))
    return f"{named} # {copied}" if copied else named

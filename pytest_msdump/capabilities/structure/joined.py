"""Projections that one side computes in one layer: query, key and value, or gate and up, side by side in one tensor.

Names say which parts a layer joins and in which order. It is made only where the parts' widths add up to the whole, the
layers around both are paired with each other, and nothing else could be meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pytest_msdump.capabilities.structure.words import Words, shown
from pytest_msdump.core.matching.pairing_state import FoundPair, PairingRequest, PairingState
from pytest_msdump.core.matching.pieces import pieces_between
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.model.tensor import Transform
from pytest_msdump.core.text import Message, say

# The last words of a layer → the layers that it joins, in the order in which they lie in its output.
_JOINED: Mapping[Words, tuple[str, ...]] = {
    ("qkv",): ("q", "k", "v"),
    ("kv",): ("k", "v"),
    ("gate", "up"): ("gate", "up"),
    ("up", "gate"): ("up", "gate"),
}
_PART_NAMES = frozenset(name for parts in _JOINED.values() for name in parts)
# Names under which some models interleave the parts, head by head, and others do not.
_INTERLEAVED = (("query", "key", "value"), ("linear", "qkv"))
# Of these parts all but the query are equally wide.
_NARROW = frozenset({"k", "v"})


class _Layer(Protocol):
    """A layer of one side, as pairing by structure reads it."""

    @property
    def words(self) -> Words: ...
    @property
    def role(self) -> str: ...
    @property
    def parts(self) -> tuple[str, ...]: ...
    @property
    def tensors(self) -> Mapping[int, int]: ...


class _Whole(NamedTuple):
    """A layer that joins others: the words around it, its parts and its tensor."""

    around: Words
    names: tuple[str, ...]
    ref: int
    words: Words


class _Parts(NamedTuple):
    """Layers of one parent that another may join: their tensors by name."""

    around: Words
    refs: Mapping[str, int]


def joined_pairs(
    state: PairingState, request: PairingRequest, left: Sequence[_Layer], right: Sequence[_Layer]
) -> Iterator[FoundPair]:
    """Yield the pairs of layers that one side joins with their parts on the other."""
    around = _paired_around(state, left, right)
    for side, other, wholes, parts, met in (
        (state.left, state.right, left, right, around),
        (state.right, state.left, right, left, {(two, one) for one, two in around}),
    ):
        found = _meetings([*_wholes(state, side, wholes)], [*_parents(state, other, parts)], met)
        for whole, its in found:
            yield from _pairs(side, other, whole, its, request)


def _pairs(side: Side, other: Side, whole: _Whole, parts: _Parts, request: PairingRequest) -> Iterator[FoundPair]:
    refs = [parts.refs[name] for name in whole.names]
    shapes = [request.shape_of(other.refs[ref]) for ref in refs]
    whole_shape, known = request.shape_of(side.refs[whole.ref]), [shape for shape in shapes if shape]
    alike = {
        shape for name, shape in zip(whole.names, shapes, strict=True) if "q" not in whole.names or name in _NARROW
    }
    if whole_shape is None or len(known) < len(refs) or len(alike) > 1:
        return
    pieces = pieces_between(side.name, whole_shape, known, axis=-1)
    if isinstance(pieces, Message):
        return
    by = say(Message("structure_joined", {"whole": shown(whole.words), "parts": " + ".join(whole.names)}))
    for ref, piece in zip(refs, pieces, strict=True):
        pair = (whole.ref, ref) if side.name == "left" else (ref, whole.ref)
        yield FoundPair(*pair, "structure", by, Transform(piece=piece))


def _open_tensor(state: PairingState, side: Side, layer: _Layer) -> int | None:
    """Return the one tensor of a layer that nothing is known of yet."""
    if len(layer.tensors) != 1 or layer.role:
        return None
    (ref,) = layer.tensors.values()
    why = state.withheld.get((side.name, ref))
    is_open = not state.is_paired(side.name, ref) and (why is None or why.code == "inside_scope")
    is_ambiguous = (side.name, side.op_of[ref]) in state.ambiguous
    return ref if is_open and not is_ambiguous and not side.refs[ref].is_unseen else None


def _wholes(state: PairingState, side: Side, layers: Sequence[_Layer]) -> Iterator[_Whole]:
    for layer in layers:
        for tail, names in _JOINED.items():
            is_one = layer.words[-len(tail) :] == tail and not _may_be_interleaved(layer.parts)
            if is_one and (ref := _open_tensor(state, side, layer)) is not None:
                yield _Whole(layer.words[: -len(tail)], names, ref, layer.words)


def _may_be_interleaved(parts: Sequence[str]) -> bool:
    return any(tuple(parts[-len(name) :]) == name for name in _INTERLEAVED)


def _parents(state: PairingState, side: Side, layers: Sequence[_Layer]) -> Iterator[_Parts]:
    found: defaultdict[Words, dict[str, int | None]] = defaultdict(dict)
    for layer in layers:
        name = layer.words[-1] if layer.words else ""
        if isinstance(name, str) and name in _PART_NAMES and not layer.role:
            own = found[layer.words[:-1]]
            # Two of one name may both be meant.
            own[name] = None if name in own else _open_tensor(state, side, layer)
    for around, refs in found.items():
        yield _Parts(around, {name: ref for name, ref in refs.items() if ref is not None})


def _paired_around(state: PairingState, left: Sequence[_Layer], right: Sequence[_Layer]) -> set[tuple[Words, Words]]:
    """Return which parents, left and right, have layers that are paired with each other."""
    words = [{ref: layer.words for layer in layers for ref in layer.tensors.values()} for layers in (left, right)]
    found: set[tuple[Words, Words]] = set()
    for pair in state.pairs:
        ours, theirs = words[0].get(pair.left), words[1].get(pair.right)
        if ours is not None and theirs is not None:
            found.add((_parent(ours), _parent(theirs)))
    return found


def _parent(words: Words) -> Words:
    """Return the words around a layer; ``norm 1`` is one name."""
    return words[: -2 if words and isinstance(words[-1], int) else -1]


def _block(words: Words) -> Words:
    """Return the words up to the last number before its own: the innermost block that a layer is in."""
    return words[: max((place for place, word in enumerate(words[:-1], 1) if isinstance(word, int)), default=0)]


def _meetings(
    wholes: Sequence[_Whole], parents: Sequence[_Parts], met: set[tuple[Words, Words]]
) -> list[tuple[_Whole, _Parts]]:
    """Return which whole is made of whose parts: those around which layers are paired, and that have no rival."""
    blocks: defaultdict[Words, set[Words]] = defaultdict(set)
    for one, other in met:
        ours, theirs = _block((*one, "")), _block((*other, ""))
        # What a block gives out may be what a layer of the next one takes.
        if bool(ours) == bool(theirs):
            blocks[ours].add(theirs)
    found: list[tuple[_Whole, _Parts]] = []
    for whole in wholes:
        own = [parts for parts in parents if set(whole.names) <= parts.refs.keys()]
        own = [parts for parts in own if blocks[_block(whole.words)] == {_block((*parts.around, ""))}]
        # The nearest that both are inside of decides among several in one block.
        near = [parts for parts in own if (whole.around, parts.around) in met] or [
            parts for parts in own if parts.around == whole.around
        ]
        own = near or own
        if len(own) == 1:
            found.append((whole, own[0]))
    return [
        (whole, parts)
        for whole, parts in found
        if sum(parts is other and not set(whole.names).isdisjoint(one.names) for one, other in found) == 1
    ]

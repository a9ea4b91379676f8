"""Layers that are known by others: experts by their router, cells by their turns, modules by their weights."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_msdump.capabilities.structure.evidence import UNORDERED, Layer
from pytest_msdump.capabilities.structure.words import Words

Pair = tuple[Layer, Layer]
# A step, and the words of a module.
_Module = tuple[int, Words]
# A layer that is called so often in a run is a cell.
_LEAST_CALLS = 3
# So many different numbers of tokens tell in which order experts ran.
_LEAST_LOADS = 3


class _Group(NamedTuple):
    """Outputs of experts inside one module that are called alike, and how many elements each has."""

    layers: list[Layer]
    sizes: list[int]


def experts(pairs: Iterable[Pair], ours: Sequence[Layer], theirs: Sequence[Layer]) -> Iterator[Pair]:
    """Yield what experts give out, inside of modules of which another layer met, where they got as many tokens in turn.

    One side may have a module for each, the other one that is called for each.
    """
    met = {(one.step, one.words[:-1]): (other.step, other.words[:-1]) for one, other in pairs}
    groups = [_experts_of(side) for side in (ours, theirs)]
    for (step, around, behind), group in groups[0].items():
        partner = met.get((step, around))
        other = groups[1].get((*partner, behind)) if partner else None
        if other and group.sizes == other.sizes and len({*group.sizes}) >= _LEAST_LOADS:
            yield from zip(group.layers, other.layers, strict=True)


def _experts_of(layers: Sequence[Layer]) -> Mapping[tuple[int, Words, Words], _Group]:
    found: defaultdict[tuple[int, Words, Words], _Group] = defaultdict(lambda: _Group([], []))
    for one in layers:
        place = one.words.index(UNORDERED) if UNORDERED in one.words else -1
        # The number is that of an expert, or of a call.
        behind = tuple(word for word in one.words[place + 1 :] if isinstance(word, str))
        if place >= 0 and behind and one.size is not None:
            group = found[one.step, one.words[:place], behind]
            group.layers.append(one)
            group.sizes.append(one.size)
    return found


def cells(ours: Sequence[Layer], theirs: Sequence[Layer]) -> Iterator[Pair]:
    """Yield calls of recurrent cells: layers of several outputs that take equal turns, as many on both sides."""
    sides = [_cells_of(side) for side in (ours, theirs)]
    for look, own in sides[0].items():
        other = sides[1].get(look, {})
        turns = [_turns(side) for side in (own, other)]
        if turns[0] == turns[1]:
            for one, its in zip(own.values(), other.values(), strict=True):
                yield from zip(one, its, strict=True)


def _cells_of(layers: Sequence[Layer]) -> Mapping[Hashable, dict[Words, list[Layer]]]:
    """Return the calls of each cell by its words, those of as many calls, outputs and elements together."""
    calls: defaultdict[tuple[int, Words], list[Layer]] = defaultdict(list)
    for one in layers:
        calls[one.step, one.words].append(one)
    found: defaultdict[Hashable, dict[Words, list[Layer]]] = defaultdict(dict)
    for (step, words), own in calls.items():
        sizes = {tuple(sorted(one.sizes.items())) for one in own}
        # Counters in names leave no room for a slot: the second output has a 1 behind its name.
        base, second = calls.get((step, words[:-1]), []), calls.get((step, (*words, 1)), [])
        is_second = words[-1:] == (1,) and len(base) == len(own) and base[0].size == own[0].size
        is_first = len(second) == len(own) and second[0].size == own[0].size
        if len(own) >= _LEAST_CALLS and len(sizes) == 1 and (len(own[0].tensors) > 1 or is_first or is_second):
            found[step, len(own), tuple(sizes), is_first, is_second][words] = own
    return found


def _turns(own: Mapping[Words, Sequence[Layer]]) -> list[int]:
    calls = [(one.order, number) for number, its in enumerate(own.values()) for one in its]
    return [number for _, number in sorted(calls)]


def weights(ours: Sequence[Layer], theirs: Sequence[Layer]) -> Iterator[Pair]:
    """Yield weights that are the only ones of their name and size on both sides, and what their modules give out."""
    known = [_weights_of(side) for side in (ours, theirs)]
    modules: tuple[dict[_Module, _Module], dict[_Module, _Module]] = ({}, {})
    doubtful: tuple[set[_Module], set[_Module]] = (set(), set())
    found = [(one, known[1][look]) for look, one in known[0].items() if look in known[1]]
    for one, other in found:
        around = [(each.step, each.words[:-1]) for each in (one, other)]
        for partner, unsure, own, its in zip(modules, doubtful, around, reversed(around), strict=True):
            if partner.setdefault(own, its) != its:
                unsure.add(own)
    outputs = [_outputs_of(side) for side in (ours, theirs)]
    for own, its in modules[0].items():
        if own not in doubtful[0] and its not in doubtful[1]:
            yield from ((one, other) for one, other in found if (one.step, one.words[:-1]) == own)
            left, right = outputs[0].get(own), outputs[1].get(its)
            if left and right and left.sizes == right.sizes:
                yield left, right


def _weights_of(layers: Sequence[Layer]) -> Mapping[Hashable, Layer]:
    looks = [((one.step, one.role, one.words[-1:], one.size), one) for one in layers if one.role]
    times = Counter(look for look, _ in looks)
    return {look: one for look, one in looks if times[look] == 1}


def _outputs_of(layers: Sequence[Layer]) -> Mapping[Hashable, Layer]:
    looks = [((one.step, one.words), one) for one in layers if not one.role]
    times = Counter(look for look, _ in looks)
    return {look: one for look, one in looks if times[look] == 1}

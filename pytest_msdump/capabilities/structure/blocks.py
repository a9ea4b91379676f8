"""Runs of equal blocks, such as ``layers.0 … layers.23``: which of its run a layer is in.

Nothing tells equal blocks apart but how many are before and behind. So where two sides have different numbers of them,
one of which is missing is open, and none of them is paired.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pytest_msdump.capabilities.structure.evidence import UNORDERED, Layer

# Blocks are equal when this share of the numbers of elements of what is inside is the same.
_EQUAL = 0.5

# Which block of a run, and how many blocks the run has.
Place = tuple[int, int]
# The step of a run, and the words up to the number of a block.
Block = tuple[int | str, ...]


def places_of(layers: Sequence[Layer]) -> list[list[Place]]:
    """Return for each layer its places in the runs of equal blocks around it, from the innermost outwards."""
    around = [_around(one) for one in layers]
    inside: defaultdict[Block, Counter[int | None]] = defaultdict(Counter)
    for one, blocks in zip(layers, around, strict=True):
        for block in blocks:
            # Experts have as many elements as tokens come to them.
            inside[block][one.size] += UNORDERED not in one.stem
    places = _runs({block: sizes for block, sizes in inside.items() if sizes.total() > 1})
    return [[places[block] for block in reversed(blocks) if block in places] for blocks in around]


def may_be_in(ours: Sequence[Place], theirs: Sequence[Place]) -> bool:
    """Whether one of two layers has no other places in runs than the other one, which may be in more of them."""
    fewer, more = sorted((ours, theirs), key=len)
    rest = iter(more)
    return all(place in rest for place in fewer)


def _around(one: Layer) -> list[Block]:
    return [(one.step, *one.words[: end + 1]) for end, word in enumerate(one.words) if isinstance(word, int)]


def _runs(inside: Mapping[Block, Counter[int | None]]) -> Mapping[Block, Place]:
    runs: defaultdict[Block, list[list[Block]]] = defaultdict(list)
    for block, sizes in inside.items():
        own = runs[block[:-1]]
        if own and _are_equal(inside[own[-1][-1]], sizes):
            own[-1].append(block)
        else:
            own.append([block])
    return {block: (rank, len(run)) for own in runs.values() for run in own for rank, block in enumerate(run)}


def _are_equal(one: Counter[int | None], other: Counter[int | None]) -> bool:
    return (one & other).total() >= _EQUAL * max(one.total(), other.total())

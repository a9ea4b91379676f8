"""Runs of equal blocks, and what is inside one of them, once for all.

A region is what two sides have at one level: at first the whole model, then the inside of a block. Within a region each
side's layers are templates: words that are left of their names, and one member for each block that has such a layer. So
twenty-four layers of a transformer are matched as one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NamedTuple

from pytest_msdump.capabilities.structure.words import Words

# Which block of each run around a layer, from the outermost inwards.
Index = tuple[int, ...]
# Blocks are equal when at least this share of what is inside them has the same names.
_EQUAL = 0.5
# Two runs meet when at least this share of their tensors has the same numbers of elements.
_ALIKE = 0.4
# By so much a run must be more alike than any other.
_MARGIN = 0.1
# Blocks correspond one by one when so much of their tensors does.
_SAME_BLOCK = 0.85


@dataclass(slots=True)
class Layer:
    """A layer of one side: its words, which tensor it gives out by slot, and when it ran, if that is known."""

    words: Words
    role: str
    tensors: Mapping[int, int]
    sizes: Mapping[int, int | None]
    order: float
    parts: tuple[str, ...] = ()


@dataclass(slots=True)
class Template:
    """Layers of the same words in several blocks: `words` is what no run around them has used."""

    words: Words
    role: str
    members: dict[Index, Layer] = field(default_factory=dict)
    is_call: bool = False

    @property
    def order(self) -> float:
        """When the first of them ran."""
        return min(one.order for one in self.members.values())

    def size(self, index: Index) -> int | None:
        """Return the number of elements of the first output in a block."""
        return self.members[index].sizes.get(0)


class Run(NamedTuple):
    """Blocks of equal structure: the words before their number, the numbers, and the templates inside of each."""

    before: Words
    role: str
    numbers: tuple[int, ...]
    blocks: tuple[tuple[Template, ...], ...]


class Region(NamedTuple):
    """The templates of both sides that can only be each other's."""

    left: tuple[Template, ...]
    right: tuple[Template, ...]
    path: str = ""


def templates_of(layers: Sequence[Layer]) -> tuple[Template, ...]:
    """Return the layers of a side as templates of one member each; calls of one name are numbered."""
    layers = _distinct(layers)
    times = Counter((layer.words, layer.role) for layer in layers)
    calls: Counter[tuple[Words, str]] = Counter()
    taken = set(times)
    found = []
    for layer in sorted(layers, key=lambda layer: layer.order):
        key = layer.words, layer.role
        words = layer.words
        if times[key] > 1:
            words = (*words, calls[key])
            calls[key] += 1
            if (words, layer.role) in taken:
                words = (*words[:-1], "call", words[-1])
        found.append(Template(words, layer.role, {(): layer}, times[key] > 1))
    return _with_first_calls(found)


def _distinct(layers: Sequence[Layer]) -> list[Layer]:
    """Leave out layers of other names that may mean the same: ``a_b`` beside ``ab``, ``attn.wo`` beside ``attn.fc``."""
    names: defaultdict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for layer in layers:
        names[_spelled(layer.words), layer.role].add(layer.parts)
    return [layer for layer in layers if len(names[_spelled(layer.words), layer.role]) == 1]


def _spelled(words: Words) -> str:
    return "".join(word if isinstance(word, str) else f"{word}." for word in words)


def _with_first_calls(found: Sequence[Template]) -> tuple[Template, ...]:
    """Give ``relu`` the number 0 where ``relu_1`` is beside it and has as many elements."""
    known = {(one.words, one.role): one for one in found}
    names = {words for words, _ in known}
    has_inside = {one.words[:end] for one in found for end in range(len(one.words)) if len(one.words) - end > 1}
    for one in found:
        base, last = one.words[:-1], one.words[-1:]
        # Which call it is says nothing of which block: experts run in the order of their tokens.
        if last and isinstance(last[0], int) and last[0] > 0 and base in names and (*base, 0) not in names:
            one.is_call = one.is_call or one.words not in has_inside
    for one in found:
        second = known.get(((*one.words, 1), one.role))
        is_first = second is not None and second.size(()) == one.size(()) and (*one.words, 0) not in names
        if is_first and has_inside.isdisjoint({(*one.words, 0), (*one.words, 1)}):
            one.words = (*one.words, 0)
    return tuple(found)


def regions(left: Sequence[Template], right: Sequence[Template], path: str = "") -> Iterator[Region]:
    """Yield the regions of two sides, the outermost first; what is in blocks that do not meet is in none."""
    ours, theirs = _runs(left), _runs(right)
    pairs = list(_meeting_runs(ours, theirs))
    met_left, met_right = {one for one, _, _ in pairs}, {other for _, other, _ in pairs}
    open_left = [one for number, one in enumerate(ours) if number not in met_left]
    open_right = [one for number, one in enumerate(theirs) if number not in met_right]
    rest = [_rest(side, runs, met, others) for side, runs, met, others in (
        (left, ours, met_left, open_right), (right, theirs, met_right, open_left))]  # fmt: skip
    yield Region(rest[0], rest[1], path)
    for one, other, blocks in pairs:
        around = [_whole_blocks(run, blocks, side) for side, run in enumerate((ours[one], theirs[other]))]
        both = {index for index, numbers in around[0].items() if around[1].get(index) == numbers}
        ours_inside, theirs_inside = _inside(ours[one], blocks, 0, both), _inside(theirs[other], blocks, 1, both)
        name = ".".join(map(str, ours[one].before)) or "blocks"
        yield from regions(ours_inside, theirs_inside, f"{path}.{name}" if path else name)


def _runs(side: Sequence[Template]) -> list[Run]:
    """Return the outermost runs of equal blocks of a side, in the order of their names."""
    inside: defaultdict[tuple[Words, str], defaultdict[int, dict[Words, None]]] = defaultdict(lambda: defaultdict(dict))
    for one in side:
        for place, word in enumerate(one.words):
            if isinstance(word, int):
                inside[one.words[:place], one.role][word][one.words[place + 1 :]] = None
    equal = {key: numbers for key, numbers in inside.items() if _are_equal(numbers)}
    members: defaultdict[tuple[Words, str], defaultdict[int, list[Template]]] = defaultdict(lambda: defaultdict(list))
    for one in side:
        for place, word in enumerate(one.words):
            if isinstance(word, int) and (key := (one.words[:place], one.role)) in equal:
                members[key][word].append(one)
                break
    return [
        Run(before, role, tuple(sorted(blocks)), tuple(tuple(blocks[number]) for number in sorted(blocks)))
        for (before, role), blocks in members.items()
        if len(blocks) > 1
    ]


def _are_equal(blocks: Mapping[int, Mapping[Words, None]]) -> bool:
    """Whether numbered parts are blocks of equal structure: several, with several layers in each."""
    parts = [frozenset(words for words in own if words) for own in blocks.values()]
    if len(parts) < 2 or sum(len(own) > 1 for own in parts) < 2:
        return False
    largest = max(parts, key=len)
    shares = [len(own & largest) / len(largest) for own in parts]
    return sum(shares) / len(shares) >= _EQUAL


def _sizes(block: Sequence[Template]) -> Counter[int]:
    sizes: Counter[int] = Counter()
    for one in block:
        for layer in one.members.values():
            size = layer.sizes.get(0)
            if size is not None:
                sizes[size] += 1
    return sizes


def _overlap(one: Counter[int], other: Counter[int]) -> float:
    """Return the share of numbers that two counts have in common, whichever has more."""
    both = sum((one & other).values())
    least = min(sum(one.values()), sum(other.values()))
    return both / least if least else 0.0


def _meeting_runs(ours: Sequence[Run], theirs: Sequence[Run]) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Yield runs that are each other's only partner, with the places of the blocks that correspond."""
    sizes = [[[_sizes(block) for block in run.blocks] for run in side] for side in (ours, theirs)]
    whole = [[sum(blocks, Counter()) for blocks in side] for side in sizes]
    scores = {}
    for (one, run), (other, its) in product(enumerate(ours), enumerate(theirs)):
        if run.role != its.role:
            continue
        of_names = _shared(run.before, its.before) * _MARGIN * 2
        scores[one, other] = _overlap(whole[0][one], whole[1][other]) + of_names
    for one, other in mutual(scores, _ALIKE, _MARGIN):
        is_counted_alike = _steps(ours[one].numbers) == _steps(theirs[other].numbers)
        if (blocks := _aligned(sizes[0][one], sizes[1][other], is_counted_alike)) is not None:
            yield one, other, blocks


def _shared(one: Words, other: Words) -> float:
    """Return the share of words that two names have in common."""
    both, either = set(one) & set(other), set(one) | set(other)
    return len(both) / len(either) if either else 1.0


def _steps(numbers: Sequence[int]) -> list[int]:
    return [other - one for one, other in pairwise(numbers)]


def _aligned(
    ours: Sequence[Counter[int]], theirs: Sequence[Counter[int]], is_counted_alike: bool
) -> list[tuple[int, int]] | None:
    """Return which blocks correspond: all in order, or the only way in which those of one run fit; else nothing."""
    if len(ours) == len(theirs) and is_counted_alike:
        is_alike = all(_overlap(one, other) >= _ALIKE for one, other in zip(ours, theirs, strict=True))
        return [(number, number) for number in range(len(ours))] if is_alike else None
    if len(ours) > len(theirs):
        swapped = _aligned(theirs, ours, is_counted_alike)
        return None if swapped is None else [(one, other) for other, one in swapped]
    # Ways in which the first blocks of the shorter run fit into the first ones of the longer.
    ways = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    ways[0] = [1] * (len(theirs) + 1)
    fits = [[_fits(one, other) for other in theirs] for one in ours]
    for one in range(1, len(ours) + 1):
        for other in range(one, len(theirs) + 1):
            ways[one][other] = ways[one][other - 1] + (ways[one - 1][other - 1] if fits[one - 1][other - 1] else 0)
    if ways[-1][-1] != 1:
        return None
    found, one, other = [], len(ours), len(theirs)
    while one:
        if ways[one][other] == ways[one][other - 1]:
            other -= 1
        else:
            one, other = one - 1, other - 1
            found.append((one, other))
    return found[::-1]


def _fits(one: Counter[int], other: Counter[int]) -> bool:
    return _overlap(one, other) >= _SAME_BLOCK


def _whole_blocks(run: Run, blocks: Sequence[tuple[int, int]], side: int) -> Mapping[Index, set[int]]:
    """Return which of the blocks that meet others there are inside of each block around them."""
    found: defaultdict[Index, set[int]] = defaultdict(set)
    for number, pair in enumerate(blocks):
        for one in run.blocks[pair[side]]:
            for index in one.members:
                found[index].add(number)
    return found


def _inside(run: Run, blocks: Sequence[tuple[int, int]], side: int, both: set[Index]) -> tuple[Template, ...]:
    """Return the templates inside the blocks of a run that meet others, one for all blocks."""
    found: dict[tuple[Words, str], Template] = {}
    start = len(run.before) + 1
    for number, pair in enumerate(blocks):
        for one in run.blocks[pair[side]]:
            members = {(*index, number): layer for index, layer in one.members.items() if index in both}
            if members:
                key = one.words[start:], one.role
                found.setdefault(key, Template(*key, is_call=one.is_call)).members.update(members)
    return tuple(found.values())


def _rest(side: Sequence[Template], runs: Sequence[Run], met: set[int], others: Sequence[Run]) -> tuple[Template, ...]:
    """Return what is in no run; and what is in runs to which the other side has nothing alike."""
    inside: set[int] = set()
    for number, run in enumerate(runs):
        if number in met or any(_overlap(_whole(run), _whole(other)) >= _ALIKE for other in others):
            inside.update(id(one) for block in run.blocks for one in block)
    return tuple(one for one in side if id(one) not in inside)


def _whole(run: Run) -> Counter[int]:
    return sum(map(_sizes, run.blocks), Counter())


def mutual(scores: Mapping[tuple[int, int], float], least: float, margin: float) -> Iterator[tuple[int, int]]:
    """Yield pairs of which neither part has a second candidate within the margin."""
    best: tuple[dict[int, list[float]], dict[int, list[float]]] = ({}, {})
    for pair, score in scores.items():
        for side, number in enumerate(pair):
            own = best[side].setdefault(number, [])
            own.append(score)
    for tops in best:
        for number, own in tops.items():
            tops[number] = sorted(own, reverse=True)[:2]
    for (one, other), score in scores.items():
        if score >= least and all(
            tops[number][0] == score and (len(tops[number]) < 2 or score - tops[number][1] >= margin)
            for tops, number in zip(best, (one, other), strict=True)
        ):
            yield one, other

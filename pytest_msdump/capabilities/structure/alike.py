"""Which layers of two sides are each other's only partner, within one region.

Words of names weigh by how rare they are; numbers count by their place among their siblings, since one side begins at 0
and the other at 1. Layers that contradict each other (another kind, another number of elements, a gradient beside an
output) are no candidates. A pair is made where neither layer has a second candidate within a margin.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

from pytest_msdump.capabilities.structure.blocks import Index, Region, Template, mutual
from pytest_msdump.capabilities.structure.words import KIND_ORDER, PASSING, Words, kind_of_words, may_be_one_kind

# The least share of words, weighted, that two layers have in common; and by how much it is more than with any other.
_LEAST = 0.5
_MARGIN = 0.12
# A word around several layers that the other side does not have says little.
_FOREIGN = 0.25
# Candidates share one of the rarest words; a word that so many layers of one side have leads to none.
_RAREST = 3
_MOST_WITH_WORD = 64

# Two sides are one chain when so much of them is paired or lies evenly between pairs, in so many layers and sizes.
_CHAIN = 0.85
_LEAST_CHAIN = 5
_CHAIN_SIZES = 2

# A left and a right template of a region, by number.
_Pair = tuple[int, int]


class Meeting(NamedTuple):
    """Two templates that are each other's only partner; `why` is the code of what spoke for it."""

    left: Template
    right: Template
    why: str


class _Stem(NamedTuple):
    """Templates of one side that differ in nothing but numbers."""

    words: tuple[str, ...]
    depth: int
    role: str
    members: list[int]


def meetings(region: Region, *, is_ordered: bool) -> list[Meeting]:
    """Return the templates of a region that belong together, those first that names speak for."""
    return _Matching(region, is_ordered=is_ordered).run()


class _Matching:
    """What is found in one region."""

    def __init__(self, region: Region, *, is_ordered: bool) -> None:
        self._sides = region.left, region.right
        self._is_ordered = is_ordered
        self._order = [_places(side) for side in self._sides]
        self._words = [_around(side) for side in self._sides]
        self._found: dict[_Pair, str] = {}
        self._taken: tuple[set[int], set[int]] = (set(), set())

    def run(self) -> list[Meeting]:
        for pairs, why in (
            (self._by_words, "structure_names"),
            (self._by_parent, "structure_parent"),
            (self._by_kind, "structure_kind"),
        ):
            self._take(list(pairs()), why)
        if self._is_ordered:
            self._drop_crossing()
            self._take(list(self._by_gaps()), "structure_order")
        self._drop_unlike_containers()
        return [Meeting(self._sides[0][one], self._sides[1][other], why) for (one, other), why in self._found.items()]

    def _take(self, pairs: Sequence[_Pair], why: str) -> None:
        for one, other in pairs:
            if one not in self._taken[0] and other not in self._taken[1]:
                self._found[one, other] = why
                self._taken[0].add(one)
                self._taken[1].add(other)

    # -- Names

    def _by_words(self) -> Iterator[_Pair]:
        """Yield templates whose words are each other's nearest, and whose numbers have the same place."""
        stems = [_stems(side) for side in self._sides]
        weights = _weights(stems)
        with_word: defaultdict[Hashable, list[int]] = defaultdict(list)
        for number, stem in enumerate(stems[1]):
            for word in set(stem.words) or {""}:
                with_word[word].append(number)

        def rarity(word: Hashable) -> int:
            return len(with_word[word])

        scores: dict[_Pair, float] = {}
        for one, stem in enumerate(stems[0]):
            words = sorted((word for word in set(stem.words) or {""} if word in with_word), key=rarity)[:_RAREST]
            near = {other for word in words if rarity(word) <= _MOST_WITH_WORD for other in with_word[word]}
            for other in near:
                if self._may_stems_meet(stem, stems[1][other]):
                    scores[one, other] = _likeness(stem, stems[1][other], weights)
        for one, other in mutual(scores, _LEAST, _MARGIN):
            yield from self._numbered(stems[0][one], stems[1][other])

    def _may_stems_meet(self, one: _Stem, other: _Stem) -> bool:
        if one.role != other.role or not may_be_one_kind(kind_of_words(one.words), kind_of_words(other.words)):
            return False
        return any(self._may_meet(ours, theirs) for ours in one.members for theirs in other.members)

    def _may_meet(self, one: int, other: int) -> bool:
        return _have_same_sizes(self._sides[0][one], self._sides[1][other])

    def _numbered(self, one: _Stem, other: _Stem) -> Iterator[_Pair]:
        """Yield the members of two stems in order, where both have as many of a size."""
        stems = (one, other)
        layers = [side[number] for side, stem in zip(self._sides, stems, strict=True) for number in stem.members]
        common = sorted(set.intersection(*(set(layer.members) for layer in layers)))
        by_size = [_by_size(side, stem, common) for side, stem in zip(self._sides, stems, strict=True)]
        for size, ours in by_size[0].items():
            theirs = by_size[1].get(size, [])
            if len(ours) == len(theirs) and self._may_be_numbered(ours, theirs):
                yield from ((a, b) for a, b in zip(ours, theirs, strict=True) if self._may_meet(a, b))

    def _may_be_numbered(self, ours: Sequence[int], theirs: Sequence[int]) -> bool:
        """Whether layers have as many numbers each, so that these say which is which; one alone may have none."""
        numbers = {sum(isinstance(word, int) for word in side[one].words)
                   for side, own in zip(self._sides, (ours, theirs), strict=True) for one in own}  # fmt: skip
        layers = [side[one] for side, own in zip(self._sides, (ours, theirs), strict=True) for one in own]
        if any(one.is_call for one in layers) and not all(isinstance(one.words[-1], int) for one in layers):
            return False
        if len(ours) == 1:
            last = [side[own[0]].words[-1:] for side, own in zip(self._sides, (ours, theirs), strict=True)]
            return len(numbers) == 1 or (
                numbers <= {0, 1} and any(isinstance(word, int) for (word,) in filter(None, last))
            )
        return len(numbers) == 1 and self._in_order(ours, theirs) and self._are_counted_alike(ours, theirs)

    def _are_counted_alike(self, ours: Sequence[int], theirs: Sequence[int]) -> bool:
        """Whether both sides leave out the same numbers, so that none lacks a layer that the other counts."""
        steps = []
        for side, own in zip(self._sides, (ours, theirs), strict=True):
            numbers = [[word for word in side[one].words if isinstance(word, int)] for one in own]
            steps.append([[b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(numbers)])
        return steps[0] == steps[1]

    def _in_order(self, ours: Sequence[int], theirs: Sequence[int]) -> bool:
        """Whether layers ran in the order of their numbers, where that is known."""
        if not self._is_ordered:
            return True
        orders = ([order[one] for one in own] for order, own in zip(self._order, (ours, theirs), strict=True))
        return all(own == sorted(own) for own in orders)

    # -- One parent

    def _by_parent(self) -> Iterator[_Pair]:
        """Yield the children of one parent in order, where one side numbers them and the other names them."""
        children = [self._children(number) for number in range(2)]
        for parent, ours in children[0].items():
            theirs = children[1].get(parent, [])
            if len(ours) != len(theirs):
                ours, theirs = ([one for one in own if side[one].words[-1] not in PASSING]
                                for side, own in zip(self._sides, (ours, theirs), strict=True))  # fmt: skip
            sides = ours, theirs
            numbered = [all(isinstance(side[one].words[-1], int) for one in own)
                        for side, own in zip(self._sides, sides, strict=True)]  # fmt: skip
            if len(ours) == len(theirs) > 1 and numbered[0] != numbered[1]:
                ordered = [self._in_usual_order(number, own) for number, own in enumerate(sides)]
                if None in ordered:
                    continue
                pairs = list(zip(ordered[0] or (), ordered[1] or (), strict=True))
                if all(self._may_meet(one, other) for one, other in pairs):
                    yield from pairs

    def _children(self, number: int) -> Mapping[Hashable, list[int]]:
        found: defaultdict[Hashable, list[int]] = defaultdict(list)
        for child, one in enumerate(self._sides[number]):
            if len(one.words) > 1 and child not in self._taken[number]:
                found[one.words[:-1], one.role].append(child)
        return found

    def _in_usual_order(self, number: int, own: Sequence[int]) -> list[int] | None:
        """Return layers in the order in which they ran, or in which layers of such kinds run; else nothing."""
        side = self._sides[number]
        if self._is_ordered:
            return sorted(own, key=self._order[number].__getitem__)
        last = [side[one].words[-1] for one in own]
        if all(isinstance(word, int) for word in last):
            return sorted(own, key=lambda one: side[one].words[-1])
        places = [KIND_ORDER.get(str(word)) for word in last]
        if None in places or len(set(places)) < len(places):
            return None
        return [one for _, one in sorted(zip(places, own, strict=True))]

    # -- Kinds

    def _by_kind(self) -> Iterator[_Pair]:
        """Yield templates that are the only ones of their kind and size on both sides."""
        sides = [_of_kinds(side) for side in self._sides]
        times = [Counter(what[0] for what, own in side.items() for _ in own) for side in sides]
        unknown = {_size_of(self._sides[number][one]) for number in range(2) for one in self._leaves(number)
                   if one not in self._taken[number] and not kind_of_words(self._sides[number][one].words)}  # fmt: skip
        for what, ours in sides[0].items():
            theirs = sides[1].get(what, [])
            is_alone = len(ours) == len(theirs) == 1 and times[0][what[0]] == times[1][what[0]]
            if not is_alone or _size_of(self._sides[0][ours[0]]) in unknown:
                continue
            if self._may_meet(ours[0], theirs[0]) and self._may_be_numbered(ours, theirs):
                yield ours[0], theirs[0]

    # -- Containers

    def _drop_unlike_containers(self) -> None:
        """Drop pairs of layers around others where one has inside what the other has behind it, or a norm more."""
        for pair in list(self._found):
            outer = [side[number].words for side, number in zip(self._sides, pair, strict=True)]
            inside = [self._inside(number, pair) for number in range(2)]
            kinds = set(map(kind_of_words, outer)) - {"", "embed"}
            if kinds:
                # A layer of a kind has nothing inside; others' names only begin like its own.
                continue
            if any(inside) and all(any(isinstance(word, str) for word in own) for own in outer):
                partners = [{each for each in self._found if each[number] in inside[number]} for number in range(2)]
                norms = {any(kind_of_words(side[one].words) == "norm" for one in own)
                         for side, own in zip(self._sides, inside, strict=True)}  # fmt: skip
                if len(norms) > 1 or not partners[0] or partners[0] != partners[1]:
                    del self._found[pair]

    def _inside(self, number: int, pair: _Pair) -> Collection[int]:
        """Return the templates of a side whose names say that they are inside of that of a pair."""
        index = min(self._sides[0][pair[0]].members.keys() & self._sides[1][pair[1]].members.keys())
        return self._insides[number].get((index, self._sides[number][pair[number]].members[index].parts), ())

    @cached_property
    def _insides(self) -> Sequence[Mapping[Hashable, set[int]]]:
        """By block and beginning of names, the templates of each side that are inside."""
        sides: list[defaultdict[Hashable, set[int]]] = []
        for side in self._sides:
            found: defaultdict[Hashable, set[int]] = defaultdict(set)
            for child, one in enumerate(side):
                is_part = bool(one.words) and one.words[-1] not in PASSING
                for index, layer in one.members.items() if is_part else ():
                    for end in range(1, len(layer.parts)):
                        found[index, layer.parts[:end]].add(child)
            sides.append(found)
        return sides

    # -- Order

    def _drop_crossing(self) -> None:
        """Drop pairs that contradict the order of the most, but for those of equal names."""
        pairs = sorted(self._found, key=lambda pair: self._order[0][pair[0]])
        along = _longest_increasing([self._order[1][other] for _, other in pairs])
        for place, pair in enumerate(pairs):
            if place not in along and self._sides[0][pair[0]].words != self._sides[1][pair[1]].words:
                del self._found[pair]

    def _by_gaps(self) -> Iterator[_Pair]:
        """Yield what both sides have between two pairs, where it is as much, of the same sizes, and of known kinds."""
        orders = [self._leaves(number) for number in range(2)]
        tight: list[list[_Pair]] = []
        for ours, theirs in _gaps(orders[0], orders[1], dict([*self._found])):
            pairs = list(zip(ours, theirs, strict=False))
            if pairs and len(ours) == len(theirs) and all(self._may_follow(*pair) for pair in pairs):
                tight.append(pairs)
        known = len(self._found) + sum(map(len, tight))
        sizes = {_size_of(self._sides[0][one]) for pairs in tight for one, _ in pairs}
        is_chain = known >= _CHAIN * max(map(len, orders)) and known >= _LEAST_CHAIN and len(sizes) >= _CHAIN_SIZES
        for pairs in tight:
            kinds = [self._kinds(*pair) for pair in pairs]
            if all(one and other for one, other in kinds):
                # Of several of one kind the order alone does not say which is which.
                if len(set(kinds)) < len(kinds):
                    continue
                yield from (pair for pair in pairs if is_chain or not self._is_doubtful(*pair))
            elif is_chain:
                yield from self._known_by_size(pairs)

    def _known_by_size(self, pairs: Sequence[_Pair]) -> Iterator[_Pair]:
        """Yield the pairs of a stretch whose names one side alone knows, in the order in which such layers run."""
        for _, group in groupby(pairs, key=lambda pair: _size_of(self._sides[0][pair[0]])):
            own = list(group)
            kinds = [self._kinds(*pair) for pair in own]
            places = [KIND_ORDER.get(one or other, -1) for one, other in kinds]
            if -1 not in places and all(one < other for one, other in pairwise(places)):
                yield from own

    def _is_doubtful(self, one: int, other: int) -> bool:
        """Whether a word that only one side has marks a layer, and one side has more layers of the kind."""
        kind = kind_of_words(self._sides[0][one].words)
        times = [sum(kind_of_words(layer.words) == kind for layer in side) for side in self._sides]
        return times[0] != times[1] and any(
            word not in self._words[1 - number] and not self._words[number][word]
            for number, layer in enumerate((self._sides[0][one], self._sides[1][other]))
            for word in layer.words
            if isinstance(word, str)
        )

    def _leaves(self, number: int) -> list[int]:
        """Return the templates of a side in order, without those that have others inside and no partner yet."""
        side = self._sides[number]
        around = {one.words[:end] for one in side for end in range(len(one.words))}
        own = (one for one in range(len(side)) if one in self._taken[number] or not _passes(side[one], around))
        return sorted(own, key=self._order[number].__getitem__)

    def _kinds(self, one: int, other: int) -> tuple[str, str]:
        return kind_of_words(self._sides[0][one].words), kind_of_words(self._sides[1][other].words)

    def _may_follow(self, one: int, other: int) -> bool:
        is_one_role = self._sides[0][one].role == self._sides[1][other].role
        return may_be_one_kind(*self._kinds(one, other)) and is_one_role and self._may_meet(one, other)


def _around(side: Sequence[Template]) -> Mapping[str, bool]:
    """Return the words of a side, and whether each is around several others."""
    inside: defaultdict[str, set[str]] = defaultdict(set)
    for one in side:
        words = [word for word in one.words if isinstance(word, str)]
        for word, behind in zip(words, [*words[1:], ""], strict=False):
            inside[word].add(behind)
    return {word: len(behind - {""}) > 1 for word, behind in inside.items()}


def _passes(one: Template, around: Container[Words]) -> bool:
    """Whether a layer gives out what another one did: one with others inside, or a view."""
    return one.words in around or (bool(one.words) and one.words[-1] in PASSING)


def _places(side: Sequence[Template]) -> list[int]:
    """Return which place each template has in a block: in the largest one, and from others what that one lacks."""
    blocks: defaultdict[Hashable, list[tuple[float, int]]] = defaultdict(list)
    for number, one in enumerate(side):
        for index, layer in one.members.items():
            blocks[index].append((layer.order, number))
    merged: list[int] = []
    for own in sorted(blocks.values(), key=len, reverse=True):
        known, place = set(merged), 0
        if len(known) == len(side):
            break
        for _, number in sorted(own):
            if number not in known:
                merged.insert(place, number)
            place = merged.index(number, place if number not in known else 0) + 1
    places = {number: place for place, number in enumerate(merged)}
    return [places[number] for number in range(len(side))]


def _gaps(
    ours: Sequence[int], theirs: Sequence[int], match: Mapping[int, int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield what both sides have between neighbouring pairs that are in order."""
    place = {one: number for number, one in enumerate(theirs)}
    taken = set(match.values())
    start, gap = 0, list[int]()
    for one in ours:
        other = match.get(one)
        if other is None:
            gap.append(one)
        elif other in place and place[other] >= start:
            yield gap, [each for each in theirs[start : place[other]] if each not in taken]
            start, gap = place[other] + 1, []
    yield gap, [each for each in theirs[start:] if each not in taken]


def _stems(side: Sequence[Template]) -> list[_Stem]:
    found: dict[Hashable, _Stem] = {}
    for number, one in enumerate(side):
        words = tuple(word for word in one.words if isinstance(word, str))
        depth = len(one.words) - len(words)
        found.setdefault((words, depth > 0, one.role), _Stem(words, depth, one.role, [])).members.append(number)
    return list(found.values())


def _weights(stems: Sequence[Sequence[_Stem]]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return what each word of a side weighs: more, the rarer it is; little around layers of one side only."""
    counts = [Counter(word for stem in side for word in set(stem.words)) for side in stems]
    total = sum(map(len, stems)) + 1
    found: list[dict[str, float]] = []
    for side, (own, others) in zip(stems, (counts, counts[::-1]), strict=True):
        inside: defaultdict[str, set[str]] = defaultdict(set)
        for stem in side:
            for word, behind in pairwise(stem.words):
                inside[word].add(behind)
        weights = {}
        for word, times in own.items():
            weight = math.log(total / (times + others[word])) + 0.1
            is_around = word not in others and len(inside[word]) > 1
            weights[word] = weight * (_FOREIGN if is_around else 1.0)
        found.append(weights)
    return found[0], found[1]


def _likeness(one: _Stem, other: _Stem, weights: tuple[Mapping[str, float], Mapping[str, float]]) -> float:
    """Return the share of words that two stems have in common, weighted."""
    ours, theirs = Counter(one.words), Counter(other.words)
    if ours == theirs:
        return 1.0 if (one.depth > 0) == (other.depth > 0) else 0.8
    both = sum(weights[0][word] * times for word, times in (ours & theirs).items())
    apart = sum(weights[0][word] * times for word, times in (ours - theirs).items())
    apart += sum(weights[1][word] * times for word, times in (theirs - ours).items())
    return both / (both + apart) if both else 0.0


def _have_same_sizes(one: Template, other: Template) -> bool:
    """Whether two templates are in common blocks, with as many elements in each of these."""
    both = one.members.keys() & other.members.keys()
    sizes = ((one.size(index), other.size(index)) for index in both)
    return bool(both) and all(ours is None or theirs is None or ours == theirs for ours, theirs in sizes)


def _by_size(side: Sequence[Template], stem: _Stem, common: Sequence[Index]) -> Mapping[Hashable, list[int]]:
    """Return the members of a stem by size in these blocks, in the order of their numbers."""
    found: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number in sorted(stem.members, key=lambda one: [word for word in side[one].words if isinstance(word, int)]):
        found[tuple(side[number].size(index) for index in common)].append(number)
    return found


def _size_of(one: Template) -> Hashable:
    sizes = {layer.sizes.get(0) for layer in one.members.values()}
    return next(iter(sizes)) if len(sizes) == 1 else frozenset((at, one.size(at)) for at in one.members)


def _of_kinds(side: Sequence[Template]) -> Mapping[tuple[str, str, Hashable], list[int]]:
    found: defaultdict[tuple[str, str, Hashable], list[int]] = defaultdict(list)
    for number, one in enumerate(side):
        kind = kind_of_words(one.words)
        sizes = frozenset((index, layer.sizes.get(0)) for index, layer in one.members.items())
        if kind and all(size is not None for _, size in sizes):
            found[kind, one.role, sizes].append(number)
    return found


def _longest_increasing(values: Sequence[float]) -> set[int]:
    """Return the places of a longest increasing subsequence."""
    tops: list[float] = []
    ends: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        at = bisect_left(tops, value)
        before.append(ends[at - 1] if at else -1)
        tops[at : at + 1] = [value]
        ends[at : at + 1] = [place]
    found, place = set[int](), ends[-1] if ends else -1
    while place >= 0:
        found.add(place)
        place = before[place]
    return found

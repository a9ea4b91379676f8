"""Which layers of two sides are each other's only partner.

Layers are in a chain: the order in which they ran, where both sides have one, and the order of their numbers among
those of the same words. A module with others inside meets the one that holds their partners; where only one side looked
inside, it meets what has none inside. Weights, gradients and what an optimizer keeps follow their modules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby, pairwise, takewhile
from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.structure.blocks import may_be_in, places_of
from pytest_msdump.capabilities.structure.chain import sure_pairs
from pytest_msdump.capabilities.structure.evidence import (
    UNORDERED,
    Layer,
    Look,
    is_doubtful,
    is_told,
    last_of,
    likeness_of,
    looks_of,
    marks_of,
    pattern_of,
    rarity_of,
    weights_between,
)
from pytest_msdump.capabilities.structure.known_by_others import cells, experts, weights
from pytest_msdump.capabilities.structure.traced import is_trace, traced_pairs
from pytest_msdump.capabilities.structure.words import KINDS, PASSING, Words, kind_of_words, may_be_one_kind

# The least share of all ways to pair two sides in which a pair is made.
_SURE = 0.95
# By so much the words of two layers must be more alike than with any other.
_LIKE, _MARGIN = 0.5, 0.12
# Layers of these kinds have none inside: ``norm_pre`` is no part of ``norm``.
_NO_LIST = KINDS - {"embed", "pool", "o"}
# A chain of which no word or kind speaks for a pair has so many numbers of elements.
_LEAST_SIZES = 3
# So many words two layers have in common that both have others.
_LEAST_WORDS = 2
# So many layers inside tell one block from others.
_LEAST_INSIDE = 2
# What speaks for two layers of the same words and number of elements.
_SAME_NAME = 1e4

# Both sides have the same names if so many pairs have; another name is then another layer's.
_NAMESAKES = 0.65


class Meeting(NamedTuple):
    """Two layers that are each other's only partner; `why` is the code of what spoke for it."""

    left: Layer
    right: Layer
    why: str


class _Side:
    """The outputs of one side in order, and which of them hold others."""

    def __init__(self, layers: Sequence[Layer], *, is_ordered: bool) -> None:
        self.is_ordered = is_ordered
        self.layers = sorted(layers, key=_by_time if is_ordered else _by_name)
        self.holds: list[bool] = []
        before: tuple[str, ...] = ()
        for one in self.layers:
            end = len(one.parts)
            # What has no name is the network itself.
            is_around = bool(before) and (not one.words or (len(before) > end > 0 and before[:end] == one.parts))
            is_named = (
                not is_ordered
                and is_around
                and one.words[-1:]
                and one.words[-1] in _NO_LIST
                and not before[end].isdecimal()
            )
            self.holds.append(is_around and not is_named)
            before = one.parts
        self.lists = {one.words for one, holds in zip(self.layers, self.holds, strict=True) if holds}
        self.leaves = [number for number, holds in enumerate(self.holds) if not holds]
        self.closed: set[int] = set()

    def close(self, paired: Container[int]) -> bool:
        """Take modules as leaves of which nothing inside is paired: the other side may not have looked inside."""
        closed: set[int] = set()
        for number in reversed(range(len(self.layers))):
            inside = [] if number in closed or not self.holds[number] else [*self.inside(number)]
            if inside and not any(one in paired for one in inside):
                parts = self.layers[number].parts
                closed.update(one for one in range(number) if self.layers[one].parts[: len(parts)] == parts)
                self.holds[number] = False
                self.closed.add(number)
        self.leaves = [number for number, holds in enumerate(self.holds) if not holds and number not in closed]
        # What is inside of modules around these has changed.
        self.__dict__.pop("_inside", None)
        return bool(closed)

    def closed_leaves(self) -> set[int]:
        """Return the places among the leaves that modules have which were taken as such."""
        return {place for place, number in enumerate(self.leaves) if number in self.closed}

    def inside(self, number: int) -> Sequence[int]:
        """Return the leaves inside of a module, the last first."""
        one = self.layers[number]
        return self._inside.get((one.step, one.parts), ())

    @cached_property
    def _inside(self) -> Mapping[Hashable, Sequence[int]]:
        found: defaultdict[Hashable, list[int]] = defaultdict(list)
        for number in reversed(self.leaves):
            one = self.layers[number]
            for end in range(1, len(one.parts)):
                found[one.step, one.parts[:end]].append(number)
        return found


def _by_time(one: Layer) -> tuple[object, ...]:
    return one.step, one.order, -len(one.parts)


def _by_name(one: Layer) -> tuple[object, ...]:
    """Order layers by their numbers, and what is inside of a module before it."""
    return (
        one.step,
        [(0, word, "") if isinstance(word, int) else (1, 0, word) for word in one.words] + [(2, 0, "")],
        one.order,
    )


def meetings(ours: Sequence[Layer], theirs: Sequence[Layer], *, are_ordered: tuple[bool, bool]) -> list[Meeting]:
    """Return the layers that belong together."""
    found = _of_role("", ours, theirs, are_ordered)
    outputs = [[one for one in side if not one.role] for side in (ours, theirs)]
    if all(are_ordered):
        outputs = [sorted(side, key=_by_time) for side in outputs]
        found += _not_yet(found, experts([(one.left, one.right) for one in found], *outputs), "structure_module")
        found += _not_yet(found, cells(*outputs), "structure_order")
    found += _not_yet(found, weights(ours, theirs), "structure_weights")
    found += _followers(found, ours, theirs)
    taken = {id(layer) for one in found for layer in (one.left, one.right)}
    rest = [[one for one in side if one.role and id(one) not in taken] for side in (ours, theirs)]
    for role in sorted({one.role for one in rest[0]}):
        found += _of_role(role, rest[0], rest[1], are_ordered)
    return found


def _not_yet(found: Sequence[Meeting], pairs: Iterable[tuple[Layer, Layer]], why: str) -> list[Meeting]:
    met = {id(layer) for one in found for layer in (one.left, one.right)}
    return [Meeting(one, other, why) for one, other in pairs if id(one) not in met and id(other) not in met]


def _of_role(
    role: str, ours: Sequence[Layer], theirs: Sequence[Layer], are_ordered: tuple[bool, bool]
) -> list[Meeting]:
    left, right = ([one for one in side if one.role == role] for side in (ours, theirs))
    if not left or not right:
        return []
    is_ordered = all(are_ordered)
    traces = [is_trace(side) for side in (left, right)]
    if is_ordered and not role and traces[0] != traces[1]:
        return _with_trace(left, right, is_left=traces[0])
    sides = (
        _Side(_with_first_calls(left), is_ordered=are_ordered[0]),
        _Side(_with_first_calls(right), is_ordered=are_ordered[1]),
    )
    pairs = _leaves(sides, is_ordered=is_ordered)
    have_closed = [side.close({pair[number] for pair in pairs}) for number, side in enumerate(sides)]
    if any(have_closed):
        again = _leaves(sides, is_ordered=is_ordered)
        pairs = again if len(again) > len(pairs) else pairs
    found = [Meeting(sides[0].layers[one], sides[1].layers[other], why) for (one, other), why in pairs.items()]
    found += [Meeting(sides[0].layers[one], sides[1].layers[other], "structure_inside")
              for one, other in _containers(sides, dict([*pairs]), is_ordered=is_ordered)]  # fmt: skip
    return found


def _with_trace(left: Sequence[Layer], right: Sequence[Layer], *, is_left: bool) -> list[Meeting]:
    trace = sorted(left if is_left else right, key=_by_time)
    side = _Side(right if is_left else left, is_ordered=True)
    met = [(trace[one], side.layers[other]) for one, other in traced_pairs(trace, side.layers, side.holds)]
    return [Meeting(one if is_left else other, other if is_left else one, "structure_order") for one, other in met]


def _with_first_calls(layers: Sequence[Layer]) -> list[Layer]:
    """Give ``relu`` the number 0 where ``relu_1`` is beside it and has as many elements, and neither has parts."""
    sizes = {(one.step, one.words): one.size for one in layers}
    around = {one.words[:end] for one in layers for end in range(len(one.words) - 1)}
    around |= {one.words[:-1] for one in layers if one.words and isinstance(one.words[-1], str)}
    found = []
    for one in layers:
        first, second = (*one.words, 0), (*one.words, 1)
        is_first = sizes.get((one.step, second), -1) == one.size and (one.step, first) not in sizes
        is_first = is_first and one.words not in around
        found.append(replace(one, words=first, parts=(*one.parts, "0")) if is_first else one)
    return found


def _leaves(sides: tuple[_Side, _Side], *, is_ordered: bool) -> Mapping[tuple[int, int], str]:
    """Return the pairs of leaves by chain and by name; what both say otherwise is no pair."""
    chained = dict(_chained(sides)) if is_ordered else {}
    found = {pair: "structure_order" for pair, is_made in chained.items() if is_made}
    along = sorted(found)
    doubted = [{pair[side] for pair in chained.keys() - found.keys()} for side in range(2)]
    for pair in _named(sides):
        if pair not in chained and (pair[0] in doubted[0] or pair[1] in doubted[1]):
            continue
        stems = [side.layers[number].stem for side, number in zip(sides, pair, strict=True)]
        if not is_ordered or pair in found or stems[0] == stems[1] or not _crosses(pair, along):
            found[pair] = "structure_names"
    times = [Counter(pair[side] for pair in found) for side in range(2)]
    places = [places_of(side.layers) for side in sides]
    elsewhere = _meant_elsewhere(sides, found)
    return {
        (one, other): why
        for (one, other), why in found.items()
        if times[0][one] == times[1][other] == 1
        and may_be_in(places[0][one], places[1][other])
        and (one, other) not in elsewhere
    }


def _meant_elsewhere(sides: tuple[_Side, _Side], pairs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return pairs of which one is called as another layer beside the other, or as any, if most that are meet it.

    Where most do not, one side counts from 0 and the other from 1; but not if numbers around theirs are the same.
    """
    names = [_Names(side.layers) for side in sides]
    agreeing, elsewhere, beside, renamed = 0, set[tuple[int, int]](), set[tuple[int, int]](), set[tuple[int, int]]()
    for pair in pairs:
        one, other = (side.layers[number] for side, number in zip(sides, pair, strict=True))
        both = list(zip(names, (one, other), (other, one), strict=True))
        agreeing += one.words == other.words
        # A name without a number may have been given that of a first call.
        if one.words != other.words and any(
            (own.step, (*its.words, *call), its.size) in known.tails for known, own, its in both for call in ((), (0,))
        ):
            elsewhere.add(pair)
            shared = [word for word, its in zip(one.words[:-1], other.words, strict=False) if word == its]
            if len(shared) == len(one.words) - 1 and any(isinstance(word, int) for word in shared):
                beside.add(pair)
        if any(len(known.words[own.step, _spelled(own.words)]) > 1 for known, own, _ in both):
            beside.add(pair)
        if _tail(one) != _tail(other):
            renamed.add(pair)
            # Of several that may mean the same, what is written decides.
            is_one_of_several = any(len(known.tails[own.step, own.words, own.size]) > 1 for known, own, _ in both)
            is_beside = any(_tail(its) in known.beside[own.step, own.words[:-1], own.size] for known, own, its in both)
            if is_one_of_several or (is_beside and _tail(one)[:1] != _tail(other)[:1]):
                beside.add(pair)
    found = beside | elsewhere if agreeing > len(elsewhere) else beside
    if len(renamed) >= (1 - _NAMESAKES) * len(pairs):
        return found
    # Words that mean the same, again and again, are how one side says what the other one says.
    said = {pair: tuple(side.layers[number] for side, number in zip(sides, pair, strict=True)) for pair in renamed}
    times = Counter((_tail(one), _tail(other)) for one, other in said.values() if one.words == other.words)
    return found | {pair for pair, (one, other) in said.items() if times[_tail(one), _tail(other)] < 2}


class _Names:
    """How layers of one side are written: those of the same words, those of one module, and words spelled alike."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.tails: defaultdict[Hashable, set[tuple[str, ...]]] = defaultdict(set)
        self.beside: defaultdict[Hashable, set[tuple[str, ...]]] = defaultdict(set)
        self.words: defaultdict[Hashable, set[Words]] = defaultdict(set)
        for one in layers:
            self.tails[one.step, one.words, one.size].add(_tail(one))
            self.beside[one.step, one.words[:-1], one.size].add(_tail(one))
            self.words[one.step, _spelled(one.words)].add(one.words)


def _spelled(words: Words) -> str:
    return "".join(word if isinstance(word, str) else f"{word}." for word in words)


def _tail(one: Layer) -> tuple[str, ...]:
    """Return what a layer is called inside of its module, as it is written."""
    return one.parts[-2 if one.parts[-1:] and one.parts[-1].isdecimal() else -1 :]


def _crosses(pair: tuple[int, int], along: Sequence[tuple[int, int]]) -> bool:
    return any((one - pair[0]) * (other - pair[1]) <= 0 for one, other in along)


def _chained(sides: tuple[_Side, _Side]) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield the pairs that the order is sure of, and whether they are made; of the others only names may be surer."""
    leaves = [[side.layers[one] for one in side.leaves] for side in sides]
    looks = [looks_of(own, side.lists, side.closed_leaves()) for own, side in zip(leaves, sides, strict=True)]
    rows, columns, weights = weights_between(*looks)
    places = [{look: place for place, look in enumerate(own)} for own in (rows, columns)]
    classes = [[place[look] for look in own] for place, own in zip(places, looks, strict=True)]
    marks = marks_of(*({look.words for look in own} for own in looks))
    found = {*sure_pairs(classes[0], classes[1], weights, _SURE)}
    is_any_told = any(is_told(looks[0][one], looks[1][other]) for one, other in found)
    if not is_any_told and len({looks[0][one].size for one, _ in found}) < _LEAST_SIZES:
        # Nothing but the order speaks for any of them.
        return
    shapes = [_shapes(own) for own in leaves]
    tails = [_tails(own, of) for own, of in zip(leaves, shapes, strict=True)]

    def is_out_of_place(one: int, other: int) -> bool:
        """Whether two layers have other places in runs of one shape, or what one is called is beside the other."""
        (place, shape), (at, another) = shapes[0][one], shapes[1][other]
        ours, theirs = tails[0][one], tails[1][other]
        is_beside = ours.own != theirs.own and (ours.own in theirs.beside or theirs.own in ours.beside)
        return is_beside or (place != at and shape == another)

    pairs = found | {(-1, -1), (len(looks[0]), len(looks[1]))}
    for one, other in found:
        ours, theirs = looks[0][one], looks[1][other]
        is_between = all((_next(looks[0], one, by), _next(looks[1], other, by)) in pairs for by in (-1, 1))
        # Neighbours of unknown kinds may have changed places.
        is_between = is_between and (ours.kind or theirs.kind) != ""
        is_doubted = is_doubtful(ours, theirs, marks) or is_out_of_place(one, other)
        is_made = not is_doubted and (
            is_between or is_told(ours, theirs) or ours.has_changed is theirs.has_changed is True
        )
        yield (sides[0].leaves[one], sides[1].leaves[other]), is_made


class _Tail(NamedTuple):
    """What a layer is called inside of its module, and what the others of its run are."""

    own: tuple[str, ...]
    beside: frozenset[tuple[str, ...]]


def _tails(layers: Sequence[Layer], shapes: Sequence[tuple[int, Hashable]]) -> list[_Tail]:
    tails = [*map(_tail, layers)]
    starts = [number - place for number, (place, _) in enumerate(shapes)]
    inside: defaultdict[int, set[tuple[str, ...]]] = defaultdict(set)
    for start, tail in zip(starts, tails, strict=True):
        inside[start].add(tail)
    # Where all are called alike but for a number, the name is that of their list.
    lists = {start for start, own in inside.items() if len({tail[:1] for tail in own}) == 1 < len(own)}
    return [_Tail((), frozenset()) if start in lists else _Tail(tail, frozenset(inside[start]))
            for start, tail in zip(starts, tails, strict=True)]  # fmt: skip


def _shapes(layers: Sequence[Layer]) -> list[tuple[int, Hashable]]:
    """Return for each layer its place among its neighbours of its number of elements, and which of these are siblings.

    Of two neighbours it counts how many modules are around both, as compared with other neighbours.
    """
    shared = (takewhile(lambda both: both[0] == both[1], zip(one.parts, other.parts, strict=False))
              for one, other in pairwise(layers))  # fmt: skip
    around = [-1, *(sum(1 for _ in parts) for parts in shared), -1]
    found: list[tuple[int, Hashable]] = []
    for size, run in groupby(range(len(layers)), key=lambda number: layers[number].size):
        numbers = [*run]
        own = around[numbers[0] : numbers[-1] + 2]
        ranks = sorted({*own})
        shape = size, tuple(ranks.index(one) for one in own)
        found += [(place, shape) for place in range(len(numbers))]
    return found


def _next(looks: Sequence[Look], place: int, by: int) -> int:
    """Return the place of the next layer that does more than to pass on what it is given."""
    place += by
    while 0 <= place < len(looks) and looks[place].words[-1:] and looks[place].words[-1] in PASSING:
        place += by
    return place


def _named(sides: tuple[_Side, _Side]) -> Iterator[tuple[int, int]]:
    """Yield leaves whose words are each other's nearest, in the order of their numbers."""
    groups = [_stems(side) for side in sides]
    names = [[*own] for own in groups]
    rarity = rarity_of(*names)
    near: dict[tuple[int, int], float] = {}
    for one, ours in enumerate(names[0]):
        for other, theirs in enumerate(names[1]):
            if may_be_one_kind(kind_of_words(ours), kind_of_words(theirs)) and (
                groups[0][ours].sizes & groups[1][theirs].sizes
                or None in groups[0][ours].sizes | groups[1][theirs].sizes
            ):
                members = groups[0][ours].members, groups[1][theirs].members
                if ours == theirs or _is_told(sides, members, ours, theirs):
                    near[one, other] = likeness_of(ours, theirs, rarity)
    while pairs := [*_mutual(near)]:
        for one, other in pairs:
            yield from _numbered(sides, groups[0][names[0][one]].members, groups[1][names[1][other]].members)
        taken = [{pair[side] for pair in pairs} for side in range(2)]
        near = {pair: like for pair, like in near.items() if pair[0] not in taken[0] and pair[1] not in taken[1]}


def _is_told(
    sides: tuple[_Side, _Side],
    members: tuple[Sequence[int], Sequence[int]],
    ours: tuple[str, ...],
    theirs: tuple[str, ...],
) -> bool:
    """Whether words that are not all the same may tell a pair: several layers, or of a size that none other has."""
    both = {*ours} & {*theirs}
    if {*ours} - both and {*theirs} - both and len(both) < _LEAST_WORDS:
        return False
    return all(
        len(own) > 1 or sum(side.layers[one].size == side.layers[own[0]].size for one in side.leaves) == 1
        for side, own in zip(sides, members, strict=True)
    )


class _Stem(NamedTuple):
    """Leaves of one side that differ in nothing but numbers, in the order of these, and their numbers of elements."""

    members: list[int]
    sizes: set[int | None]


def _stems(side: _Side) -> Mapping[tuple[str, ...], _Stem]:
    found: dict[tuple[str, ...], _Stem] = {}
    for number in side.leaves:
        one = side.layers[number]
        if kind_of_words(one.words) == "layer" or not one.stem:
            # Numbers alone, and blocks as a whole, say nothing.
            continue
        is_listed = len(one.words) > 1 and isinstance(one.words[-1], int) and one.words[:-1] in side.lists
        own = found.setdefault(one.stem + ("#",) * is_listed, _Stem([], set()))
        own.members.append(number)
        own.sizes.add(side.layers[number].size)
    for own in found.values():
        own.members.sort(key=lambda number: _by_name(side.layers[number]))
    return found


def _mutual(near: Mapping[tuple[int, int], float]) -> Iterator[tuple[int, int]]:
    """Yield pairs of which neither part has a second candidate within the margin."""
    tops: tuple[defaultdict[int, list[float]], ...] = (defaultdict(list), defaultdict(list))
    for pair, likeness in near.items():
        for number, own in zip(pair, tops, strict=True):
            own[number] = sorted((*own[number], likeness), reverse=True)[:2]
    for (one, other), likeness in near.items():
        seconds = [own[number][1:] for number, own in zip((one, other), tops, strict=True)]
        if likeness >= _LIKE and all(likeness - each >= _MARGIN for second in seconds for each in second):
            yield one, other


def _numbered(sides: tuple[_Side, _Side], ours: Sequence[int], theirs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield layers of the same words in the order of their numbers, where this is the only way to have most pairs."""
    layers = [[side.layers[number] for number in own] for side, own in zip(sides, (ours, theirs), strict=True)]
    numbers = [[(one.step, *(word for word in one.words if isinstance(word, int))) for one in own] for own in layers]
    calls = [len({(one.step, one.words) for one in own}) < len(own) for own in layers]
    ends = {last_of(one) for own in layers for one in own}
    if len(ends) > 1 and any(
        number in side.closed for side, own in zip(sides, (ours, theirs), strict=True) for number in own
    ):
        return
    depths = {sum(isinstance(word, int) for word in one.words) for own in layers for one in own}
    if len(depths) > 1 and not any(calls):
        return
    if len(ours) == len(theirs) == 1 and abs(_last_number(layers[0][0]) - _last_number(layers[1][0])) > 1:
        return
    if any(calls) and not all(
        one.words[-1:] and isinstance(one.words[-1], int)
        for own, is_call in zip(layers, calls, strict=True)
        if not is_call
        for one in own
    ):
        return
    if UNORDERED in layers[0][0].stem and len({pattern_of(one.words) for own in layers for one in own}) > 1:
        return
    if len(ours) == len(theirs) and not any(calls) and _steps(numbers[0]) != _steps(numbers[1]):
        return
    if any(side.is_ordered and [*own] != sorted(own) for side, own in zip(sides, (ours, theirs), strict=True)):
        return
    sizes = [[one.size for one in own] for own in layers]
    rows, columns = ([*dict.fromkeys(own)] for own in sizes)
    weights = np.array([[_SAME_NAME * (None in (one, other) or one == other) for other in columns] for one in rows])
    places = [[own.index(size) for size in of_side] for own, of_side in zip((rows, columns), sizes, strict=True)]
    for one, other in sure_pairs(places[0], places[1], weights, _SURE):
        yield ours[one], theirs[other]


def _last_number(one: Layer) -> int:
    """Return the number that a name ends with; one side begins at 0, the other at 1."""
    return one.words[-1] if one.words and isinstance(one.words[-1], int) else 0


def _steps(numbers: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(b - a for a, b in zip(one, other, strict=False)) for one, other in pairwise(numbers)]


def _containers(sides: tuple[_Side, _Side], pairs: Mapping[int, int], *, is_ordered: bool) -> Iterator[tuple[int, int]]:
    """Yield modules that hold each other's partners, and nothing beside them."""
    backward = {other: one for one, other in pairs.items()}
    whole: list[dict[frozenset[tuple[int, int]], list[int]]] = [{}, {}]
    doubtful: list[set[int]] = [set(), set()]
    for side, partner, found, unsure in zip(sides, (pairs, backward), whole, doubtful, strict=True):
        for number in (number for number, holds in enumerate(side.holds) if holds):
            own = [one for one in side.inside(number) if one in partner or _gives_its_own(side.layers[one])]
            if not own or not all(one in partner for one in (own[:1] if is_ordered else own)):
                unsure.add(number)
            held = frozenset((one, partner[one]) for one in own if one in partner)
            found.setdefault(held, []).append(number)
    turned = {frozenset((one, other) for other, one in held): own for held, own in whole[1].items()}
    for held, ours in whole[0].items():
        both = ours, turned.get(held, [])
        sure = [[one for one in own if one not in unsure] for own, unsure in zip(both, doubtful, strict=True)]
        if is_ordered and len(held) >= _LEAST_INSIDE and not all(sure):
            # Blocks are what they are, whatever is behind the last layer that met.
            sure = [
                [one for one in own if last_of(side.layers[one]) == "#"] for side, own in zip(sides, both, strict=True)
            ]
        one, other = sure
        if (
            len(one) == len(other) == 1
            and len(held) >= _LEAST_INSIDE
            and _are_called_alike(sides[0].layers[one[0]], sides[1].layers[other[0]])
        ):
            yield one[0], other[0]


def _gives_its_own(one: Layer) -> bool:
    # Experts are many layers beside each other; what comes behind them is the module's own.
    return not one.words or (one.words[-1] not in PASSING and UNORDERED not in one.words)


def _are_called_alike(one: Layer, other: Layer) -> bool:
    return one.size == other.size and last_of(one) == last_of(other)


def _followers(found: Sequence[Meeting], ours: Sequence[Layer], theirs: Sequence[Layer]) -> list[Meeting]:
    """Return weights, gradients and states of modules that are a pair."""
    partner = {(one.left.step, one.left.words): (one.right.step, one.right.words) for one in found}
    known: defaultdict[Hashable, list[Layer]] = defaultdict(list)
    for other in theirs:
        if other.role:
            known[other.step, other.words[:-1], other.words[-1:], other.role].append(other)
    met = []
    for one in ours:
        module = partner.get((one.step, one.words[:-1])) if one.role else None
        own = known.get((*module, one.words[-1:], one.role), ()) if module else ()
        if len(own) == 1 and one.size == own[0].size:
            met.append(Meeting(one, own[0], "structure_module"))
    return met

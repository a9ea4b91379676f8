"""Partners of which no values agree: behind a mistake, names, order and nearness speak for a pair.

Each way takes what the others found. Names foretell: how the numbers of names follow from those of known pairs. Order:
what stands between the same neighbours, as many and of the same sizes. Modules: what belongs to two of which one weight
each is a pair. Nearness: two that are nearest to each other of
all that are left, by far, or as names say, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.suggest.fingerprint import Sample
from pytest_msdump.capabilities.suggest.learned_names import foretold
from pytest_msdump.capabilities.suggest.sides import Quantity, SuggestedSide, may_be_one_layer

# One of each side.
QuantityPair = tuple[Quantity, Quantity]
# The same with what speaks for it.
_Proposal = tuple[Quantity, Quantity, str]
_Word = TypeVar("_Word")
_Numbers = npt.NDArray[np.float64]

# Behind a mistake nothing agrees, but a partner is this much nearer than anything else; and how near it is at least.
_NEARER, _NEAR_ENOUGH = 0.25, 0.5
# The same where names say so as well.
_NEARER_AS_NAMED, _NEAR_ENOUGH_AS_NAMED, _FEWEST_NAMED = 2 / 3, 0.6, 2
# Larger tables of distances are not made.
_MOST_CELLS = 20_000_000
# Both sides ran in one order if so many of the pairs follow each other.
MOSTLY, FEWEST = 2 / 3, 3


class Differing:
    """What is paired by quantities, and what follows from that."""

    def __init__(self, left: SuggestedSide, right: SuggestedSide, pairs: Iterable[tuple[int, int]]) -> None:
        self._sides = left, right
        self._of = [{number: group for group in side.quantities for number in group} for side in self._sides]
        self._partner: tuple[dict[Quantity, Quantity], dict[Quantity, Quantity]] = ({}, {})
        # What operators of a pair are called.
        self._names: set[tuple[str, str]] = set()
        self._labels: tuple[set[str], set[str]] = (set(), set())
        for one, other in pairs:
            if one in self._of[0] and other in self._of[1]:
                self._take(self._of[0][one], self._of[1][other])

    def found(self) -> Iterator[tuple[QuantityPair, str]]:
        """Yield new pairs, each with what speaks for it, until no way finds another one."""
        is_new = True
        while is_new:
            is_new = False
            for find in (self._foretold, self._in_order, self._of_modules, self._nearest):
                for ours, theirs, how in list(find()):
                    if self._is_open(ours, theirs):
                        self._take(ours, theirs)
                        is_new = True
                        yield (ours, theirs), how

    def _take(self, ours: Quantity, theirs: Quantity) -> None:
        self._partner[0].setdefault(ours, theirs)
        self._partner[1].setdefault(theirs, ours)
        labels = [{side.refs[number].key.op.label for number in group}
                  for side, group in zip(self._sides, (ours, theirs), strict=True)]  # fmt: skip
        self._names.update((one, other) for one in labels[0] for other in labels[1])
        for known, new in zip(self._labels, labels, strict=True):
            known |= new

    def _is_open(self, ours: Quantity, theirs: Quantity) -> bool:
        left, right = self._sides
        has_partner = ours in self._partner[0] or theirs in self._partner[1]
        if has_partner or left.sort_of(ours[0]) != right.sort_of(theirs[0]):
            return False
        return any(
            may_be_one_layer(left.layer(one), right.layer(other)) and self._may_be_calls_of_one(one, other)
            for one in ours
            for other in theirs
        )

    def _may_be_calls_of_one(self, one: int, other: int) -> bool:
        """Whether two operators were not paired in other calls, each with another one."""
        pair = self._sides[0].refs[one].key.op.label, self._sides[1].refs[other].key.op.label
        return pair in self._names or pair[0] not in self._labels[0] or pair[1] not in self._labels[1]

    def _foretold(self) -> Iterator[_Proposal]:
        known = [(one, other) for ours, theirs in self._partner[0].items() for one in ours for other in theirs]
        said: tuple[defaultdict[Quantity, set[Quantity]], ...] = (defaultdict(set), defaultdict(set))
        for one, other in foretold(known, self._sides[0].refs, self._sides[1].refs):
            if one in self._of[0] and other in self._of[1]:
                said[0][self._of[0][one]].add(self._of[1][other])
                said[1][self._of[1][other]].add(self._of[0][one])
        for ours, some in said[0].items():
            theirs = next(iter(some))
            if len(some) == len(said[1][theirs]) == 1:
                yield ours, theirs, "structure"

    # -- Order

    def _in_order(self) -> Iterator[_Proposal]:
        """Yield what stands between the same neighbours, as many on both sides and of the same sizes."""
        lefts, rights = ([group for group in side.quantities if side.refs[group[0]].place is not None]
                         for side in self._sides)  # fmt: skip
        place = {group: number for number, group in enumerate(rights)}
        known = [(number, place[self._partner[0][group]]) for number, group in enumerate(lefts)
                 if self._partner[0].get(group) in place]  # fmt: skip
        rise = longest_rise(known)
        if len(rise) < MOSTLY * max(len(known), FEWEST):
            return
        for before, behind in pairwise([(-1, -1), *rise, (len(lefts), len(rights))]):
            ours = [one for one in lefts[before[0] + 1 : behind[0]] if one not in self._partner[0]]
            theirs = [one for one in rights[before[1] + 1 : behind[1]] if one not in self._partner[1]]
            # A single one may be another's partner: of two operators here and there that the other side lacks.
            is_told = len(ours) > 1 or (len(ours) == 1 and self._is_only_one(ours[0], theirs[:1]))
            if len(ours) == len(theirs) and is_told and all(map(self._is_open, ours, theirs)):
                yield from zip(ours, theirs, repeat("structure"))

    def _is_only_one(self, ours: Quantity, theirs: Sequence[Quantity]) -> bool:
        """Whether no other quantity of its size is without a partner, on either side."""
        sort = self._sides[0].sort_of(ours[0])
        return all(
            not set(side.distinctive.get(sort, ())).difference(partner, own)
            for side, partner, own in zip(self._sides, self._partner, ([ours], theirs), strict=True)
        )

    # -- Modules

    def _of_modules(self) -> Iterator[_Proposal]:
        """Yield the other weights of two modules of which weights are a pair, and what leaves the two."""
        left, right = self._sides
        met = {(left.owners[one], right.owners[other]) for ours, theirs in self._partner[0].items()
               for one in ours for other in theirs if left.is_weight(one) or right.is_weight(other)}  # fmt: skip
        times = [Counter(pair[side] for pair in met) for side in range(2)]
        for one, other in met:
            if one and other and times[0][one] == times[1][other] == 1:
                both = [side.members.get(name, {}) for side, name in zip(self._sides, (one, other), strict=True)]
                for what in both[0].keys() & both[1].keys():
                    numbers = [own[what] for own in both]
                    if all(number in of for number, of in zip(numbers, self._of, strict=True)):
                        yield self._of[0][numbers[0]], self._of[1][numbers[1]], "structure"

    # -- Nearness

    def _nearest(self) -> Iterator[_Proposal]:
        """Yield the quantities without a partner that are nearest to each other, and in the order of others."""
        left, right = self._sides
        for sort, all_lefts in left.distinctive.items():
            all_rights = right.distinctive.get(sort, [])
            rows = [number for number, group in enumerate(all_lefts) if group not in self._partner[0]]
            columns = [number for number, group in enumerate(all_rights) if group not in self._partner[1]]
            # Of a run in which nothing agrees, nothing is behind a mistake; and by far nearer than what?
            is_alone = not self._partner[0] and 1 in (len(rows), len(columns))
            if is_alone or not (rows and columns) or len(all_lefts) * len(all_rights) > _MOST_CELLS:
                continue
            lefts, rights = [all_lefts[number] for number in rows], [all_rights[number] for number in columns]
            apart = _distances(left, all_lefts, right, all_rights)
            by_far = _stand_out(apart, _NEARER, _NEAR_ENOUGH)[np.ix_(rows, columns)]
            by_far &= _are_most(_shared(left.words, lefts, right.words, rights), 0)
            as_named = _stand_out(apart[np.ix_(rows, columns)], _NEARER_AS_NAMED, _NEAR_ENOUGH_AS_NAMED)
            named = _shared(left.tokens, lefts, right.tokens, rights)
            # Where one side has a block more, numbers in names speak for another one.
            as_named &= (named >= _FEWEST_NAMED) & _are_most(named, 1) & (len(rows) == len(columns))
            for one, other in zip(*np.nonzero(by_far | as_named), strict=True):
                yield lefts[one], rights[other], "nearest" if by_far[one, other] else "structure"


def _distances(
    left: SuggestedSide, lefts: Sequence[Quantity], right: SuggestedSide, rights: Sequence[Quantity]
) -> _Numbers:
    """Return how far apart each two samples are, over the larger norm."""
    samples: list[list[Sample]] = [[side.looks[one[0]].sample for one in groups]
                                   for side, groups in ((left, lefts), (right, rights))]  # fmt: skip
    units = [
        np.stack([np.zeros(one.values.size) if one.unit is None else one.unit for one in side]) for side in samples
    ]
    logs = [np.array([one.log_norm for one in side]) for side in samples]
    ratio = np.exp(-np.abs(logs[0][:, None] - logs[1]))
    cosine = (units[0].conj() @ units[1].T).real
    found: _Numbers = np.sqrt(np.maximum(0.0, 1.0 + ratio * ratio - 2.0 * ratio * cosine))
    # Not all of their values are finite.
    found[[one.unit is None for one in samples[0]]] = np.inf
    found[:, [one.unit is None for one in samples[1]]] = np.inf
    return found


def _stand_out(apart: _Numbers, nearer: float, enough: float) -> npt.NDArray[np.bool_]:
    """Return which of these distances are the least of their row and of their column, by a factor."""
    found = apart <= enough
    for axis in (0, 1):
        if apart.shape[axis] > 1:
            least, second = np.partition(apart, 1, axis=axis).take([0, 1], axis=axis).swapaxes(0, axis)
            least, second = np.expand_dims(least, axis), np.expand_dims(second, axis)
            found &= (apart == least) & (least <= nearer * second)
    return found


def _shared(
    left: Sequence[frozenset[_Word]],
    lefts: Sequence[Quantity],
    right: Sequence[frozenset[_Word]],
    rights: Sequence[Quantity],
) -> _Numbers:
    """Return how much the names of each two quantities have in common, at most."""
    names = [
        [words[number] for group in groups for number in group] for words, groups in ((left, lefts), (right, rights))
    ]
    column = {word: number for number, word in enumerate(frozenset().union(*names[0]) & frozenset().union(*names[1]))}
    tables = [np.zeros((len(side), len(column)), dtype=np.float32) for side in names]
    for table, side in zip(tables, names, strict=True):
        for row, words in enumerate(side):
            table[row, [column[word] for word in words if word in column]] = 1
    counts: _Numbers = (tables[0] @ tables[1].T).astype(np.float64)
    for axis, groups in enumerate((lefts, rights)):
        counts = np.maximum.reduceat(counts, np.cumsum([0, *map(len, groups[:-1])]), axis=axis)
    return counts


def _are_most(counts: _Numbers, by: int) -> npt.NDArray[np.bool_]:
    """Return which are more, by so many, than all others of their row and of their column."""
    found = np.ones(counts.shape, dtype=np.bool_)
    for axis in (0, 1):
        if counts.shape[axis] > 1:
            second, most = np.partition(counts, -2, axis=axis).take([-2, -1], axis=axis).swapaxes(0, axis)
            rival = np.where(counts == np.expand_dims(most, axis), np.expand_dims(second, axis), np.inf)
            found &= (counts - rival >= by) if by else counts == np.expand_dims(most, axis)
    return found


def longest_rise(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most pairs of which both numbers rise; the first numbers do.

    >>> longest_rise([(0, 3), (1, 0), (2, 1)])
    [(1, 0), (2, 1)]
    """
    ends: list[int] = []
    chains: list[tuple[tuple[int, int], int | None]] = []
    last: list[int] = []
    for number, pair in enumerate(pairs):
        place = bisect_left(ends, pair[1])
        chains.append((pair, last[place - 1] if place else None))
        ends[place : place + 1], last[place : place + 1] = [pair[1]], [number]
    found: list[tuple[int, int]] = []
    at = last[-1] if last else None
    while at is not None:
        pair, at = chains[at]
        found.append(pair)
    return found[::-1]

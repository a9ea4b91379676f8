"""Suggestions for tensors without a partner: structure proposes, values confirm, and settle what is left open.

Structure is the way of pairing of that name. What it leaves open is settled where one left quantity alone has the
values of a right one, and that one alone has its; behind a mistake, as `differing` says. Neither kind nor names nor
order may contradict. Tensors that hold the same values are one quantity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.suggest.differing import FEWEST, MOSTLY, Differing, QuantityPair, longest_rise
from pytest_msdump.capabilities.suggest.fingerprint import (
    Alignment,
    Fingerprint,
    best_alignment,
    distances,
    fit_text,
    shape_word,
)
from pytest_msdump.capabilities.suggest.sides import Quantity, SuggestedSide, Unread, may_be_one_layer
from pytest_msdump.core.compare.planning import Plan, in_all_ways
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.facts.operators import PASSING_TYPES
from pytest_msdump.core.matching.kinds import kind_of
from pytest_msdump.core.model.report import Report, SuggestedPartner
from pytest_msdump.core.model.tensor import TensorRef, Transform, mangle

# Fingerprints further apart than this are of different tensors; so many are compared element by element with each one.
_ALIKE, _MOST_TRIED = 0.1, 6
# Two tensors agree if they differ by less of how much their values vary.
_AGREES = 5e-3
# To which share statistics of tensors that were not saved have to agree.
_SAME_STATISTIC = 1e-3
# Siblings that a port may have mixed up are near each other.
_REACH = 24


class Fit(NamedTuple):
    """A left and a right tensor, by number, that may be partners, and how one is brought to the other."""

    left: int
    right: int
    how: Alignment


@dataclass(frozen=True)
class Suggestion:
    """The clear partner of one right tensor, or all that may be it; `how` says what speaks for it."""

    right: int
    fits: tuple[Fit, ...]
    how: str
    is_clear: bool = True


@dataclass(frozen=True)
class Suggested:
    """Suggestions for the right tensors without a partner; numbers are places in `left` and `right`.

    `words` are what their names say. `copies` hold the values of another one that has a partner, `free` are
    fingerprints of left tensors without one, `doubtful` the right tensors that a suite must not leave out unseen.
    """

    left: tuple[TensorRef, ...]
    right: tuple[TensorRef, ...]
    suggestions: tuple[Suggestion, ...] = ()
    unread: tuple[Unread, ...] = ()
    alone: tuple[int, ...] = ()
    copies: frozenset[int] = frozenset()
    free: Mapping[int, Fingerprint] = field(default_factory=dict)
    doubtful: frozenset[int] = frozenset()
    words: tuple[Sequence[frozenset[str]], Sequence[frozenset[str]]] = ((), ())

    def partner(self, one: Suggestion, fit: Fit, side: str) -> SuggestedPartner:
        """Return one fit of a suggestion as a report has it, with the tensor of `side` as the partner."""
        by = "" if one.how == "values" or (one.how == "against" and fit.how.is_close) else one.how
        apart, shape = fit.how.apart, shape_word(fit.how.transform)
        ref = self.left[fit.left] if side == "left" else self.right[fit.right]
        confidence = "clear" if one.is_clear else "ambiguous"
        return SuggestedPartner(ref.key.address, confidence, fit_text(apart, shape, by), apart, shape, by)


def with_suggestions(report: Report, found: Suggested) -> Report:
    """Return the report with `suggestions` in its unmatched tensors; verdicts stay."""
    partners: defaultdict[tuple[str, str], list[SuggestedPartner]] = defaultdict(list)
    for one in found.suggestions:
        for fit in one.fits:
            for side, other in (("right", "left"), ("left", "right")):
                ref = found.left[fit.left] if side == "left" else found.right[fit.right]
                partners[side, ref.key.address].append(found.partner(one, fit, other))
    unmatched = [
        replace(entry, suggestions=tuple(partners.get((entry.side, entry.tensor.address), ())))
        for entry in report.unmatched
    ]
    return replace(report, unmatched=tuple(unmatched))


def suggest_partners(plan: Plan, *, watch: Watch = unwatched) -> Suggested:
    """Suggest partners for the tensors that `plan` leaves unpaired and that no map entry names."""
    named = {(side, mangle(getattr(entry, side))) for entry in plan.suite.entries for side in ("left", "right")}
    left = SuggestedSide("left", plan.left, plan.pairing, named, watch)
    right = SuggestedSide("right", plan.right, plan.pairing, named, watch)
    formats = Transform(left_format=plan.suite.left_format, right_format=plan.suite.right_format)
    search = _Search(left, right, formats)
    search.paired = {(left.number(pair.left), right.number(pair.right)) for pair in plan.pairing.pairs}
    leaves_out = plan.suite.options["pair_by"] or plan.suite.entries
    for pair in in_all_ways(plan).pairing.pairs if leaves_out else ():
        search.propose(left.number(pair.left), right.number(pair.right))
    search.settle(watch)
    search.confirm()
    search.settle_by_statistics()
    unread = [
        one for side in (left, right) for number, one in side.unread.items() if number not in search.unseen[side.name]
    ]
    return Suggested(
        tuple(left.refs),
        tuple(right.refs),
        tuple(search.found[number] for number in sorted(search.found)),
        tuple(unread),
        alone=tuple(sorted(right.alone | search.unseen["right"])),
        copies=search.copies,
        free={number: left.looks[number].print for number in sorted(left.alone)},
        doubtful=search.doubtful,
        words=(left.words, right.words),
    )


def _are_one_row(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> bool:
    """Whether all statistics agree: the norm by itself, the others by the largest of all values."""
    largest = np.abs(theirs[:3]).max()
    scale = np.array([largest, largest, largest, theirs[3]])
    return bool(largest > 0 and (np.abs(ours - theirs) <= _SAME_STATISTIC * scale).all())


class _Search:
    """What is suggested, by right tensor; each pair is aligned once."""

    def __init__(self, left: SuggestedSide, right: SuggestedSide, formats: Transform) -> None:
        self._left, self._right, self._formats = left, right, formats
        self.paired: set[tuple[int, int]] = set()
        self.found: dict[int, Suggestion] = {}
        self.unseen: dict[str, set[int]] = {"left": set(), "right": set()}
        self._aligned: dict[tuple[int, int], Alignment | None] = {}

    def propose(self, one: int, other: int) -> None:
        """Take a pair that structure has made, of tensors that can be looked at and have no partner."""
        if one in self._left.alone and other in self._right.alone and (fit := self._fit(one, other)) is not None:
            self.found[other] = Suggestion(other, (fit,), "structure")

    def _fit(self, one: int, other: int) -> Fit | None:
        if (one, other) not in self._aligned:
            refs = self._left.refs[one], self._right.refs[other]
            self._aligned[one, other] = best_alignment(*refs, self._formats)
        found = self._aligned[one, other]
        return None if found is None else Fit(one, other, found)

    def _agrees(self, fit: Fit) -> bool:
        return fit.how.is_close and fit.how.apart <= _AGREES * self._right.looks[fit.right].print.spread

    # -- Values

    def settle(self, watch: Watch) -> None:
        """Pair the quantities of which each has the values of the other alone."""
        partners = self.paired | {(one.fits[0].left, number) for number, one in self.found.items()}
        taken = {one for one, _ in partners}, {other for _, other in partners}
        pairs: list[QuantityPair] = []
        rights = [theirs for theirs in self._right.quantities if taken[1].isdisjoint(theirs)]
        for theirs in watch(rights, "right tensors tried"):
            lefts = self._alike("left", theirs)
            if len(lefts) == 1 and taken[0].isdisjoint(lefts[0]) and self._alike("right", lefts[0]) == [theirs]:
                pairs.append((lefts[0], theirs))
        known = partners.union(*({*zip(ours, theirs, strict=False)} for ours, theirs in pairs))
        differing = Differing(self._left, self._right, known)
        fits: list[Fit] = []
        for (ours, theirs), how in chain(((pair, "values") for pair in pairs), differing.found()):
            new = [*self._members(ours, theirs)]
            self.found |= {fit.right: Suggestion(fit.right, (fit,), how) for fit in new}
            fits += new
        for fit, named in self._mixed_up(fits):
            rival = None if named is None else self._fit(named, fit.right)
            self.found[fit.right] = Suggestion(fit.right, (*filter(None, [rival]), fit), "against", is_clear=False)

    def settle_by_statistics(self) -> None:
        """Pair tensors of which only statistics were saved, where no other one has these on either side."""
        for what, rights in self._right.rows.items():
            lefts = self._left.rows.get(what, [])
            alike = [(one, other) for one, ours in lefts for other, theirs in rights if _are_one_row(ours, theirs)]
            times = [Counter(pair[side] for pair in alike) for side in range(2)]
            for one, other in alike:
                if times[0][one] == times[1][other] == 1 and one in self._left.unread and other in self._right.unread:
                    how = Alignment(self._formats, 0.0, is_close=True)
                    self.found[other] = Suggestion(other, (Fit(one, other, how),), "statistics")
                    self.unseen["left"].add(one)
                    self.unseen["right"].add(other)

    def _alike(self, side: str, members: Sequence[int]) -> list[Quantity]:
        """Return the quantities of a side that have the values of one of the other side."""
        own, other = (self._left, self._right) if side == "left" else (self._right, self._left)
        look = other.looks[members[0]].print
        groups = own.distinctive.get(other.sort_of(members[0]), []) if look.is_distinctive else []
        apart = distances(look, [own.looks[group[0]].print for group in groups])
        near = sorted((float(far), group) for far, group in zip(apart, groups, strict=True) if far <= _ALIKE)
        agreeing = []
        for _, group in near[:_MOST_TRIED]:
            fit = self._fit(*((group[0], members[0]) if side == "left" else (members[0], group[0])))
            if fit is not None and self._agrees(fit):
                agreeing.append((group, fit.how.transform.transpose))
        # The same with axes in another order has the values as well, and is another tensor.
        in_order = [group for group, axes in agreeing if axes is None]
        return in_order or [group for group, _ in agreeing]

    def _members(self, ours: Sequence[int], theirs: Sequence[int]) -> Iterator[Fit]:
        """Yield which tensors of two quantities are partners: those most alike, and others of the same words."""
        ranked = sorted(
            ((self._likeness(one, other), -one, -other) for one in ours for other in theirs
             if one in self._left.alone and other in self._right.alone and self._may_be_one(one, other)), reverse=True
        )  # fmt: skip
        taken: set[tuple[str, int]] = set()
        for (shared, *_), one, other in ranked:
            is_free = taken.isdisjoint({("left", -one), ("right", -other)})
            is_even = len(ours) == len(theirs)
            if is_free and (not taken or shared or is_even) and (fit := self._fit(-one, -other)) is not None:
                taken |= {("left", -one), ("right", -other)}
                yield fit

    def _likeness(self, one: int, other: int) -> tuple[int, bool, bool, bool]:
        left, right = self._left.refs[one].key.op, self._right.refs[other].key.op
        is_one_kind = kind_of(left.op_type, left.label) == kind_of(right.op_type, right.label)
        fit = self._fit(one, other)
        is_plain = fit is not None and shape_word(fit.how.transform) == "same"
        return self._shared(one, other), is_one_kind, is_plain, left.op_type not in PASSING_TYPES

    def _shared(self, one: int, other: int) -> int:
        return len(self._left.words[one] & self._right.words[other])

    def _may_be_one(self, one: int, other: int) -> bool:
        return may_be_one_layer(self._left.layer(one), self._right.layer(other))

    # -- Names and order

    def _mixed_up(self, fits: Sequence[Fit]) -> Iterator[tuple[Fit, int | None]]:
        """Yield pairs that names or order contradict, with the left tensor that these speak for."""
        said: dict[int, tuple[Fit, int | None]] = {}
        places = sorted(self.paired | {(fit.left, fit.right) for fit in fits})
        is_one_order = len(longest_rise(places)) >= MOSTLY * max(len(places), FEWEST)
        of = {fit.right: fit for fit in fits}
        for group in self._right.by_sort(sorted(of)).values():
            for place, number in enumerate(group):
                for fit, other in ((of[number], of[near]) for near in group[place + 1 : place + _REACH]):
                    if self._are_swapped(fit, other, is_one_order=is_one_order):
                        said[fit.right], said[other.right] = (fit, other.left), (other, fit.left)
        lefts = self._left.by_sort(self._left.alone - {one.fits[0].left for one in self.found.values()})
        rights = self._right.by_sort((self._right.alone - self.found.keys() - self.copies) | of.keys())
        for fit in fits:
            sort, shared = self._right.sort_of(fit.right), self._shared(fit.left, fit.right)
            better = [one for one in lefts.get(sort, ()) if self._speaks_for(one, fit.right, shared)]
            # What is called like several right tensors speaks for none of them.
            better = [one for one in better if self._is_called_most_like(one, fit.right, rights[sort])]
            others = (other for other in rights[sort] if other not in of and self._speaks_for(fit.left, other, shared))
            if fit.right not in said and (len(better) == 1 or any(True for _ in others)):
                said[fit.right] = fit, better[0] if len(better) == 1 else None
        yield from said.values()

    def _is_called_most_like(self, one: int, other: int, rights: Iterable[int]) -> bool:
        return all(self._shared(one, rival) < self._shared(one, other) for rival in rights if rival != other)

    def _speaks_for(self, one: int, other: int, shared: int) -> bool:
        """Whether more words than these speak for a pair, one of which ends a name."""
        is_called_so = not self._left.ends[one].isdisjoint(self._right.ends[other])
        return is_called_so and self._shared(one, other) > shared and self._may_be_one(one, other)

    def _are_swapped(self, fit: Fit, other: Fit, *, is_one_order: bool) -> bool:
        """Whether names, or the order in one parent, say that each of two left tensors is the other one's partner."""
        own = self._shared(fit.left, fit.right), self._shared(other.left, other.right)
        swapped = self._shared(other.left, fit.right), self._shared(fit.left, other.right)
        if all(new > old for old, new in zip(own, swapped, strict=True)):
            return True
        sides = (self._left, fit.left, other.left), (self._right, fit.right, other.right)
        is_one_parent = all(side.parents[one] == side.parents[two] for side, one, two in sides)
        is_ordered = all(side.refs[each].place is not None for side, one, two in sides for each in (one, two))
        crosses = (fit.left < other.left) != (fit.right < other.right)
        return is_one_order and sum(swapped) >= sum(own) and is_one_parent and is_ordered and crosses

    # -- What is said of it

    def confirm(self) -> None:
        """Leave to a person the pairs of structure that have other values, where another tensor has these."""
        free = self._left.alone - {fit.left for one in self.found.values() if one.is_clear for fit in one.fits}
        for number, one in list(self.found.items()):
            fit = one.fits[0]
            if one.how != "structure" or self._agrees(fit):
                continue
            groups = (group for group in self._alike("left", [number]) if not free.isdisjoint(group))
            rivals = filter(None, (self._fit(group[0], number) for group in groups))
            fits = [rival for rival in rivals if self._may_be_one(rival.left, number)]
            others = chain.from_iterable(self._alike("right", [fit.left]))
            open_others = (other for other in others if other in self._right.alone and other not in self.found)
            if fits or any(self._may_be_one(fit.left, other) for other in open_others):
                self.found[number] = replace(one, fits=(fit, *fits), how="against", is_clear=False)

    @cached_property
    def copies(self) -> frozenset[int]:
        """The right tensors without a partner that hold the values of one that has one."""
        paired = {other for _, other in self.paired} | self.found.keys()
        alone = self._right.alone - paired
        groups = (group for group in self._right.quantities if not paired.isdisjoint(group))
        return alone.intersection(chain.from_iterable(groups))

    @property
    def doubtful(self) -> frozenset[int]:
        """The right tensors that a suite must not leave out unseen.

        Where nothing comes of a wrong tensor, no pair shows it: a weight, and what a run ends in.
        """
        clear = {one.fits[0].left: number for number, one in self.found.items() if one.is_clear}
        ends = [max((pair[side] for pair in (*self.paired, *clear.items())), default=-1) for side in range(2)]
        free = self._left.alone - clear.keys()
        rest = sorted(number for number in self._right.alone - self.copies - self.found.keys()
                      if self._right.looks[number].print.is_distinctive)  # fmt: skip
        sorts = {self._left.sort_of(one) for one in free if self._left.is_end(one, ends[0])}
        last = [other for other in rest if self._right.is_end(other, ends[1])]
        unseen = {other for other in last if self._right.sort_of(other) in sorts} | {*self._named(free, rest)}
        # The last layer of another name and another size, or that the left lacks: what the right ends in is no surplus.
        unseen |= {*[other for other in last if self._right.computes(other)][-1:]}
        return frozenset(unseen | {number for number, one in self.found.items() if not one.is_clear})

    def _named(self, lefts: Iterable[int], rights: Iterable[int]) -> Iterator[int]:
        """Yield the right tensors with which one left tensor alone has most words in common, and that one with it."""
        ours = self._left.by_sort(lefts)
        shared = {(one, other): self._shared(one, other)
                  for sort, numbers in self._right.by_sort(rights).items() for other in numbers
                  for one in ours.get(sort, ())}  # fmt: skip
        best: tuple[defaultdict[int, list[int]], defaultdict[int, list[int]]] = (defaultdict(list), defaultdict(list))
        for pair, words in shared.items():
            for side, number in enumerate(pair):
                best[side][number].append(words)
        tops = [{number: sorted([0, *words])[-2:] for number, words in side.items()} for side in best]
        for (one, other), words in shared.items():
            if all(tops[side][number][0] < words == tops[side][number][1] for side, number in enumerate((one, other))):
                yield other

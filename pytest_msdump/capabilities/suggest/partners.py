"""Suggestions for tensors without a partner: structure proposes, values confirm, and settle what structure leaves open.

Structure is the way of pairing of that name, with all other ways beside it. What it leaves open is settled where exactly
one left quantity has the values of a right one, nothing else has them on either side, and nothing contradicts: neither
kind nor names nor order within a parent. Tensors that hold the same values are one quantity.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.structure.words import words_in_names
from pytest_msdump.capabilities.suggest.fingerprint import (
    Alignment,
    Fingerprint,
    Sample,
    best_alignment,
    distances,
    fingerprint,
    fit_text,
    sample,
    shape_word,
)
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.planning import Plan, paired_in_all_ways
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.operators import PASSING_TYPES
from pytest_msdump.core.matching.kinds import is_weight, kind_of
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.report import Report, SuggestedPartner
from pytest_msdump.core.model.tensor import Pairing, TensorRef, Transform, Unmatched, mangle

# Fingerprints further apart than this are of different tensors; so many are compared element by element with each one.
_ALIKE, _MOST_TRIED = 0.1, 6
# Two tensors agree if they differ by less of how much their values vary.
_AGREES = 5e-3
# Behind a mistake nothing agrees, but a partner is this much nearer than anything else; and how near it is at least.
_NEARER, _NEAR_ENOUGH = 0.25, 0.5
# What of tensors that were not saved has to agree, and to which share.
_STATISTICS, _SAME_STATISTIC = ("maximum", "minimum", "mean", "l2_norm"), 1e-3
# Larger tables of distances are not made.
_MOST_CELLS = 20_000_000
# What layers compute, where that is something of their own; a sum or a product may be the last step of any of them. A
# convolution of one element is a linear layer, and takes in a normalisation behind it.
_LAYERS = {
    "convolution": "weighted", "transposed convolution": "weighted", "linear": "weighted", "batch norm": "norm",
    "layer norm": "norm", "group norm": "norm", "pooling": "pooling", "activation": "activation",
    "softmax": "activation", "embedding": "embedding", "recurrent": "recurrent", "loss": "loss",
    "resizing": "resizing",
}  # fmt: skip
_FOLDED = {"weighted", "norm"}
# Siblings that a port may have mixed up are near each other.
_REACH = 24
# Both sides ran in one order if so many of the pairs follow each other.
_MOSTLY, _FEWEST = 2 / 3, 3


class Look(NamedTuple):
    """What a tensor that was read looks like: facts that do not depend on where its values stand, and a few of these."""

    print: Fingerprint
    sample: Sample


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
class Unread:
    """A tensor whose values cannot be looked at."""

    side: str
    address: str
    reason: str


@dataclass(frozen=True)
class Suggested:
    """Suggestions for the right tensors without a partner; numbers are places in `left` and `right`.

    `copies` hold the values of another one that has a partner, `free` are fingerprints of left tensors without one, and
    `doubtful` are the right tensors that a suite must not leave out unseen.
    """

    left: tuple[TensorRef, ...]
    right: tuple[TensorRef, ...]
    suggestions: tuple[Suggestion, ...] = ()
    unread: tuple[Unread, ...] = ()
    alone: tuple[int, ...] = ()
    copies: frozenset[int] = frozenset()
    free: Mapping[int, Fingerprint] = field(default_factory=dict)
    doubtful: frozenset[int] = frozenset()

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
    left = _Side("left", plan.left, plan.pairing, named, watch)
    right = _Side("right", plan.right, plan.pairing, named, watch)
    formats = Transform(left_format=plan.suite.left_format, right_format=plan.suite.right_format)
    search = _Search(left, right, formats)
    search.paired = {(left.number(pair.left), right.number(pair.right)) for pair in plan.pairing.pairs}
    for pair in paired_in_all_ways(plan).pairs:
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
    )


_Name = tuple[str, int]
# Tensors of one side that hold the same values, and such of both sides.
_Quantity = tuple[int, ...]
_Quantities = tuple[_Quantity, _Quantity]


class _Side:
    """The tensors of a side, each name and occurrence once; those `alone` have no partner and can be looked at."""

    def __init__(self, name: str, dump: Dump, pairing: Pairing, named: set[tuple[str, str]], watch: Watch) -> None:
        unmatched = pairing.unmatched_left if name == "left" else pairing.unmatched_right
        self._numbers: dict[_Name, int] = {}
        self.refs: list[TensorRef] = []
        self.looks: dict[int, Look] = {}
        self.name = name
        self.unread: dict[int, Unread] = {}
        for ref in _in_order_of_calls(dump.refs):
            if self._numbers.setdefault(_name_of(ref), len(self.refs)) == len(self.refs):
                self.refs.append(ref)
        has_partner = {self.number(getattr(pair, name)) for pair in pairing.pairs}
        wanted = {self.number(one.ref) for one in unmatched
                  if _name_of(one.ref) in self._numbers and named.isdisjoint(_map_names(one))}  # fmt: skip
        wanted -= has_partner
        for number in watch(sorted(wanted | has_partner), "tensors read") if wanted else ():
            self._read(number, is_wanted=number in wanted)
        self.alone = frozenset(wanted & self.looks.keys())

    def _read(self, number: int, *, is_wanted: bool) -> None:
        ref = self.refs[number]
        try:
            reason = _unreadable(ref)
            if not reason:
                with closing(open_logical(ref)) as view:
                    self.looks[number] = Look(fingerprint(view), sample(view))
                return
        except MsdumpError as error:
            reason = str(error)
        except OSError as error:
            reason = f"cannot be read ({error.strerror or error})"
        if is_wanted:
            self.unread[number] = Unread(self.name, ref.key.address, reason)

    def number(self, ref: TensorRef) -> int:
        """Return the number of a tensor of the dump."""
        return self._numbers[_name_of(ref)]

    @cached_property
    def quantities(self) -> Sequence[tuple[int, ...]]:
        """The tensors that were read, together those of one direction that hold the same values in C order."""
        alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for number, look in sorted(self.looks.items()):
            # Masks and constants are the same by chance.
            what = (look.print.size, look.print.values.tobytes()) if look.print.is_distinctive else (number,)
            alike[(self.refs[number].key.io, *what)].append(number)
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for numbers in alike.values():
            for number in numbers:
                groups[number if len(numbers) == 1 else _digest(self.refs[number])].append(number)
        return sorted(tuple(group) for group in groups.values())

    @cached_property
    def words(self) -> Sequence[frozenset[str]]:
        """What the name of each tensor says, but for its numbers."""
        return words_in_names([ref.key.op.label for ref in self.refs])

    @cached_property
    def parents(self) -> Sequence[str]:
        """The name of each tensor without its last part."""
        return [ref.key.op.label.replace("/", ".").rpartition(".")[0] for ref in self.refs]

    @cached_property
    def rows(self) -> Mapping[tuple[object, ...], list[tuple[int, npt.NDArray[np.float64]]]]:
        """The statistics of tensors that were not saved, by what a partner has in common: shape, type, end of name."""
        found: defaultdict[tuple[object, ...], list[tuple[int, npt.NDArray[np.float64]]]] = defaultdict(list)
        for number, ref in enumerate(self.refs):
            values = [ref.statistics.values.get(name) for name in _STATISTICS] if ref.statistics else []
            if ref.is_unseen and values and all(isinstance(value, (int, float)) for value in values):
                op, end = ref.key.op, re.split(r"[./]", ref.key.op.label)[-1]
                row = np.array(values, dtype=np.float64)
                found[ref.key.io, ref.key.slot, ref.spec.shape, op.op_type, end].append((number, row))
        return found

    def layer(self, number: int) -> str:
        """Return what kind of layer gave out a tensor, as far as its type or its name says so."""
        op = self.refs[number].key.op
        return _LAYERS.get(kind_of(op.op_type, op.label), "")

    def sort_of(self, number: int) -> tuple[object, ...]:
        """Return what a partner must have in common with a tensor."""
        ref = self.refs[number]
        return ref.key.io, self.looks[number].print.size, is_weight(ref.key.op)


def _in_order_of_calls(refs: Sequence[TensorRef]) -> Sequence[TensorRef]:
    """Return a dump's tensors with each call of an operator at its own place; a dump has all of them at the first."""
    if not any(ref.key.op.at.occurrence for ref in refs):
        return refs
    return sorted(refs, key=lambda ref: (ref.place is None, ref.key.op.at.iteration or 0, ref.source.timestamp or 0))


def _name_of(ref: TensorRef) -> _Name:
    return ref.key.typed_address, ref.key.op.at.occurrence or 0


def _map_names(one: Unmatched) -> Iterator[tuple[str, str]]:
    """Yield what a map entry may call this tensor."""
    key = one.ref.key
    for name in (key.op.label, f"{key.op.op_type}.{key.op.label}"):
        yield one.side, mangle(name)
        yield one.side, mangle(f"{name}:{key.io}:{key.slot}")


def _unreadable(ref: TensorRef) -> str:
    """Return why a tensor is not read; empty where it may be."""
    try:
        ref.key.address.encode()
    except UnicodeEncodeError:
        return "its name is not text, so a suite file cannot hold it"
    return "only its statistics were saved" if ref.is_unseen else ""


def _digest(ref: TensorRef) -> bytes:
    digest = hashlib.blake2b()
    with closing(open_logical(ref)) as view:
        digest.update(view.dtype.encode())
        for block in view.blocks(1 << 17):
            digest.update(block.tobytes())
    return digest.digest()


def _distances(ours: Sequence[Sample], theirs: Sequence[Sample]) -> npt.NDArray[np.float64]:
    """Return how far apart each two samples are, over the larger norm."""
    units = [np.stack([np.asarray(one.unit) for one in side]) for side in (ours, theirs)]
    logs = [np.array([one.log_norm for one in side]) for side in (ours, theirs)]
    ratio = np.exp(-np.abs(logs[0][:, None] - logs[1]))
    cosine = (units[0].conj() @ units[1].T).real
    found: npt.NDArray[np.float64] = np.sqrt(np.maximum(0.0, 1.0 + ratio * ratio - 2.0 * ratio * cosine))
    return found


def _stand_out(apart: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which of these distances are by far the least of their row and of their column."""
    found = apart <= _NEAR_ENOUGH
    for axis in (0, 1):
        if apart.shape[axis] > 1:
            least, second = np.partition(apart, 1, axis=axis).take([0, 1], axis=axis).swapaxes(0, axis)
            least, second = np.expand_dims(least, axis), np.expand_dims(second, axis)
            found &= (apart == least) & (least <= _NEARER * second)
    return found


def _are_one_row(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> bool:
    """Whether all statistics agree: the norm by itself, the others by the largest of all values."""
    largest = np.abs(theirs[:3]).max()
    scale = np.array([largest, largest, largest, theirs[3]])
    return bool(largest > 0 and (np.abs(ours - theirs) <= _SAME_STATISTIC * scale).all())


def _longest_rise(numbers: Sequence[int]) -> int:
    ends: list[int] = []
    for number in numbers:
        place = bisect_left(ends, number)
        ends[place : place + 1] = [number]
    return len(ends)


class _Search:
    """What is suggested, by right tensor; each pair is aligned once."""

    def __init__(self, left: _Side, right: _Side, formats: Transform) -> None:
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
        pairs = []
        rights = [theirs for theirs in self._right.quantities if taken[1].isdisjoint(theirs)]
        for theirs in watch(rights, "right tensors tried"):
            lefts = self._alike("left", theirs)
            if len(lefts) == 1 and taken[0].isdisjoint(lefts[0]) and self._alike("right", lefts[0]) == [theirs]:
                pairs.append((lefts[0], theirs))
        pairs += self._nearest(taken, pairs)
        fits = [fit for ours, theirs in pairs for fit in self._members(ours, theirs)]
        for fit in fits:
            self.found[fit.right] = Suggestion(fit.right, (fit,), "values")
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

    def _alike(self, side: str, members: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the quantities of a side that have the values of one of the other side."""
        own, other = (self._left, self._right) if side == "left" else (self._right, self._left)
        look = other.looks[members[0]].print
        if not look.is_distinctive:
            return []
        io = other.refs[members[0]].key.io
        groups = [group for group in own.quantities if own.refs[group[0]].key.io == io]
        apart = distances(look, [own.looks[group[0]].print for group in groups])
        near = sorted((float(far), group) for far, group in zip(apart, groups, strict=True) if far <= _ALIKE)
        pairs = ((group, self._fit(*((group[0], members[0]) if side == "left" else (members[0], group[0]))))
                 for _, group in near[:_MOST_TRIED])  # fmt: skip
        agreeing = [
            (group, fit.how.transform.transpose) for group, fit in pairs if fit is not None and self._agrees(fit)
        ]
        # The same with axes in another order has the values as well, and is another tensor.
        in_order = [group for group, axes in agreeing if axes is None]
        return in_order or [group for group, _ in agreeing]

    def _nearest(self, taken: tuple[set[int], set[int]], known: Sequence[_Quantities]) -> Iterator[_Quantities]:
        """Yield the quantities without a partner that are by far nearest to each other, and in the order of others."""
        sorts: defaultdict[object, tuple[list[_Quantity], list[_Quantity]]] = defaultdict(lambda: ([], []))
        for number, side in enumerate((self._left, self._right)):
            for group in side.quantities:
                look = side.looks[group[0]]
                if look.print.is_distinctive and look.sample.unit is not None:
                    sorts[side.sort_of(group[0])][number].append(group)
        met = {ours for ours, _ in known}, {theirs for _, theirs in known}
        anchors = self.paired | {(one.fits[0].left, number) for number, one in self.found.items()}
        anchors |= {(ours[0], theirs[0]) for ours, theirs in known}
        # Of a run in which nothing agrees, nothing is behind a mistake.
        for lefts, rights in sorts.values() if anchors else ():
            if not 0 < len(lefts) * len(rights) <= _MOST_CELLS:
                continue
            apart = _distances([self._left.looks[one[0]].sample for one in lefts],
                               [self._right.looks[one[0]].sample for one in rights])  # fmt: skip
            for one, other in zip(*np.nonzero(_stand_out(apart)), strict=True):
                ours, theirs = lefts[one], rights[other]
                is_open = taken[0].isdisjoint(ours) and taken[1].isdisjoint(theirs) and ours not in met[0]
                if is_open and theirs not in met[1] and self._is_in_order(ours[0], theirs[0], anchors):
                    shared = max(self._shared(a, b) for a in ours for b in theirs)
                    better = [self._shared(a, b) for a in ours for group in rights for b in group]
                    better += [self._shared(a, b) for group in lefts for a in group for b in theirs]
                    if max(better) <= shared:
                        yield ours, theirs

    def _is_in_order(self, one: int, other: int, anchors: Iterable[tuple[int, int]]) -> bool:
        """Whether two tensors stand between the same pairs, as far as it is known in which order they ran."""
        if self._left.refs[one].place is None or self._right.refs[other].place is None:
            return True
        return not any((one < left) != (other < right) for left, right in anchors
                       if self._left.refs[left].place is not None and self._right.refs[right].place is not None)  # fmt: skip

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
        """Whether two tensors are of one kind of layer, or of kinds of which one is folded into the other."""
        kinds = {self._left.layer(one), self._right.layer(other)} - {""}
        return len(kinds) < 2 or kinds == _FOLDED

    # -- Names and order

    def _mixed_up(self, fits: Sequence[Fit]) -> Iterator[tuple[Fit, int | None]]:
        """Yield pairs that names or order contradict, with the left tensor that these speak for."""
        said: dict[int, tuple[Fit, int | None]] = {}
        places = sorted(self.paired | {(fit.left, fit.right) for fit in fits})
        is_one_order = _longest_rise([other for _, other in places]) >= _MOSTLY * max(len(places), _FEWEST)
        sorts: defaultdict[object, list[Fit]] = defaultdict(list)
        for fit in sorted(fits, key=lambda fit: fit.right):
            sorts[self._right.sort_of(fit.right)].append(fit)
        for group in sorts.values():
            for place, fit in enumerate(group):
                for other in group[place + 1 : place + _REACH]:
                    if self._are_swapped(fit, other, is_one_order=is_one_order):
                        said[fit.right], said[other.right] = (fit, other.left), (other, fit.left)
        open_left = self._left.alone - {fit.left for fit in fits} - {fit.left for fit in self._structural()}
        open_right = self._right.alone - self.found.keys() - self.copies
        for fit in fits:
            shared = self._shared(fit.left, fit.right)
            better = [one for one in open_left if self._speaks_for(one, fit.right, shared)]
            others = [other for other in open_right if self._speaks_for(fit.left, other, shared)]
            if fit.right not in said and (len(better) == 1 or others):
                said[fit.right] = fit, better[0] if len(better) == 1 else None
        yield from said.values()

    def _structural(self) -> list[Fit]:
        return [one.fits[0] for one in self.found.values() if one.how == "structure"]

    def _speaks_for(self, one: int, other: int, shared: int) -> bool:
        """Whether more words than these speak for a pair, which is of one sort."""
        is_one_sort = self._left.sort_of(one) == self._right.sort_of(other) and self._may_be_one(one, other)
        return is_one_sort and self._shared(one, other) > shared

    def _are_swapped(self, fit: Fit, other: Fit, *, is_one_order: bool) -> bool:
        """Whether names say that each of two left tensors is the other one's partner, or the order in one parent does."""
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
            rivals = [
                self._fit(group[0], number) for group in self._alike("left", [number]) if not free.isdisjoint(group)
            ]
            fits = [rival for rival in rivals if rival is not None and self._may_be_one(rival.left, number)]
            others = [
                other for group in self._alike("right", [fit.left]) for other in group if other in self._right.alone
            ]
            if fits or any(other not in self.found and self._may_be_one(fit.left, other) for other in others):
                self.found[number] = replace(one, fits=(fit, *fits), how="against", is_clear=False)

    @cached_property
    def copies(self) -> frozenset[int]:
        """The right tensors without a partner that hold the values of one that has one."""
        paired = {other for _, other in self.paired} | self.found.keys()
        alone = self._right.alone - paired
        return (
            frozenset(number for group in self._right.quantities if not paired.isdisjoint(group) for number in group)
            & alone
        )

    @property
    def doubtful(self) -> frozenset[int]:
        """The right tensors that a suite must not leave out unseen.

        Where nothing comes of a wrong tensor, no pair shows it: a weight, and what a run ends in.
        """
        clear = {one.fits[0].left: number for number, one in self.found.items() if one.is_clear}
        pairs = [*self.paired, *clear.items()]
        ends = [max((pair[side] for pair in pairs), default=-1) for side in range(2)]
        free = self._left.alone - clear.keys()
        sorts = Counter(
            self._left.sort_of(one) for one in free if one > ends[0] or is_weight(self._left.refs[one].key.op)
        )
        rest = self._right.alone - self.copies - self.found.keys()
        last = {other for other in rest if other > ends[1] or is_weight(self._right.refs[other].key.op)}
        unseen = {other for other in last if sorts[self._right.sort_of(other)]}
        # The last layer of another name and another size, or that the left lacks: what the right ends in is no surplus.
        computed = [other for other in rest if other > ends[1] and self._computes(other)]
        unseen |= {*computed[-1:], *self._named(free, rest)}
        return frozenset(unseen | {number for number, one in self.found.items() if not one.is_clear})

    def _named(self, lefts: Iterable[int], rights: Iterable[int]) -> Iterator[int]:
        """Yield the right tensors with which one left tensor alone has most words in common, and that one with it."""
        shared = {(one, other): self._shared(one, other) for other in rights for one in lefts
                  if self._left.sort_of(one) == self._right.sort_of(other)}  # fmt: skip
        best: tuple[defaultdict[int, list[int]], defaultdict[int, list[int]]] = (defaultdict(list), defaultdict(list))
        for pair, words in shared.items():
            for side, number in enumerate(pair):
                best[side][number].append(words)
        tops = [{number: sorted([0, *words])[-2:] for number, words in side.items()} for side in best]
        for (one, other), words in shared.items():
            if all(tops[side][number][0] < words == tops[side][number][1] for side, number in enumerate((one, other))):
                yield other

    def _computes(self, number: int) -> bool:
        key = self._right.refs[number].key
        return key.io == "output" and key.op.op_type not in PASSING_TYPES and not is_weight(key.op)

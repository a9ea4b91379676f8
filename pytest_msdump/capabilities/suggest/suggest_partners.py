"""Suggestions for tensors without a partner: by structure, then by values, names and order of execution."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property

from pytest_msdump.capabilities.suggest.choose_partners import (
    Fit,
    Suggestion,
    Unpaired,
    fit_text,
    is_named_after,
    suggest,
)
from pytest_msdump.capabilities.suggest.confirm_partners import (
    contradicted,
    in_order,
    mixed_up,
    named_alone,
    shared_words,
)
from pytest_msdump.capabilities.suggest.fingerprint import (
    MOST_APART,
    Alignment,
    Fingerprint,
    best_alignment,
    distances,
    fingerprint,
    sample,
    shape_word,
)
from pytest_msdump.capabilities.suggest.steps import Look, pairs_by_structure, steps_of
from pytest_msdump.capabilities.suggest.structure import AlignedStep, name_agreement, tokens_of
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.operators import PASSING_TYPES
from pytest_msdump.core.matching.kinds import is_weight, kind_of
from pytest_msdump.core.matching.leaving import Modules, modules_of
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.report import Report, SuggestedPartner
from pytest_msdump.core.model.tensor import OpKey, Pairing, TensorRef, Transform, Unmatched, mangle

# Fingerprints further apart than this are of different tensors.
_ALIKE = 0.1
# The order of axes that a side has where nothing is said.
_USUAL = "NCHW"
# How many tensors are compared element by element with each one.
_MOST_TRIED = 6


@dataclass(frozen=True)
class Unread:
    """A tensor whose values cannot be looked at."""

    side: str
    address: str
    reason: str


@dataclass(frozen=True)
class Suggested:
    """Suggestions for the right tensors without a partner; numbers are places in `left` and `right`."""

    left: tuple[TensorRef, ...]
    right: tuple[TensorRef, ...]
    suggestions: tuple[Suggestion, ...]
    alignments: dict[tuple[int, int], Alignment]
    unread: tuple[Unread, ...]
    alone: tuple[int, ...] = ()
    copies: frozenset[int] = frozenset()
    free: Mapping[int, Fingerprint] = field(default_factory=dict)
    doubtful: frozenset[int] = frozenset()

    def partner(self, one: Suggestion, fit: Fit, side: str) -> SuggestedPartner:
        """Return one fit of a suggestion as a report has it, with the tensor of `side` as the partner."""
        alignment = self.alignments[fit.left, fit.right]
        by = "names alone" if fit.apart is None else one.how if one.is_clear and one.how in ("names", "order") else ""
        by = one.how if one.how in ("structure", "replay", "place", "names alone") else by
        by = "against" if one.how == "against" and not fit.is_close else by
        apart = alignment.apart if fit.apart is None else fit.apart
        shape = shape_word(alignment.transform)
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
    left = _SuggestedSide("left", plan.left, plan.pairing, named, watch)
    right = _SuggestedSide("right", plan.right, plan.pairing, named, watch)
    formats = Transform(left_format=plan.suite.left_format, right_format=plan.suite.right_format)
    outputs = [pair for pair in plan.pairing.pairs if pair.left.key.io == "output"]
    paired = [(left.number(pair.left), right.number(pair.right)) for pair in outputs]
    search = _PartnerSearch(left, right, formats, modules_of("left", plan.left))
    by_structure = search.by_structure(paired)
    taken = {*by_structure.values()}, {*by_structure}
    copies = right.copies({*(other for _, other in paired), *taken[1]})
    fits: list[Fit] = []
    open_left = left.alone - taken[0]
    open_right = sorted(right.alone - taken[1] - copies)
    for number in watch(open_right, "right tensors tried"):
        for other in _candidates(left, right, number, open_left):
            found = search.alignment(other, number)
            if found is not None:
                apart = found.apart if found.apart <= MOST_APART else None
                fits.append(Fit(other, number, apart, is_close=found.is_close))
    anchors = sorted({*paired, *((one, other) for other, one in by_structure.items())})
    suggestions = [
        Suggestion(other, (Fit(one, other, search.found[one, other].apart),), "structure")
        for other, one in by_structure.items()
    ]
    suggestions += suggest(left.unpaired, right.unpaired, _without_views(fits, left), anchors=anchors)
    confirmed = search.confirmed({one.right: one for one in suggestions}, paired, copies)
    return Suggested(
        tuple(left.refs),
        tuple(right.refs),
        tuple(confirmed[number] for number in sorted(confirmed)),
        search.found,
        (*left.unread, *right.unread),
        alone=tuple(sorted(right.alone)),
        copies=copies,
        free={number: left.looks[number].print for number in sorted(left.alone)},
        doubtful=search.doubtful(confirmed, paired, copies),
    )


class _SuggestedSide:
    """The tensors of a side, each name and occurrence once; those `alone` have no partner and can be looked at."""

    def __init__(self, name: str, dump: Dump, pairing: Pairing, named: set[tuple[str, str]], watch: Watch) -> None:
        unmatched = pairing.unmatched_left if name == "left" else pairing.unmatched_right
        paired = {id(getattr(pair, name)) for pair in pairing.pairs}
        self._numbers: dict[_Name, int] = {}
        self.refs: list[TensorRef] = []
        self.looks: dict[int, Look] = {}
        self.unread: list[Unread] = []
        has_partner: set[int] = set()
        for ref in _in_order_of_calls(dump.refs):
            number = self._numbers.setdefault(_name_of(ref), len(self.refs))
            if number == len(self.refs):
                self.refs.append(ref)
            if id(ref) in paired:
                has_partner.add(number)
        wanted = {
            self._numbers[_name_of(one.ref)]
            for one in unmatched
            if _name_of(one.ref) in self._numbers and named.isdisjoint(_map_names(one))
        }
        wanted -= has_partner
        for number in watch(sorted(wanted | has_partner), "tensors read"):
            self._read(name, number, is_wanted=number in wanted)
        self.alone = frozenset(wanted & self.looks.keys())

    def _read(self, side: str, number: int, *, is_wanted: bool) -> None:
        ref = self.refs[number]
        try:
            reason = _unreadable(ref)
            if not reason:
                with closing(open_logical(ref)) as view:
                    self.looks[number] = Look(view.shape, fingerprint(view), sample(view))
                return
        except MsdumpError as error:
            reason = str(error)
        except OSError as error:
            reason = f"cannot be read ({error.strerror or error})"
        if is_wanted:
            self.unread.append(Unread(side, ref.key.address, reason))

    def number(self, ref: TensorRef) -> int:
        """Return the number of a tensor of the dump."""
        return self._numbers[_name_of(ref)]

    @cached_property
    def _calls(self) -> Counter[str]:
        return Counter(ref.key.typed_address for ref in self.refs)

    def is_repeated(self, number: int) -> bool:
        """Whether a tensor was recorded several times."""
        return self._calls[self.refs[number].key.typed_address] > 1

    @cached_property
    def steps(self) -> list[AlignedStep]:
        """The steps of the network."""
        outputs = {
            number: self.refs[number]
            for number in sorted(self.looks)
            if self.refs[number].key.io == "output" and self.refs[number].place is not None
        }
        return steps_of(outputs, self.looks)

    def copies(self, paired: set[int]) -> frozenset[int]:
        """Return the tensors without a partner that hold the values of one that has one."""
        return frozenset(
            number
            for step in self.steps
            if not paired.isdisjoint(step.members)
            for number in step.members
            if number in self.alone and number not in paired
        )

    @cached_property
    def unpaired(self) -> list[Unpaired]:
        """These tensors as `suggest` takes them."""
        return [
            Unpaired(
                ref.key.op.label,
                number,
                ref.place is not None,
                number in self.looks and self.looks[number].print.is_distinctive,
                _own_name(ref.key.op),
            )
            for number, ref in enumerate(self.refs)
        ]

    def computes(self, number: int) -> bool:
        """Whether a tensor is what an operator makes, and no weight, nor its input in another shape."""
        key = self.refs[number].key
        return key.io == "output" and key.op.op_type not in PASSING_TYPES and not is_weight(key.op)

    def sort_of(self, number: int) -> tuple[str, int]:
        """Return what a partner must have in common with a tensor."""
        return self.refs[number].key.io, self.looks[number].print.size


def _own_name(op: OpKey) -> str:
    """Return a name without the operator's type that a tool wrote into it: ``attention/add``, ``node_LSTM_220``."""
    if not op.op_type:
        return op.label
    folder, _, last = op.label.rpartition("/")
    if folder:
        return folder if last.lower().startswith(op.op_type.lower()) else op.label
    return "" if re.fullmatch(rf"(?:node_)?{re.escape(op.op_type)}_[0-9]+", last) else last


_Name = tuple[str, int]


def _in_order_of_calls(refs: Sequence[TensorRef]) -> Sequence[TensorRef]:
    """Return a dump's tensors with each call of an operator at its own place; a dump has all of them at the first."""
    if not any(ref.key.op.at.occurrence for ref in refs):
        return refs
    return sorted(refs, key=lambda ref: (ref.place is None, ref.key.op.at.iteration or 0, ref.source.timestamp or 0))


def _name_of(ref: TensorRef) -> _Name:
    return ref.key.typed_address, ref.key.op.at.occurrence or 0


class _PartnerSearch:
    """Partners by structure, and how a right tensor is brought to a left one; each pair is tried once."""

    def __init__(self, left: _SuggestedSide, right: _SuggestedSide, formats: Transform, modules: Modules) -> None:
        self._left, self._right, self._formats, self._modules = left, right, formats, modules
        self.found: dict[tuple[int, int], Alignment] = {}
        self._left_over: set[int] = set()

    def alignment(self, one: int, other: int) -> Alignment | None:
        """Return how the right tensor of that number is brought to the left one."""
        if (one, other) not in self.found:
            found = best_alignment(self._left.refs[one], self._right.refs[other], self._formats)
            if found is None:
                return None
            self.found[one, other] = found
        return self.found[one, other]

    def by_structure(self, paired: Sequence[tuple[int, int]]) -> dict[int, int]:
        """Return left tensors by the right tensors whose partners they are."""
        steps = pairs_by_structure(self._left.steps, self._right.steps, paired, self._prefers)
        return {
            other: one
            for ours, theirs in steps
            for one, other in self._members(ours, theirs)
            if one in self._left.alone and other in self._right.alone and self.alignment(one, other) is not None
        }

    def _prefers(self, ours: AlignedStep, theirs: AlignedStep) -> bool:
        found = self.alignment(ours.members[0], theirs.members[0])
        return found is not None and found.is_close

    def _members(self, ours: AlignedStep, theirs: AlignedStep) -> Iterator[tuple[int, int]]:
        """Yield the tensors that are most alike by name and shape, else those that leave the outermost modules."""
        lefts, rights = self._left, self._right
        computes_once = max(len(ours.kinds), len(theirs.kinds)) == 1
        # Flattened in another order of axes, values are others.
        is_one_order = (self._formats.left_format or _USUAL) == (self._formats.right_format or _USUAL)
        has_copies = computes_once and is_one_order and len(ours.members) > 1 and len(theirs.members) > 1

        def likeness(one: int, other: int) -> int:
            left, right = lefts.refs[one].key.op, rights.refs[other].key.op
            is_same_kind = (
                computes_once
                and len(ours.members) > 1
                and kind_of(left.op_type, left.label) == kind_of(right.op_type, right.label)
            )
            return name_agreement(tokens_of(left.label), tokens_of(right.label)) + is_same_kind

        ranked = sorted(
            (
                (
                    likeness(one, other),
                    rights.is_repeated(other),
                    (lefts.looks[one].shape == rights.looks[other].shape)
                    + (len(lefts.looks[one].shape) == len(rights.looks[other].shape)),
                    one,
                    other,
                )
                for one in ours.members
                for other in theirs.members
            ),
            reverse=True,
        )
        taken: set[tuple[str, int]] = set()
        for alike, *_, one, other in ranked:
            if taken.isdisjoint({("left", one), ("right", other)}) and (not taken or (alike and has_copies)):
                taken |= {("left", one), ("right", other)}
                yield one, other

    def confirmed(
        self, suggestions: Mapping[int, Suggestion], paired: Sequence[tuple[int, int]], copies: frozenset[int]
    ) -> dict[int, Suggestion]:
        """Return what is suggested once values, names and order have looked at each other's pairs."""
        found = dict(suggestions)
        agreeing = {one.right: one.fits[0] for one in found.values() if one.is_clear and self._agrees(one.fits[0])}
        taken = {fit.left for one in found.values() if one.is_clear for fit in one.fits}
        for number, one in suggestions.items():
            if number not in agreeing and (better := self._better(one, agreeing, taken)) is not None:
                found[number] = better
                taken |= {better.fits[0].left} if better.is_clear else set()
            elif number not in agreeing and (of_other := self._other_right(one, found)) is not None:
                del found[number]
                self._left_over.add(number)
                found[of_other.right] = of_other
                agreeing[of_other.right] = of_other.fits[0]
        # Of another kind: a sum here is a concatenation of two halves there.
        for number in sorted(self._right.alone - copies - found.keys() - self._left_over):
            if len(alike := [fit for fit in self._alike(number) if fit.left not in taken]) == 1:
                found[number] = Suggestion(number, (alike[0],), "values")
                taken.add(alike[0].left)
        agreeing = {one.right: one.fits[0] for one in found.values() if one.is_clear and self._agrees(one.fits[0])}
        against = contradicted(
            list(agreeing.values()),
            self._left.unpaired,
            self._right.unpaired,
            free=(sorted(self._left.alone - taken), sorted(self._right.alone - copies - found.keys())),
            sure=frozenset(number for number in agreeing if found[number].how == "structure"),
            sort_of=self._sort_of,
        )
        holder = {fit.left: number for number, fit in agreeing.items()}
        for number, lefts in against.items():
            lefts = {one for one in lefts if number in agreeing or self._may_compute_the_same(one, number)}
            named = [fit for left in sorted(lefts) if (fit := self._fit(left, number)) is not None]
            if len(named) == 1 and self._agrees(named[0]):
                # Drift explains the difference.
                found[number] = Suggestion(number, (named[0],), "names")
            elif named:
                own = (agreeing[number],) if number in agreeing else ()
                found[number] = Suggestion(number, (*named, *own), "against", is_clear=False)
                if not own and (other := holder[named[0].left]) not in against:
                    found[other] = replace(found[other], how="against", is_clear=False)
        taken = {fit.left for one in found.values() for fit in one.fits if one.is_clear or one.how == "against"}
        rest = [number for number in sorted(self._right.alone - copies - self._left_over) if number not in found]
        # What repeats a tensor that has a partner is not meant.
        usable = self._left.alone - self._left.copies({*taken, *(one for one, _ in paired)})
        structural = {number: one.fits[0] for number, one in found.items() if one.how == "structure"}
        anchored = {**structural, **agreeing}
        anchors = [*paired, *((fit.left, number) for number, fit in anchored.items() if found[number].is_clear)]
        for how, choose in (("names alone", self._by_name), ("place", self._by_place)):
            possible = [
                (one, other)
                for other in rest
                for one in sorted(usable - taken)
                if self._sort_of("left", one) == self._sort_of("right", other)
                and self._may_compute_the_same(one, other)
            ]
            for place, other in choose(possible, anchors):
                if (fit := self._fit(place, other)) is not None:
                    found[other] = Suggestion(other, (fit,), how)
                    taken.add(place)
            rest = [number for number in rest if number not in found]
        refs = self._left.refs, self._right.refs
        for number in mixed_up(found, self._agrees, refs, self._modules):
            found[number] = replace(found[number], is_clear=False)
        return found

    def _by_name(
        self, possible: Sequence[tuple[int, int]], _anchors: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        return named_alone(self._left.unpaired, self._right.unpaired, possible)

    def _by_place(
        self, possible: Sequence[tuple[int, int]], anchors: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        ordered = [
            (one, other)
            for one, other in possible
            if self._left.unpaired[one].is_ordered
            and self._right.unpaired[other].is_ordered
            # What stays inside of a module, or shows it again, is no place of its own.
            and not self._modules.is_inside(self._left.refs[one])
            and self._left.refs[one].key.op.op_type not in PASSING_TYPES
        ]
        return in_order(anchors, ordered, self._sort_of)

    def _better(self, one: Suggestion, agreeing: Mapping[int, Fit], taken: set[int]) -> Suggestion | None:
        """Return what another tensor that has the values of the right one makes of a suggestion that has not."""
        number = one.right
        rivals = [fit for fit in self._alike(number) if fit.left != one.fits[0].left]
        # What has its own partner repeats the value, as a module does that hands its input on.
        held = {fit.left for fit in agreeing.values()}
        rivals = [fit for fit in rivals if fit.left not in held]
        if not rivals or any(self._agrees(fit) for fit in one.fits):
            return None
        words = max(self._shared(fit) for fit in one.fits)
        free = [fit for fit in rivals if fit.left not in taken and self._shared(fit) >= words]
        if free:
            efforts = {fit.left: self.found[fit.left, number].transform for fit in free}
            same = [fit for fit in free if shape_word(efforts[fit.left]) == "same"] or free
            if len(same) == 1:
                return Suggestion(number, (same[0],), "values")
            return Suggestion(number, tuple(same), "values", is_clear=False)
        return Suggestion(number, (*one.fits, *rivals), "against", is_clear=False)

    def _other_right(self, one: Suggestion, found: Mapping[int, Suggestion]) -> Suggestion | None:
        """Return the pair of a suggestion's left tensor with the only right one that has its values and no partner."""
        fit = one.fits[0]
        look = self._left.looks[fit.left].print
        if not one.is_clear or self._agrees(fit) or not look.is_distinctive:
            return None
        others = [
            number
            for number in sorted(self._right.alone - found.keys())
            if self._sort_of("right", number) == self._sort_of("left", fit.left)
        ]
        apart = distances(look, [self._right.looks[number].print for number in others])
        alike = sorted((float(far), number) for far, number in zip(apart, others, strict=True) if far <= _ALIKE)
        fits = [better for _, number in alike[:_MOST_TRIED] if (better := self._fit(fit.left, number)) is not None]
        fits = [better for better in fits if self._agrees(better)]
        if len(fits) != 1 or self._shared(fits[0]) < self._shared(fit):
            return None
        return Suggestion(fits[0].right, (fits[0],), "values")

    def _alike(self, number: int) -> list[Fit]:
        """Return the left tensors that have the values of a right one, whatever they compute."""
        look, io = self._right.looks[number].print, self._right.refs[number].key.io
        if not look.is_distinctive:
            return []
        others = [one for one in sorted(self._left.alone) if self._left.refs[one].key.io == io]
        apart = distances(look, [self._left.looks[one].print for one in others])
        alike = sorted((float(far), one) for far, one in zip(apart, others, strict=True) if far <= _ALIKE)
        fits = (self._fit(one, number) for _, one in alike[:_MOST_TRIED])
        return [fit for fit in fits if fit is not None and self._agrees(fit)]

    def _fit(self, one: int, other: int) -> Fit | None:
        found = self.alignment(one, other)
        return None if found is None else Fit(one, other, found.apart, found.is_close)

    def _agrees(self, fit: Fit) -> bool:
        found = self.found.get((fit.left, fit.right))
        return found is not None and found.is_close and self._right.unpaired[fit.right].is_distinctive

    def _shared(self, fit: Fit) -> int:
        return shared_words(self._left.unpaired[fit.left], self._right.unpaired[fit.right])

    def _sort_of(self, side: str, number: int) -> tuple[str, int]:
        return (self._left if side == "left" else self._right).sort_of(number)

    def _may_compute_the_same(self, one: int, other: int) -> bool:
        """Whether two types are of one kind, or one of them is unknown."""
        ours, theirs = (side.refs[number].key.op.op_type for side, number in ((self._left, one), (self._right, other)))
        return not ours or not theirs or ours == theirs or kind_of(ours) == kind_of(theirs) != ""

    def doubtful(
        self, found: Mapping[int, Suggestion], paired: Sequence[tuple[int, int]], copies: frozenset[int]
    ) -> frozenset[int]:
        """Return the right tensors that a suite must not leave out unseen."""
        unsure = {one.right for one in found.values() if not one.is_clear and not any(map(self._agrees, one.fits))}
        unsure |= {one.right for one in found.values() if one.how == "against"}
        clear = [(one.fits[0].left, one.right) for one in found.values() if one.is_clear]
        ends = (
            [max(numbers, default=-1) for numbers in zip(*paired, *clear, strict=True)] if paired or clear else [-1, -1]
        )
        taken = {one for one, _ in clear}
        taken |= self._left.copies({*taken, *(one for one, _ in paired)})
        sorts = {self._sort_of("left", one) for one in self._left.alone - taken if one > ends[0]}
        behind = {
            other for other in self._right.alone - copies if other > ends[1] and self._sort_of("right", other) in sorts
        }
        behind |= {other for other in self._left_over if other > ends[1]}
        # A last layer of another name and another size, or that the left lacks: what the right ends in is no surplus.
        rest = [
            [number for number in alone if number > end and side.computes(number)]
            for side, alone, end in (
                (self._left, self._left.alone - taken, ends[0]),
                (self._right, self._right.alone - copies, ends[1]),
            )
        ]
        behind |= {max(rest[1])} if rest[1] else set()
        return frozenset(unsure | (behind - found.keys()))


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


def _candidates(left: _SuggestedSide, right: _SuggestedSide, number: int, allowed: Iterable[int]) -> list[int]:
    """Return left tensors that may be the partner and compute the same: the most alike by values, then by name."""
    key, found = right.refs[number].key, right.looks[number].print
    kind = kind_of(key.op.op_type)
    same = [
        other
        for other in sorted(allowed)
        if left.refs[other].key.io == key.io and (not kind or kind_of(left.refs[other].key.op.op_type) in ("", kind))
    ]
    apart = distances(found, [left.looks[other].print for other in same])
    alike = sorted((float(distance), other) for distance, other in zip(apart, same, strict=True) if distance <= _ALIKE)
    by_name = [
        other
        for other in same
        if left.looks[other].print.size == found.size and is_named_after(left.refs[other].key.op.label, key.op.label)
    ]
    return list(dict.fromkeys([*(other for _, other in alike[:_MOST_TRIED]), *by_name[:_MOST_TRIED]]))


def _without_views(fits: Sequence[Fit], left: _SuggestedSide) -> list[Fit]:
    """Leave out what hands its input on and fits one right tensor only, where what computed that fits it as well."""
    views = {fit.left for fit in fits if left.refs[fit.left].key.op.op_type in PASSING_TYPES}
    rights = Counter(fit.left for fit in fits)
    computed = {fit.right for fit in fits if fit.left not in views and fit.apart is not None}
    return [fit for fit in fits if fit.left not in views or rights[fit.left] > 1 or fit.right not in computed]

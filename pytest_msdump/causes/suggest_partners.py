"""How well two tensors fit that were not paired, in a few words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from pytest_msdump.causes.suggest import (
    Alone,
    Fingerprint,
    Fit,
    Suggestion,
    disagreement,
    distances,
    fingerprint,
    is_named_after,
    suggest,
)
from pytest_msdump.comparison.align import align
from pytest_msdump.comparison.opening import open_logical, open_view
from pytest_msdump.comparison.planning import Plan
from pytest_msdump.comparison.user_code import Watch, unwatched
from pytest_msdump.dtypes import coarser
from pytest_msdump.errors import MsdumpError, TensorShapeError
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.pairing import Pair, Transform, Unmatched
from pytest_msdump.model.report import Report, SuggestedPartner
from pytest_msdump.model.tensor import TensorRef, TensorView, mangle
from pytest_msdump.text import ENGLISH, Phrases

__all__ = [
    "USUAL_AXES",
    "Meeting",
    "Suggested",
    "best_meeting",
    "fit_text",
    "shape_word",
    "suggest_partners",
    "what_speaks_for",
    "with_suggestions",
]


def fit_text(apart: float, shape: str, by: str = "", say: Phrases = ENGLISH) -> str:
    """Return what speaks for two tensors.

    Parameters
    ----------
    apart : float
        How far their values are apart, over the norm of the right.
    shape : str
        ``"same"``, ``"transposed"`` or ``"reshaped"``.
    by : str
        Where something else decided: ``"names alone"``, ``"names"`` or ``"order"``.
    say : Phrases
        The language.

    Examples
    --------
    >>> fit_text(2.1e-8, "transposed"), fit_text(0, "same", "order")[:30]
    ('values agree to 2e-08, axes of the right in another order', 'values are equal, same shape; ')
    """
    shape = say(f"shape_{shape}")
    if by == "names alone":
        return say("fits_by_name", shape=shape, apart=f"{apart:.2g}")
    text = say("fits_equal", shape=shape) if apart == 0 else say("fits", shape=shape, apart=f"{apart:.0e}")
    return say.joined([text, say(f"decided_{by}")], "between_clauses") if by in ("names", "order") else text


# -- Look for partners of tensors that have none ---------------------------------------------------------------------


# Drift up to here leaves a tensor recognisable; what is compared element by element is bounded.
_MOST_APART = 0.02
_ALIKE = 0.1
# Drift that the coarser data type explains. Neighbours in a residual stream differ by little more.
_CLOSE = {"float64": 1e-3, "float32": 1e-3, "float16": 5e-3}
_MOST_TRIED = 6

# Axes of the right side that lead from one usual order to another.
USUAL_AXES = ((1, 0), (0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 0, 1), (0, 4, 1, 2, 3), (0, 2, 3, 4, 1))


@dataclass(frozen=True)
class Meeting:
    """How a right tensor meets a left one, how far apart they are then, and whether their data types explain that."""

    transform: Transform
    apart: float
    is_close: bool


@dataclass(frozen=True)
class Unread:
    """A tensor whose values nobody can look at: of which side, and why."""

    side: str
    address: str
    reason: str


@dataclass(frozen=True)
class Suggested:
    """Suggestions for the right tensors without a partner.

    `meetings` tells of every pair that was tried, by the numbers of its tensors in `left` and `right`. `unread` are
    tensors whose values cannot be looked at.
    """

    left: tuple[TensorRef, ...]
    right: tuple[TensorRef, ...]
    suggestions: tuple[Suggestion, ...]
    meetings: dict[tuple[int, int], Meeting]
    unread: tuple[Unread, ...]


def suggest_partners(plan: Plan, *, watch: Watch = unwatched) -> Suggested:
    """Find who may be whose partner among the tensors that `plan` leaves alone.

    Parameters
    ----------
    plan : Plan
        What pairs already is left out, as is what a map entry names.
    watch : Watch
        Is told how many tensors of a side were read, and for how many partners were looked for.
    """
    unread: list[Unread] = []
    named = {(side, mangle(getattr(entry, side))) for entry in plan.suite.entries for side in ("left", "right")}
    met = [(pair.left.key.typed_address, pair.right.key.typed_address) for pair in plan.pairing.pairs]
    left = _Side(plan.left, plan.pairing.unmatched_left, {one for one, _ in met}, named, unread, watch)
    right = _Side(plan.right, plan.pairing.unmatched_right, {other for _, other in met}, named, unread, watch)
    formats = Transform(left_format=plan.suite.left_format, right_format=plan.suite.right_format)
    fits: list[Fit] = []
    meetings: dict[tuple[int, int], Meeting] = {}
    for number in watch(range(len(right.refs)), "right tensors tried"):
        for other in _candidates(left, right, number):
            meeting = best_meeting(left.refs[other], right.refs[number], formats)
            if meeting is None:
                continue
            meetings[other, number] = meeting
            apart = meeting.apart if meeting.apart <= _MOST_APART else None
            fits.append(Fit(other, number, apart, is_close=meeting.is_close))
    places = sorted({(left.places[one], right.places[other]) for one, other in met})
    found = suggest(left.alone, right.alone, fits, met=places)
    return Suggested(tuple(left.refs), tuple(right.refs), tuple(found), meetings, tuple(unread))


class _Side:
    """The tensors of a side that have no partner, each name once, and what their values are like."""

    def __init__(
        self,
        dump: Dump,
        unmatched: Sequence[Unmatched],
        paired: set[str],
        named: set[tuple[str, str]],
        unread: list[Unread],
        watch: Watch,
    ) -> None:
        self.places: dict[str, int] = {}
        for place, ref in enumerate(dump.refs):
            self.places.setdefault(ref.key.typed_address, place)
        self.refs: list[TensorRef] = []
        self.prints: list[Fingerprint] = []
        seen = set(paired)
        for one in watch(unmatched, "tensors read"):
            ref, address = one.ref, one.ref.key.typed_address
            if address in seen or address not in self.places or not named.isdisjoint(_names(one)):
                continue
            seen.add(address)
            found = _fingerprint(ref)
            if isinstance(found, str):
                unread.append(Unread(one.side, ref.key.address, found))
            else:
                self.refs.append(ref)
                self.prints.append(found)

    @property
    def alone(self) -> list[Alone]:
        """What suggestions are made from."""
        return [
            Alone(ref.key.op.label, self.places[ref.key.typed_address], ref.place is not None, found.is_telling)
            for ref, found in zip(self.refs, self.prints, strict=True)
        ]


def _names(one: Unmatched) -> Iterator[tuple[str, str]]:
    """What a map entry may call this tensor."""
    key = one.ref.key
    for name in (key.op.label, f"{key.op.op_type}.{key.op.label}"):
        yield one.side, mangle(name)
        yield one.side, mangle(f"{name}:{key.io}:{key.slot}")


def _fingerprint(ref: TensorRef) -> Fingerprint | str:
    """What the values are like, or why nobody knows."""
    try:
        ref.key.address.encode()
    except UnicodeEncodeError:
        return "its name is no text, which a suite file could not hold"
    if ref.is_unseen:
        return "only its statistics were saved"
    try:
        with closing(open_logical(ref)) as view:
            return fingerprint(view)
    except MsdumpError as error:
        return str(error)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _candidates(left: _Side, right: _Side, number: int) -> list[int]:
    """Left tensors that may be the partner: the most alike by values, and those of as many elements by name."""
    key, found = right.refs[number].key, right.prints[number]
    same = [other for other, ref in enumerate(left.refs) if ref.key.io == key.io]
    apart = distances(found, [left.prints[other] for other in same])
    alike = sorted((float(distance), other) for distance, other in zip(apart, same, strict=True))
    tried = [other for distance, other in alike if distance <= _ALIKE][:_MOST_TRIED]
    by_name = [
        other
        for other in same
        if left.prints[other].size == found.size and is_named_after(left.refs[other].key.op.label, key.op.label)
    ]
    return list(dict.fromkeys([*tried, *by_name[:_MOST_TRIED]]))


def best_meeting(left: TensorRef, right: TensorRef, formats: Transform) -> Meeting | None:
    """Return the simplest way to bring the right to the left that no other one is clearly better than.

    Parameters
    ----------
    left, right : TensorRef
        Both are read whole, in blocks.
    formats : Transform
        The axis orders that the suite tells of.

    Returns
    -------
    Meeting or None
        ``None`` where their shapes do not meet, or a file cannot be read.
    """
    try:
        with closing(open_view(left)) as ours, closing(open_view(right)) as theirs:
            close = _CLOSE.get(coarser(ours.dtype, theirs.dtype), _MOST_APART)
            best: Meeting | None = None
            for transform in _ways(formats, len(ours.shape), len(theirs.shape)):
                # Reshaping makes anything meet, so that it is only tried where nothing else does.
                if transform.reshape and best is not None:
                    continue
                apart = _apart(Pair(left, right, "mapped", transform=transform), ours, theirs)
                if apart is not None and (best is None or apart * 10 < best.apart):
                    best = Meeting(transform, apart, apart <= close)
            return best
    except (MsdumpError, OSError):
        return None


def shape_word(transform: Transform) -> str:
    """Return what is done to a shape, as `causes.suggest_partners.fit_text` takes it."""
    if transform.transpose is not None:
        return "transposed"
    return "reshaped" if transform.reshape else "same"


def _ways(formats: Transform, *ranks: int) -> Iterator[Transform]:
    yield formats
    yield from (Transform(transpose=axes) for axes in USUAL_AXES if {len(axes)} == {*ranks})
    yield Transform(reshape=True)


def _apart(pair: Pair, left: TensorView, right: TensorView) -> float | None:
    """How far apart the two are, ``None`` where their shapes do not meet this way."""
    try:
        aligned = align(pair, left, right)
    except TensorShapeError:
        return None
    return None if aligned.sampled else disagreement(aligned.left, aligned.right)


# -- Suggestions as a report has them --------------------------------------------------------------------------------


def with_suggestions(plan: Plan, report: Report, *, watch: Watch = unwatched) -> Report:
    """Return the report with `suggestions` in the entries of `unmatched`; reads the tensors without a partner.

    Parameters
    ----------
    plan : Plan
        What the report is of.
    report : Report
        Its verdicts stay; a suggestion is no pair.
    watch : Watch
        See `causes.suggest_partners.suggest_partners`.
    """
    found = suggest_partners(plan, watch=watch)
    told: defaultdict[tuple[str, str], list[SuggestedPartner]] = defaultdict(list)
    for one in found.suggestions:
        right = found.right[one.right].key.address
        for fit in one.fits:
            left = found.left[fit.left].key.address
            meeting = found.meetings[fit.left, fit.right]
            partner = _partner(one, fit, meeting)
            told["right", right].append(replace(partner, address=left))
            told["left", left].append(replace(partner, address=right))
    unmatched = [
        replace(entry, suggestions=tuple(told.get((entry.side, entry.tensor.address), ())))
        for entry in report.unmatched
    ]
    return replace(report, unmatched=tuple(unmatched))


def _partner(one: Suggestion, fit: Fit, meeting: Meeting) -> SuggestedPartner:
    """What speaks for a pair; without an address."""
    by = "names alone" if fit.apart is None else one.how if one.is_clear and one.how in ("names", "order") else ""
    apart = meeting.apart if fit.apart is None else fit.apart
    shape = shape_word(meeting.transform)
    return SuggestedPartner(
        address="",
        confidence="clear" if one.is_clear else "ambiguous",
        why=fit_text(apart, shape, by),
        apart=apart,
        shape=shape,
        by=by,
    )


def what_speaks_for(one: Suggestion, fit: Fit, meeting: Meeting) -> str:
    """Return what speaks for a pair, in a few words.

    Parameters
    ----------
    one : Suggestion
        For a right tensor.
    fit : Fit
        One of its partners.
    meeting : Meeting
        How the two meet.
    """
    return _partner(one, fit, meeting).why

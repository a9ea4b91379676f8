"""Pairs that look wrong: where a pair is far off, the other tensors of both sides are looked at. Nothing else is."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.causes.suggest import fingerprint
from pytest_msdump.causes.suggest_partners import USUAL_AXES, Meeting, best_meeting, fit_text, shape_word
from pytest_msdump.comparison.opening import open_logical
from pytest_msdump.comparison.planning import Plan
from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.errors import MsdumpError
from pytest_msdump.metrics.definitions import LEFT_OUT
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.record import BetterFit, Record
from pytest_msdump.model.tensor import Coordinates, TensorKey, TensorRef, TensorView

__all__ = ["FAR", "FREE", "TAKEN", "Rival", "better_fits", "sample", "sampled_distance", "suspicious_pairs"]

# What became of a tensor: its pairs are far off, it has none, or a pair of it holds or nobody knows.
FAR, FREE, TAKEN = "far", "free", "taken"

_MOST_LISTED = 3


@dataclass(frozen=True)
class Rival:
    """Another tensor that fits.

    Parameters
    ----------
    number : int
        Which one.
    apart : float
        The relative difference of the values.
    standing : str
        `FAR`, `FREE` or `TAKEN`.
    effort : int
        How much has to be done to bring it to the other shape: 0 for nothing, 1 to transpose, 2 to reshape.
    """

    number: int
    apart: float
    standing: str
    effort: int = 0


@dataclass(frozen=True)
class Better:
    """What fits better than the partner: one, where that is clear, or those of which it may be one.

    `doubt` is why it is not clear: ``"several"`` fit, they hold too few ``"values"`` to tell them by, or the
    ``"names"`` of the pair speak for it. Empty where it is clear.
    """

    rivals: tuple[Rival, ...] = ()
    doubt: str = ""


def better_fits(rivals: Sequence[Rival], *, is_telling: bool, was_asked_for: bool) -> Better:
    """Tell what a tensor of a pair that is far off should have met.

    Parameters
    ----------
    rivals : sequence of Rival
        Every other tensor whose values it has.
    is_telling : bool
        Whether a tensor with such values is hardly another one.
    was_asked_for : bool
        Whether a person named this pair. What names or a rule file pair is more likely right, and the operator passes
        on what it was given.

    Returns
    -------
    Better
        Empty where nothing else has these values, or only tensors whose own pairs hold: then the operator repeats what
        another one put out, which is its fault and not the pair's.

    Examples
    --------
    >>> better_fits([Rival(3, 1e-7, FAR)], is_telling=True, was_asked_for=False)
    Better(rivals=(Rival(number=3, apart=1e-07, standing='far', effort=0),), doubt='')
    """
    least = min((rival.effort for rival in rivals), default=0)
    nearest = [rival for rival in rivals if rival.effort == least]
    loose = sorted((one for one in nearest if one.standing != TAKEN), key=lambda one: (one.apart, one.number))
    if not loose:
        return Better()
    doubts = {
        "several": len(nearest) > 1,
        "values": not is_telling,
        "names": loose[0].standing == FREE and not was_asked_for,
    }
    return Better(tuple(loose[:_MOST_LISTED]), next((doubt for doubt, holds in doubts.items() if holds), ""))


# -- A few elements of a tensor, always from the same places ---------------------------------------------------------


Array = npt.NDArray[Any]

_PIECES = 16
_PIECE = 64


@dataclass(frozen=True, eq=False)
class Sample:
    """Elements of a tensor: as they are, and over their norm, of which the logarithm is kept since it may be huge.

    `unit` is ``None`` where a norm says nothing: some are NaN or infinite, or all are 0.
    """

    values: Array
    unit: Array | None
    log_norm: float

    @property
    def is_one_value(self) -> bool:
        """Whether all elements are the same number, or NaN."""
        values = self.values
        return bool(((values == values[:1]) | (np.isnan(values) & np.isnan(values[:1]))).all())


def sample(view: TensorView) -> Sample:
    """Return up to 1024 elements of a tensor, in pieces spread from its first to its last element.

    Two tensors of as many elements are sampled at the same element numbers.

    Raises
    ------
    TensorFileError
        The file turned out unreadable.
    """
    if view.size <= _PIECES * _PIECE:
        return _sample(to_double(view.read(0, view.size)))
    starts = np.linspace(0, view.size - _PIECE, _PIECES).astype(np.int64).tolist()
    # Copies: a view lends its array until the next read.
    return _sample(np.concatenate([to_double(view.read(start, start + _PIECE)) for start in starts]))


def sampled_distance(one: Sample, other: Sample) -> float:
    """Return how far two samples are apart: the norm of the difference over the larger norm.

    Returns
    -------
    float
        0 where they are equal; infinite where at less than half of the places both are finite. To 1e-7.

    Examples
    --------
    >>> sampled_distance(_sample(np.array([3.0, 4.0])), _sample(np.array([-3.0, -4.0])))
    2.0
    """
    if one.unit is None or other.unit is None:
        return _distance_of_some(one.values, other.values)
    ratio = math.exp(-abs(one.log_norm - other.log_norm))
    cosine = float(np.vdot(one.unit, other.unit).real)
    return math.sqrt(max(0.0, 1.0 + ratio * ratio - 2.0 * ratio * cosine))


def _distance_of_some(one: Array, other: Array) -> float:
    """The distance over places where both are finite."""
    both = np.isfinite(one) & np.isfinite(other)
    if 2 * int(np.count_nonzero(both)) < both.size:
        return float("inf")
    ours, theirs = _sample(one[both]), _sample(other[both])
    if ours.unit is None or theirs.unit is None:
        return 0.0 if ours.unit is theirs.unit else 1.0
    return sampled_distance(ours, theirs)


def _sample(values: Array) -> Sample:
    scale = float(np.abs(values).max(initial=0.0))
    if scale == 0.0 or not math.isfinite(scale):
        return Sample(values, None, 0.0)
    # What is at most 1 has squares within float64.
    scaled = values / scale
    norm = float(np.linalg.norm(scaled))
    return Sample(values, scaled / norm, math.log(scale) + math.log(norm))


# -- Pairs that look wrong -------------------------------------------------------------------------------------------


_ERROR = "relative_euclidean_distance"
# A pair is far off from here, and another tensor fits far better when it is so many times nearer.
_FAR_OFF = 0.1
_FAR_BETTER = 20.0
# Samples further apart than this are of tensors that no drift makes alike.
_ALIKE = 0.1

# Bounds of what is looked at: pairs in a run, other tensors for each, and those that are read whole.
_MOST_PAIRS = 200
_MOST_OPENED = 128
_MOST_READ = 4
_MOST_KEPT = 4000

_ROLES = {"cause": 0, "unknown": 1}
_SHAPES = ("same", "transposed", "reshaped")


def suspicious_pairs(plan: Plan, records: Mapping[int, Record]) -> dict[int, tuple[BetterFit, ...]]:
    """Find failing pairs of which another tensor of the other side fits far better.

    Parameters
    ----------
    plan : Plan
        Who was to be compared.
    records : mapping of int to Record
        What was compared, by number of the pair, with roles: causes are looked at first.

    Returns
    -------
    dict of int to tuple of BetterFit
        By number of the pair: the tensors that fit.
    """
    far = [number for number, record in records.items() if _error(record) >= _FAR_OFF]
    if plan.left.root.is_file() or plan.extras.first is not None or not far:
        return {}
    far.sort(key=lambda number: (_ROLES.get(records[number].role or "", 2), number))
    search = _Search(plan, frozenset(far))
    found = {number: search.better(plan.pairing.pairs[number], records[number]) for number in far[:_MOST_PAIRS]}
    return {number: fits for number, fits in sorted(found.items()) if fits}


def _error(record: Record) -> float:
    """How far off a failing pair is; infinite where nobody could measure it, 0 where it does not fail."""
    if not record.fails or record.statistics is not None:
        return 0.0
    if record.left.shape is None or record.right.shape is None:
        # A file that cannot be read says nothing of who should have met.
        return 0.0
    undefined = record.comparison.undefined.get(_ERROR) if record.comparison is not None else None
    value = _angle(record) if undefined is not None and undefined.code == LEFT_OUT else record.metrics.get(_ERROR, inf)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _angle(record: Record) -> float:
    """What the relative distance is at least, by the cosine; 0 where that was left out as well."""
    cosine = record.metrics.get("cosine_similarity", 1.0)
    if not isinstance(cosine, (int, float)) or cosine <= 0:
        return 1.0 if isinstance(cosine, (int, float)) else 0.0
    return sqrt(max(0.0, 1.0 - cosine * cosine))


@dataclass(frozen=True)
class _Fit:
    """A tensor that fits, and how it meets."""

    ref: TensorRef
    meeting: Meeting
    standing: str

    def rival(self, number: int) -> Rival:
        return Rival(number, self.meeting.apart, self.standing, _SHAPES.index(shape_word(self.meeting.transform)))


class _Search:
    """Who else would fit, in either direction."""

    def __init__(self, plan: Plan, far: frozenset[int]) -> None:
        pairing = plan.pairing
        self._left = _Side(plan.left.refs, {one.ref.key for one in pairing.unmatched_left})
        self._right = _Side(plan.right.refs, {one.ref.key for one in pairing.unmatched_right})
        for number, pair in enumerate(pairing.pairs):
            self._left.paired(pair.left.key, pair.left.key.op.at, is_far=number in far)
            self._right.paired(pair.right.key, pair.left.key.op.at, is_far=number in far)
        self._formats = Transform(left_format=plan.suite.left_format, right_format=plan.suite.right_format)
        self._left_samples, self._right_samples = _Samples(), _Samples()
        self._runs = Counter(pair.left.key.address for pair in pairing.pairs)

    def better(self, pair: Pair, record: Record) -> tuple[BetterFit, ...]:
        """What fits better than the partner on the right; only where nothing does, than the one on the left."""
        if pair.left.is_unseen or pair.right.is_unseen:
            return ()
        enough = _error(record) / _FAR_BETTER
        for side in ("right", "left"):
            fits, left_out = self._fits(pair, side, enough)
            better = self._better(pair, side, fits, left_out)
            if better.rivals:
                return tuple(self._better_fit(pair, side, fits[one.number], better.doubt) for one in better.rivals)
        return ()

    def _better(self, pair: Pair, side: str, fits: Sequence[_Fit], left_out: bool) -> Better:
        kept = pair.left if side == "right" else pair.right
        telling = bool(fits) and _is_telling(kept) and _is_telling(fits[0].ref)
        rivals = [fit.rival(number) for number, fit in enumerate(fits)]
        better = better_fits(rivals, is_telling=telling, was_asked_for=pair.how == "mapped")
        if (
            better.rivals
            and not better.doubt
            and (left_out or self._has_twin(pair, side, fits[better.rivals[0].number]))
        ):
            return Better(better.rivals, "several")
        return better

    def _has_twin(self, pair: Pair, side: str, fit: _Fit) -> bool:
        """Whether another tensor of the side that is kept would meet the rival as well."""
        turned = Pair(pair.left, fit.ref, "") if side == "right" else Pair(fit.ref, pair.right, "")
        others, left_out = self._fits(turned, "left" if side == "right" else "right", float("inf"))
        return bool(others) or left_out

    def _fits(self, pair: Pair, side: str, enough: float) -> tuple[list[_Fit], bool]:
        """The tensors of a side that have the values of the other one of the pair, and whether more are alike."""
        own, at = self._right if side == "right" else self._left, pair.left.key.op.at
        alike: list[tuple[float, int, TensorRef]] = []
        for place, other in enumerate(own.others(getattr(pair, side), at)):
            sides = (pair.left, other) if side == "right" else (other, pair.right)
            distance = self._distance(*sides)
            if distance <= _ALIKE:
                alike.append((distance, place, other))
        alike.sort(key=lambda one: one[:2])
        fits = []
        for _, _, other in alike[:_MOST_READ]:
            sides = (pair.left, other) if side == "right" else (other, pair.right)
            meeting = best_meeting(*sides, self._formats)
            if meeting is not None and meeting.is_close and meeting.apart <= enough:
                fits.append(_Fit(other, meeting, own.standing(other.key, at)))
        return fits, len(alike) > _MOST_READ

    def _distance(self, left: TensorRef, right: TensorRef) -> float:
        """How far apart samples of the two are, in the way in which they are nearest."""
        ours, theirs = self._left_samples.of(left), self._right_samples.of(right)
        if ours is None or theirs is None or prod(ours[0]) != prod(theirs[0]):
            return float("inf")
        distances = [sampled_distance(ours[1], theirs[1])]
        for axes in USUAL_AXES:
            if len(axes) == len(theirs[0]) and tuple(theirs[0][axis] for axis in axes) == ours[0]:
                turned = self._right_samples.of(right, axes)
                distances += [] if turned is None else [sampled_distance(ours[1], turned[1])]
        return min(distances)

    def _better_fit(self, pair: Pair, side: str, fit: _Fit, doubt: str) -> BetterFit:
        apart, shape = fit.meeting.apart, shape_word(fit.meeting.transform)
        left, right = (pair.left, fit.ref) if side == "right" else (fit.ref, pair.right)
        return BetterFit(
            side=side,
            address=fit.ref.key.address,
            confidence="ambiguous" if doubt else "clear",
            why=fit_text(apart, shape),
            apart=apart,
            shape=shape,
            doubt=doubt,
            map=None if doubt else self._map_entry(left, right, fit.meeting.transform),
        )

    def _map_entry(self, left: TensorRef, right: TensorRef, transform: Transform) -> dict[str, Any]:
        """The entry of ``[[msdump.map]]`` that pairs these two; of one part of the run, where there are several."""
        entry: dict[str, Any] = {"left": self._left.address(left), "right": self._right.address(right)}
        if self._runs[left.key.address] > 1:
            at = left.key.op.at
            parts = {"rank": at.rank, "net": at.net, "graph": at.graph, "iteration": at.iteration}
            entry |= {name: value for name, value in parts.items() if value is not None}
        if transform.transpose is not None:
            entry["transpose"] = list(transform.transpose)
        return {**entry, "reshape": True} if transform.reshape else entry


class _Side:
    """The tensors of a side, and what became of them."""

    def __init__(self, refs: Sequence[TensorRef], alone: set[TensorKey]) -> None:
        self._refs = refs
        self._alike: dict[tuple[str, Coordinates], list[int]] = {}
        self._listed: dict[tuple[str, Coordinates, Coordinates], tuple[list[int], list[int]]] = {}
        self._places: dict[TensorKey, int] = {}
        self._types: dict[str, set[str | None]] = {}
        for place, ref in enumerate(refs):
            if ref.key not in self._places and not ref.is_unseen:
                self._alike.setdefault((ref.key.io, ref.key.op.at), []).append(place)
            self._places.setdefault(ref.key, place)
            self._types.setdefault(ref.key.op.label, set()).add(ref.key.op.op_type)
        self._alone = alone
        self._standings: dict[tuple[TensorKey, Coordinates], str] = {}

    def paired(self, key: TensorKey, at: Coordinates, *, is_far: bool) -> None:
        """Remember what became of a pair; one that holds, or was not run, counts more than one that is far off.

        `at` is the part of the run: a reference of one run meets all of them.
        """
        is_taken = not is_far or self._standings.get((key, at)) == TAKEN
        self._standings[key, at] = TAKEN if is_taken else FAR

    def standing(self, key: TensorKey, at: Coordinates) -> str:
        """What became of a tensor; of one that was not selected nobody knows."""
        return FREE if key in self._alone else self._standings.get((key, at), TAKEN)

    def others(self, ref: TensorRef, at: Coordinates) -> Iterator[TensorRef]:
        """Tensors of the same part of the run, those first that have no partner that holds, then the nearest."""
        place, wanted = self._places[ref.key], _MOST_OPENED
        for places in self._by_standing(ref.key.io, ref.key.op.at, at):
            # They are sorted, so that the nearest stand around this one's.
            middle = bisect_left(places, place)
            around = places[max(0, middle - wanted - 1) : middle + wanted + 1]
            near = [there for there in sorted(around, key=lambda there: abs(there - place)) if there != place][:wanted]
            yield from map(self._refs.__getitem__, near)
            wanted -= len(near)

    def _by_standing(self, io: str, own: Coordinates, at: Coordinates) -> tuple[list[int], list[int]]:
        """Places of tensors that have no partner that holds, and of the others."""
        key = (io, own, at)
        if key not in self._listed:
            self._listed[key] = ([], [])
            for place in self._alike[io, own]:
                is_taken = self.standing(self._refs[place].key, at) == TAKEN
                self._listed[key][is_taken].append(place)
        return self._listed[key]

    def address(self, ref: TensorRef) -> str:
        """How a map entry names a tensor: with its type where several operators have the name."""
        several = len(self._types[ref.key.op.label] - {None}) > 1
        return ref.key.typed_address if several else ref.key.address


class _Samples:
    """A few elements of each tensor of a side, read once for every order of axes."""

    def __init__(self) -> None:
        # By identity, since hashing a key costs more than comparing two samples; the dump holds the references.
        self._known: dict[tuple[int, tuple[int, ...]], tuple[tuple[int, ...], Sample] | None] = {}

    def of(self, ref: TensorRef, axes: tuple[int, ...] = ()) -> tuple[tuple[int, ...], Sample] | None:
        """Return shape and sample; ``None`` of a tensor that cannot be read, or is one value as far as is seen."""
        key = (id(ref), axes)
        if key not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = self._read(ref, axes)
        return self._known[key]

    def _read(self, ref: TensorRef, axes: tuple[int, ...]) -> tuple[tuple[int, ...], Sample] | None:
        try:
            with closing(open_logical(ref)) as view:
                shape, found = view.shape, sample(view.permuted(axes) if axes else view)
        except (MsdumpError, OSError):
            return None
        return None if found.is_one_value else (shape, found)


def _is_telling(ref: TensorRef) -> bool:
    """Whether a tensor with such values is hardly another one."""
    try:
        with closing(open_logical(ref)) as view:
            return fingerprint(view).is_telling
    except (MsdumpError, OSError):
        return False

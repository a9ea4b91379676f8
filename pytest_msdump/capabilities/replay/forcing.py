"""Teacher forcing: a reference model runs once, and each of its modules goes on with what the left had in its place.

So every module gets the left's own inputs, and its output shows what the left should have made of them. What lies
between two tensors with a partner runs as the reference runs it, and is judged as one segment at the second of them.
Here is what no framework takes part in: which tensor goes where, the scores, the judgement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from math import inf, prod, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.compare.align import align
from pytest_msdump.core.compare.opening import ArrayView, open_view
from pytest_msdump.core.dtypes import coarser, rounding_unit
from pytest_msdump.core.dtypes.decode import rounded_to
from pytest_msdump.core.errors import MsdumpError, TensorShapeError
from pytest_msdump.core.facts.dtypes import DTYPES, EPSILON
from pytest_msdump.core.facts.metrics import DOMINATING_BINADES, DOMINATING_FROM, DOMINATING_GAP, DOMINATING_ONE_IN
from pytest_msdump.core.facts.profiles import FLIPS_ALLOWED, FLIPS_SHARE_LIMIT, FLIPS_USABLE, SCORE_LIMITS
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.model.tensor import OpKey, Pair, TensorRef, Transform
from pytest_msdump.core.text import Message

Array = npt.NDArray[Any]

# Parts of the names of operations that take an exponential, as their kernels do.
EXP_FAMILY = re.compile(
    r"softmax|softplus|logsumexp|logcumsumexp|attention|sigmoid|tanh|silu|mish|erf|lstm|gru|rnn"
    r"|(?<![a-z])(exp(m1|2)?|[gsc]?elu)(?![a-z])"
)

_BLOCK = 2**15
_HALVES = ("float16", "bfloat16")
# A reference that is as far off computes in 16 bits inside, whatever it stores.
_HALF_INSIDE = 2.0**-12
# Near the largest number of a type, one sound run overflows and another does not.
_NEARLY = 0.99
# Sums in float32 leave this of the largest element where terms cancel.
_CANCELLED = 2.0**-16


def not_replayable(code: str, **parameters: Any) -> Local:
    """Return that a tensor was not judged, and why: `code` is the end of a message's id."""
    return Local("not_replayable", why=Message(f"local_{code}", parameters))


def damaged(code: str, **parameters: Any) -> Local:
    """Return that a tensor of the left is none that its operator can have made, and why."""
    return Local("error", why=Message(f"local_{code}", parameters))


# What an operator would give at ties of rounding.
Ties = Callable[[], Iterable[Array]]


def nudged(values: Array, unit: float) -> Iterator[Array]:
    """Yield values as rounding may leave them: all larger, all smaller, the first or the last of equals the largest."""
    yield from (values * (1 + 2 * unit), values * (1 - 2 * unit))
    slope = unit * np.abs(values).max(initial=0.0) * np.linspace(-1, 1, values.size).reshape(values.shape)
    yield from (values + slope, values - slope)


def judge(
    left: Array, dtype: str, exact: Array, own: Array, *, limit: float, half: float = inf, ties: Ties | None = None
) -> Local:
    """Judge a tensor by what the reference made of the same inputs in float64, and in its own precision.

    `limit` is of the score: the left's error over that of `own`, the larger of relative Euclidean distance and largest
    error; `half` is its limit where the reference's error is that of 16 bits in a tensor of 32, as of a GRU under
    autocast. 16-bit floats have to be right in size first, element by element or slice by slice; then the share of
    elements that are not correctly rounded counts, if the reference's own run rounds correctly. Whole numbers have to
    be those of either, or, each by itself, what `ties` give.

    >>> exact = np.array([1.0, 2.0, 3.0]) / 3
    >>> judge(exact.astype("f4"), "float32", exact, exact.astype("f4"), limit=8.0).outcome
    'pass'
    >>> judge((exact * 1.001).astype("f4"), "float32", exact, exact.astype("f4"), limit=8.0).outcome
    'fail'
    """
    if (left.dtype.kind == "c") != (exact.dtype.kind == "c"):
        return damaged("kind", dtype=dtype, other=exact.dtype.name)
    if exact.dtype.kind == "c":
        dtype = DTYPES[dtype].component or dtype
        left, exact, own = (np.stack([one.real, one.imag], -1) for one in (left, exact, own))
    if DTYPES[dtype].kind != "float" or exact.dtype.kind != "f":
        # Whole numbers: the same inputs give the same ones. At a tie of what they are made of, either precision's.
        wrong = (left != exact) & (left != own)
        for other in ties() if wrong.any() and ties is not None else ():
            wrong &= left != other.reshape(left.shape)
        differing = int(np.count_nonzero(wrong))
        return Local("fail" if differing else "pass", "differing", float(differing), 0.0)
    if dtype not in EPSILON:
        return not_replayable("dtype", dtype=dtype)
    if not exact.size:
        return not_replayable("empty")
    # What is stored in more than the reference computes in has to be as good as the reference.
    dtype = "float32" if dtype == "float64" else dtype
    own = rounded_to(own, dtype) if dtype in _HALVES else own
    with np.errstate(all="ignore"):
        return _judged(left, dtype, exact, own, limit, half)


def _judged(left: Array, dtype: str, exact: Array, own: Array, limit: float, half: float) -> Local:
    errors = _errors(exact, left, own)
    if errors is None:
        # NaN or infinite in neither of the reference's runs, or only in these.
        wrong = ~(_alike(left, exact) | _alike(left, own))
        nearly_largest = _NEARLY * (DTYPES[dtype].maximum or inf)
        overflowing = np.isinf(left) & (np.abs(exact) > nearly_largest) & (np.sign(left) == np.sign(exact))
        foreign = int(np.count_nonzero(wrong & ~overflowing))
        if foreign:
            return Local("fail", "nonfinite", float(foreign), 0.0)
        both = np.isfinite(left) & np.isfinite(exact)
        if not both.any():
            return not_replayable("nonfinite")
        if not both.all() or not np.isfinite(own).all():
            # Where only the reference overflowed, the left may be off by a rounding.
            left, exact, own = left[both], exact[both], own[both]
            return _judged(left, dtype, exact, np.where(np.isfinite(own), own, exact), limit, half)
        scale = float(np.abs(exact).max())
        errors = _errors(exact / scale, left / scale, own / scale) if scale else _from_nothing(left, own)
    others = _beside_a_mask(exact)
    if others is not None:
        beside = _judged(left[others], dtype, exact[others], own[others], limit, half)
        if beside.outcome == "fail":
            return beside
    unit = rounding_unit(dtype)
    # The reference may be exact by luck, or by what it does; one rounding of the left is no mistake then.
    ours, theirs = errors or ((inf, inf), (0.0, 0.0))
    score = max(map(_ratio, ours, theirs, (unit / 2, unit / 2)))
    if dtype not in _HALVES and half < limit and theirs[0] > _HALF_INSIDE:
        limit, score = half, max(score, _worst_slice(left - exact, own - exact, exact, unit / 2))
    if score > limit or dtype not in _HALVES:
        return Local("pass" if score <= limit else "fail", "score", score, limit)
    rounded, allowed = rounded_to(exact, dtype), max(FLIPS_ALLOWED, int(FLIPS_SHARE_LIMIT * exact.size))
    flips, own_flips = int(np.count_nonzero(left != rounded)), int(np.count_nonzero(own != rounded))
    if own_flips > FLIPS_USABLE * allowed:
        score = max(score, _worst_slice(left - exact, own - exact, exact, unit / 2))
        return Local("pass" if score <= limit else "fail", "score", score, limit)
    # In roundings of the element's own and the most that the reference adds to these.
    sizes = unit * np.abs(exact)
    added = float(np.max(np.abs(own - exact) - sizes))
    room = sizes + max(added, _CANCELLED * float(np.abs(exact).max()))
    farthest = float(np.max(np.where(left == exact, 0.0, np.abs(left - exact) / room)))
    if farthest > limit:
        return Local("fail", "element", farthest, limit)
    allowed = max(allowed, 2 * own_flips)
    share = max(FLIPS_SHARE_LIMIT, allowed / exact.size)
    return Local("pass" if flips <= allowed else "fail", "flips", flips / exact.size, share)


def _within_a_unit(left: Array, other: Array, dtype: str) -> bool:
    return bool((np.abs(left - other) <= 2 * rounding_unit(dtype) * np.abs(other)).all())


def _ratio(error: float, other: float, floor: float) -> float:
    return error / max(other, floor) if error else 0.0


def _errors(exact: Array, *others: Array) -> tuple[tuple[float, float], ...] | None:
    """Return relative Euclidean distance and largest error of each; ``None`` where not all is finite, or exact is 0."""
    flat, norm, peak = exact.reshape(-1), 0.0, 0.0
    found = [(0.0, 0.0)] * len(others)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64, copy=False)
        norm, peak = norm + float(block @ block), max(peak, float(block.max()), -float(block.min()))
        for number, other in enumerate(others):
            apart = other.reshape(-1)[start : start + _BLOCK] - block
            squares, largest = found[number]
            found[number] = squares + float(apart @ apart), max(largest, float(apart.max()), -float(apart.min()))
    if not 0.0 < norm < inf or not all(squares < inf for squares, _ in found):
        return None
    return tuple((sqrt(squares / norm), largest / peak) for squares, largest in found)


def _from_nothing(left: Array, own: Array) -> tuple[tuple[float, float], ...]:
    """Return both errors where all is 0 in exact arithmetic: what rounding leaves in the reference is the measure."""
    if not own.any():
        apart = inf if left.any() else 0.0
        return (apart, apart), (0.0, 0.0)
    return _errors(own, left + own, np.zeros_like(own)) or ((inf, inf), (1.0, 1.0))


def _alike(one: Array, other: Array) -> Array:
    """Return where both are finite, or the same of NaN and the infinities."""
    return np.asarray((np.isfinite(one) & np.isfinite(other)) | (one == other) | (np.isnan(one) & np.isnan(other)))


def _beside_a_mask(exact: Array) -> Array | None:
    """Return where a tensor is beside the elements that dominate it, as those of a mask do; ``None`` without any."""
    sizes = np.abs(exact)
    largest = float(sizes.max())
    if largest < 2.0**DOMINATING_FROM:
        return None
    above = sizes >= max(2.0**DOMINATING_FROM, largest / 2.0**DOMINATING_BINADES)
    count = int(np.count_nonzero(above))
    if not exact.size <= DOMINATING_ONE_IN * count or count == exact.size:
        return None
    most = float(sizes[~above].max())
    return ~above if 0 < most <= float(sizes[above].min()) / 2.0**DOMINATING_GAP else None


def _worst_slice(left: Array, own: Array, exact: Array, floor: float) -> float:
    """Return the largest ratio of the left's error to the reference's in one index of an axis, as in a dead channel."""
    worst, usual = 0.0, float(np.mean(np.square(own)))
    for axis in range(exact.ndim):
        count = exact.size // exact.shape[axis]
        around = tuple(one for one in range(exact.ndim) if one != axis)
        ours, theirs, sizes = (np.mean(np.square(one), axis=around) for one in (left, own, exact))
        allowed = np.maximum(theirs + usual / count, floor**2 * sizes)
        worst = max(worst, float(np.sqrt(np.max(np.where(ours > 0, ours / allowed, 0.0)))))
    return worst


# How recordings name gradients: of what a module gave back, of what it was given, of a parameter.
GRADIENTS = ("/grad_output", "/grad_input", "/grad")
OPTIMIZER = "Optimizer"
_PLAIN = Transform()
_ROOM = 2**27


class ForcedPlace(NamedTuple):
    """A tensor of a run of the reference, as its recording names it; `call` counts those of this name, from 0."""

    label: str
    slot: int
    call: int = 0
    io: str = "output"


class Marks(NamedTuple):
    """What has run since the last tensors of the left, `after`, were put in, as far as it went into a tensor."""

    modules: frozenset[str] = frozenset()
    has_exp: bool = False
    random: str = ""
    single: str = ""
    is_wide: bool = False
    around: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()

    def __or__(self, other: Marks) -> Marks:
        return Marks(
            self.modules | other.modules,
            self.has_exp or other.has_exp,
            self.random or other.random,
            self.single or other.single,
            self.is_wide or other.is_wide,
            self.around | other.around,
            self.after | other.after,
        )


class Forcing:
    """The tensors of the left that are put into one run of a reference, and what became of each."""

    def __init__(self, pairs: Sequence[Pair], folder: Path, recorded: Iterable[TensorRef] = ()) -> None:
        """Take the pairs to judge, a folder for what memory has no room for, and what the left recorded."""
        self.found: dict[int, Local] = {}
        self.places: dict[ForcedPlace, list[int]] = {}
        self.pairs, self._folder = [*pairs], folder
        self._kept: dict[ForcedPlace, Array | Path] = {}
        self.room = _ROOM
        self._held: tuple[int, tuple[int, ...], tuple[Array, str]] | None = None
        # Modules without a partner: where something that they went into was wrong, and the pair that is accused of it.
        self._wrong: dict[str, tuple[str, int]] = {}
        first = next((_part(pair) for pair in pairs if _why_never(pair) is None), None)
        for number, pair in enumerate(pairs):
            why = _why_never(pair)
            if why is None and _part(pair) != first:
                why = not_replayable("elsewhere")
            if why is not None:
                self.found[number] = why
                continue
            key = pair.right.key
            self.places.setdefault(ForcedPlace(key.op.label, key.slot, key.op.at.occurrence or 0), []).append(number)
        # Those that no run comes to.
        self._never = dict(self.found)
        self._inputs = self._given_to(recorded)

    def without_unmet_functions(self) -> bool:
        """Leave out functions that ran in one of both runs, and forget what was judged; whether there are any."""
        unmet = {(place.label, place.call) for place in self._kept if "/" in place.label}
        unmet = {one for one in unmet if not one[0].endswith(GRADIENTS)}
        if unmet:
            for place in [place for place in self.places if (place.label, place.call) in unmet]:
                missing = not_replayable("not_called", module=place.label, call=place.call)
                self._never |= dict.fromkeys(self.places.pop(place), missing)
                self._inputs.pop((place.label, place.call), None)
            self.found = dict(self._never)
            self._kept.clear()
            self._wrong.clear()
        return bool(unmet)

    def _given_to(self, recorded: Iterable[TensorRef]) -> dict[tuple[str, int], int]:
        """Find what the left's operators were given; return how many tensors, by their partner's name and call."""
        partners: dict[tuple[str, int], dict[OpKey, Pair]] = {}
        for place, numbers in self.places.items():
            ops = partners.setdefault((place.label, place.call), {})
            ops |= {(pair := self.pairs[number]).left.key.op: pair for number in numbers}
        refs: dict[OpKey, list[TensorRef]] = {}
        for ref in recorded:
            if ref.key.io == "input" and not ref.is_unseen:
                refs.setdefault(ref.key.op, []).append(ref)
        found = {}
        for (label, call), ops in partners.items():
            (op, pair), *others = ops.items()
            given = sorted(refs.get(op, ()), key=lambda ref: ref.key.slot)
            # What is brought to another order of axes shows nothing of that of its inputs.
            if others or pair.transform != _PLAIN or [ref.key.slot for ref in given] != [*range(len(given))]:
                continue
            found[label, call] = len(given)
            for ref in given:
                self.add(ForcedPlace(label, ref.key.slot, call, "input"), replace(pair, left=ref))
        return found

    def inputs(self, label: str, call: int) -> int:
        """Return how many tensors the left recorded that it gave to a call."""
        return self._inputs.get((label, call), 0)

    def left_name(self, place: ForcedPlace) -> str:
        """Return what the left calls the operator in a place."""
        return self.pairs[self.places[place][-1]].left.key.op.label

    def wants(self, place: ForcedPlace) -> bool:
        """Whether what the reference gives in this place is asked for."""
        return place in self.places

    def add(self, place: ForcedPlace, pair: Pair) -> None:
        """Put in the left tensor of a pair as well, from now on."""
        self.places[place] = [len(self.pairs)]
        self.pairs.append(pair)

    @property
    def has_gradients(self) -> bool:
        """Whether gradients are judged."""
        return any(place.label.endswith(GRADIENTS) for place in self.places)

    @property
    def has_functions(self) -> bool:
        """Whether what functions inside of modules gave is judged."""
        return any("/" in place.label and not place.label.endswith(GRADIENTS) for place in self.places)

    def dtypes(self, labels: Iterable[str]) -> list[str]:
        """Return the types that the left stored what these modules, or functions, gave back in."""
        wanted = set(labels)
        found = []
        for place, numbers in self.places.items():
            if place.label in wanted and place.io == "output":
                found += [dtype for number in numbers if (dtype := _dtype_of(self.pairs[number]))]
        return found

    def values(self, place: ForcedPlace, shape: tuple[int, ...], *, kind: str = "f") -> tuple[Array, str] | None:
        """Return what the left has in this place, in the reference's order of axes, and its type.

        ``None`` if nothing that fits: what is complex on one side alone, and inputs of another `kind` of number.
        """
        found = None
        for number in self.places.get(place, ()):
            read = self._read(number, shape)
            if read is None or (read[0].dtype.kind == "c") != (kind == "c"):
                continue
            if place.io == "output" or (read[0].dtype.kind == "f") == (kind == "f"):
                found = read
        return found

    def keep(self, place: ForcedPlace, own: Array) -> None:
        """Keep what the reference gave in its own precision."""
        if place not in self.places or place in self._kept:
            return
        if own.nbytes <= self.room:
            self.room -= own.nbytes
            self._kept[place] = own.copy()
            return
        file = self._kept[place] = self._folder / f"{len(self._kept)}.npy"
        np.save(file, own, allow_pickle=False)

    def judge(
        self,
        place: ForcedPlace,
        exact: Array,
        marks: Marks,
        *,
        ties: Ties | None = None,
        coarse: Callable[[], Array] | None = None,
    ) -> None:
        """Judge what the left has in a place by what the reference gave there in float64.

        `ties` are of whole numbers; `coarse` is what it gives if it computes in 16 bits inside, within a unit of which
        nothing is wrong that is not wrong by it.
        """
        own = self._own_of(place)
        for number in self.places.get(place, ()):
            local = None if number in self.found else self._judged(number, place, exact, own, marks, ties)
            if local is not None and local.outcome == "fail" and coarse is not None:
                read, rough = self._read(number, exact.shape), coarse()
                if read is not None and read[1] in _HALVES and _within_a_unit(read[0], rough, read[1]):
                    local = self._judged(number, place, exact, rough, marks)
            if local is None:
                continue
            inside = marks.modules - {place.label}
            if local.outcome == "fail" and (known := self._wrong.keys() & inside):
                # What is wrong there goes on past the module where it was seen, as in a sum of residuals.
                local = not_replayable("behind", module=self._wrong[min(known)][0])
            elif local.outcome == "fail":
                self._wrong |= dict.fromkeys(inside, (place.label, number))
            segment = tuple(sorted((inside | marks.around) - {place.label}))
            after = tuple(sorted(marks.after)) if segment and local.outcome == "fail" else ()
            self.found[number] = local._replace(segment=segment, after=after)

    def judge_input(self, place: ForcedPlace, exact: Array, marks: Marks, around: Sequence[ForcedPlace]) -> None:
        """Judge what the left gave to an operator; where it is wrong, what runs `around` it is, the innermost first."""
        (number,) = self.places[place]
        local = self._judged(number, place, exact, self._own_of(place), marks)
        if local is None or local.outcome != "fail":
            return
        inside = marks.modules
        known = self._wrong.keys() & inside
        # Without a module around it that has a partner, it is said of what it was given to.
        places = (*around, ForcedPlace(place.label, 0, place.call), ForcedPlace(place.label, 1, place.call))
        accused = next((numbers[-1] for one in places if (numbers := self.places.get(one))), None)
        accused = self._wrong[min(known)][1] if known else accused
        if accused is None:
            return
        self._wrong |= dict.fromkeys(inside - known, (place.label, accused))
        before, found = self.left_name(place), self.found.get(accused)
        if found is None or found.outcome != "fail":
            segment = tuple(sorted(inside | marks.around))
            found = local._replace(segment=segment, after=tuple(sorted(marks.after)))
        self.found[accused] = found._replace(before=tuple(dict.fromkeys((*found.before, before))))

    def _own_of(self, place: ForcedPlace) -> Array | None:
        own = self._kept.pop(place, None)
        return np.load(own, allow_pickle=False) if isinstance(own, Path) else own

    def _judged(
        self,
        number: int,
        place: ForcedPlace,
        exact: Array,
        own: Array | None,
        marks: Marks,
        ties: Ties | None = None,
    ) -> Local | None:
        """Return the judgement of one tensor of the left; ``None`` where it cannot be read."""
        read = self._read(number, exact.shape)
        if read is None:
            return None
        if marks.random or marks.single:
            code = "random" if marks.random else "single"
            return not_replayable(code, operation=marks.random or marks.single)
        if own is None or own.shape != exact.shape:
            return not_replayable("unsteady")
        kind = "gradient" if place.label.endswith(GRADIENTS) else "exp" if marks.has_exp else "plain"
        is_half = kind != "gradient" and read[1] in _HALVES
        limit, half = SCORE_LIMITS["half" if is_half else kind], SCORE_LIMITS["half"]
        return judge(*read, exact, own, limit=limit, half=half if kind == "exp" else inf, ties=ties)

    def put(self, place: ForcedPlace, own: Array, exact: Array, marks: Marks, **judging: Any) -> Array | None:
        """Judge what the left has in a place by what the reference gave there in both precisions, and return it."""
        self.keep(place, own)
        self.judge(place, exact, marks, **judging)
        left = self.values(place, exact.shape, kind=exact.dtype.kind)
        return None if left is None else left[0]

    def whole(self, why: Local | None = None) -> dict[int, Local]:
        """Return the judgement of every pair; `why` is of those that the run did not come to, if it broke off."""
        for place, numbers in self.places.items():
            if place.io == "input":
                continue
            is_gradient = place.label.endswith(GRADIENTS)
            code = "no_gradient" if is_gradient else "not_called"
            missing = why or not_replayable(code, module=place.label, call=place.call)
            for number in numbers:
                self.found.setdefault(number, missing)
        return dict(sorted(self.found.items()))

    def _read(self, number: int, shape: tuple[int, ...]) -> tuple[Array, str] | None:
        """Return the left's values and their type; ``None`` and a reason in `found` where they cannot be put in."""
        if self._held is not None and self._held[:2] == (number, shape):
            return self._held[2]
        try:
            read = in_order_of(self.pairs[number], shape)
            # What is put in is judged right away.
            self._held = number, shape, read
            return read
        except TensorShapeError as error:
            self.found[number] = damaged("shape", reason=error.message)
        except (MsdumpError, OSError) as error:
            self.found[number] = damaged("unreadable", reason=str(error))
        return None


def _why_never(pair: Pair) -> Local | None:
    """Return why a pair can be none that a run of the reference comes to."""
    key = pair.right.key
    if pair.left.is_unseen:
        return not_replayable("unseen")
    if key.io == "input" or pair.left.key.io == "input" or key.op.label.endswith(GRADIENTS[1]):
        return not_replayable("input")
    if key.op.op_type == PARAMETER:
        return not_replayable("weight")
    if key.op.op_type == OPTIMIZER:
        return not_replayable("optimizer", step=0)
    return None


def _part(pair: Pair) -> tuple[int | None, ...]:
    left, right = pair.left.key.op.at, pair.right.key.op.at
    return left.rank, left.iteration, right.rank, right.iteration


def _dtype_of(pair: Pair) -> str:
    try:
        with closing(open_view(pair.left)) as view:
            return view.dtype
    except (MsdumpError, OSError):
        return ""


def in_order_of(pair: Pair, shape: tuple[int, ...]) -> tuple[Array, str]:
    """Return the left tensor of a pair in the right side's shape and order of axes, and its type."""
    with closing(open_view(pair.left)) as view:
        if pair.transform == _PLAIN and view.shape == shape and view.spec.memory_format in (None, "DefaultFormat"):
            return view.read(0, view.size).reshape(shape), view.dtype
        piece = pair.transform.piece
        if pair.transform.crop is not None or (piece is not None and piece.side == "right"):
            raise TensorShapeError(Message("local_sample"))
        # Where each element of the right ends up says where each of the left came from, whatever is done to either.
        numbers = ArrayView(np.arange(prod(shape), dtype=np.int64).reshape(shape))
        aligned = align(pair, view, numbers)
        if aligned.sampled is not None:
            raise TensorShapeError(Message("local_sample"))
        values = aligned.left.read(0, aligned.left.size)
        placed = np.empty_like(values)
        placed[aligned.right.read(0, aligned.right.size)] = values
        return placed.reshape(shape), view.dtype


def precision(dtypes: Iterable[str]) -> tuple[str, bool]:
    """Return the coarsest type of the left's modules, and whether others have a finer one.

    >>> precision(["bfloat16", "float32"]), precision(["float16"]), precision(["float32", "int64"])
    (('bfloat16', True), ('float16', False), ('float32', False))
    """
    floats = [dtype for dtype in dtypes if dtype in EPSILON]
    coarsest = "float32"
    for dtype in floats:
        coarsest = coarser(coarsest, dtype)
    return coarsest, any(dtype != coarsest for dtype in floats)

"""Teacher forcing: a reference model runs once, and each of its modules goes on with what the left had in its place.

So every module gets the left's own inputs, and its output shows what the left should have made of them. What lies
between two tensors with a partner runs as the reference runs it, and is judged as one segment at the second of them.
Here is what no framework takes part in: which tensor goes where, the scores, the judgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from math import inf, prod, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.comparison.align import align
from pytest_msdump.comparison.opening import ArrayView, open_view
from pytest_msdump.dtypes import coarser, rounding_unit
from pytest_msdump.dtypes.decode import rounded_to
from pytest_msdump.errors import MsdumpError, TensorShapeError
from pytest_msdump.facts.dtypes import DTYPES, EPSILON
from pytest_msdump.facts.replay import FLIPS_ALLOWED, FLIPS_SHARE_LIMIT, FLIPS_USABLE, SCORE_LIMITS
from pytest_msdump.metrics.measure import measure
from pytest_msdump.model.comparison import Comparison
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.model.record import Local
from pytest_msdump.text import Message

Array = npt.NDArray[Any]

# How recordings name gradients: of what a module gave back, of what it was given, of a parameter.
GRADIENTS = ("/grad_output", "/grad_input", "/grad")
OPTIMIZER = "Optimizer"
_PLAIN = Transform()
_ROOM = 2**27
_BLOCK = 2**15
_WITHOUT = {"kl_divergence": "not needed"}
_DISTANCES = ("relative_euclidean_distance", "normalized_max_error")


class Place(NamedTuple):
    """A tensor of a run of the reference, as its recording names it; `call` counts those of this name, from 0."""

    label: str
    slot: int
    call: int = 0


class Marks(NamedTuple):
    """What has run since the last tensors of the left were put in, as far as it went into a tensor.

    `modules` ran there, `around` are those whose own functions did, between others; `random` and `single` are
    operations that draw random numbers, and that have no kernel for float64; `is_wide` asked for more than the run has.
    """

    modules: frozenset[str] = frozenset()
    has_exp: bool = False
    random: str = ""
    single: str = ""
    is_wide: bool = False
    around: frozenset[str] = frozenset()

    def __or__(self, other: Marks) -> Marks:
        return Marks(
            self.modules | other.modules,
            self.has_exp or other.has_exp,
            self.random or other.random,
            self.single or other.single,
            self.is_wide or other.is_wide,
            self.around | other.around,
        )


def not_replayable(code: str, **parameters: Any) -> Local:
    """Return that a tensor was not judged, and why: `code` is the end of a message's id."""
    return Local("not_replayable", why=Message(f"local_{code}", parameters))


class Forcing:
    """The tensors of the left that are put into one run of a reference, and what became of each.

    The right sides of `pairs` are a recording of the reference. Of what it gives in its own precision, `room` bytes are
    held in memory, and the rest in `folder`. `places` has the pairs, by number, whose right tensor stands there;
    `found` the judgement of each pair, and `whole` fills in why the others have none.
    """

    def __init__(self, pairs: Sequence[Pair], folder: Path) -> None:
        self.found: dict[int, Local] = {}
        self.places: dict[Place, list[int]] = {}
        self.pairs, self._folder = [*pairs], folder
        self._kept: dict[Place, Array | Path] = {}
        self.room = _ROOM
        self._held: tuple[int, tuple[int, ...], tuple[Array, str]] | None = None
        # Modules without a partner, and where something that they went into was wrong.
        self._wrong: dict[str, str] = {}
        first = next((_part(pair) for pair in pairs if _why_never(pair) is None), None)
        for number, pair in enumerate(pairs):
            why = _why_never(pair)
            if why is None and _part(pair) != first:
                why = not_replayable("elsewhere")
            if why is not None:
                self.found[number] = why
                continue
            key = pair.right.key
            self.places.setdefault(Place(key.op.label, key.slot, key.op.at.occurrence or 0), []).append(number)

    def wants(self, place: Place) -> bool:
        """Whether what the reference gives in this place is asked for."""
        return place in self.places

    def add(self, place: Place, pair: Pair) -> None:
        """Put in the left tensor of a pair as well, from now on."""
        self.places[place] = [len(self.pairs)]
        self.pairs.append(pair)

    @property
    def has_gradients(self) -> bool:
        """Whether gradients are judged."""
        return any(place.label.endswith(GRADIENTS) for place in self.places)

    def dtypes(self, labels: Iterable[str]) -> list[str]:
        """Return the types that the left stored what these modules gave back in."""
        wanted = set(labels)
        found = []
        for place, numbers in self.places.items():
            if place.label in wanted:
                found += [dtype for number in numbers if (dtype := _dtype_of(self.pairs[number]))]
        return found

    def values(self, place: Place, shape: tuple[int, ...]) -> Array | None:
        """Return what the left has in this place, in the reference's order of axes; ``None`` if nothing that fits."""
        found = None
        for number in self.places.get(place, ()):
            read = self._read(number, shape)
            found = found if read is None else read[0]
        return found

    def keep(self, place: Place, own: Array) -> None:
        """Keep what the reference gave in its own precision."""
        if place not in self.places or place in self._kept:
            return
        if own.nbytes <= self.room:
            self.room -= own.nbytes
            self._kept[place] = own.copy()
            return
        file = self._kept[place] = self._folder / f"{len(self._kept)}.npy"
        np.save(file, own, allow_pickle=False)

    def judge(self, place: Place, exact: Array, marks: Marks) -> None:
        """Judge what the left has in a place by what the reference gave there in float64."""
        kind = "gradient" if place.label.endswith(GRADIENTS) else "exp" if marks.has_exp else "plain"
        own = self._kept.pop(place, None)
        own = np.load(own, allow_pickle=False) if isinstance(own, Path) else own
        for number in self.places.get(place, ()):
            read = self._read(number, exact.shape)
            if read is None or number in self.found:
                continue
            if marks.random or marks.single:
                code = "random" if marks.random else "single"
                self.found[number] = not_replayable(code, operation=marks.random or marks.single)
            elif own is None or own.shape != exact.shape:
                self.found[number] = not_replayable("unsteady")
            else:
                is_half = kind != "gradient" and read[1] in ("float16", "bfloat16")
                local = judge(*read, exact, own, limit=SCORE_LIMITS["half" if is_half else kind])
                inside = marks.modules - {place.label}
                if local.outcome == "fail" and (known := self._wrong.keys() & inside):
                    # What is wrong there goes on past the module where it was seen, as in a sum of residuals.
                    local = not_replayable("behind", module=self._wrong[min(known)])
                elif local.outcome == "fail":
                    self._wrong |= dict.fromkeys(inside, place.label)
                self.found[number] = local._replace(segment=tuple(sorted((inside | marks.around) - {place.label})))

    def put(self, place: Place, own: Array, exact: Array, marks: Marks) -> Array | None:
        """Judge what the left has in a place by what the reference gave there in both precisions, and return it."""
        self.keep(place, own)
        self.judge(place, exact, marks)
        return self.values(place, exact.shape)

    def whole(self, why: Local | None = None) -> dict[int, Local]:
        """Return the judgement of every pair; `why` is of those that the run did not come to, if it broke off."""
        for place, numbers in self.places.items():
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
            self.found[number] = not_replayable("shape", reason=error.message)
        except (MsdumpError, OSError) as error:
            self.found[number] = not_replayable("unreadable", reason=str(error))
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
    """Return the left tensor of a pair in the right side's shape and order of axes, and its type.

    Raises TensorShapeError where the two cannot be brought together, and what opening it raises.
    """
    with closing(open_view(pair.left)) as view:
        if pair.transform == _PLAIN and view.shape == shape and view.spec.memory_format in (None, "DefaultFormat"):
            return view.read(0, view.size).reshape(shape), view.dtype
        # Where each element of the right ends up says where each of the left came from, whatever is done to either.
        numbers = ArrayView(np.arange(prod(shape), dtype=np.int64).reshape(shape))
        aligned = align(pair, view, numbers)
        if aligned.sampled is not None:
            raise TensorShapeError(Message("local_sample"))
        values = aligned.left.read(0, aligned.left.size)
        placed = np.empty_like(values)
        placed[aligned.right.read(0, aligned.right.size)] = values
        return placed.reshape(shape), view.dtype


def judge(left: Array, dtype: str, exact: Array, own: Array, *, limit: float) -> Local:
    """Judge a tensor by what the reference made of the same inputs in float64, and in its own precision.

    `limit` is of the score: the left's error over that of `own`, the larger of relative Euclidean distance and largest
    error. 16-bit floats are judged by the share of elements that are not correctly rounded if the reference's own run
    rounds correctly; where it does not either (several operations that each round), by the score.

    >>> exact = np.array([1.0, 2.0, 3.0]) / 3
    >>> judge(exact.astype("f4"), "float32", exact, exact.astype("f4"), limit=8.0).outcome
    'pass'
    >>> judge((exact * 1.001).astype("f4"), "float32", exact, exact.astype("f4"), limit=8.0).outcome
    'fail'
    """
    if DTYPES[dtype].kind != "float" or exact.dtype.kind != "f":
        # Whole numbers: the same inputs give the same ones.
        differing = int(np.count_nonzero(left != exact))
        return Local("fail" if differing else "pass", "differing", float(differing), 0.0)
    if dtype not in EPSILON or dtype == "float64":
        return not_replayable("dtype", dtype=dtype)
    if not exact.size:
        return not_replayable("empty")
    errors = _errors(exact, left, own)
    if errors is None:
        ours, theirs = _distance(left, exact), _distance(own, exact)
        if not ours.finite:
            return not_replayable("nonfinite")
        # What overflows in the left's precision does so in the reference's, too.
        if ours.nonfinite.mismatch and _distance(left, own).nonfinite.mismatch:
            return Local("fail", "score", inf, limit)
        errors = _known_errors(ours, inf), _known_errors(theirs, 0.0)
    if dtype in ("float16", "bfloat16"):
        rounded, allowed = rounded_to(exact, dtype), max(FLIPS_ALLOWED, int(FLIPS_SHARE_LIMIT * exact.size))
        flips, own_flips = _flips(left, rounded), _flips(rounded_to(own, dtype), rounded)
        if own_flips <= FLIPS_USABLE * allowed:
            allowed = max(allowed, 2 * own_flips)
            share = max(FLIPS_SHARE_LIMIT, allowed / exact.size)
            return Local("pass" if flips <= allowed else "fail", "flips", flips / exact.size, share)
    # The reference may be exact by luck, or by what it does; one rounding of the left is no mistake then.
    floor = rounding_unit(dtype) / 2
    score = max(one / max(other, floor) if one else 0.0 for one, other in zip(errors[0], errors[1], strict=True))
    return Local("pass" if score <= limit else "fail", "score", score, limit)


def _distance(one: Array, exact: Array) -> Comparison:
    return measure(ArrayView(one), ArrayView(exact), worst=0, without=_WITHOUT, units=False)


def _known_errors(found: Comparison, undefined: float) -> tuple[float, float]:
    """Return both errors; they are undefined where everything is 0 in exact arithmetic."""
    if found.equal:
        return 0.0, 0.0
    euclid, largest = (found.values.get(name) for name in _DISTANCES)
    return euclid if isinstance(euclid, float) else undefined, largest if isinstance(largest, float) else undefined


def _errors(exact: Array, *others: Array) -> tuple[tuple[float, float], ...] | None:
    """Return relative Euclidean distance and largest error of each; ``None`` where not all is finite, or exact is 0.

    It reads a block of all at a time: a replay would take a forward pass longer with a pass for each.
    """
    flat, norm, peak = exact.reshape(-1), 0.0, 0.0
    found = [(0.0, 0.0)] * len(others)
    with np.errstate(all="ignore"):
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


def _flips(one: Array, other: Array) -> int:
    return int(np.count_nonzero((one != other) & ~(np.isnan(one) & np.isnan(other))))


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

"""Teacher forcing: a reference model runs once, and each of its modules goes on with what the left had in its place.

So every module gets the left's own inputs, and its output shows what the left should have made of them. What lies
between two tensors with a partner runs as the reference runs it, and is judged as one segment at the second of them.
Here is what no framework takes part in: which tensor goes where, the scores, the judgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from math import inf, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.replay.judging import damaged, judge, not_replayable
from pytest_msdump.core.compare.align import align
from pytest_msdump.core.compare.opening import ArrayView, open_view
from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.errors import MsdumpError, TensorShapeError
from pytest_msdump.core.facts.dtypes import EPSILON
from pytest_msdump.core.facts.profiles import SCORE_LIMITS
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.model.tensor import Pair, Transform
from pytest_msdump.core.text import Message

Array = npt.NDArray[Any]

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


class Marks(NamedTuple):
    """What has run since the last tensors of the left were put in, as far as it went into a tensor."""

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


class Forcing:
    """The tensors of the left that are put into one run of a reference, and what became of each."""

    def __init__(self, pairs: Sequence[Pair], folder: Path) -> None:
        self.found: dict[int, Local] = {}
        self.places: dict[ForcedPlace, list[int]] = {}
        self.pairs, self._folder = [*pairs], folder
        self._kept: dict[ForcedPlace, Array | Path] = {}
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
            self.places.setdefault(ForcedPlace(key.op.label, key.slot, key.op.at.occurrence or 0), []).append(number)

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

    def dtypes(self, labels: Iterable[str]) -> list[str]:
        """Return the types that the left stored what these modules gave back in."""
        wanted = set(labels)
        found = []
        for place, numbers in self.places.items():
            if place.label in wanted:
                found += [dtype for number in numbers if (dtype := _dtype_of(self.pairs[number]))]
        return found

    def values(self, place: ForcedPlace, shape: tuple[int, ...], *, is_complex: bool = False) -> Array | None:
        """Return what the left has in this place, in the reference's order of axes; ``None`` if nothing that fits."""
        found = None
        for number in self.places.get(place, ()):
            read = self._read(number, shape)
            if read is not None and (read[0].dtype.kind == "c") == is_complex:
                found = read[0]
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

    def judge(self, place: ForcedPlace, exact: Array, marks: Marks) -> None:
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
                limit, half = SCORE_LIMITS["half" if is_half else kind], SCORE_LIMITS["half"]
                local = judge(*read, exact, own, limit=limit, half=half if kind == "exp" else inf)
                inside = marks.modules - {place.label}
                if local.outcome == "fail" and (known := self._wrong.keys() & inside):
                    # What is wrong there goes on past the module where it was seen, as in a sum of residuals.
                    local = not_replayable("behind", module=self._wrong[min(known)])
                elif local.outcome == "fail":
                    self._wrong |= dict.fromkeys(inside, place.label)
                self.found[number] = local._replace(segment=tuple(sorted((inside | marks.around) - {place.label})))

    def put(self, place: ForcedPlace, own: Array, exact: Array, marks: Marks) -> Array | None:
        """Judge what the left has in a place by what the reference gave there in both precisions, and return it."""
        self.keep(place, own)
        self.judge(place, exact, marks)
        return self.values(place, exact.shape, is_complex=exact.dtype.kind == "c")

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

"""How a right tensor is brought to a left one, and how far apart their values are then."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from pytest_msdump.causes.fingerprint import disagreement
from pytest_msdump.core.compare.align import align
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.errors import MsdumpError, TensorShapeError
from pytest_msdump.core.model.pairing import Pair, Transform
from pytest_msdump.core.model.tensor import TensorRef, TensorView

# Drift up to here leaves a tensor recognisable.
MOST_APART = 0.02
# Drift that the coarser data type explains. Neighbours in a residual stream differ by little more.
_CLOSE = {"float64": 1e-3, "float32": 1e-3, "float16": 5e-3}

# Axes of the right side that lead from one usual order to another.
USUAL_AXES = (
    *((1, 0), (1, 0, 2), (0, 2, 1), (0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 0, 1)),
    *((0, 4, 1, 2, 3), (0, 2, 3, 4, 1)),
)


@dataclass(frozen=True)
class Alignment:
    """How a right tensor is brought to a left one, how far apart they are then, and whether types explain that."""

    transform: Transform
    apart: float
    is_close: bool


def best_alignment(
    left: TensorRef, right: TensorRef, formats: Transform, values: TensorView | None = None
) -> Alignment | None:
    """Return the simplest way to bring the right to the left that no other one is clearly better than.

    Both are read whole, in blocks; `values` are those of the right where they are not what its file has. `formats` are
    the axis orders of the suite. ``None`` if their shapes cannot be brought together, or a file cannot be read.
    """
    try:
        with closing(open_view(left)) as ours, closing(open_view(right) if values is None else values) as theirs:
            close = _CLOSE.get(coarser(ours.dtype, theirs.dtype), MOST_APART)
            ranks = {len(ours.shape), len(theirs.shape)}
            turned = [Transform(transpose=axes) for axes in USUAL_AXES if {len(axes)} == ranks]
            best: Alignment | None = None
            for transform in (formats, *turned, Transform(reshape=True)):
                # Any two tensors of one size can be reshaped, so this is only tried if nothing else works.
                if transform.reshape and best is not None:
                    continue
                apart = _apart(Pair(left, right, "mapped", transform=transform), ours, theirs)
                if apart is not None and (best is None or apart * 10 < best.apart):
                    best = Alignment(transform, apart, apart <= close)
            return best
    except (MsdumpError, OSError):
        return None


def shape_word(transform: Transform) -> str:
    """Return what is done to a shape, as `causes.reasons.fit_text` takes it."""
    if transform.transpose is not None:
        return "transposed"
    return "reshaped" if transform.reshape else "same"


def _apart(pair: Pair, left: TensorView, right: TensorView) -> float | None:
    try:
        aligned = align(pair, left, right)
    except TensorShapeError:
        return None
    return None if aligned.sampled else disagreement(aligned.left, aligned.right)

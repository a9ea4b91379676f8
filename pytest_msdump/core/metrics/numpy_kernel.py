"""Sums of one block of both sides, computed with numpy, and how the sums of two blocks become one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes import coarser
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.pointwise import (
    NO_CLASSES,
    NO_ERRORS,
    Classes,
    Errors,
    Places,
    Unit,
    Zeros,
    classify,
    errors,
    in_units,
    split_classes,
)
from pytest_msdump.core.metrics.rankings import (
    Moduli,
    RankedCandidate,
    Ranking,
    Tolerance,
    candidates,
    mismatches,
    select,
)
from pytest_msdump.core.metrics.slices import Grid, SliceSums, sums_of
from pytest_msdump.core.metrics.sums import ZERO, Moments, Sum, dot, moments
from pytest_msdump.core.metrics.values import (
    Array,
    Doubles,
    Workspace,
    above,
    components,
    differences,
    inner,
    is_wide,
    magnitudes,
    numbers,
)

Parts = tuple[Doubles, ...]
Ranges = tuple[tuple[float | int, float | int], ...]

# Of types whose differences are exact.
EXACT_KINDS = frozenset({"integer", "bool"})

# The type as which elements of so many bytes are compared.
_WORDS = {width: np.dtype(f"u{width}") for width in (1, 2, 4, 8)}

# At most four bits are lost to a difference that is this part of its terms.
_CANCELS_LITTLE = 1 / 8


_NO_TOLERANCE = Tolerance()


class Task(NamedTuple):
    """What a pair is measured by: logical dtypes, tolerance, how many worst elements are kept, and where slices are."""

    left: str
    right: str
    tolerance: Tolerance = _NO_TOLERANCE
    worst: int = 5
    grid: Grid | None = None
    units: bool = True

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of both types, as `facts.dtypes` has them."""
        return frozenset({DTYPES[self.left].kind, DTYPES[self.right].kind})

    @property
    def near_zero(self) -> float:
        """The magnitude up to which an element beside an exact 0 counts as 0 too; 0 where no side is a float."""
        fact = DTYPES[coarser(self.left, self.right)]
        smallest = DTYPES[fact.component].smallest if fact.component else fact.smallest
        # The distance of the two neighbours of 0.
        return 2.0 * smallest if smallest else 0.0

    @property
    def unit(self) -> Unit | None:
        """How large a unit of the last place is of the coarser type; ``None`` without such units, or `units`."""
        if not self.units:
            return None
        fact = DTYPES[coarser(self.left, self.right)]
        if fact.mantissa is None or fact.smallest is None or "complex" in self.kinds:
            return None
        return Unit(math.ldexp(fact.smallest, fact.mantissa), 2.0**-fact.mantissa)


class Partial(NamedTuple):
    """Sums over some blocks, the same from both kernels."""

    elements: int = 0
    bits: int | None = 0
    classes: Classes = NO_CLASSES
    left: tuple[Moments, ...] = ()
    right: tuple[Moments, ...] = ()
    product: Sum = ZERO
    errors: Errors = NO_ERRORS
    worst: tuple[RankedCandidate, ...] = ()
    slices: SliceSums | None = None

    @property
    def finite(self) -> int:
        """Positions where both sides are finite."""
        return self.left[0].elements if self.left else 0

    def merge(self, other: Partial, worst: int) -> Partial:
        """Return the sums of both, with the `worst` worst elements."""
        return Partial(
            self.elements + other.elements,
            None if self.bits is None or other.bits is None else self.bits + other.bits,
            self.classes.merge(other.classes),
            _merge_moments(self.left, other.left),
            _merge_moments(self.right, other.right),
            self.product.merge(other.product),
            self.errors.merge(other.errors),
            select((*self.worst, *other.worst), worst) if other.worst else self.worst,
            self.slices.merge(other.slices) if self.slices and other.slices else self.slices or other.slices,
        )


NOTHING = Partial()


def _merge_moments(a: tuple[Moments, ...], b: tuple[Moments, ...]) -> tuple[Moments, ...]:
    return tuple(x.merge(y) for x, y in zip(a, b, strict=True)) if a and b else a or b


def measure_block(
    left: Array, right: Array, start: int, task: Task, workspace: Workspace, last: RankedCandidate | None = None
) -> Partial:
    """Measure one block: 1-D, native, both sides of equal size, at least one element, from C-order number `start` on.

    Elements that are no worse than `last`, the last of `task.worst` candidates of earlier blocks, need no ranking.
    """
    bits = _differing_bits(left, right, workspace) if task.left == task.right else None
    unequal = bits if left.dtype.kind in "iuf" else None
    left, right = numbers(left), numbers(right)
    classes, places, worst = NO_CLASSES, Places(start), []
    size = left.size
    sides, ranges = _prepare(left, right, bits == 0, workspace)
    # NaN compares as neither.
    all_finite = all(-math.inf < low and high < math.inf for low, high in (*ranges[0], *ranges[1]))
    if not all_finite and not task.kinds.isdisjoint(("float", "complex")):
        classes, kept = split_classes(left, right, start)
        if classes.mismatch and not (last and last.mismatch):
            worst = mismatches(left, right, classify(left) != classify(right), start, task.worst)
        places, left, right, unequal = Places(start, kept), left[kept], right[kept], None
        if not kept.size:
            return Partial(size, bits, classes, worst=tuple(worst))
        sides, ranges = _prepare(left, right, bits == 0, workspace)
    finite = _Finite(left, right, sides, ranges, places, size, unequal)
    found, among = _measure_finite(finite, bits == 0, task, workspace, last)
    chosen = select((*worst, *among), task.worst) if worst or among else ()
    return found._replace(elements=size, bits=bits, classes=classes, worst=chosen)


def _prepare(
    left: Array, right: Array, identical: bool, workspace: Workspace
) -> tuple[tuple[Parts, Parts], tuple[Ranges, Ranges]]:
    """Return the real components of both sides and their ranges."""
    a = components(left, "left", workspace)
    extents = _ranges(left, a)
    if identical:
        return (a, a), (extents, extents)
    b = components(right, "right", workspace)
    return (a, b), (extents, _ranges(right, b))


class _Finite(NamedTuple):
    """The part of a block of `size` elements where both sides are finite."""

    left: Array
    right: Array
    sides: tuple[Parts, Parts]
    ranges: tuple[Ranges, Ranges]
    places: Places
    size: int
    unequal: int | None = None


def _measure_finite(
    block: _Finite, identical: bool, task: Task, workspace: Workspace, last: RankedCandidate | None
) -> tuple[Partial, list[RankedCandidate]]:
    """Return moments of both sides, their product, errors and slices, and candidates for the worst elements."""
    left = _moments(block.sides[0], block.ranges[0], workspace)
    if identical:
        product = ZERO
        for part in left:
            product = product.merge(part.squares)
        modulus = magnitudes(block.sides[1])
        equal = Errors(right_peak=left[0].peak if len(left) == 1 else float(modulus.max()))
        slices = _slices(block, None, Moduli(modulus, equal.right_peak), task)
        return Partial(left=left, right=left, product=product, errors=equal, slices=slices), []
    right = _moments(block.sides[1], block.ranges[1], workspace)
    # From here on the components are overwritten: left by |l−r|, right by |r|.
    difference = differences(block.left, block.right, block.sides)
    modulus = magnitudes(block.sides[1])
    peak = right[0].peak if len(right) == 1 else float(modulus.max())
    found, rankings = errors(
        difference,
        Moduli(modulus, peak),
        task.tolerance,
        block.places,
        workspace,
        zeros=Zeros(block.left, task.near_zero),
        unequal=block.unequal,
        last=last,
    )
    worst = [one for ranking in rankings for one in _candidates(block, ranking, task, last)]
    found = _with_saturation(found, block, left, task, workspace)
    if (unit := task.unit) is not None:
        units, above_1, above_32 = in_units(difference.doubles, modulus, unit, workspace)
        found = found._replace(units=units, above_1=above_1, above_32=above_32)
    # Where l = 0 ≠ r the relative error is 1, but next to 0.
    if found.largest_relative.value >= 1.0:
        found = found._replace(underflow=_underflow(block.left, modulus, task.near_zero, workspace))
    slices = _slices(block, Moduli(difference.doubles, float(found.largest.value)), Moduli(modulus, peak), task)
    product = _product_by_squares(left, right, found.squares) or _product(block, (left, right), workspace)
    return Partial(left=left, right=right, product=product, errors=found, slices=slices), worst


def _slices(block: _Finite, apart: Moduli | None, right: Moduli, task: Task) -> SliceSums | None:
    return None if task.grid is None else sums_of(task.grid, apart, right, block.places, block.size)


def _candidates(block: _Finite, ranking: Ranking, task: Task, last: RankedCandidate | None) -> list[RankedCandidate]:
    """Return the elements of a ranking that may be among the worst."""
    scores, places = ranking.chosen(candidates(ranking, task.worst, last))
    elements = block.places.elements(places)
    values = zip(scores, elements, block.left[places].tolist(), block.right[places].tolist(), strict=True)
    return [ranking.candidate(*one) for one in values]


def _differing_bits(left: Array, right: Array, workspace: Workspace) -> int:
    a, b = np.ascontiguousarray(left), np.ascontiguousarray(right)
    word = _WORDS.get(a.dtype.itemsize, _WORDS[8])
    words = a.view(word), b.view(word)
    differ = np.not_equal(*words, out=workspace.mask("nonzero", words[0].size))
    if a.dtype.itemsize > word.itemsize:
        differ = differ.reshape(a.size, -1).any(axis=1)
    return int(np.count_nonzero(differ))


def _ranges(block: Array, parts: Parts) -> Ranges:
    """Return the range of each component, which is NaN where the component has a NaN."""
    # Narrow elements are faster, except float16, which few processors compare.
    sources = parts if block.dtype.kind == "c" or block.dtype == np.float16 else (block,)
    # Integers of 64 bits stay integers: float64 would make different ones equal.
    number: type = int if is_wide(block) else float
    return tuple([(number(np.minimum.reduce(part)), number(np.maximum.reduce(part))) for part in sources])


def _moments(parts: Parts, ranges: Ranges, workspace: Workspace) -> tuple[Moments, ...]:
    if len(parts) == 1:
        return (moments(parts[0], *ranges[0], workspace),)
    return tuple(moments(part, *extent, workspace) for part, extent in zip(parts, ranges, strict=True))


def _product_by_squares(left: tuple[Moments, ...], right: tuple[Moments, ...], apart: Sum) -> Sum | None:
    """Return ⟨l,r⟩ = (|l|² + |r|² − |l−r|²)/2; ``None`` where more than the last few bits would cancel."""
    if len(left) > 1 or len(right) > 1:
        return None
    a, b = left[0].squares, right[0].squares
    if a.exponent or b.exponent or apart.exponent:
        return None
    both = a.high + b.high
    product = 0.5 * (both - apart.high)
    return Sum(product) if abs(product) > _CANCELS_LITTLE * both else None


def _product(block: _Finite, stats: tuple[tuple[Moments, ...], tuple[Moments, ...]], ws: Workspace) -> Sum:
    """Return Re⟨l,r⟩; a side without an imaginary part has zeros there."""
    sides = components(block.left, "left", ws), components(block.right, "right", ws)
    total = ZERO
    for left, right, a, b in zip(*sides, *stats, strict=False):
        total = total.merge(dot(left, right, (a.peak, b.peak), ws))
    return total


def _with_saturation(
    found: Errors, block: _Finite, left: tuple[Moments, ...], task: Task, workspace: Workspace
) -> Errors:
    """Count the elements whose left side is at its dtype's maximum and whose right side differs."""
    maximum = DTYPES[task.left].maximum
    if maximum is None or all(part.peak < maximum for part in left):
        return found
    mask = block.sides[0][0] != 0.0
    at_maximum: npt.NDArray[np.bool_] = np.zeros(mask.size, bool)
    for part in components(block.left, "saturated", workspace):
        at_maximum |= np.abs(part) == maximum
    mask &= at_maximum
    count = int(np.count_nonzero(mask))
    first = block.places.element(int(mask.argmax())) if count else None
    return found._replace(saturated=count, first_saturated=first)


def _underflow(left: Array, right: Doubles, near: float, workspace: Workspace) -> int:
    """Count the elements whose left side is 0 and whose right side is neither that nor next to it."""
    is_zero = np.equal(left, 0, out=workspace.mask("zero", right.size))
    if not is_zero.any():
        return 0
    return int(np.count_nonzero(np.logical_and(is_zero, right > near, out=is_zero)))


_EPSILON = 2.0**-23

# Between these widths neither sums overflow nor does anything underflow before dividing.
_NARROW, _WIDE = 2.0**-300, 2.0**300


@dataclass(slots=True)
class Span:
    """The range of one side over the positions where both sides are finite."""

    minimum: float | int
    maximum: float | int

    @property
    def width(self) -> float:
        """Its length; infinite where float64 cannot hold it."""
        return float(self.maximum - self.minimum)


@dataclass(slots=True, unsafe_hash=True)
class Divergence:
    """Σp, Σq and Σ p·ln(p/q), of p and q that are not yet divided by their sums."""

    left: Sum = ZERO
    right: Sum = ZERO
    weighted: Sum = ZERO

    def merge(self, other: Divergence) -> Divergence:
        """Return the sums of both parts together."""
        return Divergence(
            self.left.merge(other.left), self.right.merge(other.right), self.weighted.merge(other.weighted)
        )

    @property
    def value(self) -> float:
        """Σ P·ln(P/Q) in nats: ``Σ p·ln(p/q) / Σp + ln(Σq / Σp)``."""
        left, right = self.left.value, self.right.value
        # Never negative by Gibbs' inequality; rounding alone could make it so.
        return max(0.0, self.weighted.value / left + math.log(right / left))


NO_DIVERGENCE = Divergence()


def divergence_of_block(
    left: Array, right: Array, spans: tuple[Span, Span], everything_finite: bool, workspace: Workspace
) -> Divergence:
    """Return the sums of one block of real numbers, taken where both sides are finite."""
    a, b = _above(left, spans[0], "left", workspace), _above(right, spans[1], "right", workspace)
    if not everything_finite:
        kept = np.isfinite(a) & np.isfinite(b)
        a, b = a[kept], b[kept]
        if not a.size:
            return NO_DIVERGENCE
    _normalise(a, spans[0].width)
    _normalise(b, spans[1].width)
    sums = float(np.add.reduce(a)), float(np.add.reduce(b))
    np.divide(a, b, out=b)
    np.log(b, out=b)
    return Divergence(Sum(sums[0]), Sum(sums[1]), Sum(inner(a, b)))


def _above(block: Array, span: Span, name: str, workspace: Workspace) -> Doubles:
    """Return distances from the lowest element of the side; NaN and Inf stay what they are."""
    block = numbers(block)
    if is_wide(block):
        block = above(block, int(span.minimum))
        return components(block, name, workspace)[0]
    values = components(block, name, workspace)[0]
    return np.subtract(values, span.minimum, out=values)


def _normalise(values: Doubles, width: float) -> None:
    """Turn distances from the lowest element into places in the range, in place."""
    if width == 0.0:
        # A constant side is an even distribution: its sum is divided out again.
        values.fill(1.0)
        return
    least = _EPSILON
    if _NARROW <= width <= _WIDE:
        # Dividing by the sum later on makes dividing by the width needless.
        least *= width
    elif math.isinf(1.0 / width):
        np.divide(values, width, out=values)
    else:
        np.multiply(values, 1.0 / width, out=values)
    np.maximum(values, least, out=values)

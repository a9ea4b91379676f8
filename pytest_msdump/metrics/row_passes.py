"""What numpy finds of many small pairs in one pass, each pair a row; see `rows`, which makes the metrics of it."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_msdump.lazy_tuple import NamedTuple
from pytest_msdump.metrics.distribution import EPSILON, NARROW, WIDE
from pytest_msdump.metrics.kernel import WORDS
from pytest_msdump.metrics.moments import MEAN_CANCELS_LITTLE
from pytest_msdump.metrics.sums import SAFE_HIGH, SAFE_LOW
from pytest_msdump.metrics.values import Array, Doubles, inner

__all__ = ["Errors", "Flags", "Places", "Spread", "Worst", "counts", "differing_bits", "divergences"]

Flags: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.intp]


class Spread(NamedTuple):
    """The moments of each row of both sides, as `moments` finds them: a line for each side."""

    size: int
    low: Doubles
    high: Doubles
    peak: Doubles
    total: Doubles
    deviations: Doubles

    @classmethod
    def of(cls, values: Doubles) -> Spread:
        """Return them of the rows of both sides."""
        size = values.shape[-1]
        low: Doubles = np.minimum.reduce(values, axis=-1)
        high: Doubles = np.maximum.reduce(values, axis=-1)
        total = np.add.reduce(values, axis=-1)
        about_mean = total / size * total
        deviations = _inner(values, values) - about_mean
        # So it does where a row is constant.
        cancels = ~(about_mean <= MEAN_CANCELS_LITTLE * deviations)
        if cancels.any():
            for row in zip(*cancels.nonzero(), strict=True):
                centred = values[row] - total[row] / size
                deviations[row] = inner(centred, centred)
            is_constant = low == high
            total[is_constant] = values[is_constant, 0] * size
            deviations[is_constant] = 0.0
        return cls(size, low, high, np.maximum(-low, high), total, deviations)

    @property
    def is_usual(self) -> Flags:
        """Whether all elements are finite, not all are 0, and nothing is so large or so small that it is scaled."""
        width = self.high - self.low
        of_sides = _is_safe(self.peak) & ((width == 0.0) | (width >= NARROW) & (width <= WIDE))
        usual: Flags = of_sides[0] & of_sides[1]
        return usual

    @property
    def squares(self) -> Doubles:
        """Sum of squares."""
        return self.deviations + self.total * self.total * (1.0 / self.size)

    @property
    def mean(self) -> Doubles:
        """The mean."""
        return np.where(self.low == self.high, self.low, self.total / self.size)

    @property
    def deviation(self) -> Doubles:
        """The population's standard deviation."""
        root: Doubles = np.sqrt(self.deviations * (1.0 / self.size))
        return root


class Errors(NamedTuple):
    """Errors of single elements, and what each row has of them as `pointwise` finds it."""

    apart: Doubles
    modulus: Doubles
    ratio: Doubles
    differing: list[int]
    largest: Doubles
    place: Places
    largest_relative: Doubles
    relative_place: Places
    total: Doubles
    squares: Doubles
    relative: Doubles
    is_usual: Flags

    @classmethod
    def of(cls, values: Doubles, bits: list[int] | None) -> Errors:
        """Return them; `bits` tells how many elements of each row differ in their bits, where that is known."""
        apart = np.subtract(*values)
        np.abs(apart, out=apart)
        modulus = np.abs(values[1])
        largest, place = _largest(apart)
        ratio = np.divide(apart, modulus)
        largest_relative, relative_place = _largest(ratio)
        is_usual = _is_safe(largest) | (largest == 0.0)
        # Whatever is divided by 0 is NaN or infinite, and the largest if it is there.
        if not np.isfinite(largest_relative).all():
            zero, nonzero = modulus == 0.0, apart != 0.0
            is_usual &= ~(zero & nonzero).any(axis=1)
            # 0 and −0 are equal, and not alike.
            bits = counts(nonzero)
            np.copyto(ratio, 0.0, where=zero)
            largest_relative, relative_place = _largest(ratio)
        is_usual &= _is_safe(largest_relative) | (largest_relative == 0.0)
        return cls(
            apart=apart,
            modulus=modulus,
            ratio=ratio,
            differing=counts(apart != 0.0) if bits is None else bits,
            largest=largest,
            place=place,
            largest_relative=largest_relative,
            relative_place=relative_place,
            total=np.add.reduce(apart, axis=1),
            squares=_inner(apart, apart),
            relative=np.add.reduce(ratio, axis=1),
            is_usual=is_usual,
        )


class Worst(NamedTuple):
    """The elements of each row that differ most, and how many are outside the tolerance, as `rankings` finds them."""

    scores: Doubles
    places: Places
    outside: list[int]
    is_usual: Flags | bool
    is_allowed: bool

    @classmethod
    def of(cls, errors: Errors, tolerance: tuple[float, float], count: int) -> Worst:
        """Return them. What `errors` holds in memory is overwritten."""
        (rtol, atol), score, is_usual = tolerance, errors.ratio, True
        if not rtol and not atol:
            score, outside = errors.apart, errors.differing
        else:
            allowed = np.multiply(errors.modulus, rtol, out=errors.modulus)
            np.add(allowed, atol, out=allowed)
            np.divide(errors.apart, allowed, out=score)
            if not atol:
                nothing = allowed == 0.0
                is_usual = ~(nothing & (errors.apart != 0.0)).any(axis=1)
                np.copyto(score, 0.0, where=nothing)
            outside = counts(score > 1.0)
        found = []
        for _ in range(count):
            largest, place = _largest(score)
            found.append((largest, place))
            score[np.arange(len(score)), place] = 0.0
        scores, places = zip(*found, strict=True)
        return cls(np.array(scores), np.array(places), outside, is_usual, bool(rtol or atol))

    def elements(self, left: Array, right: Array) -> list[list[tuple[Any, Any, float]]]:
        """Return of each row both sides' elements and their ratios, worst first, as far as they differ."""
        rows, allowed = np.arange(len(left)), self.is_allowed
        found = left[rows, self.places].T, right[rows, self.places].T, self.scores.T
        return [
            [(a, b, score if allowed else math.inf) for a, b, score in zip(*row, strict=True) if score > 0.0]
            for row in zip(*[one.tolist() for one in found], strict=True)
        ]


def divergences(values: Doubles, spread: Spread) -> list[tuple[float, float, float]]:
    """Return the sums of p, of q and of p·ln(p/q) as `distribution` finds them. The values are overwritten."""
    width = spread.high - spread.low
    np.subtract(values, spread.low[:, :, None], out=values)
    np.maximum(values, (EPSILON * width)[:, :, None], out=values)
    if not width.all():
        values[width == 0.0] = 1.0
    left, right = np.add.reduce(values, axis=-1)
    p, q = values
    np.divide(p, q, out=q)
    np.log(q, out=q)
    return list(zip(left.tolist(), right.tolist(), _inner(p, q).tolist(), strict=True))


def _is_safe(magnitude: Doubles) -> Flags:
    """Whether no exponent is needed, as `sums.scale_exponent` has it of all but 0."""
    return (magnitude >= SAFE_LOW) & (magnitude < SAFE_HIGH)


def _inner(left: Doubles, right: Doubles) -> Doubles:
    """Return Σ l·r of each row: the same product of two vectors that `values.inner` takes."""
    found: Doubles = np.matmul(left[..., None, :], right[..., None])[..., 0, 0]
    return found


def _largest(values: Doubles) -> tuple[Doubles, Places]:
    """Return the largest of each row, and the place of the first of them."""
    places = values.argmax(axis=1)
    return values[np.arange(len(values)), places], places


def differing_bits(left: Array, right: Array) -> Flags:
    """Return where the bits of two elements of one type differ."""
    word = WORDS[left.dtype.itemsize]
    differ: Flags = left.view(word) != right.view(word)
    return differ


def counts(flags: Flags) -> list[int]:
    """Return how many of each row are set."""
    # To count along an axis takes ten times as long as to count all.
    return [int(np.count_nonzero(row)) for row in flags] if flags.any() else [0] * len(flags)

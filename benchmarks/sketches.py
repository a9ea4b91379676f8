"""Whether what sketches say is true: how often the interval holds, for seventeen kinds of differences.

python benchmarks/sketches.py                20,400 pairs and five of 10^8 elements, with fresh data
python benchmarks/sketches.py --seed N       the same data again
python benchmarks/sketches.py --pairs 100    fewer of each kind

The truth is numpy's, in float64. The exit code is 1 when an interval holds for less than 98.5 % of a kind, or when one
that is more than 1.5 times on one side of a limit of the profile `strict` is judged to be on the other.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.statistics.count_sketch import SEEDS, metrics_of, sketch_of
from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.model.comparison import Interval
from pytest_msdump.core.model.tensor import Sketch

Array = npt.NDArray[np.float32]
Draw = np.random.Generator

# Elements → how many of a hundred pairs have so many.
SIZES = {1_000: 8, 5_000: 25, 20_000: 34, 100_000: 21, 500_000: 9, 2_000_000: 2, 10_000_000: 1}
HUGE = 100_000_000
LEAST = 0.985
MARGIN = 1.5
DISTANCE, COSINE = "relative_euclidean_distance", "cosine_similarity"
METRICS = (DISTANCE, COSINE)
BLOCK = 1 << 20


class Truth(NamedTuple):
    """The metrics of a pair by numpy; the cosine as what it lacks of 1."""

    distance: float
    angle: float


class View:
    """An array as the package reads tensors."""

    def __init__(self, array: Array) -> None:
        self.array, self.dtype, self.shape, self.size = array, str(array.dtype), array.shape, array.size

    def blocks(self, count: int) -> Iterator[Array]:
        """Yield it piece by piece."""
        return (self.array[start : start + count] for start in range(0, self.size, count))


def added(pattern: Callable[[Draw, int], npt.NDArray[np.float64] | Array], draw: Draw, right: Array) -> Array:
    """Return the right tensor with a pattern added, most often about as large as the limit of `strict`."""
    made = pattern(draw, right.size)
    share = 1e-4 * 3 ** draw.uniform(-1, 1) if draw.random() < 0.5 else 10 ** draw.uniform(-6, 0)
    scale = share * np.linalg.norm(right) / np.linalg.norm(made)
    return right + (made * scale).astype(np.float32)


def spikes(draw: Draw, size: int, *, count: int = 0) -> npt.NDArray[np.float64]:
    """Return a few equal elements of either sign, else zeros."""
    made = np.zeros(size)
    count = count or int(draw.integers(2, 201))
    made[draw.integers(0, size, count)] = draw.choice([-1.0, 1.0], count)
    return made


def channel(draw: Draw, size: int) -> npt.NDArray[np.float64]:
    """Return one channel of 64, channels last or first, that is off by a constant."""
    made, number = np.zeros(size), int(draw.integers(64))
    if draw.random() < 0.5:
        made[number::64] = 1.0
    else:
        made[number * size // 64 : (number + 1) * size // 64] = 1.0
    return made


def periodic(period: int, draw: Draw, size: int) -> npt.NDArray[np.float64]:
    """Return the same row over and over."""
    return np.resize(draw.standard_normal(min(period, size)), size)


def sparse(draw: Draw, size: int) -> npt.NDArray[np.float64]:
    """Return noise at one element of a hundred."""
    made, places = np.zeros(size), draw.integers(0, size, max(size // 100, 2))
    made[places] = draw.standard_normal(places.size)
    return made


def rounded(_draw: Draw, right: Array) -> Array:
    """Return what bfloat16 leaves of it."""
    bits = right.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def swapped_rows(draw: Draw, right: Array) -> Array:
    """Return it with two rows in each other's place."""
    left, row = right.copy(), max(right.size // int(draw.integers(4, 200)), 1)
    one, other = draw.choice(right.size // row, 2, replace=False) * row
    left[one : one + row], left[other : other + row] = right[other : other + row], right[one : one + row]
    return left


def permuted(draw: Draw, right: Array) -> Array:
    """Return it with a part in another order."""
    left, length = right.copy(), max(int(right.size ** draw.uniform(0.3, 1.0)), 2)
    start = int(draw.integers(0, right.size - length + 1))
    left[start : start + length] = draw.permutation(right[start : start + length])
    return left


KINDS: dict[str, Callable[[Draw, Array], Array]] = {
    "white noise": partial(added, lambda draw, size: draw.standard_normal(size, np.float32)),
    "scaled": lambda draw, right: right * np.float32(1 + 10 ** draw.uniform(-5, -1)),
    "constant": partial(added, lambda _, size: np.ones(size)),
    "rounded to bfloat16": rounded,
    "single element": partial(added, partial(spikes, count=1)),
    "2 to 200 spikes": partial(added, spikes),
    "channel": partial(added, channel),
    "Cauchy": partial(added, lambda draw, size: draw.standard_cauchy(size)),
    **{f"period {period}": partial(added, partial(periodic, period)) for period in (512, 1024, 2048, 4096)},
    "shift by one": lambda _, right: np.roll(right, 1),
    "permutation": permuted,
    "swapped rows": swapped_rows,
    "sparse noise": partial(added, sparse),
    "a tenth zeroed": lambda draw, right: np.where(draw.random(right.size, np.float32) < 0.1, np.float32(0), right),
}


# The difference is a function of the right tensor: pairs of one right tensor would be one draw, counted many times.
_FRESH = ("scaled", "rounded to bfloat16", "shift by one")


def main() -> int:
    """Print a line for each kind and size of sketch; return 1 when one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=1200, metavar="N", help="of each kind (default: 1200)")
    parser.add_argument("--huge", type=int, default=5, metavar="N", help="pairs of 10^8 elements (default: 5)")
    parser.add_argument("--seed", type=int, help="of the data (default: a fresh one)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    arguments = parser.parse_args()
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}; share of pairs whose metric is in the interval, and pairs judged wrongly by `strict`")
    print(f"{'kind':20} {'buckets':>7} {'pairs':>6} {'distance':>9} {'cosine':>8} {'passes':>7} {'fails':>6}")
    parts = [*enumerate(_shared(arguments.pairs))]
    work = [(seed, number, part, sizes) for number in range(len(KINDS)) for part, sizes in parts]
    held, huge = [], Counter[str]()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = pool.map(judged, *zip(*work, strict=True))
        held.extend(_printed(kind, sum((next(found) for _ in parts), Counter[str]())) for kind in KINDS)
    for number in range(arguments.huge):
        huge += judged(seed, number * 3 % len(KINDS), len(parts), (HUGE,))
    if huge:
        held.append(_printed("10^8 elements", huge, least=0.0))
    return 0 if all(held) else 1


def _shared(pairs: int) -> list[tuple[int, ...]]:
    """Return the sizes of the pairs of a kind, in parts that take about as long."""
    sizes = [size for size, share in SIZES.items() for _ in range(max(pairs * share // 100, 1))]
    return [tuple(sizes[start::4]) for start in range(4)]


def judged(seed: int, number: int, part: int, sizes: tuple[int, ...]) -> Counter[str]:
    """Make a part of the pairs of one kind, and count what holds of them, by ``BUCKETS METRIC`` or ``BUCKETS WHAT``."""
    draw = np.random.default_rng([seed, number, part])
    (kind, make), counts = list(KINDS.items())[number], Counter[str]()
    right, sketches = np.empty(0, np.float32), dict[int, Sketch]()
    for place, size in enumerate(sizes):
        if right.size != size or place % 20 == 0 or kind in _FRESH:
            right = _base(draw, size)
            sketches = {buckets: _sketch(right, buckets) for buckets in SEEDS}
        left = make(draw, right)
        truth = _truth(left, right)
        for buckets, sketch in sketches.items():
            intervals = metrics_of(_sketch(left, buckets), sketch)
            _count(counts, buckets, intervals, truth)
    return counts


def _base(draw: Draw, size: int) -> Array:
    """Return a tensor: noise about a mean, or, so that a shift of it is small, a wave with a little noise."""
    if draw.random() < 0.5:
        return draw.standard_normal(size, np.float32) + np.float32(draw.choice([0.0, 0.0, 1.0, 100.0]))
    wave = np.sin(np.arange(size) * (2 * np.pi / 10 ** draw.uniform(2, 5)))
    wave += 1e-4 * draw.standard_normal(size, np.float32)
    return wave.astype(np.float32)


def _sketch(array: Array, buckets: int) -> Sketch:
    found = sketch_of(View(array), buckets=buckets).sketch  # type: ignore[arg-type]
    assert found is not None
    return found


def _truth(left: Array, right: Array) -> Truth:
    """Return the metrics in float64; that of the angle by vectors of length 1, so that small ones are exact."""
    sums = np.zeros(3)
    pieces = [slice(start, start + BLOCK) for start in range(0, left.size, BLOCK)]
    for piece in pieces:
        one, other = left[piece].astype(np.float64), right[piece].astype(np.float64)
        sums += [np.square(one - other).sum(), np.square(one).sum(), np.square(other).sum()]
    apart, ours, theirs = np.sqrt(sums)
    angle = sum(float(np.square(left[piece] / ours - right[piece] / theirs).sum()) for piece in pieces) / 2
    return Truth(float(apart / theirs), angle)


def _count(counts: Counter[str], buckets: int, intervals: dict[str, Interval], truth: Truth) -> None:
    """Add one pair: a distance above its limit fails, and so does what a cosine lacks of 1."""
    limits = PROFILES["strict"].rows["float32"]
    distance, cosine = (intervals[metric] for metric in METRICS)
    lacking = Interval(1 - cosine.value, 1 - cosine.high, 1 - cosine.low)
    counts[f"{buckets} pairs"] += 1
    for metric, value, one, limit in (
        (DISTANCE, truth.distance, distance, limits[DISTANCE]),
        (COSINE, truth.angle, lacking, 1 - limits[COSINE]),
    ):
        # Of 1, float64 keeps so much.
        slack = 3e-16 if metric == COSINE else 1e-12 * value
        counts[f"{buckets} {metric}"] += one.low - slack <= value <= one.high + slack
        counts[f"{buckets} passes"] += value > MARGIN * limit and one.high <= limit
        counts[f"{buckets} fails"] += value * MARGIN < limit and one.low > limit


def _printed(kind: str, counts: Counter[str], *, least: float = LEAST) -> bool:
    """Print the lines of a kind, and return whether they are as they must be."""
    is_good = True
    for buckets in SEEDS:
        pairs = counts[f"{buckets} pairs"]
        shares = [counts[f"{buckets} {metric}"] / max(pairs, 1) for metric in METRICS]
        wrong = [counts[f"{buckets} {what}"] for what in ("passes", "fails")]
        is_held = min(shares) >= least and not any(wrong)
        print(
            f"{kind:20} {buckets:>7} {pairs:>6} {shares[0]:>8.2%} {shares[1]:>8.2%} {wrong[0]:>7} {wrong[1]:>6}"
            f"{'' if is_held else '  WRONG'}",
            flush=True,
        )
        is_good &= is_held
    return is_good


if __name__ == "__main__":
    sys.exit(main())

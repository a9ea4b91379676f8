"""How often a drift's diagnosis is right: patterns in three data types and three sizes, among drifts of other kinds.

python benchmarks/diagnosis.py                 the confusion matrix: 9 x 12 trials of each pattern, 500 other drifts
python benchmarks/diagnosis.py --repeats 2     a quick look
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.diagnosis.diagnose import diagnose
from pytest_msdump.capabilities.diagnosis.pointwise import to_float8
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.dtypes.decode import rounded_to

Array = npt.NDArray[Any]
Random = np.random.Generator

SHAPES = {
    600: ((2, 3, 10, 10), (20, 30), (6, 10, 10)),
    40_000: ((2, 16, 25, 50), (200, 200), (40, 1000), (4, 100, 100)),
    1_000_000: ((4, 16, 125, 125), (1000, 1000), (64, 125, 125)),
}
# Channels, and both sides of matrices, in whole blocks.
BLOCKED = {
    600: ((1, 32, 4, 5), (32, 32)),
    40_000: ((1, 64, 25, 25), (208, 192)),
    1_000_000: ((4, 64, 62, 63), (1008, 992)),
}
DTYPES = ("float32", "float16", "int8")


class Trial(NamedTuple):
    """One pair of tensors: what was done (``None``: none of the patterns), and both sides."""

    kind: str | None
    how: str
    left: Array
    right: Array


# -- right sides ------------------------------------------------------------------------------------------------------


def values(random: Random, shape: tuple[int, ...]) -> Array:
    """Numbers as operators put them out: centred, cut at 0, positive, with long tails, with channels of their own."""
    plain = random.normal(size=shape)
    way = random.integers(5)
    if way == 1:
        return np.maximum(plain + 0.3, 0)
    if way == 2:
        return random.uniform(0, 2, shape)
    if way == 3:
        return plain * np.exp(0.5 * random.normal(size=shape))
    if way == 4 and len(shape) > 1:
        lengths = [1] * len(shape)
        lengths[1] = shape[1]
        return plain + random.normal(size=lengths)
    return plain


def cast(array: Array, dtype: str) -> Array:
    """What is left of numbers in a data type; integers hold 40 for 1."""
    if dtype == "int8":
        return np.clip(np.rint(array * 40), -128, 127).astype(np.int8)
    return array.astype(dtype)


def back(array: Array) -> Array:
    """The numbers that a tensor of either side really holds."""
    return array / 40.0 if array.dtype == np.int8 else array.astype(np.float64)


# -- patterns ---------------------------------------------------------------------------------------------------------


def scaled(random: Random, x: Array) -> Array:
    """Times a factor."""
    return x * random.choice([0.5, 0.7, 0.9, 1.1, 1.25, -0.5, 1.4])


def offset(random: Random, x: Array) -> Array:
    """Plus a constant."""
    return x + random.choice([-1, 1]) * random.uniform(0.2, 0.8)


def sign_flipped(random: Random, x: Array) -> Array:  # noqa: ARG001
    """The other sign."""
    return -x


def clipped(random: Random, x: Array) -> Array:
    """Cut at one end or both."""
    high = np.quantile(x, random.uniform(0.8, 0.95))
    low = np.quantile(x, random.uniform(0.05, 0.2)) if random.random() < 0.5 else x.min()
    return np.clip(x, low, high)


def flushed_to_zero(random: Random, x: Array) -> Array:
    """Small values are 0."""
    size = np.abs(x)
    return np.where(size <= np.quantile(size[size > 0], random.uniform(0.1, 0.3)), 0, x)


def one_slice(random: Random, x: Array) -> Array:
    """One index of an axis, or of the first two, holds something else."""
    x = x.copy()
    axes = [axis for axis, length in enumerate(x.shape) if length > 2 and x.size // length >= 8]
    at: list[Any] = [slice(None)] * x.ndim
    axis = random.choice(axes)
    at[axis] = random.integers(x.shape[axis])
    if random.random() < 0.3 and x.ndim > 2:
        at[0] = random.integers(x.shape[0])
    part = x[tuple(at)]
    ways = (lambda: 0 * part, lambda: part * 2 + 0.5, lambda: random.normal(size=part.shape), lambda: -part - 0.3)
    x[tuple(at)] = ways[random.integers(4)]()
    return x


def shifted_by_one(random: Random, x: Array) -> Array:
    """The neighbour along the flat order or an axis; the first is the last, 0 or itself."""
    by = int(random.choice([-1, 1]))
    if random.random() < 0.3:
        return np.roll(x.reshape(-1), by).reshape(x.shape)
    axis = int(random.choice([axis for axis, length in enumerate(x.shape) if length > 4]))
    moved = np.roll(x, by, axis)
    edge: list[Any] = [slice(None)] * x.ndim
    edge[axis] = 0 if by == 1 else -1
    if random.random() < 0.5:
        moved[tuple(edge)] = 0
    return moved


def padding(random: Random, x: Array) -> Array:
    """Rows padded to 16 and read without that; a border of zeros; or zeros first and the rest behind them."""
    way = random.integers(3)
    if way == 0:
        length = x.shape[-1]
        padded = -(-length // 16) * 16 if length % 16 else length + 2
        wide = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, padded - length)])
        return wide.reshape(-1)[: x.size].reshape(x.shape)
    if way == 1:
        x = x.copy()
        axis = int(random.choice([axis for axis, length in enumerate(x.shape) if length >= 6]))
        at: list[Any] = [slice(None)] * x.ndim
        at[axis] = slice(-int(random.integers(2, max(3, x.shape[axis] // 3))), None)
        x[tuple(at)] = 0
        return x
    wide = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(1, 0)] * 2)
    return wide[..., :-1, :-1]


def transposed(random: Random, x: Array) -> Array:
    """Axes in another order, read as if they were not."""
    while True:
        order = random.permutation(x.ndim)
        if list(order) != sorted(order):
            turned = x.transpose(order).reshape(x.shape)
            if random.random() < 0.5:
                turned = x.reshape([x.shape[axis] for axis in order]).transpose(np.argsort(order))
            return turned


def memory_format(random: Random, x: Array) -> Array:
    """NC1HWC0 for four axes, FRACTAL_NZ for two, in blocks of 16, not undone."""
    del random
    if x.ndim == 2:
        rows, columns = x.shape
        return x.reshape(rows // 16, 16, columns // 16, 16).transpose(2, 0, 1, 3).reshape(x.shape)
    n, c, h, w = x.shape
    return x.reshape(n, c // 16, 16, h, w).transpose(0, 1, 3, 4, 2).reshape(x.shape)


def rounded(random: Random, x: Array) -> Array:
    """On the grid of a type of fewer bits, or of even steps."""
    ways: tuple[Callable[[Array], Array], ...] = (
        lambda a: to_float8(a, "float8_e4m3fn"),
        lambda a: to_float8(a, "float8_e5m2"),
        lambda a: np.rint(a / (np.abs(a).max() / 20)) * (np.abs(a).max() / 20),
        lambda values: rounded_to(values, "bfloat16"),
    )
    return ways[random.integers(4)](x)


def permuted(random: Random, x: Array) -> Array:
    """All elements, or all channels, in any order."""
    if random.random() < 0.5 or x.shape[0] < 6:
        return random.permutation(x.reshape(-1)).reshape(x.shape)
    return random.permutation(x, axis=0)


def unrelated(random: Random, x: Array) -> Array:
    """Another tensor, distributed differently."""
    ways = (random.uniform(0, 3, x.shape), random.exponential(0.5, x.shape), 3 * random.normal(size=x.shape) + 1)
    return ways[random.integers(3)]


PATTERNS: dict[str, Callable[[Random, Array], Array]] = {
    function.__name__: function
    for function in (
        scaled, offset, sign_flipped, clipped, flushed_to_zero, one_slice, shifted_by_one, padding, transposed,
        memory_format, rounded, permuted, unrelated,
    )
}  # fmt: skip

# -- drifts of other kinds --------------------------------------------------------------------------------------------


def _some(random: Random, x: Array, share: float) -> Array:
    return random.random(x.shape) < share


def _outliers(random: Random, x: Array) -> Array:
    x = x.copy().reshape(-1)
    x[random.integers(0, x.size, random.integers(1, 8))] += random.choice([5, 50, -20])
    return x


def _border_and_outliers(random: Random, x: Array) -> Array:
    """Two columns are 0, and elsewhere some elements are wrong by far more than that explains."""
    x = _outliers(random, x).reshape(x.shape)
    x[..., -2:] = 0
    x.reshape(-1)[random.integers(0, x.size, max(1, x.size // 50))] += 30
    return x


def _neighbours_mean(random: Random, x: Array) -> Array:
    return (x + np.roll(x, 1, int(random.integers(x.ndim)))) / 2


def _wave(random: Random, x: Array) -> Array:
    return np.sin(np.linspace(0, random.uniform(4, 30), x.size)).reshape(x.shape)


def _gains(random: Random, x: Array) -> Array:
    axis = int(random.integers(x.ndim))
    lengths = [1] * x.ndim
    lengths[axis] = x.shape[axis]
    return random.uniform(0.3, 2, lengths)


OTHERS: dict[str, Callable[[Random, Array], Array]] = {
    "noise 0.3": lambda r, x: x + 0.3 * r.normal(size=x.shape),
    "noise 0.1": lambda r, x: x + 0.1 * r.normal(size=x.shape),
    "noise 0.03": lambda r, x: x + 0.03 * r.normal(size=x.shape),
    "noise 1": lambda r, x: x + r.normal(size=x.shape),
    "sparse noise": lambda r, x: x + r.normal(size=x.shape) * _some(r, x, r.choice([0.003, 0.02, 0.2])),
    "outliers": lambda r, x: _outliers(r, x).reshape(x.shape),
    "border and outliers": _border_and_outliers,
    "multiplicative": lambda r, x: x * (1 + r.choice([0.02, 0.1, 0.5]) * r.normal(size=x.shape)),
    "mixture": lambda r, x: np.where(_some(r, x, 0.5), x * r.choice([0.5, 2]), x + r.choice([0.3, -0.2])),
    "uniform noise": lambda r, x: x + r.uniform(-0.1, 0.1, x.shape),
    "one-sided noise": lambda r, x: x + np.abs(r.normal(size=x.shape)) * 0.3,
    "smooth drift": lambda r, x: x + 0.3 * _wave(r, x),
    "smooth gain": lambda r, x: x * (1 + 0.4 * _wave(r, x)),
    "ramp": lambda r, x: x * np.linspace(1, r.choice([0.5, 1.5]), x.size).reshape(x.shape),
    "equal moments": lambda r, x: x.mean() + x.std() * r.normal(size=x.shape),
    "dropout": lambda r, x: np.where(_some(r, x, r.choice([0.02, 0.1, 0.5])), 0, x),
    "signs": lambda r, x: np.where(_some(r, x, r.choice([0.05, 0.5])), -x, x),
    "gains": lambda r, x: x * _gains(r, x),
    "neighbours": _neighbours_mean,
    "soft saturation": lambda r, x: np.tanh(x * r.choice([0.5, 1])),
    "cube": lambda r, x: x + 0.1 * x**3,  # noqa: ARG005
    "gelu": lambda r, x: x / (1 + np.exp(-1.7 * x)),  # noqa: ARG005
    "soft threshold": lambda r, x: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0),  # noqa: ARG005
    "affine with noise": lambda r, x: 0.8 * x + 0.2 + 0.3 * r.normal(size=x.shape),
    "walk": lambda r, x: x + np.cumsum(r.normal(size=x.size)).reshape(x.shape) / np.sqrt(x.size),
}


# -- trials -----------------------------------------------------------------------------------------------------------


def pattern_trial(kind: str, dtype: str, size: int, random: Random) -> Trial:
    """One trial of a pattern; every other time with noise of 0.1 % on top, as far as its kind can stand it."""
    shapes = BLOCKED[size] if kind == "memory_format" else SHAPES[size]
    right = cast(values(random, shapes[random.integers(len(shapes))]), dtype)
    if kind == "rounded" and dtype == "int8":
        coarse = int(random.choice([4, 8, 16]))
        left = np.clip(np.rint(right / coarse) * coarse, -128, 127).astype(np.int8)
        return Trial(kind, f"steps of {coarse}", left, right)
    exact = PATTERNS[kind](random, back(right))
    noisy = random.random() < 0.5 and kind not in ("rounded", "flushed_to_zero")
    if noisy:
        exact = exact * (1 + 0.001 * random.normal(size=exact.shape))
    return Trial(kind, "noisy" if noisy else "", cast(exact, dtype), right)


def other_trial(dtype: str, size: int, random: Random, number: int) -> Trial:
    """One drift that no pattern describes; again where the data type swallows it."""
    name = list(OTHERS)[number % len(OTHERS)]
    shapes = SHAPES[size]
    while True:
        right = cast(values(random, shapes[random.integers(len(shapes))]), dtype)
        left = cast(OTHERS[name](random, back(right)), dtype)
        if not np.array_equal(left, right):
            return Trial(None, name, left, right)


def trials(repeats: int, others: int, seed: int, sizes: tuple[int, ...] = tuple(SHAPES)) -> Iterator[Trial]:
    """Yield `repeats` of each pattern in each type and size, then `others` drifts, most of them small."""
    random = np.random.default_rng(seed)
    for kind in PATTERNS:
        for dtype in DTYPES:
            for size in sizes:
                for _ in range(repeats):
                    yield pattern_trial(kind, dtype, size, random)
    for number in range(others):
        size = sizes[0] if number % 10 < 5 or len(sizes) == 1 else sizes[1] if number % 10 < 9 else sizes[-1]
        yield other_trial(str(random.choice(DTYPES)), size, random, number)


def answer(trial: Trial) -> str | None:
    """The one diagnosis of confidence high, if there is one."""
    found = diagnose(ArrayView(trial.left), ArrayView(trial.right))
    sure = [entry.id for entry in found if entry.confidence == "high"]
    assert len(sure) <= 1, sure
    return sure[0] if sure else None


class Matrix(NamedTuple):
    """Who was called what, and the two shares that count."""

    counts: Counter[tuple[str | None, str | None]]
    wrong: list[str]

    @property
    def precision(self) -> float:
        """Share of the sure answers that were right."""
        sure = sum(count for (_, told), count in self.counts.items() if told is not None)
        return sum(count for (kind, told), count in self.counts.items() if told is not None and kind == told) / max(
            1, sure
        )

    def recall(self, kind: str) -> float:
        """Share of the trials of a pattern that were called by its name."""
        return self.counts[kind, kind] / max(1, sum(count for (one, _), count in self.counts.items() if one == kind))


def judge(given: Iterator[Trial]) -> Matrix:
    """Ask for every trial. A pattern that changes nothing in its data type is no trial."""
    matrix = Matrix(Counter(), [])
    for trial in given:
        if np.array_equal(trial.left, trial.right):
            continue
        told = answer(trial)
        matrix.counts[trial.kind, told] += 1
        if told != trial.kind:
            what = f"{trial.kind or 'other'} ({trial.how}) {trial.left.dtype} {trial.left.shape}"
            matrix.wrong.append(f"{what}: {told or 'nothing'}")
    return matrix


def main() -> int:
    """Print the matrix; exit code 1 below the bars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--repeats", type=int, default=12, help="trials of a pattern in each type and size (default: 12)"
    )
    parser.add_argument("--others", type=int, default=500, help="drifts of other kinds (default: 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="leave the size of a million elements out")
    parser.add_argument("--wrong", action="store_true", help="list every answer that was not the expected one")
    arguments = parser.parse_args()
    started = time.perf_counter()
    sizes = tuple(SHAPES)[:2] if arguments.small else tuple(SHAPES)
    matrix = judge(trials(arguments.repeats, arguments.others, arguments.seed, sizes))
    for kind in (*PATTERNS, None):
        row = Counter({told: count for (one, told), count in matrix.counts.items() if one == kind})
        told = ", ".join(f"{answered or 'nothing'} {count}" for answered, count in row.most_common())
        recall = f"{100 * matrix.recall(kind):6.1f} %" if kind else " " * 8
        print(f"{kind or 'other':<16} {sum(row.values()):>5} {recall}  {told}")
    print(f"precision {100 * matrix.precision:.2f} %, {time.perf_counter() - started:.0f} s")
    if arguments.wrong:
        print(*matrix.wrong, sep="\n")
    reached = matrix.precision >= 0.99 and all(matrix.recall(kind) >= 0.95 for kind in PATTERNS)
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())

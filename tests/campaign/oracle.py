"""Random pairs of every mixture of data types, measured by both kernels and by exact arithmetic that is not theirs.

``python tests/campaign/oracle.py --pairs 3000 --seed 1`` prints each disagreement and exits with 1 if there is any.
Truth is worked out from the definitions in `docs/reference/metrics.md`: differences, sums and means in fractions, roots
and logarithms to 60 digits. A number agrees within 1e-9 of itself (cosine and KL divergence, which are what is left of
numbers near 1, within 1e-9), a count exactly. A metric that is undefined has to be so in truth, too, unless float64
cannot hold something on the way to it: numbers beyond its largest, and moduli of complex numbers below its normal ones.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.comparison import Comparison

Array = npt.NDArray[Any]

TOLERANCE = 1e-9
LARGEST = Fraction(sys.float_info.max)
# Below normal numbers float64 has fewer digits than the tolerance asks for.
SMALLEST_NORMAL = Fraction(sys.float_info.min)
EPSILON = Fraction(1, 2**23)
LEAST_MODULUS = Fraction(1, 2**960)
RATIOS = ("cosine_similarity", "relative_euclidean_distance", "normalized_max_error", "kl_divergence")
OF_ELEMENTS = ("max_relative_error", "mean_relative_error", "accumulated_relative_error")
KERNELS = ("compiled", "numpy")

# -- data types --------------------------------------------------------------------------------------------------------


class Small(NamedTuple):
    """A binary float of few bits: bits of exponent and significand, the exponent's bias, and its largest number."""

    exponent: int
    significand: int
    bias: int
    maximum: float

    @property
    def denormal(self) -> float:
        return 2.0 ** (1 - self.bias - self.significand)

    def values(self) -> Array:
        """All finite numbers that are not negative."""
        steps = 2**self.significand
        found = [step * self.denormal for step in range(steps)]
        for exponent in range(1, 2**self.exponent):
            found += [2.0 ** (exponent - self.bias) * (1 + step / steps) for step in range(steps)]
        return np.array([one for one in found if one <= self.maximum], "float32")


SMALL = {
    "float8_e4m3fn": Small(4, 3, 7, 448.0),
    "float8_e5m2": Small(5, 2, 15, 57344.0),
    "float8_e4m3fnuz": Small(4, 3, 8, 240.0),
    "float8_e5m2fnuz": Small(5, 2, 16, 57344.0),
    "float8_e4m3b11fnuz": Small(4, 3, 11, 30.0),
}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float64", "float32", "float16", "bfloat16", *SMALL)
COMPLEX = ("complex64", "complex128")
DTYPES = (*FLOATS, *INTEGERS, "bool", *COMPLEX)
# Coarsest last; complex counts as its component.
COARSENESS = {
    "float64": 0,
    "complex128": 0,
    "float32": 1,
    "complex64": 1,
    "float16": 2,
    "bfloat16": 3,
    "float8_e4m3fn": 4,
    "float8_e4m3fnuz": 4,
    "float8_e4m3b11fnuz": 4,
    "float8_e5m2": 6,
    "float8_e5m2fnuz": 6,
}
STORED = {"bfloat16": "float32", **dict.fromkeys(SMALL, "float32")}
BFLOAT16_MAX = float(np.uint32(0x7F7F0000).view("float32"))


def maximum_of(dtype: str) -> float:
    """The largest finite number of a float; infinite for others, which do not saturate."""
    if dtype in SMALL:
        return SMALL[dtype].maximum
    if dtype == "bfloat16":
        return BFLOAT16_MAX
    return math.inf if dtype in (*INTEGERS, "bool") else float(np.finfo(dtype).max)


def rounded(values: Array, dtype: str) -> Array:
    """Numbers as a tensor of this type holds them."""
    with np.errstate(all="ignore"):
        if dtype in SMALL:
            known = SMALL[dtype].values()
            clipped = np.clip(np.abs(values), 0, known[-1])
            places = np.clip(np.searchsorted(known, clipped), 0, known.size - 1)
            found = np.where(np.isnan(values), np.float32(np.nan), np.copysign(known[places], values))
            return found.astype("float32")
        if dtype == "bfloat16":
            narrow = np.clip(values, -BFLOAT16_MAX, BFLOAT16_MAX).astype("float32")
            narrow = np.where(np.isfinite(values), narrow, np.asarray(values, "float32"))
            return (narrow.view("uint32") & np.uint32(0xFFFF0000)).view("float32")
        if dtype in INTEGERS:
            info = np.iinfo(dtype)
            whole = [int(one) if math.isfinite(one) else 0 for one in values.tolist()]
            return np.array([min(max(one, info.min), info.max) for one in whole], dtype)
        if dtype == "bool":
            return values > 0.3
        return values.astype(dtype)


# -- draws -------------------------------------------------------------------------------------------------------------

Draw = Callable[[np.random.Generator, int, str], Array]


def normal(rng: np.random.Generator, size: int, dtype: str) -> Array:
    return rounded(rng.normal(rng.choice([0.0, 0.3, 100.0]), rng.choice([0.01, 1.0, 50.0]), size), dtype)


def any_bits(rng: np.random.Generator, size: int, dtype: str) -> Array:
    if dtype in STORED:
        with np.errstate(all="ignore"):
            return rounded(rng.integers(0, 2**32, size, dtype="uint32").view("float32").astype("float64"), dtype)
    if dtype == "bool":
        return rng.random(size) < 0.5
    raw = rng.integers(0, 256, size * np.dtype(dtype).itemsize, dtype="uint8")
    return raw.view(dtype)


def extremes(rng: np.random.Generator, size: int, dtype: str) -> Array:
    """The ends of the type, so that sums cancel to what little stands beside them."""
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, info.max, info.max - 1, info.max - 3, 0, 1, info.max // 2]
        return np.array([near[place] for place in rng.integers(0, len(near), size)], dtype)
    maximum = min(maximum_of(dtype), 1e308)
    values = rng.normal(0, 300, size)
    for place in range(0, size - 1, 2):
        if rng.random() < 0.7:
            values[place], values[place + 1] = maximum, -maximum
    return rounded(rng.permutation(values), dtype)


def one_end(rng: np.random.Generator, size: int, dtype: str) -> Array:
    """Integers a few apart at one end of the type, floats a few units of rounding apart."""
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        end = info.max - 8 if rng.random() < 0.5 else info.min
        return np.array([end + int(step) for step in rng.integers(0, 8, size)], dtype)
    around = float(rng.choice([1.0, 1e30, 3e5, -7.0]))
    width = 2.0**-52 if dtype in ("float64", "complex128") else 2.0**-23
    return rounded(around * (1 + width * rng.integers(0, 4, size)), dtype)


def denormals(rng: np.random.Generator, size: int, dtype: str) -> Array:
    if dtype in (*INTEGERS, "bool"):
        return rounded(rng.integers(-2, 3, size).astype("float64"), dtype)
    return rounded(rng.integers(-3, 4, size) * denormal_of(dtype), dtype)


def special(rng: np.random.Generator, size: int, dtype: str) -> Array:
    values = np.where(rng.random(size) < 0.2, rng.choice([math.nan, math.inf, -math.inf], size), rng.normal(size=size))
    return rounded(values, dtype)


def constant(rng: np.random.Generator, size: int, dtype: str) -> Array:
    return rounded(np.full(size, rng.choice([0.0, -0.0, 1.0, -1.0, 0.1, 3e4])), dtype)


def wide(rng: np.random.Generator, size: int, dtype: str) -> Array:
    exponents = {"float64": 300, "complex128": 300, "float32": 37, "complex64": 37, "bfloat16": 37, "float16": 4}
    most = exponents.get(dtype, 2)
    return rounded(rng.normal(size=size) * 10.0 ** rng.integers(-most, most + 1, size), dtype)


STYLES: tuple[Draw, ...] = (normal, normal, any_bits, extremes, one_end, denormals, special, constant, wide)
SIZES = (1, 1, 2, 3, 5, 8, 31, 32, 33, 64, 100)
LARGE = (1023, 1025, 2048, 2500)


def side_of(rng: np.random.Generator, size: int, dtype: str, style: Draw) -> Array:
    if dtype not in COMPLEX or style is any_bits:
        return style(rng, size, dtype)
    part = {"complex64": "float32", "complex128": "float64"}[dtype]
    found = np.empty(size, dtype)
    found.real, found.imag = style(rng, size, part), style(rng, size, part)
    return found


def near(rng: np.random.Generator, other: Array, dtype: str) -> Array:
    """The other side's numbers in this type, some of them about 1e-7 off, or by one unit of rounding."""
    with np.errstate(all="ignore"):
        numbers = other.real if other.dtype.kind == "c" and dtype not in COMPLEX else other
        if dtype in INTEGERS and numbers.dtype.kind in "iu":
            info = np.iinfo(dtype)
            steps = rng.integers(-1, 2, other.size).tolist()
            return np.array(
                [min(max(one + step, info.min), info.max) for one, step in zip(numbers.tolist(), steps, strict=True)],
                dtype,
            )
        factors = 1 + np.where(rng.random(other.size) < 0.5, 1e-7 * rng.normal(size=other.size), 0.0)
        if dtype in COMPLEX:
            return np.asarray(numbers * factors).astype(dtype)
        return rounded(np.asarray(numbers, "float64") * factors, dtype)


class Pair(NamedTuple):
    left: Array
    right: Array
    dtypes: tuple[str, str]
    tolerance: tuple[float, float]
    block: int
    told: str


def pairs(count: int, seed: int) -> Iterator[Pair]:
    """Draw pairs: every mixture of types in turn, whatever the number of them."""
    rng = np.random.default_rng(seed)
    mixtures = [(a, b) for a in DTYPES for b in DTYPES]
    order = rng.permutation(len(mixtures))
    for number in range(count):
        # Of one type as often as of two.
        a, b = mixtures[order[number % len(order)]]
        if rng.random() < 0.4:
            a = b
        size = int(rng.choice(LARGE) if rng.random() < 0.04 else rng.choice(SIZES))
        style, other = rng.integers(0, len(STYLES), 2)
        right = side_of(rng, size, b, STYLES[style])
        relation = str(rng.choice(["free", "near", "near", "equal", "partly"]))
        left = side_of(rng, size, a, STYLES[other])
        if relation == "equal" and a == b:
            left = right.copy()
        elif relation != "free":
            close = near(rng, right, a)
            left = close if relation != "partly" else np.where(rng.random(size) < 0.5, close, left)
        rtol, atol = ((0.0, 0.0), (1.3e-6, 1e-5), (1e-3, 0.0))[rng.integers(3)]
        told = f"pair {number}: {a} against {b}, {size} elements, {STYLES[other].__name__} and {STYLES[style].__name__}"
        yield Pair(left, right, (a, b), (rtol, atol), int(rng.choice([7, 1000, 10**6])), f"{told}, {relation}")


# -- truth -------------------------------------------------------------------------------------------------------------


def denormal_of(dtype: str) -> float:
    if dtype in SMALL:
        return SMALL[dtype].denormal
    return 2.0**-133 if dtype == "bfloat16" else float(np.finfo(dtype).smallest_subnormal)


Number = tuple[Fraction, Fraction]
_DIGITS = Context(prec=60, Emin=-(10**9), Emax=10**9)


def decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def root(value: Fraction) -> Fraction:
    return Fraction(_DIGITS.sqrt(decimal(value)))


def logarithm(value: Fraction) -> Fraction:
    return Fraction(_DIGITS.ln(decimal(value)))


def scalars(side: Array) -> list[Any]:
    return [one.item() for one in side]


def class_of(value: Any) -> Any:
    """Finite, NaN, or which Inf."""
    parts = (float(value.real), float(value.imag))
    if any(map(math.isnan, parts)):
        return "nan"
    return 0 if all(map(math.isfinite, parts)) else tuple(part if math.isinf(part) else 0 for part in parts)


def exact(value: Any) -> Number:
    return (Fraction(value.real), Fraction(value.imag)) if isinstance(value, complex) else (Fraction(value), Fraction())


def modulus(value: Number) -> Fraction:
    real, imaginary = value
    return root(real * real + imaginary * imaginary) if imaginary else abs(real)


class Truth(NamedTuple):
    """Numbers by metric (``None``: undefined; several for deviations), counts that hold exactly, and whether float64
    holds whatever is on the way."""

    numbers: Mapping[str, Fraction | None]
    counts: Mapping[str, int]
    outside: tuple[int, int]
    fits: bool
    # Whether a relative error is of a modulus of which float64 has few digits.
    is_tiny: bool
    # Whether ratios do not apply: the right side is 0 everywhere, and the left at most next to it.
    is_zero: bool


def truth_of(pair: Pair) -> Truth:
    """Work out every metric from its definition."""
    lefts, rights = scalars(pair.left), scalars(pair.right)
    classes = [(class_of(a), class_of(b)) for a, b in zip(lefts, rights, strict=True)]
    finite = [place for place, (a, b) in enumerate(classes) if a == b == 0]
    left, right = [exact(lefts[place]) for place in finite], [exact(rights[place]) for place in finite]
    apart = [modulus((a[0] - b[0], a[1] - b[1])) for a, b in zip(left, right, strict=True)]
    lengths = [modulus(one) for one in right]
    mismatch = sum(a != b for a, b in classes)
    maximum = maximum_of(pair.dtypes[0])
    saturated = sum(a != 0 and b == 0 for a, b in classes) + sum(
        maximum in (abs(lefts[p].real), abs(lefts[p].imag)) and apart[n] != 0 for n, p in enumerate(finite)
    )
    floats = [dtype for dtype in pair.dtypes if dtype in COARSENESS]
    unit = Fraction(denormal_of(max(floats, key=COARSENESS.__getitem__))) if floats else Fraction()
    hair = Fraction(1, 10**12)
    # Roots have 60 digits.
    reach = 2 * unit * (1 + hair)
    near = [a != 0 and a <= reach and (b == 0 or one == (0, 0)) for a, b, one in zip(apart, lengths, left, strict=True)]
    zero = [a != 0 and b == 0 and not c for a, b, c in zip(apart, lengths, near, strict=True)]
    rtol, atol = map(Fraction, pair.tolerance)
    allowed = [atol + rtol * one for one in lengths]
    counts = {
        "elements": len(lefts),
        "finite": len(finite),
        "differing": mismatch + sum(one != 0 for one in apart),
        "right_zero_mismatch": sum(zero),
        "near_zero": sum(near),
        "nonfinite_mismatch": mismatch,
        "saturated_count": saturated,
    }
    if pair.dtypes[0] == pair.dtypes[1]:
        counts["bitwise_mismatch"] = sum(a.tobytes() != b.tobytes() for a, b in zip(pair.left, pair.right, strict=True))
    outside = tuple(
        mismatch + sum(a > b * (1 + slack) for a, b in zip(apart, allowed, strict=True)) for slack in (hair, -hair)
    )
    numbers = numbers_of(
        left, right, apart, lengths, zero, near, (pair.dtypes[0] in COMPLEX, pair.dtypes[1] in COMPLEX)
    )
    if len(lefts) == 1:
        numbers["cosine_similarity"] = None
    ranges = [max(p[0] for p in side) - min(p[0] for p in side) for side in (left, right) if side]
    terms = [a / b for a, b in zip(apart, lengths, strict=True) if b]
    fits = all(one <= LARGEST for one in (*apart, *lengths, *ranges, *terms, sum(terms, Fraction())))
    is_zero = any(near) and not any(lengths) and near == [one != 0 for one in apart]
    tiny = any(0 < one < LEAST_MODULUS for one in (*lengths, *apart)) and any(dtype in COMPLEX for dtype in pair.dtypes)
    return Truth(numbers, counts, (outside[0], outside[1]), fits and not tiny, tiny, is_zero)


def numbers_of(
    left: Sequence[Number],
    right: Sequence[Number],
    apart: Sequence[Fraction],
    lengths: Sequence[Fraction],
    left_out: Sequence[bool],
    near: Sequence[bool],
    are_complex: tuple[bool, bool],
) -> dict[str, Fraction | None]:
    names = (
        "cosine_similarity",
        "max_absolute_error",
        "mean_absolute_error",
        "root_mean_square_error",
        "relative_euclidean_distance",
        "normalized_max_error",
        "max_relative_error",
        "mean_relative_error",
        "accumulated_relative_error",
        "kl_divergence",
        "left mean",
        "left deviation",
        "right mean",
        "right deviation",
    )
    found: dict[str, Fraction | None] = dict.fromkeys(names)
    count = len(left)
    if not count:
        return found
    squares = sum((one * one for one in apart), Fraction())
    left_squares, right_squares = (sum((a * a + b * b for a, b in side), Fraction()) for side in (left, right))
    found["max_absolute_error"] = max(apart)
    found["mean_absolute_error"] = sum(apart, Fraction()) / count
    found["root_mean_square_error"] = root(squares / count)
    if right_squares:
        found["relative_euclidean_distance"] = root(squares / right_squares)
        found["normalized_max_error"] = max(apart) / max(lengths)
    if left_squares and right_squares:
        product = sum((a[0] * b[0] + a[1] * b[1] for a, b in zip(left, right, strict=True)), Fraction())
        found["cosine_similarity"] = product / root(left_squares * right_squares)
    terms = [
        Fraction() if is_near or not b else a / b
        for a, b, out, is_near in zip(apart, lengths, left_out, near, strict=True)
        if not out
    ]
    if terms:
        found["max_relative_error"], total = max(terms), sum(terms, Fraction())
        found["mean_relative_error"], found["accumulated_relative_error"] = total / len(terms), total
    if not any(are_complex):
        found["kl_divergence"] = divergence([one for one, _ in left], [one for one, _ in right])
    for name, side, is_complex in zip(("left", "right"), (left, right), are_complex, strict=True):
        means = [sum((one[part] for one in side), Fraction()) / count for part in (0, 1)]
        spread = sum(((a - means[0]) ** 2 + (b - means[1]) ** 2 for a, b in side), Fraction()) / count
        found[f"{name} mean"] = modulus((means[0], means[1])) if is_complex else means[0]
        found[f"{name} deviation"] = root(spread)
    return found


def divergence(left: Sequence[Fraction], right: Sequence[Fraction]) -> Fraction:
    def places(side: Sequence[Fraction]) -> list[Fraction]:
        low, width = min(side), max(side) - min(side)
        if not width:
            return [Fraction(1)] * len(side)
        # Sixty digits of a place are enough, and keep the fractions short.
        return [Fraction(decimal(max((one - low) / width, EPSILON))) for one in side]

    p, q = places(left), places(right)
    p_total, q_total = sum(p, Fraction()), sum(q, Fraction())
    weighted = sum((a * logarithm(a / b) for a, b in zip(p, q, strict=True) if a != b), Fraction())
    return weighted / p_total + logarithm(q_total / p_total)


# -- agreement ---------------------------------------------------------------------------------------------------------


@contextmanager
def kernel(name: str) -> Iterator[None]:
    before = os.environ.get("MSDUMP_KERNEL")
    os.environ["MSDUMP_KERNEL"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["MSDUMP_KERNEL"]
        else:
            os.environ["MSDUMP_KERNEL"] = before


def measured(pair: Pair, name: str) -> Comparison:
    views = [ArrayView(side, dtype) for side, dtype in zip((pair.left, pair.right), pair.dtypes, strict=True)]
    rtol, atol = pair.tolerance
    with kernel(name):
        return measure(views[0], views[1], rtol=rtol, atol=atol, block_elements=pair.block)


def disagreements(found: Comparison, truth: Truth) -> Iterator[str]:
    """Yield what is wrong, a sentence each."""
    for name, count in truth.counts.items():
        if truth.is_tiny and name in ("near_zero", "right_zero_mismatch"):
            continue
        ours = (
            getattr(found, name, None)
            if name in ("elements", "finite", "differing", "right_zero_mismatch", "near_zero")
            else (found.measurements[name].value)
        )
        if ours != count:
            yield f"{name} is {ours}, in truth {count}"
    outside = found.measurements["allclose"].value
    if not truth.outside[0] <= outside <= truth.outside[1]:
        yield f"allclose is {outside}, in truth {truth.outside[0]}"
    if found.absolute_error_sum is not None and truth.counts["finite"]:
        total = truth.numbers["mean_absolute_error"] * truth.counts["finite"]
        if isinstance(found.absolute_error_sum, int) and found.absolute_error_sum != total:
            yield f"the sum of |l-r| is {found.absolute_error_sum}, in truth {total}"
    for name, number in truth.numbers.items():
        ours, undefined = of_ours(found, name)
        if truth.is_zero and name in RATIOS:
            if ours is not None or found.measurements[name].applies:
                yield f"{name} is {ours!r}, in truth it does not apply"
            continue
        if ours is None and number is not None and truth.fits and abs(number) <= LARGEST:
            yield f"{name} is undefined ({undefined}), in truth {shown(number)}"
        if truth.is_tiny and name in OF_ELEMENTS:
            continue
        if ours is not None and (number is None or not agrees(name, ours, number)):
            yield f"{name} is {ours!r}, in truth {None if number is None else shown(number)}"


def of_ours(found: Comparison, name: str) -> tuple[float | int | None, str | None]:
    side, _, part = name.partition(" ")
    if not part:
        one = found.measurements[name]
        return one.value, one.undefined
    both = found.measurements["standard_deviation"]
    place = 2 * (side == "right") + (part == "deviation")
    return (None if both.value is None else both.value[place]), both.undefined


def agrees(name: str, ours: float | int, number: Fraction) -> bool:
    if not math.isfinite(ours):
        return False
    off = abs(Fraction(ours) - number)
    least = Fraction(1) if name in ("cosine_similarity", "kl_divergence") else SMALLEST_NORMAL
    return off <= Fraction(TOLERANCE) * max(abs(number), least) or off <= Fraction(2.0**-1073)


def shown(number: Fraction) -> str:
    with localcontext(_DIGITS):
        return f"{decimal(number):.12g}"


def run(count: int, seed: int, *, kernels: Sequence[str] = KERNELS, tell: Callable[[str], None] = print) -> int:
    """Measure so many pairs, tell of each disagreement, and return how many there were."""
    bad, metrics = 0, Counter[str]()
    for pair in pairs(count, seed):
        truth = truth_of(pair)
        for name in kernels:
            for sentence in disagreements(measured(pair, name), truth):
                bad += 1
                metrics[f"{name}: {sentence.split(' is ')[0]}"] += 1
                tell(f"seed {seed}, {pair.told}, kernel {name}: {sentence}")
    for name, times in metrics.most_common():
        tell(f"{times:6} {name}")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernel", choices=KERNELS, action="append", help="only this one; repeatable")
    arguments = parser.parse_args()
    bad = run(arguments.pairs, arguments.seed, kernels=arguments.kernel or KERNELS)
    sys.stdout.write(f"{arguments.pairs} pairs, seed {arguments.seed}: {bad} disagreements\n")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The smallest faults that each profile finds, and which well-known mistakes it does not find.

``docs/reference/sensitivity.md`` shows both tables; a test holds it to them.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from campaign import edits
from campaign.edits import Edit
from campaign.expected import metrics
from campaign.trials import Array
from scipy.special import erf

from pytest_msdump.cli import main

PROFILES = ("default", "strict", "bitwise")

# -- sizes -------------------------------------------------------------------------------------------------------------

# What a size means for a kind of fault, and between which sizes the smallest that is found lies.
SIZES: tuple[tuple[str, str, Edit, float, float], ...] = (
    ("scaled", "every element times 1 + size", edits.scaled, 1e-9, 10),
    ("shifted", "every element + size × RMS", edits.shifted, 1e-9, 10),
    ("noise", "normal noise of size × RMS on every element", edits.noisy, 1e-9, 10),
    ("rounded to steps", "rounded to multiples of size × RMS", edits.quantised, 1e-9, 10),
    ("clipped", "values beyond (1 − size) × the largest one cut", edits.clipped, 1e-9, 0.9),
    ("largest element off", "the largest element times 1 + size", edits.largest_off, 1e-9, 10),
    ("one element shifted", "a typical element + size × RMS", edits.typical_plus, 1e-9, 10),
    ("one channel scaled", "one channel of 512 times 1 + size", edits.one_channel_scaled, 1e-9, 10),
)


def activations() -> Array:
    """Return what a convolution puts out: 512 channels of 7 × 7, normal, float32."""
    return np.random.default_rng(23).standard_normal((1, 512, 7, 7)).astype(np.float32)


def is_found(left: Array, right: Array, profile: str, folder: Path) -> bool:
    """Ask the gate about two tensors."""
    files = [folder / f"{side}.npy" for side in ("left", "right")]
    for file, array in zip(files, (left, right), strict=True):
        np.save(file, array)
    with redirect_stdout(io.StringIO()):
        code = main(["compare", *map(str, files), "--profile", profile, "--report-dir", str(folder / "reports")])
    assert code in (0, 1)
    return code == 1


def smallest(edit: Edit, low: float, high: float, profile: str, folder: Path) -> float | None:
    """Return the smallest size that is found, to two digits; ``None`` where the largest is not."""
    right = activations()
    if not is_found(edit(right, Random(0), high), right, profile, folder):
        return None
    if is_found(edit(right, Random(0), low), right, profile, folder):
        return low
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        if is_found(edit(right, Random(0), middle), right, profile, folder):
            high = middle
        else:
            low = middle
    return high


# -- mistakes ----------------------------------------------------------------------------------------------------------


class Mistake(NamedTuple):
    """A mistake that ports make: `make` returns what it gives, and what is right."""

    what: str
    make: Callable[[], tuple[Array, Array]]


def quiet_channel() -> tuple[Array, Array]:
    right = activations()
    right[:, 300] *= np.float32(0.01)
    left = right.copy()
    left[:, 300] = 0
    return left, right


def loud_channel() -> tuple[Array, Array]:
    right = activations()
    return edits.one_channel_zero(right, Random(0), 0), right


def _normal(*shape: int) -> Array:
    return np.random.default_rng(41).standard_normal(shape)


def gelu() -> tuple[Array, Array]:
    x = _normal(64, 1024)
    exact = 0.5 * x * (1 + erf(x / math.sqrt(2)))
    approximate = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return approximate.astype(np.float32), exact.astype(np.float32)


def _normalised(epsilon: float, spread: float = 1.0) -> Array:
    x = _normal(32, 64, 14, 14) * spread
    mean, variance = x.mean(axis=(0, 2, 3), keepdims=True), x.var(axis=(0, 2, 3), keepdims=True)
    return ((x - mean) / np.sqrt(variance + epsilon)).astype(np.float32)


def batch_norm() -> tuple[Array, Array]:
    return _normalised(1e-3), _normalised(1e-5)


def batch_norm_of_small_values() -> tuple[Array, Array]:
    return _normalised(1e-3, 0.1), _normalised(1e-5, 0.1)


def layer_norm() -> tuple[Array, Array]:
    x = _normal(128, 768)
    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    one, other = ((x - mean) / np.sqrt(variance + epsilon) for epsilon in (1e-7, 1e-5))
    return one.astype(np.float32), other.astype(np.float32)


def unbiased_variance() -> tuple[Array, Array]:
    x = _normal(128, 768)
    one, other = (x / x.std(axis=1, ddof=ddof, keepdims=True) for ddof in (1, 0))
    return one.astype(np.float32), other.astype(np.float32)


def one_in_a_million(change: Callable[[float], float]) -> Callable[[], tuple[Array, Array]]:
    def make() -> tuple[Array, Array]:
        right = _normal(1000, 1000).astype(np.float32)
        # Of middling size: half of all are smaller.
        left, at = right.copy(), np.argsort(np.abs(right), axis=None)[right.size // 2]
        left.flat[at] = change(float(right.flat[at]))
        return left, right

    return make


def _product(narrow: Callable[[Array], Array]) -> tuple[Array, Array]:
    draw = np.random.default_rng(43)
    x, weight = (draw.standard_normal(shape).astype(np.float32) for shape in ((128, 1024), (1024, 256)))
    one = narrow(x).astype(np.float64) @ narrow(weight).astype(np.float64)
    return one.astype(np.float32), (x.astype(np.float64) @ weight.astype(np.float64)).astype(np.float32)


def tensor_float_32() -> tuple[Array, Array]:
    # To nearest, 10 of 23 bits.
    return _product(lambda a: ((a.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32))


def half_precision() -> tuple[Array, Array]:
    return _product(lambda a: a.astype(np.float16))


def bfloat16() -> tuple[Array, Array]:
    return _product(lambda a: ((a.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32))


def other_order_of_sums() -> tuple[Array, Array]:
    draw = np.random.default_rng(43)
    x, weight = (draw.standard_normal(shape).astype(np.float32) for shape in ((128, 1024), (1024, 256)))
    left = np.zeros((128, 256), np.float32)
    for at in range(1024):
        left += x[:, at : at + 1] * weight[at]
    return left, (x.astype(np.float64) @ weight.astype(np.float64)).astype(np.float32)


def border_of_zeros() -> tuple[Array, Array]:
    right = _normal(1, 16, 112, 112).astype(np.float32)
    return edits.padding_wrong(right, Random(0), 0), right


def one_sample() -> tuple[Array, Array]:
    right = _normal(256, 1000).astype(np.float32)
    return edits.first_part_copied(right, Random(0), 0), right


def relu_6() -> tuple[Array, Array]:
    right = np.maximum(_normal(64, 1024) * 1.5, 0).astype(np.float32)
    return np.minimum(right, 6), right


MISTAKES = (
    Mistake("sums in another order: no mistake", other_order_of_sums),
    Mistake("one of 10^6 elements off by 5 %", one_in_a_million(lambda value: value * 1.05)),
    Mistake("one of 10^6 elements zero", one_in_a_million(lambda _: 0.0)),
    Mistake("sign of one of 10^6 elements", one_in_a_million(lambda value: -value)),
    Mistake("one channel of 512, at 1 % of the others' magnitude, zeroed", quiet_channel),
    Mistake("one channel of 512 zeroed", loud_channel),
    Mistake("GELU by tanh for GELU by erf", gelu),
    Mistake("BatchNorm with epsilon 1e-3 for 1e-5, variance 1", batch_norm),
    Mistake("BatchNorm with epsilon 1e-3 for 1e-5, variance 0.01", batch_norm_of_small_values),
    Mistake("LayerNorm with epsilon 1e-7 for 1e-5, variance 1", layer_norm),
    Mistake("variance of n − 1 for n, 768 elements", unbiased_variance),
    Mistake("ReLU6 for ReLU, largest value 1.1 × 6", relu_6),
    Mistake("matrix product of 1024 terms in TF32", tensor_float_32),
    Mistake("matrix product of 1024 terms of float16", half_precision),
    Mistake("matrix product of 1024 terms of bfloat16", bfloat16),
    Mistake("one column of 112 zero, as by other padding", border_of_zeros),
    Mistake("one sample of 256 is another one", one_sample),
)

# -- the page ----------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sensitivity.md"


def of_page(heading: str) -> list[str]:
    """Return the lines of the table below a heading of the page."""
    _, _, section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")
    return [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]


def rewrite(heading: str, lines: list[str]) -> None:
    """Put another table below a heading of the page."""
    text = PAGE.read_text("utf-8")
    PAGE.write_text(text.replace("\n".join(of_page(heading)), "\n".join(lines)), "utf-8")


# -- tables ------------------------------------------------------------------------------------------------------------


def size_table(folder: Path) -> Iterator[str]:
    """Yield the lines of the table of smallest sizes."""
    yield "| fault of a float32 tensor | its size | " + " | ".join(f"`{profile}`" for profile in PROFILES) + " |"
    yield "|---|---|" + "---|" * len(PROFILES)
    for what, meaning, edit, low, high in SIZES:
        found = [smallest(edit, low, high, profile, folder) for profile in PROFILES]
        cells = ["never" if one is None else f"< {low:.0e}" if one == low else f"{one:.1e}" for one in found]
        yield f"| {what} | {meaning} | {' | '.join(cells)} |"


def mistake_table(folder: Path) -> Iterator[str]:
    """Yield the lines of the table of mistakes, with the profiles that do not find each."""
    yield "| mistake | rel. Euclid | max error / max | passes in |"
    yield "|---|---|---|---|"
    for what, make in MISTAKES:
        left, right = make()
        found = metrics(left.astype(np.longdouble), right.astype(np.longdouble))
        passing = [f"`{profile}`" for profile in PROFILES if not is_found(left, right, profile, folder)]
        numbers = f"{found.relative_euclidean_distance:.1e} | {found.normalized_max_error:.1e}"
        yield f"| {what} | {numbers} | {', '.join(passing) or '–'} |"

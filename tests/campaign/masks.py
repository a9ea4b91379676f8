"""Masked tensors whose unmasked elements are wrong have to fail, and sound residual streams with outliers have to pass.

The oracle is numpy in float64, over the unmasked elements, with the profile's bounds typed in again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump import compare
from pytest_msdump.core.compare.opening import ArrayView

Array = npt.NDArray[Any]

# Cosine at least; relative Euclid and largest error over largest element at most.
BOUNDS: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "default": {"float32": (0.999, 1e-3, 0.01), "float16": (0.999, 1e-2, 0.05), "bfloat16": (0.99, 5e-2, 0.1)},
    "strict": {"float32": (0.999999, 1e-4, 0.01), "float16": (0.999, 2e-3, 0.05), "bfloat16": (0.99, 1e-2, 0.1)},
}
MASKS = (-3.4e38, -65504.0, -1e9, -1e4, -np.inf)
DTYPES = ("float32", "float16", "bfloat16")


class Case(NamedTuple):
    """A masked pair; `kept` is where no mask is, `told` says how it was made."""

    left: Array
    right: Array
    kept: npt.NDArray[np.bool_]
    dtype: str
    told: str


def stored(values: Array, dtype: str) -> Array:
    """Round to a type, to nearest even; bfloat16 is the upper half of float32."""
    with np.errstate(over="ignore"):
        if dtype != "bfloat16":
            return values.astype(dtype)
        single = values.astype(np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(single), rounded.view(np.float32), single)


def masked(count: int, seed: int) -> Iterator[Case]:
    """Yield masked scores; of some the two sides write the mask as different constants, or with both signs."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shape = (int(rng.integers(1, 4)), int(rng.integers(8, 40)), int(rng.integers(8, 40)))
        dtype, mask = str(rng.choice(DTYPES)), float(rng.choice(MASKS))
        if dtype == "float16" and np.isfinite(mask):
            mask = max(mask, -65504.0)
        share, error = rng.integers(1, 100) / 100, 10.0 ** rng.uniform(-7, 0)
        right = np.clip(rng.normal(0, 30 / 4, shape), -30, 30)
        left = right + error * rng.normal(0, 30 / 4, shape)
        hidden = rng.random(shape) < max(share, 0.02)
        hidden.flat[0], hidden.flat[1] = True, False
        constants, way = (mask, mask), str(rng.choice(["additive", "filled", "two constants", "both signs"]))
        if way == "additive":
            left, right = (np.where(hidden, side + mask, side) for side in (left, right))
        else:
            if way == "two constants" and np.isfinite(mask):
                constants = (mask, -1e4)
            signs = np.where((rng.random(shape) < 0.5) & (way == "both signs"), -1.0, 1.0)
            left, right = (
                np.where(hidden, one * signs, side) for one, side in zip(constants, (left, right), strict=True)
            )
        told = f"{way} {mask:g} {dtype} {shape} {100 * share:.0f} % masked, error {error:.1e}"
        yield Case(stored(left, dtype), stored(right, dtype), ~hidden, dtype, told)


def meets(left: Array, right: Array, bounds: tuple[float, float, float], factor: float = 1.0) -> bool:
    """Whether finite elements are within bounds that are tighter by a factor, by the formulas."""
    a, b = left.astype(np.float64).ravel(), right.astype(np.float64).ravel()
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    if not a.size or not np.abs(b).max():
        return True
    scale = np.abs(b).max()
    apart, norm = np.linalg.norm((a - b) / scale), np.linalg.norm(b / scale)
    cosine = a / scale @ (b / scale) / (np.linalg.norm(a / scale) * norm or 1.0)
    cosine_bound, distance, largest = bounds
    return bool(
        (1 - cosine) * factor <= 1 - cosine_bound
        and apart * factor <= distance * norm
        and np.abs(a - b).max() * factor <= largest * scale
    )


def verdict_of(case: Case, profile: str) -> str:
    """Return our verdict."""
    return compare(ArrayView(case.left, case.dtype), ArrayView(case.right, case.dtype), profile=profile).verdict.outcome


def run_masks(count: int, seed: int, *, tell: Callable[[str], None] = print) -> Counter[str]:
    """Compare masked pairs; count what was missed, and what failed although all of it is well within the bounds."""
    found: Counter[str] = Counter()
    for case in masked(count, seed):
        for profile, rows in BOUNDS.items():
            bounds, verdict = rows[case.dtype], verdict_of(case, profile)
            kept = case.kept & np.isfinite(case.left) & np.isfinite(case.right)
            alone = meets(case.left[kept], case.right[kept], bounds)
            whole = meets(case.left, case.right, bounds, 2.0)
            same = bool(np.array_equal(np.isfinite(case.left), np.isfinite(case.right)))
            found["pairs"] += 1
            found["wrong"] += not alone
            if not alone and verdict == "pass":
                found["missed"] += 1
                tell(f"missed by {profile}: {case.told}")
            saturated = np.abs(case.left).max(where=np.isfinite(case.left), initial=0) >= 65504
            if meets(case.left[kept], case.right[kept], bounds, 2.0) and whole and same and not saturated:
                found["sound"] += 1
                if verdict != "pass":
                    found["false alarms"] += 1
                    tell(f"false alarm of {profile}: {case.told}: {verdict}")
    return found


def streams(count: int, seed: int) -> Iterator[Case]:
    """Yield the residual stream of two runs of some layers, which add up in another order; a few elements are large."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        tokens, width, dtype = int(rng.integers(4, 33)), int(rng.choice([64, 128, 256])), str(rng.choice(DTYPES))
        start = rng.normal(0, rng.uniform(0.02, 4), (tokens, width))
        outliers, size = int(rng.integers(1, 9)), 10 ** rng.uniform(3, 4)
        channels = rng.choice(width, outliers, replace=False)
        rows = slice(None) if rng.random() < 0.5 else slice(0, 1)
        start[rows, channels] = size * np.sqrt((start**2).mean()) * rng.choice([-1, 1], outliers)
        start = np.clip(start, -6e4, 6e4)
        layers = [rng.normal(0, 0.02 / np.sqrt(width), (width, width)) for _ in range(3)]
        sides = [_stream(start, layers, dtype, order) for order in (np.arange(width), rng.permutation(width))]
        told = f"stream {dtype} ({tokens}, {width}), {outliers} outliers of {size:.0f}, rows {rows}"
        yield Case(sides[0], sides[1], np.ones(start.shape, np.bool_), dtype, told)


def _stream(start: Array, layers: list[Array], dtype: str, order: Array) -> Array:
    hidden = stored(start, dtype)
    for weights in layers:
        wide = hidden.astype(np.float64)
        normal = stored(wide / np.sqrt((wide**2).mean(axis=1, keepdims=True)), dtype)
        # Two halves are rounded by themselves, and which elements are in which half depends on the order.
        halves = np.array_split(order, 2)
        parts = [stored(normal[:, half].astype(np.float64) @ stored(weights[half], dtype), dtype) for half in halves]
        added = stored(parts[0].astype(np.float64) + parts[1], dtype)
        hidden = stored(hidden.astype(np.float64) + added, dtype)
    return hidden


def run_streams(count: int, seed: int, *, tell: Callable[[str], None] = print) -> Counter[str]:
    """Compare sound residual streams, all of which meet the bounds of `default` as a whole."""
    found: Counter[str] = Counter()
    for case in streams(count, seed):
        found["streams"] += 1
        record = compare(ArrayView(case.left, case.dtype), ArrayView(case.right, case.dtype))
        found["with a note"] += any(one.message.code in ("dominated", "outliers") for one in record.verdict.findings)
        if meets(case.left, case.right, BOUNDS["default"][case.dtype]) and record.verdict.outcome != "pass":
            found["new fails"] += 1
            tell(f"new fail: {case.told}: {record.verdict.findings[0].sentence}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--masks", type=int, default=2000)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = run_masks(arguments.masks, arguments.seed) + run_streams(arguments.streams, arguments.seed)
    sys.stdout.write(", ".join(f"{count} {what}" for what, count in found.items()) + "\n")
    return 1 if found["missed"] or found["false alarms"] or found["new fails"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

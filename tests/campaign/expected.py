"""What a pair of tensors must come to, from formulas of its own: whether the limits of a profile fail, and by how much.

Written from the documented formulas and limits, in 80-bit numbers; nothing here is the package's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from campaign.stored import Array, Tensor, UnreadableError, Values, read

Expectation = Literal["fail", "near", "pass"]

# Coarsest last.
_FLOATS = ("float64", "float32", "float16", "bfloat16")
_COMPONENTS = {"complex64": "float32", "complex128": "float64"}


class Limits(NamedTuple):
    """What a profile allows of floating point numbers."""

    relative_euclidean_distance: float
    normalized_max_error: float
    cosine_similarity: float


LIMITS = {
    "default": {
        "float64": Limits(1e-7, 0.01, 0.999),
        "float32": Limits(1e-3, 0.01, 0.999),
        "float16": Limits(1e-2, 0.05, 0.999),
        "bfloat16": Limits(5e-2, 0.1, 0.99),
    },
    "strict": {
        "float64": Limits(1e-7, 0.01, 0.999),
        "float32": Limits(1e-4, 0.01, 0.999999),
        "float16": Limits(2e-3, 0.05, 0.999),
        "bfloat16": Limits(1e-2, 0.1, 0.99),
    },
}
# Operators that only look at their input in another shape.
VIEWS = ("Reshape", "Flatten", "ExpandDims", "Squeeze")
# A value within 1 % of its limit may come to either.
MARGIN = 0.01
_SMALLEST = {"float64": 2.0**-1074, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
_LARGEST = {"float64": np.finfo("f8").max, "float32": np.finfo("f4").max, "float16": 65504.0, "bfloat16": 3.3895314e38}


def expectation(
    left: Path, of_left: Tensor, right: Path, of_right: Tensor, *, profile: str, nan: str, reshape: bool
) -> Expectation:
    """Return what a pair's files, as they are now, must come to."""
    try:
        one, other = read(left, of_left), read(right, of_right)
    except UnreadableError:
        return "fail"
    # Their files have the shape of what went in; by bits it must be the same one all the same.
    is_view = of_left.op_type in VIEWS and of_left.io == "output" and profile != "bitwise"
    if is_view and one.array is not None and other.array is not None and one.array.shape != other.array.shape:
        found = judged(one, other, profile=profile, nan=nan, reshape=True)
        return "near" if found == "pass" else found
    return judged(one, other, profile=profile, nan=nan, reshape=reshape, container=of_left.container)


def judged(
    left: Values, right: Values, *, profile: str, nan: str = "match", reshape: bool = False, container: bool = False
) -> Expectation:
    """Return what two tensors must come to: "near" where either is right."""
    trailing = left.trailing or right.trailing
    if trailing and (not container or profile == "bitwise"):
        return "fail"
    if left.array is None or right.array is None:
        # Where its layout is not known here, equal bytes that are said to be the same are equal, or refused.
        plain = left.dtype == right.dtype and left.raw == right.raw and not trailing and nan == "match"
        return "pass" if plain and "None" not in left.dtype else "near"
    found = _of_arrays(left, right, profile=profile, nan=nan, reshape=reshape)
    return "near" if trailing and found == "pass" else found


def _of_arrays(left: Values, right: Values, *, profile: str, nan: str, reshape: bool) -> Expectation:
    assert left.array is not None
    assert right.array is not None
    one, other = left.array, right.array
    if one.size != other.size or (one.shape != other.shape and not reshape):
        return "fail"
    if profile == "bitwise":
        same = left.dtype == right.dtype and one.tobytes() == other.tobytes()
        return "pass" if same else "fail"
    one, other = one.reshape(-1), other.reshape(-1)
    if (left.dtype.startswith("complex")) != (right.dtype.startswith("complex")):
        return "fail" if one.size else "near"
    kinds = [_COMPONENTS.get(name, name) for name in (left.dtype, right.dtype)]
    floats = [name for name in kinds if name in _FLOATS]
    if any(name not in _FLOATS and np.dtype(name).kind not in "biu" for name in kinds):
        return "near"
    if not floats:
        return "pass" if all(int(a) == int(b) for a, b in zip(one, other, strict=True)) else "fail"
    judged_as = max(floats, key=_FLOATS.index)
    return _of_floats(one, other, judged_as, kinds[0], LIMITS[profile][judged_as], nan)


def _of_floats(left: Array, right: Array, judged_as: str, left_type: str, limits: Limits, nan: str) -> Expectation:
    with np.errstate(all="ignore"):
        classes = [_classes(side) for side in (left, right)]
        if (classes[0] != classes[1]).any() or (nan == "forbid" and classes[0].any()):
            return "fail"
        finite = classes[0] == 0
        wide = np.clongdouble if np.iscomplexobj(left) else np.longdouble
        one, other = left[finite].astype(wide), right[finite].astype(wide)
        difference = one - other
        if left_type in _LARGEST and (difference[np.abs(one) >= _LARGEST[left_type]] != 0).any():
            return "fail"
        # A unit or two of the smallest number beside an exact zero is a zero.
        tiny = 2 * _SMALLEST[judged_as]
        zero = ((one == 0) & (np.abs(other) <= tiny)) | ((other == 0) & (np.abs(one) <= tiny))
        if not (difference != 0).any():
            return "pass"
        if not (difference[~zero] != 0).any():
            return "near"
        values = metrics(one, other)
    checks = [
        (values.relative_euclidean_distance, limits.relative_euclidean_distance),
        (values.normalized_max_error, limits.normalized_max_error),
    ]
    if left.size > 1:
        checks.append((1 - values.cosine_similarity, 1 - limits.cosine_similarity))
    if any(not value <= limit * (1 + MARGIN) for value, limit in checks):
        return "fail"
    return "near" if any(value > limit * (1 - MARGIN) for value, limit in checks) else "pass"


def metrics(left: Array, right: Array) -> Limits:
    """Return the three metrics of finite numbers; NaN where one is not defined."""
    difference = np.abs(left - right)
    scale = max(np.abs(left).max(), np.abs(right).max())
    left, right, difference = left / scale, right / scale, difference / scale
    norms = [np.sqrt((np.abs(side) ** 2).sum()) for side in (left, right)]
    return Limits(
        float(np.sqrt((difference**2).sum()) / norms[1]),
        float(difference.max() / np.abs(right).max()),
        float((left * np.conj(right)).sum().real / (norms[0] * norms[1])),
    )


def _classes(values: Array) -> Any:
    """0 where finite, 1 where NaN, 2 and 3 where Inf of either sign."""
    if np.iscomplexobj(values):
        return np.where(np.isfinite(values), 0, 1)
    if values.dtype.kind != "f":
        return np.zeros(values.shape, int)
    return np.where(np.isnan(values), 1, np.where(np.isposinf(values), 2, np.where(np.isneginf(values), 3, 0)))

"""Profiles: named and versioned tables of limits, by the data type a pair is judged as.

A row is chosen by the float type (complex types by that of their component), or by the kind "integer" or "bool" when
both sides are such. Bounds are numbers that just pass: a metric of direction "high" fails below, "low" fails above.
A changed bound is a new `version`; `tests/limits/test_profiles.py` holds the numbers a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["PROFILES", "TOLERANCES", "Tolerance"]


class ProfileFact(NamedTuple):
    """One profile: `rows` is data type or kind → metric → bound.

    `dtype_equal`: differing types fail by themselves. `every_occurrence`: a further occurrence of a compared tensor
    without a partner fails, instead of a warning. `min_coverage` is the least coverage where nothing else sets one.
    """

    version: int
    source: str
    rows: Mapping[str, Mapping[str, float]]
    dtype_equal: bool = False
    every_occurrence: bool = False
    min_coverage: float | None = None


# "No overflow; NaN/Inf match", which all profiles but `bitwise` say of float types.
_CLASSES: dict[str, float] = {"nonfinite_mismatch": 0, "saturated_count": 0}

_EQUAL: dict[str, float] = {"max_absolute_error": 0}
_FLOATS = ("float64", "float32", "float16", "bfloat16")
_WHOLE = ("integer", "bool")


def _default_bounds(cosine: float, euclid: float, largest: float) -> dict[str, float]:
    return {
        "cosine_similarity": cosine,
        "relative_euclidean_distance": euclid,
        "normalized_max_error": largest,
        **_CLASSES,
    }


_DEFAULT: dict[str, dict[str, float]] = {
    "float64": _default_bounds(0.999, 1e-7, 0.01),
    "float32": _default_bounds(0.999, 1e-3, 0.01),
    "float16": _default_bounds(0.999, 1e-2, 0.05),
    "bfloat16": _default_bounds(0.99, 5e-2, 0.1),
    **dict.fromkeys(_WHOLE, _EQUAL),
}

_ADVISED: dict[str, float] = {
    "cosine_similarity": 0.99,
    "relative_euclidean_distance": 0.05,
    "kl_divergence": 0.005,
    "root_mean_square_error": 1.0,
    "mean_relative_error": 1.0,
    **_CLASSES,
}

_ELEMENTWISE: dict[str, float] = {"allclose": 0, **_CLASSES}
# rtol = atol = 0: equality. The exact metric says it beside the count of differing elements.
_EQUAL_ELEMENTS: dict[str, float] = {"max_absolute_error": 0, "allclose": 0}

_BITS: dict[str, float] = {"bitwise_mismatch": 0}

PROFILES: dict[str, ProfileFact] = {
    "default": ProfileFact(1, "pytest-msdump, INTERFACE section 6", _DEFAULT),
    "strict": ProfileFact(
        1,
        "pytest-msdump, INTERFACE section 6; what it does not name is as in `default`",
        {
            **_DEFAULT,
            "float32": {**_DEFAULT["float32"], "cosine_similarity": 0.999999, "relative_euclidean_distance": 1e-4},
            "float16": {**_DEFAULT["float16"], "relative_euclidean_distance": 2e-3},
            "bfloat16": {**_DEFAULT["bfloat16"], "relative_euclidean_distance": 1e-2},
        },
        every_occurrence=True,
        min_coverage=0.5,
    ),
    "ascend": ProfileFact(
        1,
        "Ascend accuracy comparison tool, documented advice for its columns; it has none for integers",
        {**dict.fromkeys(_FLOATS, _ADVISED), **dict.fromkeys(_WHOLE, _EQUAL)},
    ),
    "torch": ProfileFact(
        1,
        "PyTorch, torch.testing.assert_close; tolerances in `facts.profiles`",
        {**dict.fromkeys(_FLOATS, _ELEMENTWISE), **dict.fromkeys(_WHOLE, _EQUAL_ELEMENTS)},
    ),
    "bitwise": ProfileFact(
        1,
        "pytest-msdump, INTERFACE section 6",
        dict.fromkeys((*_FLOATS, *_WHOLE), _BITS),
        dtype_equal=True,
        every_occurrence=True,
    ),
}


class Tolerance(NamedTuple):
    """Relative part, a share of |right|, and absolute part, in units of the data."""

    rtol: float
    atol: float


# Of elements by data type, as `torch.testing.assert_close` chooses them.
TOLERANCES: dict[str, Tolerance] = {
    "float64": Tolerance(1e-7, 1e-7),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
}

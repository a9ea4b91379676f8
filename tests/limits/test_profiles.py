"""The limits of every profile, written a second time by hand from the contract."""

from __future__ import annotations

import pytest
from limit_cases import bounds_of, limits_of

from pytest_msdump.core.limits.policy import Policy, Rule, profile_names

COSINE, EUCLID, PEAK = "cosine_similarity", "relative_euclidean_distance", "normalized_max_error"
CLASSES = {"nonfinite_mismatch": 0, "saturated_count": 0}
ADVISED = {
    COSINE: 0.99,
    EUCLID: 0.05,
    "kl_divergence": 0.005,
    "root_mean_square_error": 1.0,
    "mean_relative_error": 1.0,
    **CLASSES,
}
EXACT = {"max_absolute_error": 0}


def dual_benchmark(largest: float, mean: float) -> dict[str, float]:
    """msprobe's thresholds of one level."""
    return {
        "golden_normal_rmse_ratio": mean,
        "golden_max_relative_error_ratio": largest,
        "golden_mean_relative_error_ratio": mean,
        "golden_small_value_ratio": 2,
        **CLASSES,
    }


TABLE = [
    ("default", "float64", {EUCLID: 0.0000001, PEAK: 0.01, COSINE: 0.999, **CLASSES}),
    ("default", "float32", {EUCLID: 0.001, PEAK: 0.01, COSINE: 0.999, **CLASSES}),
    ("default", "float16", {EUCLID: 0.01, PEAK: 0.05, COSINE: 0.999, **CLASSES}),
    ("default", "bfloat16", {EUCLID: 0.05, PEAK: 0.1, COSINE: 0.99, **CLASSES}),
    ("default", "complex64", {EUCLID: 0.001, PEAK: 0.01, COSINE: 0.999, **CLASSES}),
    ("default", "complex128", {EUCLID: 0.0000001, PEAK: 0.01, COSINE: 0.999, **CLASSES}),
    ("default", "int32", EXACT),
    ("default", "uint64", EXACT),
    ("default", "bool", EXACT),
    ("strict", "float64", {EUCLID: 0.0000001, PEAK: 0.01, COSINE: 0.999, **CLASSES}),
    ("strict", "float32", {EUCLID: 0.0001, PEAK: 0.01, COSINE: 0.999999, **CLASSES}),
    ("strict", "float16", {EUCLID: 0.002, PEAK: 0.05, COSINE: 0.999, **CLASSES}),
    ("strict", "bfloat16", {EUCLID: 0.01, PEAK: 0.1, COSINE: 0.99, **CLASSES}),
    ("strict", "complex64", {EUCLID: 0.0001, PEAK: 0.01, COSINE: 0.999999, **CLASSES}),
    ("strict", "int8", EXACT),
    ("generation", "float64", {EUCLID: 0.0000001, PEAK: 0.01, COSINE: 0.999, **CLASSES}),
    ("generation", "float32", {EUCLID: 0.001, PEAK: 0.01, COSINE: 0.999, **CLASSES}),
    ("generation", "float16", {EUCLID: 0.01, PEAK: 0.05, COSINE: 0.999, **CLASSES}),
    ("generation", "bfloat16", {EUCLID: 0.05, PEAK: 0.1, COSINE: 0.99, **CLASSES}),
    ("generation", "int64", EXACT),
    ("ascend", "float64", ADVISED),
    ("ascend", "float32", ADVISED),
    ("ascend", "float16", ADVISED),
    ("ascend", "bfloat16", ADVISED),
    ("ascend", "int64", EXACT),
    ("ascend", "bool", EXACT),
    ("ascend_dual_l0", "float32", dual_benchmark(10, 2)),
    ("ascend_dual_l0", "float16", dual_benchmark(10, 2)),
    ("ascend_dual_l0", "int32", EXACT),
    ("ascend_dual_l1", "bfloat16", dual_benchmark(5, 1.5)),
    ("ascend_dual_l2", "float32", dual_benchmark(2, 1.2)),
    ("ascend_dual_l2", "bool", EXACT),
    ("torch", "float64", {"allclose": 0, **CLASSES}),
    ("torch", "float32", {"allclose": 0, **CLASSES}),
    ("torch", "float16", {"allclose": 0, **CLASSES}),
    ("torch", "bfloat16", {"allclose": 0, **CLASSES}),
    ("torch", "int32", {"allclose": 0, **EXACT}),
    ("torch", "bool", {"allclose": 0, **EXACT}),
    ("bitwise", "float64", {"bitwise_mismatch": 0}),
    ("bitwise", "float32", {"bitwise_mismatch": 0}),
    ("bitwise", "float16", {"bitwise_mismatch": 0}),
    ("bitwise", "bfloat16", {"bitwise_mismatch": 0}),
    ("bitwise", "complex64", {"bitwise_mismatch": 0}),
    ("bitwise", "int32", {"bitwise_mismatch": 0}),
    ("bitwise", "bool", {"bitwise_mismatch": 0}),
]


@pytest.mark.parametrize(
    ("profile", "dtype", "bounds"), TABLE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_profile_holds_what_the_contract_says(profile: str, dtype: str, bounds: dict[str, float]) -> None:
    limits = limits_of(Policy(profile=profile, has_golden=True), dtype)
    assert bounds_of(limits) == bounds
    assert {limit.level for limit in limits.limits} == {"fail"}


@pytest.mark.parametrize(
    ("dtype", "mean"), [("float64", 0.0001), ("float32", 0.0001), ("float16", 0.001), ("bfloat16", 0.01)]
)
def test_profile_generation_limits_the_kl_of_logits(dtype: str, mean: float) -> None:
    logits = Policy(profile="generation", rules=(Rule({}, marks={"logits": True}),))
    of_others = limits_of(Policy(profile="generation"), dtype)
    assert bounds_of(limits_of(logits, dtype)) == bounds_of(of_others) | {
        "softmax_kl": mean,
        "max_softmax_kl": 10 * mean,
    }


def test_only_bitwise_asks_for_equal_types() -> None:
    assert {name: limits_of(Policy(profile=name, has_golden=True)).dtype_equal for name in profile_names()} == {
        "default": False,
        "strict": False,
        "ascend": False,
        "torch": False,
        "generation": False,
        "bitwise": True,
        **dict.fromkeys(("ascend_dual_l0", "ascend_dual_l1", "ascend_dual_l2"), False),
    }


@pytest.mark.parametrize(
    ("left", "right", "judged_as"),
    [
        ("float64", "float32", "float32"),
        ("float32", "float16", "float16"),
        ("bfloat16", "float16", "bfloat16"),
        ("float32", "bfloat16", "bfloat16"),
        ("complex128", "float16", "float16"),
        ("complex64", "complex128", "float32"),
        ("int64", "float16", "float16"),
        ("bool", "float64", "float64"),
    ],
)
def test_the_coarser_side_chooses_the_row(left: str, right: str, judged_as: str) -> None:
    limits = limits_of(None, left, right)
    assert limits.judged_as == judged_as
    assert limits.limits == limits_of(None, judged_as).limits
    assert limits_of(None, right, left).limits == limits.limits

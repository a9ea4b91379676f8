"""Pairs and measurements written by hand, for the tests of judging."""

from __future__ import annotations

from typing import Any

from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.limits.judge import judge
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.limits.resolve import resolve
from pytest_msdump.core.model.comparison import Comparison, Limits, Measurement, Nonfinite, Verdict
from pytest_msdump.core.model.tensor import OpKey, TensorKey

# A pair that drifted a little and is within every limit of the profile `default`.
SLIGHT: dict[str, Any] = {
    "cosine_similarity": 0.99999999,
    "max_absolute_error": 1e-6,
    "mean_absolute_error": 1e-7,
    "root_mean_square_error": 2e-7,
    "max_relative_error": 1e-5,
    "mean_relative_error": 1e-6,
    "accumulated_relative_error": 1e-4,
    "relative_euclidean_distance": 1e-8,
    "kl_divergence": 1e-9,
    "standard_deviation": (0.0, 1.0, 0.0, 1.0),
    "normalized_max_error": 1e-6,
    "nonfinite_mismatch": 0,
    "saturated_count": 0,
    "allclose": 0,
    "bitwise_mismatch": 3,
}

LEFT = TensorKey(
    OpKey("Default_conv2-Conv2d_BiasAdd-op0", op_type="BiasAdd", true_name="Default/conv2-Conv2d/BiasAdd-op0"),
    "output",
    0,
)
RIGHT = TensorKey(OpKey("conv2"), "output", 0)


def measured(
    *,
    undefined: dict[str, str] | None = None,
    skipped: tuple[str, ...] = (),
    where: dict[str, tuple[int, ...]] | None = None,
    elements: int = 100,
    differing: int = 7,
    **fields: Any,
) -> Comparison:
    """A comparison: `SLIGHT`, but for the metrics and counts that are named."""
    values = {**SLIGHT, **{name: fields.pop(name) for name in list(fields) if name in METRICS}}
    measurements = {name: Measurement(name, value, where=(where or {}).get(name)) for name, value in values.items()}
    for name, reason in (undefined or {}).items():
        measurements[name] = Measurement(name, undefined=reason)
    for name in skipped:
        measurements[name] = Measurement(name, applies=False)
    counts: dict[str, Any] = {"finite": elements, "right_zero_mismatch": 0, "nonfinite": Nonfinite(), **fields}
    return Comparison(elements=elements, differing=differing, measurements=measurements, **counts)


def limits_of(
    policy: Policy | None = None, left_dtype: str = "float32", right_dtype: str | None = None, **options: Any
) -> Limits:
    """The limits of the pair LEFT, RIGHT."""
    keys: dict[str, Any] = {"left": LEFT, "right": RIGHT, **options}
    return resolve(policy or Policy(), left_dtype=left_dtype, right_dtype=right_dtype or left_dtype, **keys)


def verdict_of(
    comparison: Comparison,
    policy: Policy | None = None,
    left_dtype: str = "float32",
    right_dtype: str | None = None,
    **options: Any,
) -> Verdict:
    """The verdict on the pair LEFT, RIGHT."""
    right_dtype = right_dtype or left_dtype
    limits = limits_of(policy, left_dtype, right_dtype, **options)
    return judge(comparison, limits, left_dtype=left_dtype, right_dtype=right_dtype)[0]


def bounds_of(limits: Limits, level: str = "fail") -> dict[str, float]:
    """Metric → bound, of one level."""
    return {limit.metric: limit.bound for limit in limits.limits if limit.level == level}


def rules_of(limits: Limits) -> dict[str, str]:
    """Metric → who set its failing limit."""
    return {limit.metric: limit.rule for limit in limits.limits if limit.level == "fail"}


def told(verdict: Verdict, outcome: str) -> list[str]:
    """The sentences of one outcome."""
    return [finding.sentence for finding in verdict.findings if finding.outcome == outcome]

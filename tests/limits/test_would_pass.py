"""Bounds that would have let a pair pass do let it pass, and are as tight as a few digits allow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limit_cases import measured, verdict_of

from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.limits.judge import passing_bound
from pytest_msdump.core.limits.policy import Policy

CURABLE = [
    name
    for name, fact in METRICS.items()
    if fact.direction == "low" and not fact.of and name not in ("nonfinite_mismatch", "bitwise_mismatch")
]
ERRORS = st.floats(min_value=1e-300, max_value=1e300)
COUNTS = st.integers(min_value=1, max_value=2**70)
COSINES = st.one_of(
    st.floats(min_value=-0.98, max_value=0.9989),
    st.floats(min_value=1e-16, max_value=1e-3).map(lambda gap: 0.999 - gap),
)


@settings(deadline=None, max_examples=200)
@given(values=st.dictionaries(st.sampled_from(CURABLE), st.one_of(ERRORS, COUNTS)), cosine=COSINES)
def test_judging_again_with_the_bounds_that_would_pass_passes(values: dict[str, float | int], cosine: float) -> None:
    nothing_allowed = Policy(thresholds=dict.fromkeys(values, 0.0), has_golden=True)
    comparison = measured(cosine_similarity=cosine, **values)
    verdict = verdict_of(comparison, nothing_allowed)
    assert verdict.outcome == "fail"
    assert verdict.would_pass.keys() == {"cosine_similarity", *values}
    again = verdict_of(comparison, replace(nothing_allowed, marker=verdict.would_pass))
    assert again.outcome == "pass"
    # The marker is a permission, and the note names it.
    assert {finding.message.code for finding in again.findings} <= {"permitted_looser", "permitted"}


@pytest.mark.parametrize(
    ("metric", "value", "bound"),
    [
        ("max_relative_error", 0.41012, 0.411),
        ("max_relative_error", 0.25, 0.25),
        ("max_relative_error", 0.1, 0.1),
        ("root_mean_square_error", 1.000001, 1.01),
        ("max_absolute_error", 5e-324, 5e-324),
        ("max_absolute_error", 37, 37),
        ("max_absolute_error", 999, 999),
        ("max_absolute_error", 123456, 124000),
        ("max_absolute_error", 2**63 + 1, 9230000000000000000),
        ("saturated_count", 1001, 1010),
        ("cosine_similarity", 0.98761234, 0.9876),
        ("cosine_similarity", 0.9999985, 0.9999985),
        ("cosine_similarity", 0.9989999999, 0.99899),
        ("cosine_similarity", 0.3941, 0.394),
        ("cosine_similarity", 0.0, 0.0),
        ("cosine_similarity", -0.2, -0.2),
        ("cosine_similarity", -0.2049, -0.21),
        ("cosine_similarity", -1.0, None),
        ("cosine_similarity", -0.9999, None),
        ("max_absolute_error", math.inf, None),
        ("max_absolute_error", math.nan, None),
        ("max_absolute_error", 1.7976931348623157e308, None),
    ],
)
def test_rounding_goes_to_the_lenient_side(metric: str, value: float | int, bound: float | int | None) -> None:
    assert passing_bound(metric, value) == bound
    assert isinstance(passing_bound(metric, value), int) == isinstance(bound, int)

"""What limits make of numbers."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest
from limit_cases import SLIGHT, limits_of, measured, told, verdict_of

from pytest_msdump.core.facts.metrics import METRICS, RELATIVE_METRICS
from pytest_msdump.core.limits.judge import judge
from pytest_msdump.core.limits.policy import KnownDrift, Policy, Rule
from pytest_msdump.core.model.comparison import Comparison, Limit, Limits, Nonfinite
from pytest_msdump.core.model.record import Check

COSINE, EUCLID, MAX_REL = "cosine_similarity", "relative_euclidean_distance", "max_relative_error"
LIMITED = [name for name, fact in METRICS.items() if fact.direction != "none"]
TODAY = datetime.date(2026, 9, 1)
DRIFT = 'known drift "exp approximation" until 2027-01-31'


def drifting(**bounds: float) -> Policy:
    until = datetime.date(2027, 1, 31)
    return Policy(known_drift=(KnownDrift("*", "exp approximation", until, {k: (v, None) for k, v in bounds.items()}),))


def checks_of(comparison: Comparison, limits: Limits) -> tuple[Check, ...]:
    return judge(comparison, limits, left_dtype="float32", right_dtype="float32")[1]


def outcomes(comparison: Comparison, limits: Limits) -> dict[str, str]:
    return {row.metric: row.outcome for row in checks_of(comparison, limits)}


@pytest.mark.parametrize("metric", LIMITED)
def test_a_value_on_its_limit_passes_and_the_next_one_beyond_fails(metric: str) -> None:
    bound, worse = 0.25, 0.0 if METRICS[metric].direction == "high" else 1.0
    policy = Policy(rules=(Rule({metric: (bound, None)}),), has_golden=True)
    on, beyond, within = bound, math.nextafter(bound, worse), math.nextafter(bound, 1.0 - worse)
    assert verdict_of(measured(**{metric: on}), policy).outcome == "pass"
    assert verdict_of(measured(**{metric: within}), policy).outcome == "pass"
    verdict = verdict_of(measured(**{metric: beyond}), policy)
    assert verdict.outcome == "fail"
    assert [(f.metric, f.value, f.limit, f.rule) for f in verdict.findings] == [
        (metric, beyond, bound, 'rule match="*"')
    ]


def test_exact_integers_are_not_rounded_to_meet_a_limit() -> None:
    policy = Policy(rules=(Rule({"max_abs": (2**53, None)}),))
    assert verdict_of(measured(max_absolute_error=2**53), policy, "int64").outcome == "pass"
    assert verdict_of(measured(max_absolute_error=2**53 + 1), policy, "int64").outcome == "fail"


def test_nan_is_within_no_limit() -> None:
    verdict = verdict_of(measured(cosine_similarity=math.nan, relative_euclidean_distance=math.nan))
    assert verdict.outcome == "fail"
    assert [finding.metric for finding in verdict.findings] == [COSINE, EUCLID]
    assert verdict.would_pass == {}


def test_the_verdict_is_the_worst_of_all_findings_and_failures_are_told_first() -> None:
    policy = Policy(rules=(Rule({"kld": (None, 0.001), "rmse": (1.0, None)}),))
    assert verdict_of(measured(kl_divergence=0.5), policy).outcome == "warn"
    assert verdict_of(measured(kl_divergence=0.5, cosine_similarity=0.1), policy).outcome == "fail"
    all_three = measured(kl_divergence=0.5, relative_euclidean_distance=1.0, undefined={COSINE: "of something"})
    verdict = verdict_of(all_three, policy, "float32", "float16")
    assert verdict.outcome == "undefined"
    assert [finding.outcome for finding in verdict.findings] == ["fail", "undefined", "warn", "note"]


# --- Undefined ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["fail", "warn"])
@pytest.mark.parametrize("metric", LIMITED)
def test_an_undefined_metric_with_a_limit_is_undefined(metric: str, level: str) -> None:
    bounds = (0.5, None) if level == "fail" else (None, 0.5)
    policy = Policy(rules=(Rule({metric: bounds}, label="R"),), has_golden=True)
    verdict = verdict_of(measured(undefined={metric: "all elements of the left side are 0"}), policy)
    assert (verdict.outcome, verdict.would_pass) == ("undefined", {})
    assert told(verdict, "undefined") == [f"{metric} is undefined, because all elements of the left side are 0 (R)"]


def test_a_limited_metric_that_was_not_measured_is_undefined() -> None:
    comparison = measured()
    kept = {name: one for name, one in comparison.measurements.items() if name != COSINE}
    bare = Comparison(100, 100, 7, 0, kept, Nonfinite())
    assert told(verdict_of(bare), "undefined") == [
        "cosine_similarity is undefined, because it was not measured (profile default (float32))"
    ]


@pytest.mark.parametrize("elements", [1, 4])
def test_an_equal_pair_meets_every_limit_even_of_undefined_metrics(elements: int) -> None:
    undefined = dict.fromkeys((COSINE, EUCLID, "normalized_max_error", "kl_divergence"), "all elements are 0")
    for profile in ("default", "strict", "ascend", "torch", "bitwise"):
        comparison = measured(elements=elements, differing=0, undefined=undefined, bitwise_mismatch=0)
        verdict = verdict_of(comparison, Policy(profile=profile))
        assert (verdict.outcome, verdict.findings) == ("pass", ())
        assert "undefined" not in outcomes(comparison, limits_of(Policy(profile=profile))).values()


def test_one_element_that_differs_does_not_hide_behind_undefined_metrics() -> None:
    assert verdict_of(measured(differing=1, undefined={COSINE: "all elements are 0"})).outcome == "undefined"


def test_cosine_of_one_element_is_skipped_and_that_is_said() -> None:
    comparison = measured(elements=1, differing=1, skipped=(COSINE,))
    verdict = verdict_of(comparison)
    assert verdict.outcome == "pass"
    assert told(verdict, "note") == [
        "cosine_similarity does not apply to one-element tensors; its limit is skipped (profile default (float32))"
    ]
    assert outcomes(comparison, limits_of())[COSINE] == "skipped"
    wrong = measured(elements=1, differing=1, skipped=(COSINE,), relative_euclidean_distance=0.5)
    assert verdict_of(wrong).outcome == "fail"


def test_ratios_of_nothing_but_zeros_are_skipped_and_that_is_said() -> None:
    ratios = ("cosine_similarity", "relative_euclidean_distance", "normalized_max_error")
    comparison = measured(elements=4, differing=1, near_zero=1, skipped=ratios)
    verdict = verdict_of(comparison)
    assert verdict.outcome == "pass"
    assert told(verdict, "note") == [
        f"{metric} does not apply to values that are all 0 or next to it; its limit is skipped "
        "(profile default (float32))"
        for metric in ratios
    ]
    assert (
        verdict_of(
            measured(elements=4, differing=1, near_zero=1, bitwise_mismatch=1), Policy(profile="bitwise")
        ).outcome
        == "fail"
    )


def test_where_every_limit_is_skipped_nothing_passes() -> None:
    only_cosine = Limits(limits=tuple(limit for limit in limits_of().limits if limit.metric == COSINE))
    comparison = measured(elements=1, differing=1, skipped=(COSINE,))
    for limits in (only_cosine, Limits()):
        verdict, _ = judge(comparison, limits, left_dtype="float32", right_dtype="float32")
        assert verdict.outcome == "undefined"
        assert "no limit applies" in told(verdict, "undefined")[0]


@pytest.mark.parametrize(
    ("skipped", "own", "expected"),
    [
        ((COSINE, EUCLID), {COSINE: 0.9, EUCLID: 0.1, "nonfinite_mismatch": 0, "saturated_count": 0}, "undefined"),
        ((COSINE,), {COSINE: 0.9, EUCLID: 0.1, "nonfinite_mismatch": 0}, "pass"),
        # Limits on NaN and overflow alone are asked for by themselves.
        ((), {"nonfinite_mismatch": 0}, "pass"),
    ],
)
def test_limits_on_nan_and_overflow_alone_say_nothing_of_accuracy(skipped, own, expected) -> None:
    limits = Limits(limits=tuple(Limit(metric, bound, "R") for metric, bound in own.items()))
    options = {"left_dtype": "float32", "right_dtype": "float32"}
    assert judge(measured(elements=1, differing=1, skipped=skipped), limits, **options)[0].outcome == expected
    assert judge(measured(elements=1, differing=0, skipped=skipped), limits, **options)[0].outcome == "pass"
    moved = measured(elements=1, differing=1, skipped=skipped, nonfinite_mismatch=1)
    assert judge(moved, limits, **options)[0].outcome == "fail"


def test_empty_tensors_are_a_warning_because_nothing_was_compared() -> None:
    undefined = dict.fromkeys(SLIGHT, "there are no elements")
    comparison = measured(elements=0, differing=0, undefined=undefined)
    for profile in ("default", "ascend", "torch", "bitwise"):
        verdict = verdict_of(comparison, Policy(profile=profile))
        assert verdict.outcome == "warn"
        assert told(verdict, "warn") == ["nothing was compared: both sides are empty"]
        assert len(verdict.findings) == 1


# --- Relative errors and zeros in the reference ------------------------------------------------------------------


@pytest.mark.parametrize("metric", sorted(RELATIVE_METRICS))
def test_a_relative_limit_fails_where_the_reference_is_zero(metric: str) -> None:
    policy = Policy(rules=(Rule({metric: (0.5, None)}, label="R"),))
    verdict = verdict_of(measured(right_zero_mismatch=3, **{metric: 0.0}), policy)
    assert (verdict.outcome, verdict.would_pass) == ("fail", {})
    assert told(verdict, "fail") == [
        f"{metric} 0 leaves out 3 elements where the right is 0 and the left is not, so its limit 0.5 is not met (R)"
    ]
    assert outcomes(measured(right_zero_mismatch=3), limits_of(policy))[metric] == "fail"
    assert verdict_of(measured(right_zero_mismatch=0, **{metric: 0.0}), policy).outcome == "pass"


# --- NaN, Inf and overflow ---------------------------------------------------------------------------------------


def test_differing_nan_and_inf_are_counted_by_class_and_placed() -> None:
    nonfinite = Nonfinite(nan_left=3, inf_left=1, inf_right=2, mismatch=5, first_mismatch=(0, 4))
    verdict = verdict_of(measured(nonfinite=nonfinite, nonfinite_mismatch=5, finite=95))
    assert (verdict.outcome, verdict.would_pass) == ("fail", {})
    assert told(verdict, "fail") == [
        (
            "nonfinite_mismatch 5 is above 0 (profile default (float32)): "
            "NaN left 3, right 0; Inf left 1, right 2; first at [0, 4]"
        )
    ]


def test_matched_nan_passes_unless_it_is_forbidden() -> None:
    nonfinite = Nonfinite(nan_both=2, inf_both=1, first_nonfinite=(7,))
    for differing in (0, 7):
        comparison = measured(differing=differing, nonfinite=nonfinite, finite=97, bitwise_mismatch=0)
        for profile in ("default", "bitwise"):
            assert verdict_of(comparison, Policy(profile=profile)).outcome == "pass"
            verdict = verdict_of(comparison, Policy(profile=profile, nan="forbid", nan_rule="msdump.toml"))
            assert verdict.outcome == "fail"
            assert told(verdict, "fail") == [
                (
                    "NaN and Inf are forbidden (msdump.toml) but occur at 3 of 100 positions: NaN matched 2, "
                    "else left 0, right 0; Inf matched 1, else left 0, right 0; first at [7]"
                )
            ]
    assert verdict_of(measured(), Policy(nan="forbid")).outcome == "pass"


# --- Data types --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "right"), [("int32", "int64"), ("uint8", "int8"), ("bool", "int32")])
def test_integer_types_may_differ_only_while_all_values_are_equal(left: str, right: str) -> None:
    lenient = Policy(rules=(Rule({"max_abs": (1000, None)}),))
    assert verdict_of(measured(max_absolute_error=1), lenient, left, left).outcome == "pass"
    verdict = verdict_of(measured(max_absolute_error=1), lenient, left, right)
    assert (verdict.outcome, verdict.would_pass) == ("fail", {})
    assert told(verdict, "fail") == [
        f"dtypes differ: left {left}, right {right}; accepted only if all values are equal, and 7 are not"
    ]
    assert verdict_of(measured(max_absolute_error=1), None, left, left).would_pass == {"max_absolute_error": 1}
    assert verdict_of(measured(max_absolute_error=1), None, left, right).would_pass == {}
    equal = verdict_of(measured(differing=0, max_absolute_error=0), lenient, left, right)
    assert equal.outcome == "pass"
    assert told(equal, "note") == [f"dtypes differ: left {left}, right {right}; all values are equal"]


@pytest.mark.parametrize("differing", [0, 7])
def test_bitwise_asks_for_equal_types_and_says_it_once(differing: int) -> None:
    comparison = measured(differing=differing, undefined={"bitwise_mismatch": "dtypes differ"})
    verdict = verdict_of(comparison, Policy(profile="bitwise"), "float32", "bfloat16")
    assert (verdict.outcome, len(verdict.findings), verdict.would_pass) == ("fail", 1, {})
    assert told(verdict, "fail") == ["dtypes differ: left float32, right bfloat16, but must be equal (profile bitwise)"]


# --- Known drift -------------------------------------------------------------------------------------------------


def test_a_known_drift_does_not_show_while_the_normal_limits_hold() -> None:
    verdict = verdict_of(measured(cosine_similarity=0.9995), drifting(cosine=0.9), today=TODAY)
    assert (verdict.outcome, verdict.findings) == ("pass", ())


def test_a_known_drift_of_a_metric_without_another_limit_warns() -> None:
    verdict = verdict_of(measured(max_relative_error=3e-3), drifting(max_rel=4e-3), today=TODAY)
    assert told(verdict, "warn") == [
        f"max_relative_error 0.003 is accepted up to 0.004 by {DRIFT}; it has no other limit"
    ]
    assert verdict.outcome == "warn"
    assert verdict_of(measured(max_relative_error=5e-3), drifting(max_rel=4e-3), today=TODAY).outcome == "fail"
    equal = measured(differing=0, max_relative_error=0.0)
    assert verdict_of(equal, drifting(max_rel=4e-3), today=TODAY).outcome == "pass"


def test_a_known_drift_makes_only_its_own_metrics_milder() -> None:
    verdict = verdict_of(
        measured(cosine_similarity=0.95, relative_euclidean_distance=0.5), drifting(cosine=0.9), today=TODAY
    )
    assert verdict.outcome == "fail"
    assert [finding.metric for finding in verdict.findings] == [EUCLID, COSINE]


def test_an_undefined_metric_is_not_covered_by_a_known_drift() -> None:
    comparison = measured(undefined={COSINE: "all elements of the left side are 0"})
    assert verdict_of(comparison, drifting(cosine=0.9), today=TODAY).outcome == "undefined"


def test_a_warning_level_still_speaks_under_a_known_drift() -> None:
    policy = Policy(rules=(Rule({COSINE: (0.99, 0.999)}, label="R"),), known_drift=drifting(cosine=0.9).known_drift)
    verdict = verdict_of(measured(cosine_similarity=0.995), policy, today=TODAY)
    assert told(verdict, "warn") == [
        f"cosine_similarity 0.995 is below warning level 0.999 (R); accepted down to 0.9 by {DRIFT}"
    ]


def test_an_expired_known_drift_fails_and_is_mentioned() -> None:
    day = datetime.date(2027, 2, 1)
    verdict = verdict_of(measured(cosine_similarity=0.95), drifting(cosine=0.9), today=day)
    assert verdict.outcome == "fail"
    assert told(verdict, "note") == ['known drift "exp approximation" expired on 2027-01-31: the normal limits apply']


# --- The table ---------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_every_limit_and_no_other() -> None:
    policy = Policy(rules=(Rule({MAX_REL: (1.0, 1e-6), "kld": (1.0, None)}, label="R"),))
    comparison = measured(cosine_similarity=0.5, undefined={EUCLID: "why", "accumulated_relative_error": "why"})
    table = checks_of(comparison, limits_of(policy))
    limited = [
        COSINE,
        EUCLID,
        "kl_divergence",
        MAX_REL,
        "normalized_max_error",
        "nonfinite_mismatch",
        "saturated_count",
    ]
    assert [row.metric for row in table] == limited
    found: dict[str, Any] = {row.metric: tuple(row)[1:6] for row in table}
    profile = "profile default (float32)"
    assert found[COSINE] == (0.5, 0.999, "fail", profile, "fail")
    assert found[EUCLID] == (None, 1e-3, "fail", profile, "undefined")
    assert found[MAX_REL] == (1e-5, 1e-6, "warn", "R", "warn")
    assert found["kl_divergence"] == (1e-9, 1.0, "fail", "R", "ok")

"""What judging makes of all that comes beside the numbers: remarks on files, the device's overflows, golden."""

from __future__ import annotations

from typing import Any

import pytest
from limit_cases import limits_of, measured

from pytest_msdump.core.limits.judge import judge
from pytest_msdump.core.limits.policy import Policy, Rule
from pytest_msdump.core.model.comparison import Comparison, Dominated, GoldenErrors, Measurement, ThreeWay, Verdict
from pytest_msdump.core.text import Message

RATIO, EUCLID = "golden_rmse_ratio", "relative_euclidean_distance"
GRAPH = Message("not_as_in_graph", {"side": "left", "graph": "ir", "said": "float16", "held": "float32"})
ROUNDING = Message(
    "zero_in_exact_arithmetic", {"terms": 2, "left": 1e-9, "right": 1e-9, "floor": 1e-8, "dtype": "float32"}
)
GOLDEN = GoldenErrors(100, 2e-3, 2e-3, 0.1, 0.01, 0.0, 0.0)


def judged(comparison: Comparison, policy: Policy | None = None, **beside: Any) -> Verdict:
    limits = limits_of(policy)
    return judge(comparison, limits, left_dtype="float32", right_dtype="float32", **beside)[0]


def golden_limit(bound: float) -> Policy:
    return Policy(rules=(Rule({RATIO: (bound, None)}),), has_golden=True)


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {finding.message.code: finding.outcome for finding in verdict.findings}


@pytest.mark.parametrize("code", ["random_masks_differ", "random_masks_swapped", "random_masks_kept_differ"])
def test_masks_that_do_not_agree_fail_though_every_limit_holds(code: str) -> None:
    verdict = judged(measured(), remarks=[Message(code, {"left": 0.1, "right": 0.5})])
    assert (verdict.outcome, outcomes(verdict)) == ("fail", {code: "fail"})


def test_what_the_device_says_of_the_run_under_test_fails_unless_the_sides_are_equal() -> None:
    assert outcomes(judged(measured(), overflows=["AI core"])) == {"device_overflow": "fail"}
    assert outcomes(judged(measured(differing=0), overflows=["AI core"])) == {"device_overflow": "warn"}


def test_where_bits_count_a_remark_on_a_file_fails_and_a_graph_that_errs_is_a_note() -> None:
    trailing = Message("trailing_bytes", {"side": "left", "bytes": 3})
    equal = measured(differing=0, bitwise_mismatch=0)
    verdict = judged(equal, Policy(profile="bitwise"), remarks=[trailing, GRAPH])
    assert outcomes(verdict) == {"file_not_accepted": "fail", "not_as_in_graph": "note"}
    # No other bound would let such a file pass.
    broken = measured(bitwise_mismatch=3)
    assert judged(broken, Policy(profile="bitwise"), remarks=[trailing]).would_pass == {}
    assert judged(broken, Policy(profile="bitwise"), remarks=[GRAPH]).would_pass == {"bitwise_mismatch": 3}


def test_a_limit_of_0_asks_for_equal_values_even_of_those_that_are_rounding_alone() -> None:
    far = measured(relative_euclidean_distance=0.5)
    excused = judged(far, Policy(rules=(Rule({EUCLID: (0.1, None)}),)), remarks=[ROUNDING])
    assert (excused.outcome, excused.would_pass) == ("warn", {})
    assert outcomes(excused)["zero_in_exact_arithmetic"] == "warn"
    assert judged(far, Policy(rules=(Rule({EUCLID: (0.0, None)}),)), remarks=[ROUNDING]).outcome == "fail"
    assert outcomes(judged(measured(), remarks=[ROUNDING])) == {"zero_in_exact_arithmetic": "note"}


@pytest.mark.parametrize(("ratio", "expected"), [(3.0, "fail"), (1.0, "pass")])
def test_two_equal_sides_may_both_be_far_from_golden(ratio: float, expected: str) -> None:
    both = measured(differing=0, golden_rmse_ratio=ratio, three_way=ThreeWay("golden", "right", GOLDEN, GOLDEN))
    assert judged(both, golden_limit(2.0)).outcome == expected


def test_of_a_tensor_with_a_few_large_elements_the_others_are_judged_and_a_note_says_so() -> None:
    others = {EUCLID: Measurement(EUCLID, 0.5)}
    verdict = judged(measured(dominated=(Dominated("dominated", 1, -1e9, (1e8, 1e8), others),)))
    assert (verdict.outcome, verdict.findings[0].value) == ("fail", 0.5)
    assert verdict.findings[0].message.parameters["detail"] == Message("detail_others", {"n": 99, "near": -1e9})
    assert verdict.findings[-1].message == Message("dominated", {"n": 1, "elements": 100, "near": -1e9})


def test_further_occurrences_without_a_partner_warn_and_fail_where_each_counts() -> None:
    policies = {"warn": Policy(), "fail": Policy(profile="bitwise")}
    for expected, policy in policies.items():
        limits = limits_of(policy, uncompared=(0, 2))
        equal = measured(differing=0, bitwise_mismatch=0)
        verdict = judge(equal, limits, left_dtype="float32", right_dtype="float32")[0]
        assert (verdict.outcome, outcomes(verdict)) == (expected, {"uncompared_occurrences": expected})


def test_an_overflow_of_the_device_fails_only_where_none_may_be() -> None:
    one_may_be = Policy(rules=(Rule({"saturated_count": (1, None)}),))
    assert outcomes(judged(measured(), one_may_be, overflows=["AI core"])) == {"device_overflow": "warn"}


def test_types_that_are_only_noted_leave_the_bound_that_would_pass() -> None:
    far = measured(relative_euclidean_distance=0.5)
    limits = limits_of(Policy(rules=(Rule({EUCLID: (0.1, None)}),)), "float32", "float16")
    assert judge(far, limits, left_dtype="float32", right_dtype="float16")[0].would_pass == {EUCLID: 0.5}


def test_a_drift_can_be_accepted_where_numbers_beyond_their_limits_are_all_that_fails() -> None:
    policy = Policy(rules=(Rule({EUCLID: (0.1, None)}),))
    far = measured(relative_euclidean_distance=0.5)
    assert judged(far, policy).accepted_bounds == {EUCLID: 0.5}
    masked = judged(far, policy, remarks=[Message("random_masks_differ", {"left": 0.1, "right": 0.5})])
    assert (masked.would_pass, masked.accepted_bounds) == ({EUCLID: 0.5}, {})

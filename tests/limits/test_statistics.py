"""Statistics in the terms of metrics: never more than tensors would show, never less than statistics can."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_msdump.capabilities.statistics.distance import distance
from pytest_msdump.capabilities.statistics.limits import judge_statistics
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.limits.resolve import resolve
from pytest_msdump.core.model.comparison import Limit, Limits
from pytest_msdump.core.model.tensor import OpKey, Statistics, TensorKey

KEY = TensorKey(OpKey("conv"), "output", 0)
VALUES = st.floats(-1e3, 1e3, width=32).filter(lambda value: abs(value) > 1e-3)
PAIRS = arrays("f8", st.tuples(st.just(2), st.integers(1, 12)), elements=VALUES)


def statistics(array, *, digits=None, only=None, **more):
    """What a table has of an array, exact unless `digits` says how it is printed."""
    values = np.asarray(array, "f8")
    found = {
        "maximum": values.max(),
        "minimum": values.min(),
        "mean": values.mean(),
        "l2_norm": np.sqrt(np.sum(values * values)),
    }
    found = {name: float(value) for name, value in found.items() if only is None or name in only}
    if digits is not None:
        found = {name: float(f"{value:.{digits}g}") for name, value in found.items()}
    return Statistics({**found, **more}, digits=digits)


def exact_metrics(left, right):
    apart = np.abs(left - right)
    return {
        "max_absolute_error": apart.max(),
        "mean_absolute_error": apart.mean(),
        "root_mean_square_error": np.sqrt(np.mean(apart**2)),
        "normalized_max_error": apart.max() / np.abs(right).max(),
        "max_relative_error": np.max(apart / np.abs(right)),
        "accumulated_relative_error": apart.sum() / np.abs(right).sum(),
        "relative_euclidean_distance": np.linalg.norm(left - right) / np.linalg.norm(right),
        "allclose": np.count_nonzero(apart > 1e-3 + 1e-2 * np.abs(right)),
    }


def judged(left, right, *, dtype="float32", elements=100, profile="default", **options):
    policy = options.pop("policy", Policy(profile=profile))
    limits = resolve(policy, left=KEY, right=KEY, left_dtype=dtype, right_dtype=dtype)
    options = {"left_dtype": dtype, "right_dtype": dtype, "elements": elements, "unseen": ("left",)} | options
    return judge_statistics(left, right, limits, **options)


def outcome(left, right, **options):
    return judged(left, right, **options)[0].outcome


@given(PAIRS, st.sampled_from([None, 6]))
@settings(max_examples=300, deadline=None)
def test_no_metric_is_said_to_be_larger_than_tensors_show(pair, digits):
    left, right = pair
    found = distance(
        statistics(left, digits=digits),
        statistics(right),
        left_dtype="float64",
        right_dtype="float64",
        elements=right.size,
        limited=frozenset({"normalized_max_error"}),
        tolerance=(1e-2, 1e-3),
    )
    exact = exact_metrics(left, right)
    assert exact.keys() <= found.at_least.keys()
    for metric, value in exact.items():
        assert found.at_least[metric] <= value * (1 + 1e-9) + 1e-12, metric


@given(PAIRS)
@settings(max_examples=300, deadline=None)
def test_a_sum_of_magnitudes_says_no_more_than_tensors_show(pair):
    left, right = pair
    sides = [Statistics({"l1_norm": float(np.abs(side).sum())}, digits=None) for side in pair]
    types = {"left_dtype": "float64", "right_dtype": "float64", "elements": right.size}
    found = distance(*sides, limited=frozenset(), tolerance=(1e-2, 1e-3), **types).at_least
    exact = exact_metrics(left, right)
    # Of its share in all magnitudes the distance is an estimate.
    exact["relative_euclidean_distance"] = np.abs(left - right).sum() / np.abs(right).sum()
    # The largest element is not known, so nothing is relative to it.
    assert exact.keys() - found.keys() == {"normalized_max_error"}
    for metric in exact.keys() & found.keys():
        assert found[metric] <= exact[metric] * (1 + 1e-9) + 1e-12, metric


@pytest.mark.parametrize(("dtype", "just"), [("float32", 1e-3), ("float16", 1e-2), ("bfloat16", 5e-2)])
def test_a_sum_of_magnitudes_is_judged_by_the_limit_of_the_distance(dtype, just):
    right = Statistics({"l1_norm": 3.0}, digits=None)
    for share, expected in ((0, "pass"), (0.9, "pass"), (1.1, "fail")):
        left = Statistics({"l1_norm": 3.0 * (1 + share * just)}, digits=None)
        assert outcome(left, right, dtype=dtype) == expected
    for value, expected in ((6.0, "fail"), (0.0, "fail"), (math.nan, "fail"), (math.inf, "fail")):
        other = Statistics({"l1_norm": value}, digits=None)
        assert outcome(other, right, dtype=dtype) == outcome(right, other, dtype=dtype) == expected


@given(arrays("f8", st.integers(1, 20), elements=st.floats(-1e30, 1e30)), st.sampled_from([6, 7, 9, 17]))
@settings(max_examples=200, deadline=None)
def test_printing_alone_makes_no_difference(array, digits):
    printed, exact = statistics(array, digits=digits), statistics(array)
    for pair in ((printed, exact), (exact, printed), (printed, printed)):
        found = distance(
            *pair, left_dtype="float32", right_dtype="float32", elements=array.size, limited=frozenset({"allclose"})
        )
        assert not any(found.at_least.values())


@pytest.mark.parametrize(("times", "passes"), [(1 + 4e-6, True), (1 + 3e-5, False)])
def test_what_printing_cannot_explain_is_a_difference(times, passes):
    base = {"maximum": 1.23456, "l2_norm": 4.0}
    moved = {name: float(f"{value * times:.6g}") for name, value in base.items()}
    assert (outcome(Statistics(moved), Statistics(base), profile="torch") == "pass") is passes


SCALED = {"maximum": 1.0, "minimum": -0.5, "mean": 0.1, "l2_norm": 3.0}


@pytest.mark.parametrize(("dtype", "just"), [("float32", 1e-3), ("float16", 1e-2), ("bfloat16", 5e-2)])
@pytest.mark.parametrize("columns", [("maximum", "minimum", "l2_norm"), ("maximum", "minimum", "mean")])
def test_a_scale_is_judged_by_the_limit_of_the_distance_with_or_without_a_norm(dtype, just, columns):
    right = Statistics({name: SCALED[name] for name in columns}, digits=None)
    for share, expected in ((0.9, "pass"), (1.1, "fail")):
        left = Statistics({name: value * (1 + share * just) for name, value in right.values.items()}, digits=None)
        assert outcome(left, right, dtype=dtype) == expected


@pytest.mark.parametrize("profile", ["default", "strict", "ascend", "torch", "bitwise"])
@pytest.mark.parametrize(
    "change",
    [
        {"maximum": -1.0},
        {"minimum": 0.5},
        {"mean": -0.1},
        {"l2_norm": math.nan},
        {"l2_norm": math.inf},
        {"maximum": math.nan},
        {"l2_norm": 6.0},
        {"maximum": 2.0},
    ],
)
def test_a_sign_a_class_and_a_size_pass_no_profile(change, profile):
    left = Statistics({**SCALED, **change})
    assert outcome(left, Statistics(SCALED), profile=profile) in ("fail", "undefined")
    assert outcome(Statistics(SCALED), left, profile=profile) in ("fail", "undefined")


@pytest.mark.parametrize(("value", "expected"), [(0.02, "fail"), (0.004, "pass")])
def test_a_sign_changes_by_noise_only_near_zero(value, expected):
    right = {**SCALED, "mean": value, "l2_norm": 10.0}
    assert outcome(Statistics({**right, "mean": -value}), Statistics(right), dtype="bfloat16") == expected


COUNTS = {"negative_count": 40, "positive_count": 50, "zero_count": 10, "count": 100}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "pass"),
        ({"negative_count": 41, "positive_count": 49}, "pass"),
        ({"negative_count": 50, "positive_count": 40}, "fail"),
        ({"negative_count": 40, "positive_count": 40, "zero_count": 20}, "warn"),
        ({"negative_count": 38, "positive_count": 50, "zero_count": 12}, "warn"),
    ],
)
def test_elements_that_changed_their_sign_are_counted(change, expected):
    assert outcome(Statistics(SCALED | COUNTS | change), Statistics(SCALED | COUNTS)) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"negative_count": 40}, {"negative_count": 60}, "fail"),
        ({"negative_count": 40, "zero_count": 30}, {"negative_count": 60, "zero_count": 10}, "warn"),
    ],
)
def test_one_count_tells_of_signs_as_far_as_zeros_do_not_explain_it(left, right, expected):
    assert outcome(Statistics(SCALED | left), Statistics(SCALED | right)) == expected


def test_integers_of_another_sign_are_other_integers():
    left, right = ({"maximum": 5, "minimum": -5, **COUNTS, "negative_count": count} for count in (40, 41))
    verdict, checks, _ = judged(Statistics(left), Statistics(right), dtype="int32")
    assert verdict.outcome == "fail"
    assert [(check.metric, check.value) for check in checks] == [("max_absolute_error", 1)]


@pytest.mark.parametrize("statistic", ["maximum", "mean", "l2_norm", "l1_norm"])
@pytest.mark.parametrize(("share", "outside"), [(0.99, 0), (1.01, 1)])
def test_tolerances_of_elements_bound_what_is_made_of_them(statistic, share, outside):
    rtol, atol, elements = 1e-2, 1e-3, 4
    right = {"maximum": 2.0, "minimum": -1.0, "mean": 0.25, "l2_norm": 3.0, "l1_norm": 5.0}
    allowed = {"maximum": atol + rtol * 2, "mean": atol + rtol * 1.5, "l2_norm": atol * 2 + rtol * 3}
    allowed["l1_norm"] = atol * 4 + rtol * 5
    left = {**right, statistic: right[statistic] + share * allowed[statistic]}
    found = distance(
        *(Statistics(side, digits=None) for side in (left, right)),
        left_dtype="float64",
        right_dtype="float64",
        elements=elements,
        limited=frozenset({"allclose"}),
        tolerance=(rtol, atol),
    )
    assert found.at_least["allclose"] == outside


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({"nan_count": 1, "positive_inf_count": 0, "negative_inf_count": 0}, "fail"),
        ({"nan_count": 0, "positive_inf_count": 1, "negative_inf_count": 0}, "fail"),
        ({"nan_count": 0, "positive_inf_count": 0, "negative_inf_count": 0}, "pass"),
    ],
)
def test_a_finite_norm_tells_that_there_is_no_nan_and_no_infinity(classes, expected):
    without_norm = {name: value for name, value in SCALED.items() if name != "l2_norm"}
    assert outcome(Statistics({**without_norm, **classes}), Statistics(SCALED)) == expected


def test_a_nan_that_the_other_side_cannot_tell_of_is_undefined():
    left, right = {"maximum": 1.0, "nan_count": 2}, {"maximum": 1.0}
    verdict, _, _ = judged(Statistics(left), Statistics(right))
    assert verdict.outcome == "undefined"
    assert "one side has NaN, and the statistics of the right do not count them" in verdict.findings[0].sentence


@pytest.mark.parametrize(("left", "right"), [({}, {}), ({"maximum": 1.0}, {"minimum": 1.0}), (COUNTS, COUNTS)])
def test_nothing_of_values_in_common_is_undefined(left, right):
    assert outcome(Statistics(left), Statistics(right)) == "undefined"


def test_zeros_against_anything_fail_and_no_limit_would_pass():
    zeros = Statistics(dict.fromkeys(SCALED, 0.0))
    verdict, _, compared = judged(Statistics(SCALED), zeros)
    assert verdict.outcome == "fail"
    assert compared.at_least["relative_euclidean_distance"] == math.inf
    assert "relative_euclidean_distance" not in verdict.would_pass
    assert outcome(zeros, zeros) == "pass"


@pytest.mark.parametrize(("shape", "expected"), [(0, "warn")])
def test_of_empty_tensors_nothing_was_compared(shape, expected):
    nothing = Statistics({"maximum": None, "count": 0, "l2_norm": 0})
    assert outcome(nothing, nothing, elements=shape) == expected


DIGESTS = {"md5": 32, "sha1": 40, "blake2b": 32, "xxh3_128": 32, "crc32": 8, "xor64": 16, "xor64_wide": 16}
PROOFS = ("md5", "sha1", "blake2b", "xxh3_128")


@pytest.mark.parametrize(("kind", "digits"), DIGESTS.items())
def test_only_digests_of_the_bytes_prove_that_these_are_equal(kind, digits):
    one, other = Statistics({**SCALED, kind: "0" * digits}), Statistics({**SCALED, kind: "1" * digits})
    for profile, unproven in (("default", "pass"), ("bitwise", "undefined")):
        verdict, _, compared = judged(one, one, profile=profile)
        expected = ("pass", True) if kind in PROOFS else (unproven, None)
        assert (verdict.outcome, compared.equal_bits) == expected
    alone = Statistics({kind: "0" * digits})
    assert outcome(alone, alone) == ("pass" if kind in PROOFS else "undefined")
    assert judged(one, other)[2].equal_bits is False
    assert outcome(one, other, profile="bitwise") == "fail"
    # Two digests of two kinds have nothing to do with each other.
    assert judged(one, Statistics({**SCALED, "sha1" if kind == "md5" else "md5": "0" * 40}))[2].equal_bits is None


@pytest.mark.parametrize("profile", ["default", "strict", "torch", "ascend", "bitwise"])
@pytest.mark.parametrize(
    "change",
    [
        {"maximum": 7.0},
        {"minimum": -0.501},
        {"mean": 0.2},
        {"l2_norm": 15.0},
        {"l2_norm": math.nan},
        {"nan_count": 3},
        {"positive_inf_count": 1},
        {"zero_count": 5},
        {"sha1": "b" * 40},
        {"crc32": "00000001"},
    ],
)
def test_a_digest_that_other_numbers_contradict_is_an_error(change, profile):
    saved = {**SCALED, "nan_count": 0, "positive_inf_count": 0, "zero_count": 4, "sha1": "a" * 40, "crc32": "00000000"}
    both = [Statistics({**saved, **more, "md5": "a" * 32}, digits=None) for more in (change, {})]
    for left, right in (both, both[::-1]):
        verdict, _, compared = judged(left, right, profile=profile)
        assert (verdict.outcome, verdict.would_pass, compared.equal_bits) == ("error", {}, None)
        assert verdict.findings[0].sentence.endswith("one of the two is wrong; dump again")
    assert outcome(both[1], both[1], profile=profile) == "pass"


@pytest.mark.parametrize("change", [{"maximum": 1 + 6e-8}, {"mean": 0.1 + 1e-6}, {"l2_norm": 3 * (1 + 2e-5)}])
def test_sums_in_another_order_contradict_no_digest(change):
    left, right = (Statistics({**SCALED, **more, "md5": "a" * 32}, digits=None) for more in (change, {}))
    for profile in ("strict", "bitwise"):
        assert outcome(left, right, profile=profile) == "pass"


# -- What statistics cannot show ---------------------------------------------------------------------------------------

CLASSES = {"count": 100, "nan_count": 0, "negative_inf_count": 0, "positive_inf_count": 0}
MIXED = {**SCALED, **CLASSES, "l2_norm": math.nan, "nan_count": 3}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (MIXED, MIXED, "warn"),
        ({**MIXED, "md5": "a" * 32}, {**MIXED, "md5": "b" * 32}, "warn"),
        ({**MIXED, "md5": "a" * 32}, {**MIXED, "md5": "a" * 32}, "pass"),
        ({**MIXED, "nan_count": 2}, MIXED, "fail"),
        ({**SCALED, "maximum": math.inf, "l2_norm": math.inf},) * 2 + ("warn",),
        # Infinite at other ends.
        ({"maximum": math.inf, "minimum": -3.0}, {"maximum": 3.0, "minimum": -math.inf}, "fail"),
        (dict.fromkeys(("maximum", "minimum"), math.inf), dict.fromkeys(("maximum", "minimum"), -math.inf), "fail"),
        # All of one class: their places are known.
        ({**CLASSES, "l2_norm": math.nan, "nan_count": 100},) * 2 + ("pass",),
        ({**CLASSES, "l2_norm": math.inf, "negative_inf_count": 100},) * 2 + ("pass",),
        (dict.fromkeys(("maximum", "minimum", "l2_norm"), math.inf),) * 2 + ("pass",),
        # Of two classes nothing is known, and there is no other number.
        ({**CLASSES, "l2_norm": math.nan, "nan_count": 50, "positive_inf_count": 50},) * 2 + ("undefined",),
    ],
)
@pytest.mark.parametrize("profile", ["default", "torch"])
def test_nan_at_places_that_were_not_saved_is_not_judged(left, right, expected, profile):
    sides = [Statistics(side, digits=None) for side in (left, right)]
    verdict, checks, compared = judged(*sides, profile=profile)
    assert verdict.outcome == expected
    if expected in ("warn", "undefined"):
        assert "nonfinite_mismatch" not in compared.at_least
        assert not {"nonfinite_mismatch", "saturated_count"} & {check.metric for check in checks}
        assert "places_not_saved" in {finding.message.code for finding in verdict.findings}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"max_absolute_error": 1.0}, "pass"),
        ({"allclose": 0}, "pass"),
        # That one element is outside says nothing of a limit of several.
        ({"allclose": 1}, "undefined"),
        ({"cosine_similarity": 0.9, "kl_divergence": 1.0}, "undefined"),
        ({"cosine_similarity": 0.9, "relative_euclidean_distance": 1.0}, "pass"),
        # Asked for by itself.
        ({"nonfinite_mismatch": 0}, "pass"),
        ({}, "undefined"),
    ],
)
def test_a_pair_without_a_judged_limit_on_accuracy_is_undefined(own, expected):
    both = Statistics({**SCALED, **CLASSES}, digits=None)
    own = {**own, **dict.fromkeys(["nonfinite_mismatch", "saturated_count"] if own else [], 0)}
    limits = Limits(limits=tuple(Limit(metric, bound, "R") for metric, bound in own.items()))
    types = {"left_dtype": "float32", "right_dtype": "float32", "elements": 100, "unseen": ("left",)}
    verdict, _, _ = judge_statistics(both, both, limits, **types)
    assert verdict.outcome == expected
    said = [finding.sentence for finding in verdict.findings if finding.outcome == "undefined"]
    assert not any("sides differ" in sentence for sentence in said)


def test_what_would_pass_does_pass():
    moved = Statistics({name: value * 1.1 for name, value in SCALED.items()})
    verdict, _, _ = judged(moved, Statistics(SCALED))
    assert set(verdict.would_pass) == {"relative_euclidean_distance", "normalized_max_error"}
    assert outcome(moved, Statistics(SCALED), policy=Policy(thresholds=verdict.would_pass)) == "pass"


DRAW = np.random.default_rng(4).normal(0, 4, 4000)
BELOW = np.random.default_rng(5).random(4000)
DOMINATED = {
    "additive": np.where(BELOW < 0.5, DRAW - 1e4, DRAW),
    "filled": np.where(BELOW < 0.02, -3.4e38, DRAW),
    "nearly everywhere": np.where(BELOW < 0.98, -65504.0, DRAW),
}
ORDINARY = {
    "massive activations": np.where(BELOW < 0.004, 2500.0, DRAW),
    "relu": np.maximum(DRAW * 2000, 0),
    "all below 0": -np.abs(DRAW) * 2000,
    "both signs": DRAW * 2000,
    "small": DRAW,
}


@pytest.mark.parametrize("values", DOMINATED.values(), ids=DOMINATED)
@pytest.mark.parametrize("only", [None, ("maximum", "minimum", "l2_norm")], ids=["all", "no mean"])
def test_statistics_of_a_masked_tensor_judge_nothing_else(values, only):
    verdict, _, _ = judged(*[statistics(values, only=only)] * 2, elements=values.size)
    assert (verdict.outcome, verdict.findings[0].message.code) == ("undefined", "statistics_dominated")
    assert outcome(*[statistics(values, only=only, md5="a")] * 2, elements=values.size) == "pass"


@pytest.mark.parametrize("values", ORDINARY.values(), ids=ORDINARY)
@pytest.mark.parametrize(
    "only", [None, ("maximum", "minimum", "mean"), ("maximum", "minimum")], ids=["all", "no norm", "extremes"]
)
def test_statistics_of_other_large_tensors_are_judged_as_ever(values, only):
    assert outcome(*[statistics(values, only=only)] * 2, elements=values.size) == "pass"

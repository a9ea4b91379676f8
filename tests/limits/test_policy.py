"""A policy that cannot be meant is refused when it is made, in one sentence with the place."""

from __future__ import annotations

import datetime
import math
import pickle
from typing import Any

import pytest

from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.core.limits.policy import KnownDrift, Policy, Rule, metric_id

DAY = datetime.date(2027, 1, 31)


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("cosine", "cosine_similarity"),
        ("max_abs", "max_absolute_error"),
        ("mean_abs", "mean_absolute_error"),
        ("rmse", "root_mean_square_error"),
        ("max_rel", "max_relative_error"),
        ("mean_rel", "mean_relative_error"),
        ("acc_rel", "accumulated_relative_error"),
        ("rel_euclid", "relative_euclidean_distance"),
        ("kld", "kl_divergence"),
        ("norm_max", "normalized_max_error"),
        ("cosine_similarity", "cosine_similarity"),
        ("nonfinite_mismatch", "nonfinite_mismatch"),
        ("saturated_count", "saturated_count"),
        ("bitwise_mismatch", "bitwise_mismatch"),
    ],
)
def test_a_metric_goes_by_its_id_and_its_short_form(text: str, metric: str) -> None:
    assert metric_id(text) == metric


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        metric_id("cosin_similarity")
    assert str(caught.value) == "unknown metric 'cosin_similarity'; did you mean 'cosine_similarity'?"
    with pytest.raises(UnknownNameError, match=r"msdump\.toml #1: unknown metric 'zz'; known: acc_rel, "):
        Rule({"zz": (1, None)}, label="msdump.toml #1")
    with pytest.raises(UnknownNameError, match="unknown metric 'cosinus'"):
        Policy(thresholds={"cosinus": 0.9})
    with pytest.raises(UnknownNameError, match="unknown metric 'l2'"):
        Policy(marker={"l2": 0.9})


def test_a_metric_that_is_only_reported_takes_no_limit() -> None:
    with pytest.raises(ConfigError, match="standard_deviation is only reported and takes no limit"):
        metric_id("standard_deviation")


@pytest.mark.parametrize("bound", [0.0, 1.0, -0.999, 5e-324])
def test_the_ends_of_the_allowed_range_are_allowed(bound: float) -> None:
    assert Rule({"cosine": (bound, None)}).bounds == {"cosine_similarity": (bound, None)}
    assert Rule({"rmse": (abs(bound), abs(bound))}).bounds == {"root_mean_square_error": (abs(bound), abs(bound))}


@pytest.mark.parametrize("value", [-1e-3, math.nan, math.inf, True, "1e-3"])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_tolerance_is_a_finite_number_from_zero_on(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"R: {name} = .* is not a tolerance"):
        Rule({}, label="R", **{name: value})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reason": "  "}, "D: a known drift needs a reason"),
        ({"until": "2027-01-31"}, "D: until = '2027-01-31' is not a date"),
        ({"until": datetime.datetime(2027, 1, 31)}, "D: until = .* is not a date"),
        ({"bounds": {}}, "D: a known drift needs a limit"),
        ({"bounds": {"cosine": (0.9, 0.99)}}, "D: cosine_similarity has two levels or none that fails"),
        ({"bounds": {"cosine": (None, 0.99)}}, "D: cosine_similarity has two levels or none that fails"),
        ({"bounds": {"cosine": (2, None)}}, "D: cosine_similarity = 2 is met by no tensor that differs"),
    ],
)
def test_a_known_drift_says_why_how_far_and_how_long(changes: Any, sentence: str) -> None:
    fields = {"match": "*", "reason": "why", "until": DAY, "bounds": {"max_rel": (1e-3, None)}, "label": "D", **changes}
    with pytest.raises(ConfigError, match=sentence):
        KnownDrift(**fields)


def test_a_policy_survives_the_way_to_another_process() -> None:
    policy = Policy(
        rules=(Rule({"cosine": (0.9, 0.99)}, match="conv*", op_type=("Conv2D",), dtype="half", rtol=1e-3),),
        known_drift=(KnownDrift("*", "why", DAY, {"max_rel": (1e-3, None)}),),
        thresholds={"kld": 1e-3},
        marker={"rmse": 1},
    )
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert repr(policy.rules[0]) == repr(pickle.loads(pickle.dumps(policy)).rules[0])

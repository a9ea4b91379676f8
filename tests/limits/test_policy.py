"""A policy that cannot be meant is refused when it is made, in one sentence with the place."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest

from pytest_msdump.core.errors import ConfigError
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


def test_a_metric_that_is_only_reported_takes_no_limit() -> None:
    with pytest.raises(ConfigError, match="standard_deviation is only reported and takes no limit"):
        metric_id("standard_deviation")


REFUSED = [
    (
        {"cosine": (1.5, None)},
        "R: cosine_similarity = 1.5 is met by no tensor that differs; give a number above -1, at most 1",
    ),
    (
        {"cosine": (None, math.nan)},
        "R: cosine_similarity = nan is met by no tensor that differs; give a number above -1, at most 1",
    ),
    ({"cosine": (-1, None)}, "R: cosine_similarity = -1 is met by every tensor; give a number above -1, at most 1"),
    (
        {"cosine": (-math.inf, None)},
        "R: cosine_similarity = -inf is met by every tensor; give a number above -1, at most 1",
    ),
    (
        {"max_rel": (-1e-3, None)},
        "R: max_relative_error = -0.001 is met by no tensor that differs; give a number 0 or more, and finite",
    ),
    (
        {"max_rel": (math.nan, None)},
        "R: max_relative_error = nan is met by no tensor that differs; give a number 0 or more, and finite",
    ),
    (
        {"saturated_count": (math.inf, None)},
        "R: saturated_count = inf is met by every tensor; give a number 0 or more, and finite",
    ),
    ({"cosine": (True, None)}, "R: the limit of cosine_similarity is True; give a number"),
    ({"cosine": ("0.9", None)}, "R: the limit of cosine_similarity is '0.9'; give a number"),
    ({"cosine": (None, None)}, "R: cosine_similarity has neither a fail nor a warn limit; give one or remove it"),
    (
        {"cosine": (0.999, 0.99)},
        (
            "R: cosine_similarity warns beyond 0.99 but already fails beyond 0.999, "
            "so the warning would never be seen; swap the two or remove one"
        ),
    ),
    (
        {"rmse": (0.1, 0.2)},
        (
            "R: root_mean_square_error warns beyond 0.2 but already fails beyond 0.1, "
            "so the warning would never be seen; swap the two or remove one"
        ),
    ),
    (
        {"cosine": (0.9, None), "cosine_similarity": (0.8, None)},
        "R: cosine_similarity is set twice, once by its short form; keep one of them",
    ),
]


@pytest.mark.parametrize(("bounds", "sentence"), REFUSED, ids=[sentence[3:50] for _, sentence in REFUSED])
def test_a_limit_that_says_nothing_is_refused(bounds: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Rule(bounds, label="R")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("value", [-1e-3, math.nan, math.inf, True, "1e-3"])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_tolerance_is_a_finite_number_from_zero_on(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"R: {name} = .* is not a tolerance"):
        Rule({}, label="R", **{name: value})


def test_nan_is_matched_or_forbidden() -> None:
    with pytest.raises(ConfigError, match=r"msdump\.toml: nan = 'ignore' is not known; known: forbid, match"):
        Policy(nan="ignore", nan_rule="msdump.toml")


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

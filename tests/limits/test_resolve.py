"""Whose limit holds: conditions of a rule, order of precedence, known drifts and their end."""

from __future__ import annotations

import datetime
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limit_cases import LEFT, RIGHT, bounds_of, limits_of, rules_of

from pytest_msdump.core.limits.policy import Bounds, KnownDrift, Policy, Rule
from pytest_msdump.core.limits.resolve import resolve
from pytest_msdump.core.model.tensor import OpKey, TensorKey

COSINE, MAX_REL = "cosine_similarity", "max_relative_error"
UNTIL = datetime.date(2027, 1, 31)
TODAY = datetime.date(2026, 9, 1)
LATER = datetime.date(2027, 2, 1)


def cosine_of(
    rule: Rule, left: TensorKey = LEFT, right: TensorKey = RIGHT, dtypes: tuple[str, str] = ("float32", "float32")
) -> float:
    return bounds_of(limits_of(Policy(rules=(rule,)), *dtypes, left=left, right=right))[COSINE]


def drift(bounds: Bounds, *, match: str = "*", reason: str = "exp approximation, ticket ACC-412") -> KnownDrift:
    return KnownDrift(match, reason, UNTIL, bounds)


@pytest.mark.parametrize(
    "glob",
    [
        "*",
        "Default/conv2-Conv2d/BiasAdd-op0",
        "Default_conv2-Conv2d_BiasAdd-op0",
        "Default/conv2-Conv2d/BiasAdd-op0:output:0",
        "Default_conv2-Conv2d_BiasAdd-op0:output:0",
        "Default/conv2*",
        "*/BiasAdd-op[0-9]",
        "*:output:?",
        "conv2",
        "conv2:output:0",
        "conv?",
    ],
)
def test_a_glob_means_true_name_mangled_name_and_address_of_either_side(glob: str) -> None:
    assert cosine_of(Rule({COSINE: (0.5, None)}, match=glob)) == 0.5


@pytest.mark.parametrize(
    ("dtype", "dtypes", "holds"),
    [
        ("float16", ("float16", "float32"), True),
        ("float16", ("float32", "float16"), True),
        ("float32", ("float32", "float16"), False),
        ("fp16", ("float16", "float16"), True),
        ("float32", ("complex64", "complex64"), True),
        ("complex64", ("complex64", "complex128"), True),
        ("complex128", ("complex64", "complex128"), False),
        ("complex64", ("float32", "float32"), False),
    ],
)
def test_a_rules_dtype_is_the_coarser_sides(dtype: str, dtypes: tuple[str, str], holds: bool) -> None:
    assert (cosine_of(Rule({COSINE: (0.5, None)}, dtype=dtype), dtypes=dtypes) == 0.5) is holds


def test_all_conditions_of_a_rule_must_hold() -> None:
    assert cosine_of(Rule({COSINE: (0.5, None)}, match="conv2", op_type=("BiasAdd",), dtype="float32")) == 0.5
    assert cosine_of(Rule({COSINE: (0.5, None)}, match="conv3", op_type=("BiasAdd",), dtype="float32")) == 0.999
    assert cosine_of(Rule({COSINE: (0.5, None)}, match="conv2", op_type=("ReLU",), dtype="float32")) == 0.999
    assert cosine_of(Rule({COSINE: (0.5, None)}, match="conv2", op_type=("BiasAdd",), dtype="float16")) == 0.999


def test_for_each_metric_the_last_matching_rule_wins_with_both_its_levels() -> None:
    rules = (
        Rule({COSINE: (0.9, 0.95), MAX_REL: (0.1, 0.05)}, label="first"),
        Rule({COSINE: (0.8, None)}, label="second"),
        Rule({COSINE: (0.7, 0.75)}, match="conv3", label="third"),
    )
    limits = limits_of(Policy(rules=rules))
    assert bounds_of(limits) == {
        COSINE: 0.8,
        MAX_REL: 0.1,
        "relative_euclidean_distance": 1e-3,
        "normalized_max_error": 0.01,
        "nonfinite_mismatch": 0,
        "saturated_count": 0,
    }
    assert bounds_of(limits, "warn") == {MAX_REL: 0.05}
    assert (rules_of(limits)[COSINE], rules_of(limits)[MAX_REL]) == ("second", "first")
    assert rules_of(limits)["saturated_count"] == "profile default (float32)"


def test_the_command_line_beats_rules_and_the_marker_beats_the_command_line() -> None:
    rules = (Rule({COSINE: (0.9, 0.99), MAX_REL: (0.1, None), "kld": (0.1, None)}, label="rule"),)
    limits = limits_of(Policy(rules=rules, thresholds={"cosine": 0.8, "max_rel": 0.2}, marker={COSINE: 0.7}))
    assert {name: bounds_of(limits)[name] for name in (COSINE, MAX_REL, "kl_divergence")} == {
        COSINE: 0.7,
        MAX_REL: 0.2,
        "kl_divergence": 0.1,
    }
    assert bounds_of(limits, "warn") == {}
    assert rules_of(limits)[COSINE] == "limit cosine_similarity=0.7"
    assert rules_of(limits)[MAX_REL] == "--msdump-threshold max_rel=0.2"
    assert rules_of(limits)["kl_divergence"] == "rule"


def test_a_known_drift_beats_rules_but_not_the_command_line_nor_the_marker() -> None:
    rules = (Rule({COSINE: (0.9, None), MAX_REL: (0.1, None), "kld": (0.1, None)}, label="rule"),)
    bounds: Bounds = {COSINE: (0.5, None), MAX_REL: (0.5, None), "kld": (0.5, None)}
    policy = Policy(rules=rules, known_drift=(drift(bounds),), thresholds={"max_rel": 0.2}, marker={"cosine": 0.7})
    limits = limits_of(policy, today=TODAY)
    assert {name: bounds_of(limits)[name] for name in (COSINE, MAX_REL, "kl_divergence")} == {
        COSINE: 0.7,
        MAX_REL: 0.2,
        "kl_divergence": 0.5,
    }
    assert rules_of(limits)["kl_divergence"] == 'known drift "exp approximation, ticket ACC-412" until 2027-01-31'
    assert {limit.metric: limit.bound for limit in limits.strict}["kl_divergence"] == 0.1
    assert {limit.metric: limit.bound for limit in limits.strict}[COSINE] == 0.7


def test_a_known_drift_that_is_wholly_overruled_does_not_hold() -> None:
    limits = limits_of(Policy(known_drift=(drift({COSINE: (0.5, None)}),), marker={"cosine": 0.7}), today=TODAY)
    assert (limits.known_drift, limits.strict, limits.notes) == (None, (), ())


@pytest.mark.parametrize(("today", "bound"), [(TODAY, 0.5), (UNTIL, 0.5), (LATER, 0.999)])
def test_a_known_drift_holds_to_its_last_day_and_no_longer(today: datetime.date, bound: float) -> None:
    policy = Policy(known_drift=(drift({COSINE: (0.5, None)}),))
    assert bounds_of(limits_of(policy, today=today))[COSINE] == bound


def test_without_a_day_the_day_in_utc_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            # 23:30 on the last day in UTC, already the next day further east.
            return datetime.datetime(2027, 1, 31, 23, 30, tzinfo=datetime.timezone.utc).astimezone(
                tz or datetime.timezone(datetime.timedelta(hours=8))
            )

    monkeypatch.setattr(datetime, "datetime", Clock)
    assert bounds_of(limits_of(Policy(known_drift=(drift({COSINE: (0.5, None)}),))))[COSINE] == 0.5


def test_elementwise_tolerances_come_from_the_last_rule_that_sets_them_each_by_itself() -> None:
    rules = (
        Rule({"allclose": (0, None)}, rtol=1e-2, atol=1e-4),
        Rule({"allclose": (0, None)}, rtol=1e-1, label="second"),
        Rule({}, match="conv3", rtol=9.0, atol=9.0),
    )
    limits = limits_of(Policy(rules=rules))
    assert (limits.rtol, limits.atol, rules_of(limits)["allclose"]) == (1e-1, 1e-4, "second")
    only_relative = limits_of(Policy(rules=(Rule({}, rtol=0.0),)))
    assert (only_relative.rtol, only_relative.atol) == (0.0, 1e-5)


@settings(max_examples=500)
@given(
    glob=st.text("ab*?[]!-", min_size=1, max_size=7),
    name=st.text("ab*?[]!-", min_size=1, max_size=6),
)
def test_globs_mean_what_fnmatch_says(glob: str, name: str) -> None:
    key = TensorKey(OpKey(name), "output", 0)
    policy = Policy(rules=(Rule(match=glob, bounds={"cosine_similarity": (0.5, None)}, label="the rule"),))
    limits = resolve(policy, left=key, right=key, left_dtype="float32", right_dtype="float32")
    holds = any(fnmatchcase(spelled, glob) for spelled in (name, f"{name}:output:0"))
    assert any(limit.rule == "the rule" for limit in limits.limits) == holds

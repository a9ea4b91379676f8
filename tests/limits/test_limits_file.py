"""Limits files: read with suspicion, written for version control, and in force between rules and the profile."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limit_cases import bounds_of, limits_of, measured, rules_of, told, verdict_of
from pytest_msdump.facts.calibration import METRIC_VERSION

from pytest_msdump.capabilities.calibrate.limits_file import (
    Accepted,
    Base,
    LimitsFile,
    Perturbed,
    ReferenceFacts,
    TensorLimits,
    limits_text,
    parse_limits,
)
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.limits.policy import KnownDrift, Policy, Rule
from pytest_msdump.core.model.dump import Dump, Edge, Manifest, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates

EUCLID, LARGEST = "relative_euclidean_distance", "normalized_max_error"
U24, U12, U8 = 2.0**-24, 2.0**-12, 2.0**-8
CONV = TensorLimits(2048, "forward_large", {EUCLID: Base(1.1e-7, {"24": 1.85, "12": 0.9}), LARGEST: Base(2.1e-7)})


def limits_file(**tensors: TensorLimits) -> LimitsFile:
    named = {name.replace("__", ":"): one for name, one in tensors.items()} or {"conv2:output:0": CONV}
    return LimitsFile(ReferenceFacts(dtype="float32"), Perturbed(U24, seeds=(1,), coarse=(U12,)), tensors=named)


def policy(limits: LimitsFile | None = None, **more: Any) -> Policy:
    return Policy(limits=limits or limits_file(), **more)


# -- the file --

positive = st.floats(1e-20, 1e20)
tensors = st.builds(
    TensorLimits,
    st.integers(1, 10**12),
    st.sampled_from(["forward_large", "forward_small", "gradient_large", "gradient_small"]),
    st.dictionaries(
        st.sampled_from([EUCLID, LARGEST]),
        st.builds(
            Base, positive, st.dictionaries(st.sampled_from(["24", "12", "9.96578"]), positive), st.none() | positive
        ),
    ),
    flipped=st.integers(0, 1),
    chaotic=st.booleans(),
)


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(st.text(max_size=30), tensors, max_size=5),
    st.none() | st.floats(1e-6, 0.5),
    st.lists(st.builds(Accepted, st.just("2026-11-24"), st.text(max_size=20)), max_size=2),
)
def test_what_is_written_is_read_back(
    found: dict[str, TensorLimits], alpha: float | None, accepted: list[Accepted]
) -> None:
    reference = ReferenceFacts("sha256:" + "0" * 64, "", "sha256:" + "a" * 64, "float32", "torch 2.13.0")
    limits = LimitsFile(
        reference, Perturbed(U24, 2, "input+weights", (1, 2), (U12,), golden=True), controls=3, alpha=alpha
    )
    limits = replace(limits, tensors=found, accepted=tuple(accepted))
    text = limits_text(limits)
    assert parse_limits(json.loads(text)) == limits
    assert text.isascii()


def test_a_file_that_is_cut_anywhere_or_goes_on_is_refused(tmp_path: Any) -> None:
    from pytest_msdump.capabilities.calibrate.limits_file import read_limits

    text = limits_text(limits_file()).rstrip()
    file = tmp_path / "msdump.limits.json"
    for end in range(0, len(text), 7):
        file.write_text(text[:end])
        with pytest.raises(ConfigError, match=r"msdump\.limits\.json"):
            read_limits(file)
    file.write_text(text + "}")
    with pytest.raises(ConfigError, match=r"msdump\.limits\.json"):
        read_limits(file)


def changed(*path: str, to: Any) -> Any:
    document = json.loads(limits_text(limits_file()))
    place = document
    for key in path[:-1]:
        place = place[key]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return document


CONV2 = ("tensors", "conv2:output:0")


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "is no limits file, it has no schema"),
        ({}, "is no limits file, it has no schema"),
        (changed("schema", to=2), "schema must be a whole number from 1 on, not 2"),
        (changed("schema", to=True), "schema must be a whole number from 1 on, not True"),
        (changed("tensor", to={}), "unknown key 'tensor'; did you mean 'tensors'?"),
        (changed("m", to=None), "needs 'm'"),
        (changed("m", "forward_large", to=None), "m: needs 'forward_large'"),
        (changed("m", "forward_large", to=0), "m forward_large must be a number above 0, not 0"),
        (changed("m", "forward_large", to=10**400), "m forward_large must be a number above 0, not 1000"),
        (changed("m", "forward_large", to=math.nan), "m forward_large must be a number above 0, not nan"),
        (changed("m", "backward", to=4), "m: unknown key 'backward'"),
        (changed("m_from", "alpha", to=1.5), "m_from alpha must be a number between 0 and 1, not 1.5"),
        (changed("perturb", "u", to="2**-24"), "perturb u must be a number between 0 and 1, not '2**-24'"),
        (changed("perturb", "seeds", to=[1.5]), "perturb seeds[0] must be a whole number"),
        (changed("perturb", "coarse", to=[0.1] * 2000), "perturb coarse must be a list of at most"),
        (changed("reference", "weights", to="abc"), "reference weights must be 'sha256:' and a digest, not 'abc'"),
        (changed("accepted", to=[{"date": "today", "reason": ""}]), "accepted[0] date must be a day"),
        (changed("tensors", to=[]), "tensors must be an object"),
        (changed("tensors", "x" * 9000, to={}), "is longer than any name of a tensor"),
        (changed(*CONV2, "class", to="loss"), "tensors 'conv2:output:0' class must be one of forward_large"),
        (changed(*CONV2, "elements", to=-1), "tensors 'conv2:output:0' elements must be a whole number from 0 on"),
        (changed(*CONV2, "rel_euclid", to=4), "tensors 'conv2:output:0' rel_euclid must be an object, not 4"),
        (changed(*CONV2, "rel_euclid", "base", to=math.inf), "rel_euclid base must be a number above 0, not inf"),
        (changed(*CONV2, "rel_euclid", "amp", to={"u": 1}), "rel_euclid amp: 'u' is no -log2(u)"),
        (changed(*CONV2, "rel_eucl", to={}), "'conv2:output:0': unknown key 'rel_eucl'; did you mean 'rel_euclid'?"),
        (changed(*CONV2, "unstable", to={"flipped": 3, "of": 2}), "unstable: 'of' must be the number of elements"),
        (changed(*CONV2, "chaotic", to=1), "chaotic must be true or false, not 1"),
    ],
)  # fmt: skip
def test_what_a_limits_file_cannot_mean_is_one_line_that_begins_with_its_place(document: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_limits(document, name="a.limits.json")
    assert str(raised.value).startswith("a.limits.json: ")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_other_versions_of_the_metrics_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"was made with version 0 of the metrics, and this is version 1: .*calibrate again"
    ):
        parse_limits(changed("metric_version", to=METRIC_VERSION - 1))


# -- the level between rules and profile --


def test_the_file_goes_before_the_profile_and_behind_all_else() -> None:
    until = datetime.date(2999, 1, 1)
    levels: list[tuple[dict[str, Any], str]] = [
        ({}, "msdump.limits.json: 12 × 1.1e-07"),
        ({"rules": (Rule({EUCLID: (0.1, None)}, label="the rule"),)}, "the rule"),
        (
            {"known_drift": (KnownDrift("*", "why", until, {EUCLID: (0.2, None)}),)},
            'known drift "why" until 2999-01-01',
        ),
        ({"thresholds": {"rel_euclid": 0.3}}, "--msdump-threshold rel_euclid=0.3"),
        ({"marker": {"rel_euclid": 0.4}}, "limit rel_euclid=0.4"),
    ]
    given_so_far: dict[str, Any] = {}
    for more, rule in levels:
        given_so_far |= more
        assert rules_of(limits_of(policy(**given_so_far)))[EUCLID] == rule
        assert rules_of(limits_of(policy(**given_so_far)))[LARGEST] == "msdump.limits.json: 12 × 2.1e-07"


def test_the_statement_is_a_note_of_the_verdict() -> None:
    statement = (
        f"{EUCLID} limit 1.32e-06 = 12 × 1.1e-07, {LARGEST} limit 2.52e-06 = 12 × 2.1e-07, from 1 perturbed run; "
    )
    for more, end in (
        ({}, "the multiplier is a default, give --control to measure it"),
        ({"controls": 2}, "the multiplier is a default, and high enough for 2 control runs"),
        ({"controls": 19, "alpha": 0.05}, "false alarms ≤ 5 % of runs, from 19 control runs"),
    ):
        verdict = verdict_of(measured(relative_euclidean_distance=2e-6), policy(replace(limits_file(), **more)))
        assert verdict.outcome == "fail"
        assert told(verdict, "note") == [statement + end]


def test_a_left_side_of_a_coarser_type_has_the_base_that_coarse_runs_show() -> None:
    # Base × u(bfloat16) / u(float32) × A(2^-12) / A(2^-24), by the facts.
    scaled = 1.1e-7 * (U8 / U24) * (9.0 / 1.85)
    tensor = replace(CONV, metrics={EUCLID: Base(1.1e-7, {"24": 1.85, "12": 9.0})})
    found = bounds_of(limits_of(policy(limits_file(conv2__output__0=tensor)), "bfloat16", "float32"))
    assert found[EUCLID] == pytest.approx(12 * scaled, rel=2e-2)
    # Not below one rounding of that type.
    stiff = replace(tensor, metrics={EUCLID: Base(6e-8, {"24": 1.0, "12": 0.01})})
    found = bounds_of(limits_of(policy(limits_file(conv2__output__0=stiff)), "bfloat16", "float32"))
    assert found[EUCLID] == pytest.approx(12 * 2.0**-8, rel=1e-2)


def test_without_a_coarse_run_the_profile_judges_a_coarser_left_side_and_a_note_says_so() -> None:
    limits = limits_of(policy(), "bfloat16", "float32")
    assert bounds_of(limits) == bounds_of(limits_of(Policy(), "bfloat16", "float32"))
    assert [note.code for note in limits.notes] == ["limits_not_scaled"]
    # A finer left side needs none.
    assert rules_of(limits_of(policy(), "float64", "float32"))[EUCLID].startswith("msdump.limits.json")


def test_gradients_of_a_coarser_left_side_are_judged_by_the_profile_and_a_note_says_so() -> None:
    tensor = replace(CONV, kind="gradient_large", metrics={EUCLID: Base(1.1e-7, {"24": 1.85, "12": 9.0})})
    limits = limits_of(policy(limits_file(conv2__output__0=tensor)), "bfloat16", "float32")
    assert bounds_of(limits) == bounds_of(limits_of(Policy(), "bfloat16", "float32"))
    assert [note.code for note in limits.notes] == ["limits_not_for_gradients"]


def test_integers_that_rounding_flips_may_flip_by_the_multiplier_more_and_by_any_amount() -> None:
    unstable = policy(limits_file(conv2__output__0=TensorLimits(64, "forward_small", flipped=2)))

    def outcome(differing: int, right: str = "int64") -> str:
        numbers = measured(elements=64, differing=differing, allclose=differing, max_absolute_error=900)
        return verdict_of(numbers, unstable, "int64", right).outcome

    assert [outcome(24), outcome(25)] == ["pass", "fail"]
    # PyTorch's indexes have 64 bits and MindSpore's 32.
    assert [outcome(24, "int32"), outcome(25, "int32")] == ["pass", "fail"]
    plain = verdict_of(measured(elements=64, differing=1, allclose=1, max_absolute_error=1), Policy(), "int64")
    assert plain.outcome == "fail"


def test_a_cosine_that_the_distance_implies_is_not_asked_for() -> None:
    noisy = replace(CONV, metrics={EUCLID: Base(0.016)})
    limits = policy(limits_file(conv2__output__0=noisy), accept_looser=True)
    numbers = measured(relative_euclidean_distance=0.19, cosine_similarity=0.982, normalized_max_error=0.001)
    assert verdict_of(numbers, limits).outcome == "pass"
    # For any vectors: a distance of d leaves a cosine of sqrt(1 - d²).
    random = np.random.default_rng(3)
    right = random.standard_normal((1000, 5))
    left = right + random.standard_normal((1000, 5)) * 0.3
    distance = np.linalg.norm(left - right, axis=1) / np.linalg.norm(right, axis=1)
    cosine = (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    near = distance < 1
    assert (cosine[near] >= np.sqrt(1 - distance[near] ** 2) - 1e-12).all()


# -- what a reference was --


def manifest(**more: Any) -> Manifest:
    return replace(Manifest(weights={"w": "ab/cd"}, inputs={"x": "12/34"}), **more)


def test_facts_of_a_reference_change_with_its_weights_inputs_and_graph_alone(tmp_path: Any) -> None:
    def facts(one: Manifest, feed: Edge | None = Edge("x", 0)) -> ReferenceFacts:  # noqa: B008 - a value
        graph = OperatorGraph((Operator("fc", "Linear", inputs=(feed,)),), is_recorded=True)
        return ReferenceFacts.of(Dump(tmp_path, "npy-folder", manifest=one, graphs=((Coordinates(), graph),)))

    mine = facts(manifest())
    assert facts(manifest(time="2026-11-24", command=("train",), key="x")).differing(mine) == ()
    assert facts(manifest(weights={"w": "ab/ce"})).differing(mine) == ("weights",)
    assert facts(manifest(inputs={"x": "12/35"}, weights={})).differing(mine) == ("inputs",)
    assert facts(manifest(), None).differing(mine) == ("graph",)
    assert ReferenceFacts.of(Dump(tmp_path, "npy-folder")).common(mine) == ()
    ranks = Dump(tmp_path, "npy-folder", manifest=Manifest(), ranks={0: manifest(), 1: manifest(weights={"w": "1/2"})})
    swapped = replace(ranks, ranks=dict(enumerate(reversed(ranks.ranks.values()))))
    assert ReferenceFacts.of(ranks).differing(ReferenceFacts.of(swapped)) == ("weights",)

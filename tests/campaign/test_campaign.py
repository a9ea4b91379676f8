"""The campaign's own judge: it calls each wrong answer by its name, and knows the limits without the package."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from campaign import edits, sensitivity
from campaign.expected import judged as expected_of
from campaign.faults import BY_NAME
from campaign.run import WRONG, Bench, judged
from campaign.stored import Values
from campaign.trials import Outcome, Trial, by_command, lenet

CONV1 = "Default/conv1-Conv2d/BiasAdd-op0:output:0"
FC2 = "Default/fc2-Dense/BiasAdd-op0:output:0"
CLEAN = Outcome(0, "", "", "")


@pytest.fixture
def faulty(tmp_path: Path) -> Trial:
    trial = lenet(tmp_path, "name", {"profile": "default"})
    BY_NAME["negated"].inject(trial, trial.pair_of(CONV1), "left", Random(0), 0.0)
    return trial


def verdict(trial: Trial, answer: Outcome) -> str:
    return judged(trial, trial.expectations({}), answer)[0]


def answer_with(trial: Trial, **changes: Any) -> Outcome:
    """The right answer, with other records."""
    answer = by_command(trial)
    records = tuple(record | changes if record["left"]["address"] == CONV1 else record for record in answer.records)
    return answer._replace(records=records)


def test_the_right_answer_is_ok(faulty: Trial) -> None:
    assert verdict(faulty, by_command(faulty)) == "ok"


def test_a_fault_that_passes_is_missed(faulty: Trial) -> None:
    assert verdict(faulty, CLEAN) == "missed"


def test_a_failure_without_a_fault_is_a_false_alarm(tmp_path: Path) -> None:
    trial = lenet(tmp_path, "name", {"profile": "default"})
    assert verdict(trial, CLEAN._replace(code=1)) == "false alarm"


@pytest.mark.parametrize("code", [2, 3, 5, -9])
def test_another_exit_code_is_a_crash(faulty: Trial, code: int) -> None:
    assert verdict(faulty, CLEAN._replace(code=code)) == "crash"


def test_a_traceback_is_a_crash(faulty: Trial) -> None:
    assert verdict(faulty, CLEAN._replace(code=1, text="Traceback (most recent call last):")) == "crash"


def test_another_tensor_named_is_a_wrong_tensor(faulty: Trial) -> None:
    answer = by_command(faulty)
    swapped = tuple(
        record | {"verdict": {"fail": "pass", "pass": "fail"}[record["verdict"]]}
        if record["left"]["address"] in (CONV1, FC2)
        else record
        for record in answer.records
    )
    findings = ({"sentence": "not within"},)
    blamed = tuple(record | {"findings": record["findings"] or findings} for record in swapped)
    assert verdict(faulty, answer._replace(records=blamed)) == "wrong tensor"


def test_a_record_that_is_not_there_is_missed(tmp_path: Path) -> None:
    trial = lenet(tmp_path, "name", {"profile": "default"})
    answer = by_command(trial)
    assert verdict(trial, answer) == "ok"
    assert verdict(trial, answer._replace(records=answer.records[1:])) == "missed"


def test_another_partner_is_a_wrong_partner(faulty: Trial) -> None:
    answer = answer_with(faulty, right={"file": "rank_0/Lenet/0/0/another.npy"})
    assert verdict(faulty, answer) == "wrong partner"


def test_a_tensor_of_the_map_that_is_gone_is_missed(tmp_path: Path) -> None:
    trial = lenet(tmp_path, "map", {"profile": "default"})
    BY_NAME["file missing"].inject(trial, trial.pair_of(CONV1), "left", Random(0), 0.0)
    assert verdict(trial, CLEAN) == "missed"


@pytest.mark.parametrize(
    ("profile", "dtype", "limit"),
    [
        ("default", "float64", 1e-7),
        ("default", "float32", 1e-3),
        ("default", "float16", 1e-2),
        ("strict", "float32", 1e-4),
        ("strict", "float16", 2e-3),
    ],
)
def test_the_limits_are_known_without_the_package(profile: str, dtype: str, limit: float) -> None:
    right = np.random.default_rng(0).standard_normal(4096).astype(dtype)
    for factor, outcome in ((0.8, "pass"), (1.2, "fail")):
        left = edits.noisy(right, Random(0), limit * factor)
        found = expected_of(Values(left, dtype, b""), Values(right, dtype, b""), profile=profile)
        assert found == outcome, factor


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("number", range(24))
def test_a_case_is_the_same_each_time_and_is_answered_well(bench: Bench, number: int) -> None:
    result = bench.run(5, number)
    assert result.outcome not in WRONG, result.sentence
    assert bench.run(5, number)[:3] == result[:3]


@pytest.mark.full
def test_the_page_shows_which_mistakes_pass(tmp_path: Path) -> None:
    assert list(sensitivity.mistake_table(tmp_path)) == sensitivity.of_page("Mistakes")

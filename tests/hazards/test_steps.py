"""Steps of a training: two of them in one flat folder, and weights that the sides saved before and after a step."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from dump_builder import START, write_mindspore, write_reference

STEP_US = 50_000
RNG = np.random.default_rng(36)
FEATURES = [RNG.standard_normal((4, 6)).astype(np.float32) for _ in range(4)]
WEIGHTS = [RNG.standard_normal((6, 6)).astype(np.float32) for _ in range(4)]
GAMMAS = [RNG.standard_normal(6).astype(np.float32) for _ in range(4)]


def left_run(root: Path, *steps: int) -> None:
    """A training: in each step features, then Parameters as the optimizer left them."""
    for iteration, step in enumerate(steps):
        tensors = [
            ("BiasAdd", "Default/network-WithLossCell/_backbone-N/fc-Dense/BiasAdd-op0", "output", 0, FEATURES[step]),
            ("Parameter", "fc.weight", "output", 0, WEIGHTS[step + 1]),
            ("Parameter", "bn.gamma", "output", 0, GAMMAS[step + 1]),
        ]
        write_mindspore(root, tensors, iteration=iteration, start=START + iteration * STEP_US)


def right_step(step: int, *, saved: int = 1) -> dict[str, np.ndarray]:
    """One step of a loop of one's own, which saves weights after it, or with ``saved=0`` before it."""
    return {"fc": FEATURES[step], "fc.weight": WEIGHTS[step + saved], "bn.weight": GAMMAS[step + saved]}


def compared(pytester: pytest.Pytester, *more: str) -> tuple[dict[str, int], str]:
    result = pytester.runpytest("--msdump-left=run", "--msdump-right=ref", *more)
    return result.parseoutcomes(), " ".join(result.stdout.str().split())


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    return pytester.path


def test_two_steps_in_a_flat_folder_are_the_iterations_of_a_side_that_has_two(
    pytester: pytest.Pytester, folder: Path
) -> None:
    left_run(folder / "run", 0, 1)
    for step in (0, 1):
        write_reference(folder / "ref", right_step(step), start=START + step * STEP_US)
    outcomes, text = compared(pytester)
    assert outcomes == {"passed": 7}
    assert "each of its 3 names is there 2 times" in text
    assert "taken as the iterations 0, 1" in text
    assert "re-run" not in text


def test_a_wrong_second_step_in_a_flat_folder_fails(pytester: pytest.Pytester, folder: Path) -> None:
    left_run(folder / "run", 0, 1)
    for step in (0, 1):
        write_reference(folder / "ref", right_step(0), start=START + step * STEP_US)
    assert compared(pytester)[0] == {"passed": 4, "failed": 3}


@pytest.mark.parametrize("steps", [1, 3])
def test_where_the_other_side_has_another_number_of_steps_both_readings_are_said(
    pytester: pytest.Pytester, folder: Path, steps: int
) -> None:
    left_run(folder / "run", *range(min(steps, 2)), *[1] * (steps - 2))
    for step in (0, 0):
        write_reference(folder / "ref", right_step(step), start=START + step * STEP_US)
    write_reference(folder / "ref", right_step(0), start=START + STEP_US)
    outcomes, text = compared(pytester)
    assert "steps of a training, or runs into one folder?" in text
    assert "put each into a folder, 0 to 1" in text
    assert outcomes["passed"] == 4


def test_a_flat_folder_whose_second_pass_is_not_whole_is_no_steps(pytester: pytest.Pytester, folder: Path) -> None:
    left_run(folder / "run", 0, 1)
    write_reference(folder / "ref", right_step(0))
    write_reference(folder / "ref", {"fc": FEATURES[0]}, start=START + STEP_US)
    assert "pass after pass" not in compared(pytester)[1]


def test_weights_that_the_right_saved_before_its_step_are_called_so_with_options_that_compare_them(
    pytester: pytest.Pytester, folder: Path
) -> None:
    left_run(folder / "run", 0, 1)
    for step in (0, 1):
        write_reference(folder / "ref" / str(step), right_step(step, saved=0))
    outcomes, text = compared(pytester)
    # Both weights of both iterations fail; of the last iteration the right has no next one.
    assert outcomes["failed"] == 4
    assert "2 of 2 failing weights agree with the right's next iteration" in text
    options = shlex.split(text.partition("compare these with ")[2])[:4]
    assert compared(pytester, *options)[0] == {"passed": 3}


def test_steps_that_the_sides_count_differently_are_called_so_with_options_that_compare_them(
    pytester: pytest.Pytester, folder: Path
) -> None:
    left_run(folder / "run", 1, 2)
    for step in range(3):
        write_reference(folder / "ref" / str(step), right_step(step))
    outcomes, text = compared(pytester)
    assert outcomes["failed"] == 6
    options = shlex.split(text.partition("steps differently; compare them with ")[2])[:2]
    assert compared(pytester, *options)[0] == {"passed": 7}


@pytest.mark.parametrize("wrong", ["weights", "features"])
def test_a_mistake_is_not_called_another_step(pytester: pytest.Pytester, folder: Path, wrong: str) -> None:
    left_run(folder / "run", 0, 1)
    for step in (0, 1):
        tensors = right_step(step)
        names = ("fc",) if wrong == "features" else ("fc.weight", "bn.weight")
        write_reference(folder / "ref" / str(step), tensors | {name: tensors[name] * 1.5 for name in names})
    outcomes, text = compared(pytester)
    assert outcomes["failed"] >= 2
    assert "iteration:" not in text.partition("= msdump =")[2]


@pytest.mark.parametrize("wrong", ["fc.weight", "fc"])
def test_weights_alone_that_fail_after_one_step_may_be_saved_before_it(
    pytester: pytest.Pytester, folder: Path, wrong: str
) -> None:
    left_run(folder / "run", 0)
    more = ("ApplyMomentum", "Default/optimizer-Momentum/ApplyMomentum-op0", "output", 0, WEIGHTS[1])
    write_mindspore(folder / "run", [more], start=START + 300)
    tensors = right_step(0)
    write_reference(folder / "ref", tensors | {wrong: tensors[wrong] * 1.5})
    outcomes, text = compared(pytester)
    assert outcomes["failed"] == 1
    assert ("if the right saved it before" in text) == (wrong == "fc.weight")

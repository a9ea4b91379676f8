"""One sentence for all failing gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from two_dumps import reported

from pytest_msdump.capabilities.causes.roles import reason_of
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.text import ENGLISH, Phrases
from pytest_msdump.record import DumpWriter

NAMES = ("out/grad_output", "out.weight/grad", "fc/grad_output", "fc.weight/grad", "fc.bias/grad")


def compared(
    folder: Path,
    factors: dict[str, float],
    *,
    forward: float = 1.0,
    names: tuple[str, ...] = NAMES,
    rounded: float = 0.0,
) -> Report:
    """A step whose gradients are so many times the right's; one more is what rounding leaves of nothing."""
    for side in ("left", "right"):
        draw = np.random.default_rng(1)
        with DumpWriter(folder / side) as writer:
            for name in ("fc", "out", *names):
                values = draw.standard_normal((4, 3)).astype("f4")
                factor = factors.get(name, forward if name in ("fc", "out") else 1.0) if side == "left" else 1.0
                op_type = "Optimizer" if name.endswith("exp_avg") else None
                writer.write(name, values * np.float32(factor), op_type=op_type)
            if rounded:
                left_over = np.random.default_rng(len(side)).standard_normal((4, 3)).astype("f4")
                writer.write("key.bias/grad", left_over * np.float32(rounded))
    return reported(folder)


def said(report: Report) -> tuple[list[str], list[str]]:
    """The ids of what is found first at causes, and the other roles."""
    causes = [one for one in report.records if one.role == "cause"]
    others = {str(one.role) for one in report.records if one.fails and one.role != "cause"}
    return [one.diagnosis[0].id for one in causes], sorted(others)


@pytest.mark.parametrize("factor", [2.0, 1.99976, 1024.0, 1 / 64])
def test_gradients_that_are_all_so_many_times_the_rights_are_a_scaled_loss(tmp_path: Path, factor: float) -> None:
    report = compared(tmp_path, dict.fromkeys(NAMES, factor))
    assert said(report) == (["loss_scaled"], ["inherited"])
    cause = next(one for one in report.records if one.role == "cause")
    assert cause.left.address == "out/grad_output:output:0"
    assert f"all 5 gradients are {factor:.6g} times the right's" in reason_of(cause, ENGLISH)
    assert f"全部 5 个梯度均为右侧的 {factor:.6g} 倍" in reason_of(cause, Phrases("zh"))


@pytest.mark.parametrize(("rounded", "ids"), [(1e-8, ["loss_scaled"]), (1e-3, ["scaled"])])
def test_a_gradient_that_is_rounding_alone_has_no_factor(tmp_path: Path, rounded: float, ids: list[str]) -> None:
    """As of the bias of keys in attention; what is larger than rounding has another direction for a reason."""
    assert said(compared(tmp_path, dict.fromkeys(NAMES, 72.0), rounded=rounded))[0] == ids


def test_gradients_of_weights_alone_are_clipped_behind_the_backward_pass(tmp_path: Path) -> None:
    weights = [name for name in NAMES if name.endswith("/grad")]
    report = compared(tmp_path, dict.fromkeys(weights, 0.25))
    assert said(report) == (["gradients_clipped"], ["inherited"])
    numbers = next(one for one in report.records if one.role == "cause").diagnosis[0].evidence.parameters
    assert numbers["n"] == 3
    assert numbers["left"] == pytest.approx(numbers["right"] / 4)


@pytest.mark.parametrize(
    "factors",
    [
        # One has another factor, one is right, one has another direction.
        dict.fromkeys(NAMES, 2.0) | {"fc.bias/grad": 2.1},
        dict.fromkeys(NAMES[:-1], 2.0),
        dict.fromkeys(NAMES, 2.0) | {"fc/grad_output": -2.0},
        {"fc/grad_output": 2.0},
    ],
)
def test_gradients_that_are_apart_in_other_ways_have_no_such_sentence(
    tmp_path: Path, factors: dict[str, float]
) -> None:
    report = compared(tmp_path, factors)
    assert not [one for one in report.records for found in one.diagnosis if found.id.startswith(("loss", "gradients"))]


def test_a_forward_pass_that_fails_is_the_cause_of_its_gradients(tmp_path: Path) -> None:
    report = compared(tmp_path, dict.fromkeys(NAMES, 2.0), forward=3.0)
    assert said(report)[0] == ["scaled"]
    assert next(one for one in report.records if one.role == "cause").left.address == "fc:output:0"


def test_another_loss_that_makes_most_gradients_nearly_one_share_of_the_rights_is_the_cause(tmp_path: Path) -> None:
    # So does label smoothing; a loss that is scaled makes all of them one share, to rounding.
    shares = dict(zip(NAMES, (0.90005, 0.8994, 0.8999, -0.9, -0.8), strict=True))
    assert said(compared(tmp_path, shares)) == (["loss_differs"], ["inherited"])


def test_what_is_done_to_gradients_outside_of_the_model_is_no_forward_pass(tmp_path: Path) -> None:
    names = (*NAMES, "outside/div_")
    assert said(compared(tmp_path, dict.fromkeys(names, 2.0), names=names)) == (["loss_scaled"], ["inherited"])


def test_an_optimizer_that_is_given_a_share_of_right_gradients_is_the_cause(tmp_path: Path) -> None:
    # Averages of weights that decay have other shares.
    moments = tuple(f"{name}/exp_avg" for name in ("out.weight", "out.bias", "fc.bias", "norm.weight"))
    shares = dict(zip(moments, (0.9, 0.002, 0.002, 0.002), strict=True))
    report = compared(tmp_path, shares, names=(*NAMES, *moments))
    assert said(report) == (["gradients_clipped"], ["inherited"])
    cause = next(one for one in report.records if one.role == "cause")
    assert "3 of 4 averages that the optimizer begins with are 0.002 times the right's" in reason_of(cause, ENGLISH)

"""One sentence for what an optimizer, a loss or an accumulation does otherwise in a training run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from two_dumps import reported

from pytest_msdump.capabilities.causes.roles import reason_of
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.text import ENGLISH, Phrases
from pytest_msdump.record import DumpWriter

Array = npt.NDArray[np.float32]
# A weight, its gradient in a step, and what the optimizer keeps of it → the weight after the step.
Step = Callable[[Array, Array, dict[str, Any]], Array]
NAMES = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")


def sgd(rate: float = 0.1, momentum: float = 0.9, decay: float = 0.01, *, nesterov: bool = False) -> Step:
    """Stochastic gradient descent as PyTorch's documentation has it."""

    def step(weight: Array, gradient: Array, kept: dict[str, Any]) -> Array:
        gradient = gradient + np.float32(decay) * weight
        kept["m"] = gradient if "m" not in kept else np.float32(momentum) * kept["m"] + gradient
        made = gradient + np.float32(momentum) * kept["m"] if nesterov else kept["m"]
        return weight - np.float32(rate) * made

    return step


def adam(
    rate: float = 0.05,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 0.0,
    *,
    inside: bool = False,
    early: bool = False,
    decoupled: bool = False,
) -> Step:
    """Adam as its paper has it, or with epsilon inside of the root, or as MindSpore's documentation has it."""

    def step(weight: Array, gradient: Array, kept: dict[str, Any]) -> Array:
        first, second = betas
        at = kept["t"] = kept.get("t", 0) + 1
        gradient = gradient if decoupled else gradient + np.float32(decay) * weight
        kept["m"] = np.float32(first) * kept.get("m", np.float32(0)) + np.float32(1 - first) * gradient
        kept["v"] = np.float32(second) * kept.get("v", np.float32(0)) + np.float32(1 - second) * gradient**2
        mean, square = kept["m"] / np.float32(1 - first**at), kept["v"] / np.float32(1 - second**at)
        added = np.float32(eps / (1 - second**at) ** 0.5 if early else eps)
        root = np.sqrt(square + added) if inside else np.sqrt(square) + added
        decayed = weight * np.float32(1 - rate * decay) if decoupled else weight
        return decayed - np.float32(rate) * mean / root

    return step


def compared(
    folder: Path,
    left: Callable[[str, int], Step | None],
    right: Step,
    *,
    steps: int = 3,
    kept: bool = False,
    noise: float = 0.0,
    rates: Sequence[float] = (1.0,) * 4,
    has_start: bool = True,
    cancelled: float = 0.0,
    is_steep: bool = False,
) -> Report:
    """Runs that are right but for the left's steps; what `left` returns nothing for stands still.

    `rates` are the shares of its rate at which the right steps; without a start, weights are known after steps alone.
    `cancelled` is a decay that is nearly the negative of a third of the gradients. A steep forward pass gives what the
    steps before have changed of a weight, and nothing of the weight itself.
    """
    for side in ("left", "right"):
        draw, off = np.random.default_rng(1), np.random.default_rng(2)
        weights = {name: draw.standard_normal((8, 6) if "weight" in name else 6).astype("f4") for name in NAMES}
        start = weights["fc2.bias"]
        states: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
        with DumpWriter(folder / side, iterations=True) as writer:
            summed = {name: np.zeros_like(one) for name, one in weights.items()}
            for at in range(steps):
                write = partial(writer.write, iteration=at)
                for name in NAMES if has_start else ():
                    write(name, weights[name], op_type="Parameter")
                given = draw.standard_normal((4, 6)).astype("f4")
                write("fc2", weights["fc2.bias"] - start if is_steep and at else given + at * weights["fc2.bias"])
                for name in reversed(NAMES):
                    gradient = draw.standard_normal(weights[name].shape).astype("f4") + weights[name] / 8
                    if cancelled:
                        nearly = -np.float32(cancelled) * weights[name] * (1 + gradient * np.float32(1e-4))
                        gradient = np.where(np.arange(gradient.size).reshape(gradient.shape) % 3, gradient, nearly)
                    if side == "left":
                        gradient *= 1 + np.float32(noise) * off.standard_normal(gradient.shape).astype("f4")
                    summed[name] = gradient + (summed[name] if kept and side == "left" else 0)
                    write(f"{name}/grad", summed[name])
                for name in NAMES:
                    step = left(name, at) if side == "left" else right
                    if step is not None:
                        after = step(weights[name], summed[name], states[name])
                        share = np.float32(rates[at] if side == "right" else 1)
                        weights[name] = weights[name] + share * (after - weights[name])
                    write(f"{name}/updated", weights[name], op_type="Optimizer")
    return reported(folder)


def said(report: Report) -> list[str]:
    """What the causes are said to be."""
    return [reason_of(one, ENGLISH) for one in report.records if one.role == "cause"]


def cases() -> Iterator[Any]:
    """A step of the left, one of the right, and what is said of it."""
    yield sgd(0.2), sgd(), "the learning rate of all 4 weights is 2 times the right's"
    yield sgd(momentum=0.5), sgd(), "the momentum of the optimizer is 0.5 (right 0.9)"
    yield sgd(nesterov=True), sgd(), "momentum is Nesterov's, on the right plain"
    yield sgd(), sgd(nesterov=True), "momentum is plain, on the right Nesterov's"
    yield sgd(decay=0.0), sgd(), "the weight decay of all 4 weights is 0 (right 0.01)"
    yield adam(betas=(0.8, 0.999)), adam(), "Adam's beta1 is 0.8 (right 0.9)"
    yield adam(betas=(0.9, 0.5)), adam(), "Adam's beta2 is 0.5 (right 0.999)"
    yield adam(eps=0.1), adam(), "Adam's epsilon is 0.1 (right 1e-08)"
    yield adam(eps=0.1, inside=True), adam(eps=0.1), "Adam's epsilon is inside of the root, on the right outside"
    yield adam(eps=0.1, early=True), adam(eps=0.1), "Adam's epsilon is added before bias correction (MindSpore"
    yield adam(decay=0.1), adam(decay=0.1, decoupled=True), "weight decay is added to the gradients (Adam)"


@pytest.mark.parametrize(("left", "right", "sentence"), [*cases()])
def test_the_one_setting_of_the_optimizer_that_differs_is_the_cause(
    tmp_path: Path, left: Step, right: Step, sentence: str
) -> None:
    report = compared(tmp_path, lambda *_: left, right)
    assert [one.partition("; so")[0][: len(sentence)] for one in said(report)] == [sentence]
    assert {one.role for one in report.records if one.fails} == {"cause", "inherited"}
    cause = next(one for one in report.records if one.role == "cause")
    assert "舍入误差内吻合" in reason_of(cause, Phrases("zh"))


def test_a_group_of_weights_is_named_that_has_another_rate_or_stands_still(tmp_path: Path) -> None:
    slower = compared(tmp_path / "rate", lambda name, _: sgd(0.05) if "bias" in name else sgd(), sgd())
    assert said(slower)[0].startswith("the learning rate of 2 of 4 weights (fc1.bias, fc2.bias) is 0.5 times")
    frozen = compared(tmp_path / "frozen", lambda name, _: None if "fc1" in name else sgd(), sgd())
    assert said(frozen)[0].startswith("2 of 4 weights (fc1.bias, fc1.weight) stand still")


def test_a_schedule_that_starts_late_is_told_by_its_rates(tmp_path: Path) -> None:
    report = compared(tmp_path, lambda _, at: sgd(0.1 if at == 0 else 0.05), sgd())
    assert said(report)[0].startswith("the learning rate by iteration is 1, 0.5, 0.5 (right 1, 1, 1)")


def test_a_schedule_is_told_where_the_weights_before_the_first_step_are_not_known(tmp_path: Path) -> None:
    rule = sgd(0.1, decay=0.1)
    report = compared(tmp_path, lambda _, at: (rule, rule, sgd(0.05, decay=0.1))[at], rule, rates=(1, 0.5, 0.25),
                      has_start=False)  # fmt: skip
    (sentence,) = said(report)
    assert sentence.startswith("the steps of all 4 weights are 2 times the right's in iteration 1, and the same before")


@pytest.mark.parametrize("early", [False, True])
def test_a_decay_that_nearly_cancels_gradients_is_told_from_one_of_the_weights(tmp_path: Path, early: bool) -> None:
    left, right = adam(decay=0.05, early=early), adam(decay=0.05, decoupled=True)
    report = compared(tmp_path, lambda *_: left, right, cancelled=0.05)
    assert said(report)[0].startswith("weight decay is added to the gradients (Adam)")


def test_gradients_that_hold_those_of_the_step_before_were_not_set_to_zero(tmp_path: Path) -> None:
    report = compared(tmp_path, lambda *_: sgd(), sgd(), kept=True)
    assert ["of iteration 1 and of all before, added up" in one for one in said(report)] == [True]


def test_steps_that_differ_within_limits_are_the_cause_of_the_forward_pass_that_they_lead_to(tmp_path: Path) -> None:
    report = compared(tmp_path, lambda *_: sgd(0.0101), sgd(0.01), is_steep=True)
    (cause,) = (one for one in report.records if one.role == "cause")
    assert said(report)[0].startswith("the learning rate of all 4 weights is 1.01 times the right's")
    assert (cause.left.at.iteration, cause.fails) == (0, False)
    assert {one.role for one in report.records if one.fails} == {"inherited"}


def test_two_settings_at_once_have_no_sentence_on_one(tmp_path: Path) -> None:
    report = compared(tmp_path, lambda *_: sgd(0.2, momentum=0.5), sgd())
    sentence = "all 4 gradients pass, and 4 weights after the step fail: the optimizer, or what it is set to"
    assert said(report) == [sentence]


def test_steps_of_gradients_that_differ_a_little_have_no_sentence(tmp_path: Path) -> None:
    report = compared(tmp_path, lambda *_: sgd(5.0, decay=0.0), sgd(5.0, decay=0.0), noise=3e-3)
    assert any(one.fails for one in report.records)
    assert not [one for record in report.records for one in record.diagnosis if one.id.startswith("optimizer")]

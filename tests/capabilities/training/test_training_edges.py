"""Roles of gradients, of an optimizer's state and of the weights that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from two_dumps import reported

from pytest_msdump.core.model.dump import Edge, Operator
from pytest_msdump.core.model.record import Record
from pytest_msdump.record import DumpWriter

ONES = np.ones((2, 3), "f4")
# Name, what feeds it, the module around it: a network with a branch.
CALLS: list[tuple[str, list[str], str]] = [
    ("fc1", [], "Net"),
    ("relu", ["fc1"], "Net"),
    ("fc2", ["relu"], "Net"),
    ("side", ["relu"], "Net"),
    ("Net", ["fc2", "side"], ""),
]
BACKWARD = ["Net", "side", "fc2", "relu", "fc1"]


def train(folder: Path, wrong: Mapping[tuple[int, str], float], *, with_parameters: bool = True) -> None:
    """Write two steps; `wrong` says how far tensors are apart, by iteration and name."""
    with DumpWriter(folder, iterations=True) as writer:

        def write(at: int, name: str, op_type: str | None = None) -> None:
            writer.write(name, ONES * np.float32(1 + wrong.get((at, name), 0)), iteration=at, op_type=op_type)

        for at in range(2):
            if with_parameters:
                write(at, "fc1.weight", "Parameter")
            for name, feeds, inside in CALLS:
                write(at, name, "Linear")
                # A network is no input of itself: what it gives back was made inside of it.
                inputs = tuple(Edge(feed, 0, occurrence=0) for feed in feeds)
                writer.add_call(Operator(name, "Linear", inputs=inputs or (None,), inside=inside), iteration=at)
            for name in BACKWARD:
                write(at, f"{name}/grad_output")
                write(at, f"{name}/grad_input")
            for kind in ("grad", "updated", "momentum_buffer"):
                write(at, f"fc1.weight/{kind}", None if kind == "grad" else "Optimizer")


def compared(folder: Path, wrong: Mapping[tuple[int, str], float], *, with_parameters: bool = True) -> list[Record]:
    train(folder / "left", wrong, with_parameters=with_parameters)
    train(folder / "right", {}, with_parameters=with_parameters)
    return [one for one in reported(folder).records if one.fails]


def roles(records: list[Record]) -> dict[tuple[int, str], tuple[str | None, tuple[str, ...]]]:
    found = {}
    for one in records:
        name = one.left.address.split(":")[0]
        found[one.left.at.iteration or 0, name.removeprefix("Parameter.")] = (one.role, one.causes)
    return found


@pytest.mark.parametrize("with_parameters", [True, False])
def test_an_optimizer_that_is_wrong_is_the_cause_of_the_next_step(tmp_path: Path, with_parameters: bool) -> None:
    state, updated = "fc1.weight/momentum_buffer", "fc1.weight/updated"
    wrong = {
        (0, state): 0.2,
        (0, updated): 0.1,
        (1, "fc1.weight"): 0.1,
        (1, "fc1"): 0.1,
        (1, "relu"): 0.1,
        (1, "fc2"): 0.1,
        (1, "Net"): 0.1,
        (1, "Net/grad_output"): 0.1,
        (1, "fc2/grad_output"): 0.1,
        (1, "fc2/grad_input"): 0.1,
        (1, "relu/grad_output"): 0.1,
        (1, "relu/grad_input"): 0.1,
        (1, "fc1/grad_output"): 0.1,
        (1, "fc1.weight/grad"): 0.1,
        (1, state): 0.2,
        (1, updated): 0.3,
    }
    found = roles(compared(tmp_path, wrong, with_parameters=with_parameters))
    assert found.pop((0, state)) == ("cause", ())
    assert len(found) == len(wrong) - 1 - (not with_parameters)
    assert set(found.values()) == {("inherited", (f"{state}:output:0",))}


@pytest.mark.parametrize(
    ("cause", "inherit"),
    [
        # A loss of another kind: what the network gives back is right, its gradient is not.
        ("Net/grad_output", ["fc2/grad_output", "fc2/grad_input", "relu/grad_output"]),
        ("relu/grad_input", ["fc1/grad_output", "fc1.weight/grad", "fc1.weight/updated"]),
        # Inside of a module: its own input's gradient inherits, whatever its output's is.
        ("fc1/grad_input", ["Net/grad_input"]),
        # A gradient of the whole tensor has the part of another branch, too.
        ("side/grad_output", ["fc2/grad_input", "side/grad_input", "relu/grad_output"]),
        ("fc1.weight/grad", ["fc1.weight/momentum_buffer"]),
        ("fc1.weight/updated", []),
        # Forward first: gradients that follow from what a module was given wrong are no causes.
        ("relu", ["fc2", "fc2/grad_input"]),
    ],
)
def test_gradients_inherit_from_what_they_are_made_of(tmp_path: Path, cause: str, inherit: list[str]) -> None:
    found = roles(compared(tmp_path, dict.fromkeys([(0, cause), *((0, name) for name in inherit)], 0.1)))
    assert found.pop((0, cause)) == ("cause", ())
    assert found == {(0, name): ("inherited", (f"{cause}:output:0",)) for name in inherit}


@pytest.mark.parametrize("cause", ["Net/grad_output", "out/grad_input"])
def test_a_block_is_given_the_gradient_that_what_reads_its_last_layer_hands_back(tmp_path: Path, cause: str) -> None:
    """Edges name the layer that made a tensor, not the blocks around it that returned it."""
    calls = [
        ("l.0.a", [], "l.0"),
        ("l.0", ["l.0.a"], "l"),
        ("l", ["l.0.a"], "Net"),
        ("out", ["l.0.a"], "Net"),
        ("Net", ["out"], ""),
    ]
    backward = ["Net/grad_output", "out/grad_output", "out/grad_input", "l/grad_output", "l.0/grad_output"]
    backward += ["l.0.a/grad_output", "l.0.a/grad_input", "l.0/grad_input"]
    for side in ("left", "right"):
        with DumpWriter(tmp_path / side) as writer:
            for name, feeds, inside in calls:
                writer.write(name, ONES, op_type="Linear")
                inputs = tuple(Edge(feed, 0, occurrence=0) for feed in feeds) or (None,)
                is_block = name in ("l", "l.0", "Net")
                writer.add_call(Operator(name, "Linear", inputs=inputs, inside=inside, returns_inner=is_block))
            for name in backward:
                wrong = side == "left" and backward.index(name) >= backward.index(cause)
                writer.write(name, ONES * np.float32(1 + wrong))
    found = roles([one for one in reported(tmp_path).records if one.fails])
    assert found.pop((0, cause)) == ("cause", ())
    assert set(found.values()) == {("inherited", (f"{cause}:output:0",))}


def test_a_weight_that_changed_between_two_steps_is_the_cause(tmp_path: Path) -> None:
    found = roles(compared(tmp_path, {(1, "fc1.weight"): 0.1, (1, "fc1"): 0.1}))
    assert found[1, "fc1.weight"] == ("cause", ())
    assert found[1, "fc1"][0] == "inherited"


def test_what_is_left_of_a_gradient_that_is_zero_makes_no_cause(tmp_path: Path) -> None:
    terms = np.array([[1, -2, 3], [-1, 2, -3]], "f4")
    for side, rest in (("left", 1e-8), ("right", -2e-8)):
        with DumpWriter(tmp_path / side) as writer:
            writer.write("fc1", ONES, op_type="Linear")
            writer.add_call(Operator("fc1", "Linear", inputs=(None,)))
            writer.write("fc1/grad_output", terms)
            writer.write("fc1.bias/grad", np.full(3, rest, "f4"))
            # It was zero before the step.
            writer.write("fc1.bias/updated", np.full(3, -rest / 2, "f4"), op_type="Optimizer")
    report = reported(tmp_path)
    found = {one.left.address.split(":")[0]: (one.verdict.outcome, one.role) for one in report.records}
    assert found["fc1.bias/grad"] == ("warn", None)
    assert found["fc1.bias/updated"] == ("fail", "accumulated")


def test_gradients_of_what_could_not_be_followed_are_not_known(tmp_path: Path) -> None:
    for side, far in (("left", 0.1), ("right", 0)):
        with DumpWriter(tmp_path / side) as writer:
            for name, edge in (("a", None), ("b", Edge("", 0))):
                writer.write(name, ONES, op_type="Linear")
                writer.add_call(Operator(name, "Linear", inputs=(edge,)))
            # It may be `b` that reads `a`.
            writer.write("b/grad_input", ONES * np.float32(1 + far))
            writer.write("a/grad_output", ONES * np.float32(1 + far))
    found = {one.left.address.split(":")[0]: one.role for one in reported(tmp_path).records if one.fails}
    assert found["a/grad_output"] == "unknown"


def test_a_recorded_module_reads_its_weights_as_they_were_before_it_ran(tmp_path: Path) -> None:
    weights = ["weight", "bias", "running_mean", "running_var"]
    for side, far in (("left", 0.1), ("right", 0)):
        with DumpWriter(tmp_path / side) as writer:
            for name in weights:
                bad = name.startswith("running")
                writer.write(f"norm.{name}", ONES * np.float32(1 + far * bad), op_type="Parameter")
            writer.write("norm", ONES * np.float32(1 + far), op_type="BatchNorm2d")
            writer.add_call(Operator("norm", "BatchNorm2d", inputs=(None,)))
    causes = {f"norm.{name}:output:0" for name in weights[2:]}
    found = {one.left.address: (one.role, set(one.causes)) for one in reported(tmp_path).records if one.fails}
    assert found == {"norm:output:0": ("inherited", causes), **dict.fromkeys(causes, ("cause", set()))}

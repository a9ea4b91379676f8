"""The model's own outputs are compared with each other, by position, or what is not is named and fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from semantics.gate import ask

from pytest_msdump import assert_dumps_close
from pytest_msdump.cli import main
from pytest_msdump.core.model.dump import Edge, ModelOutput, Operator
from pytest_msdump.record import DumpWriter

INNER = np.random.default_rng(3).normal(size=(8, 6)).astype(np.float32)
WIDE = np.tanh(INNER)
THIN = np.exp(-np.abs(INNER[:, :4]))
SAME = np.cos(INNER)
WRONG = np.float32(1.5)


def exported(
    root: Path, *outputs: npt.NDArray[Any], names: Sequence[str] = (), taken: bool = False, declared: bool = True
) -> Path:
    """A run of nodes: one that the reference's module `fc` is, and one for each output of the graph, in its order."""
    with DumpWriter(root) as writer:
        writer.describe(framework="onnxruntime")
        ends = [f"node_end_{place}" for place in range(len(outputs))]
        writer.write("node_fc", INNER, op_type="Gemm")
        writer.add_call(Operator("node_fc", "Gemm", inputs=(None,), scope="fc"))
        for end, values in zip(ends, outputs, strict=True):
            writer.write(end, values, op_type="Tanh")
            writer.add_call(Operator(end, "Tanh", inputs=(Edge("node_fc", 0),)))
        if taken:
            # The first output is taken by a further node, and still one.
            writer.add_call(Operator("node_more", "Abs", inputs=(Edge(ends[0], 0),)))
        if declared:
            titles = names or ["y"] * len(ends)
            writer.describe(outputs=tuple(ModelOutput(name, end, 0) for name, end in zip(titles, ends, strict=True)))
    return root


def recorded(root: Path, *outputs: npt.NDArray[Any], names: Sequence[str] = (), declared: bool = True) -> Path:
    """A recording of modules: `fc`, and the model itself around it."""
    with DumpWriter(root) as writer:
        writer.describe(framework="torch")
        writer.write("fc", INNER, op_type="Linear")
        writer.add_call(Operator("fc", "Linear", inputs=(None,), inside="Net"))
        for slot, values in enumerate(outputs):
            writer.write("Net", values, slot=slot, op_type="Net")
        writer.add_call(Operator("Net", "Net", inputs=(None, Edge("fc", 0))))
        if declared:
            titles = names or ["" for _ in outputs]
            writer.describe(outputs=tuple(ModelOutput(name, "Net", slot) for slot, name in enumerate(titles)))
    return root


@pytest.mark.parametrize("declared", [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_outputs_meet_by_position(tmp_path: Path, declared: tuple[bool, bool], wrong: int | None) -> None:
    values = [one * (WRONG if place == wrong else 1) for place, one in enumerate((WIDE, THIN))]
    left = exported(tmp_path / "l", *values, declared=declared[0])
    answer = ask(left, recorded(tmp_path / "r", WIDE, THIN, declared=declared[1]))
    pairs = {one["left"]["address"]: (one["right"]["address"], one["verdict"]) for one in answer.results["tensors"]}
    assert pairs == {
        "node_fc:output:0": ("fc:output:0", "pass"),
        "node_end_0:output:0": ("Net:output:0", "fail" if wrong == 0 else "pass"),
        "node_end_1:output:0": ("Net:output:1", "fail" if wrong == 1 else "pass"),
    }
    assert answer.code == (wrong is not None)


@pytest.mark.parametrize(
    ("names", "paired"),
    [
        ((["y", "y"], ["", ""]), True),
        ((["linear", "tanh"], ["logits", "box"]), True),
        ((["logits", "box"], ["logits", "box"]), True),
        ((["box", "logits"], ["logits", "box"]), False),
        ((["box", "z"], ["logits", "box"]), False),
    ],
)
def test_outputs_of_one_shape_need_names_that_do_not_contradict(
    tmp_path: Path, names: tuple[list[str], list[str]], paired: bool
) -> None:
    left = exported(tmp_path / "l", WIDE, SAME, names=names[0])
    answer = ask(left, recorded(tmp_path / "r", WIDE, SAME, names=names[1]))
    assert (answer.code, len(answer.results["tensors"])) == ((0, 3) if paired else (1, 1))
    assert ("the model's own outputs have other names" in answer.text) is not paired


@pytest.mark.parametrize("outputs", [(WIDE,), (WIDE, THIN, THIN), (WIDE, THIN.T.copy()), (WIDE, THIN.mean(0))])
def test_an_output_that_the_left_lacks_or_has_in_another_shape_fails_unless_it_is_allowed(
    tmp_path: Path, outputs: tuple[npt.NDArray[Any], ...]
) -> None:
    left = exported(tmp_path / "l", *outputs)
    right = recorded(tmp_path / "r", WIDE, THIN, names=["logits", "box"])
    answer = ask(left, right, "--min-coverage", "0")
    assert answer.code == 1
    assert "box (Net:output:1)" in answer.text
    results = str(tmp_path / "reports" / "results.json")
    assert main(["check", results]) == 1
    with pytest.raises(AssertionError, match="the model's own output"):
        assert_dumps_close(left, right, min_coverage=0)
    for names in (["logits", "box"], ["Net"], ["Net:output:*"]):
        assert_dumps_close(left, right, min_coverage=0, allow_uncompared=names)
    assert_dumps_close(left, right, min_coverage=0, deselect=["Net"])
    with pytest.raises(AssertionError, match="the model's own output"):
        assert_dumps_close(left, right, min_coverage=0, allow_uncompared=["fc"])


def test_an_output_that_a_node_takes_as_well_is_known_by_its_declaration(tmp_path: Path) -> None:
    left = exported(tmp_path / "l", WIDE, THIN, taken=True)
    assert ask(left, recorded(tmp_path / "r", WIDE, THIN)).code == 0


def test_a_map_does_not_keep_the_model_s_outputs_from_being_compared(tmp_path: Path) -> None:
    left, right = exported(tmp_path / "l", WIDE, THIN * WRONG), recorded(tmp_path / "r", WIDE, THIN)
    entries = [{"left": "node_fc", "right": "fc"}]
    with pytest.raises(AssertionError, match="node_end_1"):
        assert_dumps_close(left, right, map=entries, min_coverage=0)
    with pytest.raises(AssertionError, match="not compared of the model's own outputs"):
        assert_dumps_close(left, right, map=entries, min_coverage=0, pair_by=["map"])
    # What a person pairs an output with is compared, and enough.
    with pytest.raises(AssertionError, match="node_end_0"):
        assert_dumps_close(left, right, map=[*entries, {"left": "node_end_0", "right": "Net:output:1"}], min_coverage=0)


def test_where_a_side_does_not_say_its_outputs_nothing_changes(tmp_path: Path) -> None:
    right = recorded(tmp_path / "r", WIDE, THIN)
    with DumpWriter(tmp_path / "l") as writer:
        writer.write("fc", INNER)
    assert_dumps_close(tmp_path / "l", right, min_coverage=0)


def test_init_sets_no_share_around_an_output_that_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exported(tmp_path / "l", WIDE), recorded(tmp_path / "r", WIDE, THIN, names=["logits", "box"])
    assert main(["init", "l", "r"]) in (0, 1)
    assert "min_coverage" not in (tmp_path / "msdump.toml").read_text()
    assert "it fails until the model's own outputs are compared" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", "--config", "msdump.toml"]) == 1

"""What operators were initialised with, in the failures of their pairs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from semantics.gate import Answer, ask

from pytest_msdump.capabilities.graphs.operators import ArgumentBook
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.model.dump import Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates

REAL = Path(__file__).parents[1] / "data" / "run_facts" / "whole"
ITERATION = Path("rank_0", "Net", "0", "0")
GRAPH = Path("rank_0", "graphs", "ms_output_trace_code_graph_0.ir")
OP = "Default/fc-Dense/MatMul-op0"
ARGUMENTS = "MatMul.Default_fc-Dense_MatMul-op0.json"


@pytest.fixture
def left(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REAL, tmp_path / "left"))


@pytest.fixture
def right(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REAL, tmp_path / "right"))


def spoil(root: Path) -> None:
    (path,) = (root / ITERATION).glob("MatMul.*.output.0.*")
    np.save(path, np.load(path) + 1)


def save(root: Path, **values: str) -> None:
    (root / ITERATION / ARGUMENTS).write_text(json.dumps(values))


def matmul(answer: Answer) -> dict[str, Any]:
    (record,) = [
        one for one in answer.results["tensors"] if one["left"]["op_type"] == "MatMul" and not one["iteration"]
    ]
    return dict(record)


def test_arguments_of_kernels_are_shown_in_failures(left: Path, right: Path) -> None:
    spoil(left)
    for root in (left, right):
        save(root, transpose_a="False", transpose_b="True")
    answer = ask(left, right)
    assert answer.code == 1
    assert matmul(answer)["kernel_args"] == {
        side: {"file": ARGUMENTS, "values": {"transpose_a": "False", "transpose_b": "True"}}
        for side in ("left", "right")
    }
    assert "differing_arguments" not in matmul(answer)
    assert "arguments transpose_a False, transpose_b True (both sides)" in answer.text
    assert answer.results["left"]["unexplained"] == []


def test_arguments_that_differ_are_listed(left: Path, right: Path) -> None:
    spoil(left)
    save(left, transpose_a="False", transpose_b="True", only="1")
    save(right, transpose_a="False", transpose_b="False")
    answer = ask(left, right)
    assert matmul(answer)["differing_arguments"] == [
        {"kind": "argument", "name": "only", "left": "1", "right": None},
        {"kind": "argument", "name": "transpose_b", "left": "True", "right": "False"},
    ]
    assert "differs argument transpose_b: left True, right False" in answer.text
    assert "differs argument only: left 1, right has none" in answer.text


def test_attributes_of_graphs_that_differ_are_listed(left: Path, right: Path) -> None:
    spoil(left)
    graph = left / GRAPH
    text = graph.read_text("utf-8")
    graph.write_text(text.replace("Bool(0), Bool(1))", "Bool(0), Bool(0))").replace("dst_type: F32", "dst_type: F16"))
    answer = ask(left, right)
    assert matmul(answer)["differing_arguments"] == [
        {"kind": "attribute", "name": "dst_type", "left": "F16", "right": "F32"},
        {"kind": "attribute", "name": "operand 3", "left": "Bool(0)", "right": "Bool(1)"},
    ]
    assert "differs attribute operand 3: left Bool(0), right Bool(1)" in answer.text


def test_a_reference_has_no_attributes_to_differ_in(left: Path, tmp_path: Path) -> None:
    spoil(left)
    reference = tmp_path / "reference"
    reference.mkdir()
    np.save(reference / "fc.0.1600000000000000.npy", np.zeros((10, 3), np.float32))
    suite = tmp_path / "msdump.toml"
    suite.write_text(f'[msdump]\n[[msdump.map]]\nleft = "{OP}"\nright = "fc"\n')
    answer = ask(left, reference, "--config", str(suite))
    assert answer.record["verdict"] == "undefined"
    assert "differing_arguments" not in answer.record


@pytest.mark.parametrize(
    "damage", [{"differing_arguments": [{"kind": "argument"}]}, {"kernel_args": {"left": {"file": "x"}}}]
)
def test_a_report_that_was_edited_is_refused(
    damage: dict[str, Any], left: Path, right: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(left)
    answer = ask(left, right)
    answer.results["tensors"][0].update(damage)
    file = left.parent / "edited.json"
    file.write_text(json.dumps(answer.results))
    assert main(["check", str(file)]) == 4
    assert "the file was cut or edited" in capsys.readouterr().err


def test_operators_of_different_types_share_no_attributes(left: Path, right: Path) -> None:
    suite = left.parent / "msdump.toml"
    suite.write_text(f'[msdump]\n[[msdump.map]]\nleft = "{OP}"\nright = "Default/fc-Dense/BiasAdd-op0"\n')
    spoil(left)
    answer = ask(left, right, "--config", str(suite))
    assert answer.code == 1
    assert "differing_arguments" not in matmul(answer)


def test_attributes_are_those_of_the_operator_s_own_graph(left: Path) -> None:
    dump = index(left)
    names = ("stride: 1", "stride: 2")
    graphs = [OperatorGraph((Operator(OP, "MatMul", attributes=text),)) for text in names]
    both = replace(
        dump, graphs=tuple((Coordinates(graph=number), graph) for number, graph in zip((1, 0), graphs, strict=True))
    )
    (ref, *_) = [one for one in dump.refs if one.key.op.label == OP]
    assert ArgumentBook(both).attributes(ref) == {"stride": "2"}

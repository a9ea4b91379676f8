"""Operators that an exporter counted are shown as modules, everywhere; what is typed may be either name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump.cli import main
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.model.dump import Edge, Operator
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter

X = np.random.default_rng(5).normal(size=(4, 6)).astype(np.float32)
# Name, type, module, and the line of the program, of each node of an export: two blocks of a product, a sum, a Gelu
# and two more products inside of the block itself.
BLOCK = (("MatMul", "up"), ("Add", "up"), ("Gelu", ""), ("MatMul", ""), ("MatMul", ""), ("Add", ""))


def exported(root: Path, *, first: int = 0, wrong: str = "", scopes: bool = True) -> Path:
    """An export whose nodes are counted from `first`; from the node behind `wrong` on, values drift."""
    values, before = X, None
    with DumpWriter(root) as writer:
        writer.describe(framework="onnxruntime")
        number = first
        for block in ("blocks.0", "blocks.1"):
            for place, (kind, part) in enumerate(BLOCK):
                name, scope = f"node_{kind}_{number}", f"{block}.{part}" if part else block
                values = np.tanh(values + np.float32(0.1)) * np.float32(1.5 if f"{block}/{place}" == wrong else 1)
                writer.write(name, values, op_type=kind, line=f"net.py:{20 + place}")
                inputs = (None if before is None else Edge(before, 0),)
                writer.add_call(Operator(name, kind, inputs=inputs, scope=scope if scopes else ""))
                before, number = name, number + 1
        writer.write("node_Gemm_head", values, op_type="Gemm")
        writer.add_call(Operator("node_Gemm_head", "Gemm", inputs=(Edge(before or "", 0),), scope="head"))
    return root


def recorded(root: Path) -> Path:
    """A recording of the same modules."""
    values = X
    with DumpWriter(root) as writer:
        writer.describe(framework="torch")
        before: Edge | None = None
        for block in ("blocks.0", "blocks.1"):
            made = {}
            for place in range(len(BLOCK)):
                values = made[place] = np.tanh(values + np.float32(0.1))
            writer.write(f"{block}.up", made[1], op_type="Linear")
            writer.add_call(Operator(f"{block}.up", "Linear", inputs=(before,), inside=block))
            writer.write(block, values, op_type="Block")
            writer.add_call(Operator(block, "Block", inputs=(Edge(f"{block}.up", 0), before)))
            before = Edge(block, 0)
        writer.write("head", values, op_type="Linear")
        writer.add_call(Operator("head", "Linear", inputs=(before,)))
    return root


def planned(left: Path, right: Path) -> Plan:
    return plan(load_suite(file=None, options={"left": str(left), "right": str(right)}, directory=Path.cwd()))


def ids(left: Path, right: Path) -> list[str]:
    return [group.name for group in planned(left, right).groups]


IN_BLOCK = [".up (MatMul)", ".up", " (Gelu)", " (MatMul)", " (MatMul 2)", ""]
EVERY = [*(f"blocks.{n}{end}" for n in range(2) for end in IN_BLOCK), "head"]


def test_ids_are_modules_and_stay_where_nodes_are_counted_anew(tmp_path: Path) -> None:
    right = recorded(tmp_path / "right")
    found = [ids(exported(tmp_path / f"from_{first}", first=first), right) for first in (0, 7)]
    assert found[0] == found[1] == ["blocks.0.up", "blocks.0", "blocks.1.up", "blocks.1", "head"]


def test_what_is_inside_of_a_module_has_its_kind_and_no_two_names_are_the_same(tmp_path: Path) -> None:
    left = exported(tmp_path / "left")
    assert ids(left, left) == EVERY


def test_without_modules_of_its_own_an_operator_is_called_as_its_partner(tmp_path: Path) -> None:
    left, right = exported(tmp_path / "left", scopes=False), recorded(tmp_path / "right")
    Path(tmp_path / "msdump.toml").write_text(
        f'[msdump]\nleft = "{left}"\nright = "{right}"\n'
        '[[msdump.map]]\nleft = "node_Add_1"\nright = "blocks.0.up"\n'
        '[[msdump.map]]\nleft = "node_Gelu_2"\nright = "blocks.0.up"\nreshape = true\n',
        "utf-8",
    )
    suite = load_suite(file=tmp_path / "msdump.toml", options={}, directory=tmp_path)
    # Two that meet one module are told apart by their kinds.
    assert [group.name for group in plan(suite).groups][:2] == ["blocks.0.up (Add)", "blocks.0.up (Gelu)"]


def test_a_name_that_another_operator_has_is_not_given_again(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "run") as writer:
        for name, scope in (("node_Gemm_1", "fc"), ("fc", ""), ("fc (Gemm)", "")):
            writer.write(name, X, op_type="Gemm")
            writer.add_call(Operator(name, "Gemm", inputs=(None,), scope=scope))
    assert ids(tmp_path / "run", tmp_path / "run") == ["node_Gemm_1", "fc", "fc (Gemm)"]


def test_names_that_a_framework_gave_stay(tmp_path: Path) -> None:
    names = ["Default/network-Net/fc-Dense/MatMul-op0", "Default/network-Net/fc-Dense/BiasAdd-op1"]
    write_mindspore(
        tmp_path / "run", [(name.split("/")[-1][:-4], name, "output", 0, X) for name in names], execution_order=True
    )
    made = planned(tmp_path / "run", tmp_path / "run")
    assert ([group.name for group in made.groups], made.names.shown) == (names, {})


def test_operators_of_a_trace_are_called_as_what_they_meet_and_layers_of_a_model_are_not(tmp_path: Path) -> None:
    traces = ["view", "linear", "gelu", "linear_1", "add", "layer_norm", "add_1", "mul_2", "view_1", "cat"]
    layers = ["conv", "linear", "act", "linear_1", "fc_1", "layer_norm", "stem", "block_2", "pool_1", "neck"]
    for folder, names in (("trace", traces), ("model", layers)):
        for side in ("left", "right"):
            with DumpWriter(tmp_path / folder / side) as writer:
                for name in names:
                    writer.write(f"net.{name}" if side == "right" else name, X)
        entries = "".join(f'[[msdump.map]]\nleft = "{name}"\nright = "net.{name}"\n' for name in names)
        (tmp_path / folder / "msdump.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n{entries}', "utf-8")
    found = {
        folder: [
            group.name
            for group in plan(load_suite(file=tmp_path / folder / "msdump.toml", options={}, directory=tmp_path)).groups
        ]
        for folder in ("trace", "model")
    }
    assert found == {"trace": [f"net.{name}" for name in traces], "model": layers}


@pytest.fixture
def drifting(pytester: pytest.Pytester) -> None:  # noqa: ARG001 - it has a folder of its own
    """The Gelu of block 1 is wrong, of which only what leaves the block is compared."""
    exported(Path("left"), wrong="blocks.1/2")
    recorded(Path("right"))
    Path("net.msdump.toml").write_text('[msdump]\nleft = "left"\nright = "right"\n', "utf-8")


@pytest.mark.usefixtures("drifting")
def test_every_text_of_a_run_has_modules(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    kinds = "json,md,html,github"
    result = pytester.runpytest("net.msdump.toml", "-v", "--junitxml=junit.xml", f"--msdump-report={kinds}")
    assert result.ret == 1
    printed = result.stdout.str()
    assert "net.msdump.toml::blocks.1.up PASSED" in printed
    assert "after blocks.1.up, up to the output of blocks.1; not compared in between: blocks.1 (" in printed
    assert "DRIFT  blocks.1:output:0 (node_Add_11)" in printed
    assert "1 cause: blocks.1; 1 inherited (--msdump-show=failing)" in printed
    assert "cause: blocks.1\n" in printed
    assert "title=msdump%3A blocks.1%3Aoutput%3A0::" in printed or "title=msdump: blocks.1:output:0" in printed
    junit = Path("junit.xml").read_text("utf-8")
    cases = {case.get("name"): case for case in ElementTree.fromstring(junit).iter("testcase")}
    failure = cases["blocks.1"].find("failure")
    assert failure is not None
    assert failure.get("message", "").startswith("cause blocks.1 (net.py:25): ")
    assert {one.get("name"): one.get("value") for one in cases["head"].iter("property")}["msdump.causes"] == (
        "blocks.1:output:0"
    )
    summary = Path("msdump-report/summary.md").read_text("utf-8")
    assert "| 12 | `blocks.1` | `net.py:25` | " in summary
    # The exporter's name stands where it finds the operator in the model's file, or the tensor's: nowhere else.
    texts = "".join((printed + junit + summary).split())
    elsewhere = re.sub(r"node_Add_11\.\d|\(node_Add_11\)|select=node_Add_11", "", texts)
    assert "node_Add_11" not in elsewhere


@pytest.mark.usefixtures("drifting")
@pytest.mark.parametrize("typed", ["blocks.1", "node_Add_11", "node_Add_11:output:0"])
def test_either_name_is_typed(pytester: pytest.Pytester, typed: str) -> None:
    collected = pytester.runpytest(f"net.msdump.toml::{typed}", "--collect-only", "-q")
    assert [line for line in collected.outlines if "::" in line] == ["net.msdump.toml::blocks.1"]
    if ":" not in typed:
        collected = pytester.runpytest("net.msdump.toml", "-k", typed, "--collect-only", "-q")
        assert "net.msdump.toml::blocks.1" in collected.outlines
    sides = ("--msdump-left=left", "--msdump-right=right")
    chosen = pytester.runpytest(*sides, f"--msdump-select={typed}", "--collect-only", "-q")
    assert [line.rpartition("::")[2] for line in chosen.outlines if "::" in line] == ["blocks.1", "coverage"]
    assert main(["compare", "--config", "net.msdump.toml"]) == 1
    accepted = ["accept", "msdump-report", typed, "--reason", "r", "--until", "2099-12-31"]
    assert main(accepted) == 0
    assert "[[msdump.known_drift]]" in Path("net.msdump.toml").read_text("utf-8")


@pytest.mark.usefixtures("drifting")
def test_a_name_with_a_kind_is_typed_as_it_is_shown(pytester: pytest.Pytester) -> None:
    sides = ("--msdump-left=left", "--msdump-right=left")
    for words in (["--msdump-select=blocks.1 (MatMul 2)"], ["-k", "node_MatMul_10"]):
        collected = pytester.runpytest(*sides, *words, "--collect-only", "-q")
        names = [line.rpartition("::")[2] for line in collected.outlines if "::" in line]
        assert [name for name in names if name != "coverage"] == ["blocks.1 (MatMul 2)"]


def test_what_the_other_side_has_no_name_for_is_accepted_as_it_is_shown(pytester: pytest.Pytester) -> None:  # noqa: ARG001
    exported(Path("left"), wrong="blocks.1/2", first=20)
    exported(Path("right"), scopes=False)
    nodes = [(kind, number) for number, (kind, _) in enumerate(BLOCK * 2)]
    pairs = "".join(
        f'[[msdump.map]]\nleft = "node_{kind}_{number + 20}"\nright = "node_{kind}_{number}"\n'
        for kind, number in nodes
    )
    Path("msdump.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n{pairs}', "utf-8")
    assert main(["compare", "--config", "msdump.toml"]) == 1
    why = ["--reason", "r", "--until", "2099-12-31"]
    assert main(["accept", "msdump-report", "blocks.1 (Gelu)", *why]) == 0
    assert Path("msdump.toml").read_text("utf-8").count("[[msdump.known_drift]]") == 1
    assert main(["accept", "msdump-report", "blocks.1 (Relu)", *why]) == 4


@pytest.mark.usefixtures("drifting")
def test_results_keep_addresses_and_say_under_which_name_they_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "left", "right", "--json"]) == 1
    cause = json.loads(capsys.readouterr().out)["causes"][0]
    assert (cause["tensor"], cause["name"], cause["file"], cause["line"]) == (
        "node_Add_11:output:0", "blocks.1", "net.py", 25,
    )  # fmt: skip
    results = json.loads(Path("msdump-report/results.json").read_text("utf-8"))
    assert results["left"]["shown"]["node_Gelu_8"] == "blocks.1 (Gelu)"
    assert "shown" not in results["right"]
    # Also where a result is read again.
    assert main(["check", "msdump-report/results.json"]) == 1
    assert "DRIFT  blocks.1:output:0 (node_Add_11)" in capsys.readouterr().out

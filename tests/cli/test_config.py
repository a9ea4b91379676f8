"""`msdump config`: exit codes, and what it prints is what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_msdump import cli

DATA = Path(__file__).parents[1] / "data"


def main(arguments: list[str]) -> int:
    return cli.main(arguments)


@pytest.fixture
def made(tmp_path, capsys):
    file = tmp_path / "data_dump.json"
    assert main(["config", "new", "--path", "/data/dump", "--around-step", "10", "--out", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"export MINDSPORE_DUMP_CONFIG={file}" in said
    return file


def test_a_new_configuration_passes_its_own_check(made, capsys):
    assert main(["config", "check", str(made), "--mode", "cpu"]) == 0
    assert capsys.readouterr().out == f"{made}: 0 refused, 0 warnings\n"


def test_a_refusal_is_exit_code_1_and_comes_first(made, capsys):
    document = json.loads(made.read_text())
    document["common_dump_settings"] |= {"iteration": 0, "colour": 1}
    made.write_text(json.dumps(document))
    assert main(["config", "check", str(made)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("refused: common_dump_settings.iteration: iteration must be a string since 1.5")
    assert second.startswith("warning: common_dump_settings.colour: unknown key 'colour'")
    assert last == f"{made}: 1 refused, 1 warning"


def test_a_graph_tells_which_operators_would_be_dumped(made, tmp_path, capsys):
    order = tmp_path / "ms_execution_order_graph_0.csv"
    order.write_text(
        "NodeExecutionOrder-FullNameWithScope\nDefault/ReLU-op1\nGradients/ReluGrad-op2\nDefault/Add-op3\n"
    )
    document = json.loads(made.read_text())
    document["common_dump_settings"] |= {"dump_mode": 1, "kernels": ["ReLU"]}
    made.write_text(json.dumps(document))
    assert main(["config", "check", str(made), "--graph", str(order)]) == 0
    said = capsys.readouterr().out
    assert "'ReLU' also matches ReluGrad" in said
    assert "would dump 2 of 3 operators\n  Default/ReLU-op1\n  Gradients/ReluGrad-op2\n" in said


def test_an_ir_tells_which_operators_would_be_dumped(made, capsys):
    document = json.loads(made.read_text())
    document["common_dump_settings"] |= {"dump_mode": 1, "kernels": ["Conv2D", "Default/Mul-op0"]}
    made.write_text(json.dumps(document))
    graph = DATA / "ir" / "odd" / "ms_output_trace_code_graph_0.ir"
    assert main(["config", "check", str(made), "--graph", str(graph)]) == 0
    said = capsys.readouterr().out
    assert "would dump 2 of 8 operators\n  Default/conv-Conv2d/Conv2D-op0\n  Default/Mul-op0\n" in said
    document["common_dump_settings"] |= {"dump_mode": 0}
    made.write_text(json.dumps(document))
    main(["config", "check", str(made), "--graph", str(graph)])
    assert "would dump all of 8 operators\n" in capsys.readouterr().out


# The compiled model of these is fusion.json; its own name is the outermost `name` in it.
FUSION = DATA / "ascend_golden" / "a_fusion_nchw" / "fusion.json"


@pytest.mark.parametrize(
    ("models", "says"),
    [
        (["fusion", "OWN"], "refused: dump.dump_list: 'fusion' and 'OWN' are two names of one model; name it once"),
        (["other"], "warning: dump.dump_list: the model of the graph is called 'fusion' or 'OWN', not 'other'"),
        (["fusion"], None),
        (["OWN", "another"], None),
    ],
)
def test_a_model_has_two_names(models, says, tmp_path, capsys):
    own = json.loads(FUSION.read_text())["name"]
    model = tmp_path / "fusion.json"
    model.write_text(FUSION.read_text())
    listed = [name.replace("OWN", own) for name in models]
    file = tmp_path / "acl.json"
    file.write_text(
        json.dumps({"dump": {"dump_path": str(tmp_path), "dump_list": [{"model_name": name} for name in listed]}})
    )
    code = main(["config", "check", str(file), "--graph", str(model)])
    said = capsys.readouterr().out
    assert code == int(says is not None and says.startswith("refused"))
    assert ("dump_list" in said) == (says is not None)
    assert says is None or says.replace("OWN", own) in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--model", "resnet50"],
            {"dump_mode": "all", "dump_list": [{"model_name": "resnet50"}], "dump_op_switch": "off"},
        ),
        (
            ["--model", "a", "--model", "b", "--kernel", "conv1", "--outputs-only", "--iteration", "0|3-5"],
            {
                "dump_mode": "output",
                "dump_list": [{"model_name": "a", "layer": ["conv1"]}, {"model_name": "b", "layer": ["conv1"]}],
                "dump_op_switch": "off",
                "dump_step": "0|3-5",
            },
        ),
        (["--kernel", "conv1"], {"dump_mode": "all", "dump_list": [{"layer": ["conv1"]}], "dump_op_switch": "off"}),
        ([], {"dump_mode": "all", "dump_list": [], "dump_op_switch": "on"}),
    ],
)
def test_a_new_acl_json_passes_its_own_check(arguments, expected, tmp_path, capsys):
    file = tmp_path / "acl.json"
    assert main(["config", "new", "--acl", "--path", str(tmp_path), "--out", str(file), *arguments]) == 0
    assert f'aclInit("{file}")' in capsys.readouterr().out
    assert json.loads(file.read_text()) == {"dump": {"dump_path": str(tmp_path), **expected}}
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: 0 refused, 0 warnings\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "no-such-file.json"],
        ["check", "broken.json"],
        ["check", "list.json"],
        ["check", "made.json", "--version", "x"],
        ["check", "made.json", "--mode", "npu"],
        ["new", "--path", "relative"],
        ["new", "--path", "/d", "--iteration", "0", "--around-step", "3"],
        ["new", "--path", "/d", "--around-step", "0"],
        ["new", "--path", "/d", "--out", "no/such/folder/x.json"],
        ["check"],
        ["check", "made.json", "--graph", "no-such-graph.ir"],
        ["check", "made.json", "--graph", "list.json"],
        ["new", "--acl", "--path", "/d", "--around-step", "3"],
        ["new", "--acl", "--path", "/d", "--model", "a", "--model", "a"],
        ["new", "--path", "/d", "--model", "a"],
        [],
    ],
)
def test_usage_errors_are_one_line_and_4(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MINDSPORE_DUMP_CONFIG", raising=False)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "made.json").write_text('{"common_dump_settings": {}}')
    assert main(["config", *arguments]) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_the_ge_dump_needs_its_variable(capsys):
    main(["config", "new", "--path", "/data/dump", "--mode", "ge"])
    assert "export ENABLE_MS_GE_DUMP=1" in capsys.readouterr().out
    main(["config", "new", "--path", "/data/dump", "--mode", "o0"])
    assert "ENABLE_MS_GE_DUMP" not in capsys.readouterr().out

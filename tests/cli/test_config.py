"""`msdump config`: exit codes, and what it prints is what it writes."""

from __future__ import annotations

import json

import pytest

from pytest_msdump import cli
from pytest_msdump.cli import config


def main(arguments: list[str]) -> int:
    return cli.main(arguments, commands=(config,))


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


def test_without_a_file_the_configuration_is_printed(capsys):
    assert main(["config", "new", "--path", "/data/dump", "--kernel", "Conv2D"]) == 0
    text = capsys.readouterr().out.split("\n\n")[0]
    assert json.loads(text)["common_dump_settings"]["kernels"] == ["Conv2D"]


def test_a_refusal_is_exit_code_1_and_comes_first(made, capsys):
    document = json.loads(made.read_text())
    document["common_dump_settings"] |= {"iteration": 0, "colour": 1}
    made.write_text(json.dumps(document))
    assert main(["config", "check", str(made)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("refused: common_dump_settings.iteration: iteration must be a string since 1.5")
    assert second.startswith("warning: common_dump_settings.colour: unknown key 'colour'")
    assert last == f"{made}: 1 refused, 1 warnings"


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


def test_explain_goes_key_by_key(made, capsys):
    assert main(["config", "explain", str(made)]) == 0
    said = capsys.readouterr().out
    assert 'common_dump_settings.iteration = "8|9"\n    step 9, step 10 of the script' in said
    assert 'common_dump_settings.file_format = "bin" (default)' in said


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
        [],
    ],
)
def test_usage_errors_are_one_line_and_4(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "made.json").write_text('{"common_dump_settings": {}}')
    assert main(["config", *arguments]) == 4
    assert capsys.readouterr().err.count("\n") == 1

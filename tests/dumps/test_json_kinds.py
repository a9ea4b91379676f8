"""A JSON file that is no dump is called what it is, with what takes it."""

import json
import shlex

import pytest

from pytest_msdump.capabilities.debug_mode.reader import described
from pytest_msdump.cli import main

COMMON = {"dump_mode": 0, "path": "/d", "net_name": "N", "iteration": "all", "input_output": 0, "support_device": [0]}
KINDS = [
    ("data_dump.json", {"common_dump_settings": COMMON, "e2e_dump_settings": {"enable": True}}, "MindSpore", "explain"),
    ("any.json", {"common_dump_settings": COMMON, "async_dump_settings": {"enable": True}}, "MindSpore", "explain"),
    ("acl_dump_0.json", {"dump": {"dump_path": "/d", "dump_mode": "all", "dump_list": []}}, "CANN", "explain"),
    ("acl.json", {"dump": {"dump_scene": "lite_exception"}}, "CANN", "config explain"),
    ("stack.json", {"0": [["Module.a"], ["File x"]]}, "dump of msprobe", "give the folder"),
    ("construct.json", {"Module.a.forward.0": None}, "dump of msprobe", "give the folder"),
    ("config.json", {"task": "statistics", "dump_path": "/d", "level": "L1"}, "configuration of msprobe", "dump_path"),
    ("results.json", {"schema_version": 1, "counts": {}, "tensors": []}, "result of a comparison", "msdump check"),
    ("msdump.json", {"schema_version": 1, "tensors": {}}, "manifest", "give the folder"),
    ("a.limits.json", {"schema": 1, "metric_version": 1, "m": {}}, "limits file", "--limits"),
    ("fusion.json", {"name": "n", "graph": []}, "compiled model", "--fusion"),
    ("quant.json", {"version": 1, "graph": []}, "rules of AMCT", "--quant-fusion"),
    ("undo.json", {"schema_version": 1, "folder": "f", "renamed": []}, "msdump rename", "--undo"),
    ("strategy.json", {"parallel_layout_item": {}}, "parallel strategy", "suite file"),
    ("hccl.json", {"server_list": []}, "rank table", "give the dump"),
    ("config.json", {"device_target": "CPU", "ms_version": "2.10.0"}, "run of MindSpore", "give the folder"),
    ("MatMul.Default_MatMul-op3.json", {"transpose_a": "False"}, "arguments of an operator: transpose_a = False", ""),
    ("what.json", {"a": 1}, "no kind that is known", "give a dump"),
]


@pytest.mark.parametrize(("name", "values", "what", "advice"), KINDS)
@pytest.mark.parametrize("command", [["inspect", "F"], ["compare", "F", "F"], ["convert", "F", "-o", "out"]])
def test_it_is_called_what_it_is(command, name, values, what, advice, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(json.dumps(values))
    assert main([name if word == "F" else word for word in command]) == 4
    said = capsys.readouterr().err
    assert what in said
    assert advice in said
    assert "DebugMode" not in said or what.startswith("no kind")


@pytest.mark.parametrize(
    ("name", "values"), [(name, values) for name, values, _, advice in KINDS if "explain" in advice]
)
def test_the_command_that_is_named_runs(name, values, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"a b {name}"
    path.write_text(json.dumps(values))
    command = described(path, values).partition("see ")[2]
    assert main(shlex.split(command)[1:]) == 0

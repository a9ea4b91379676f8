"""The examples below each ``--help`` run as they stand, in a folder that has what they name."""

from __future__ import annotations

import json
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import cli

ROOT = Path(__file__).parents[2]
LENET = ROOT / "example_suites" / "01_lenet_port"
NET = """name: "net"
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
"""
PROGRAM = """
import json, os, sys
import numpy as np
config = os.environ.get("MINDSPORE_DUMP_CONFIG")
folder = json.load(open(config))["common_dump_settings"]["path"] if config else os.environ.get("DUMP_TO", sys.argv[-1])
os.makedirs(folder, exist_ok=True)
np.save(folder + "/relu.0.1700000000000000.npy", np.ones(3))
"""
CONFIGURATION = """{"common_dump_settings": {"op_debug_mode": 0, "dump_mode": 0, "path": "/data/dump",
"net_name": "Net", "iteration": "all", "saved_data": "tensor", "input_output": 0, "kernels": [], "support_device": [0]},
"e2e_dump_settings": {"enable": true, "trans_flag": true}}"""
LISTING = "1 dumped tensor(s):\n\nt (ms)     Size (B) Op type    Tensor name\n[0.000]    170      VariableV2 k:0\n"


DECODER = """
import numpy as np

def decode(ids, mask):
    while True:
        ids = yield np.eye(8)[ids.sum(-1) % 8]
        ids = ids[:, None]
"""
SAID = """
import json, os
import numpy as np

asked = json.load(open(os.environ["MSDUMP_PROMPTS"]))
for number, prompt in enumerate(asked["prompts"]):
    said = [sum(prompt), *asked["forced"][number][:-1]]
    np.save(os.environ["MSDUMP_LOGITS"] + f"/prompt_{number}.logits.npy", np.eye(8)[np.array(said) % 8])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two dumps, two files, and what else the examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(LENET / "run", tmp_path / "run")
    shutil.copytree(LENET / "reference", tmp_path / "reference")
    for name, scale, dtype in (("perturbed", 1 + 2e-7, "<f4"), ("threads_1", 1, "<f4"), ("float64", 1, "<f8")):
        (tmp_path / name).mkdir()
        for file in (LENET / "reference").glob("*.npy"):
            values = np.load(file)
            is_float = values.dtype.kind == "f"
            np.save(tmp_path / name / file.name, (values * scale).astype(dtype) if is_float else values)
    for name in "ab":
        np.save(tmp_path / name, np.arange(6.0, dtype=np.float32))
    (tmp_path / "saved").mkdir()
    np.save(tmp_path / "saved" / "conv-0", np.ones(3, np.float32))
    (tmp_path / "net.prototxt").write_text(NET, "utf-8")
    (tmp_path / "tensor_names.txt").write_text(LISTING, "utf-8")
    cli.main(["compare", "run", "reference"])
    shutil.copytree("msdump-report", "accepted")
    drifting = ROOT / "example_suites" / "02_failing_on_purpose"
    shutil.copytree(drifting, tmp_path / drifting.name)
    shutil.copytree(drifting / "run", "evaluated")
    shutil.copy(drifting / "ms_output_trace_code_graph_0.ir", "graph_0.ir")
    shutil.copytree(ROOT / "example_suites" / "08_one_dump" / "run", "trained")
    (tmp_path / LENET.name).symlink_to(LENET)
    cli.main(["compare", "--config", f"{drifting.name}/msdump.toml", "--report-dir", "drifted"])
    for rank in ("rank0", "rank1"):
        shutil.copytree("msdump-report", f"{rank}/msdump-report")
    # Programs that dump: to the folder that is their last word, or a variable, or the configuration of a dump.
    for name in ("evaluate.py", "train.py"):
        (tmp_path / name).write_text(PROGRAM, "utf-8")
    for name in ("port.py", "ref.py"):
        (tmp_path / name).write_text(DECODER, "utf-8")
    (tmp_path / "said.py").write_text(SAID, "utf-8")
    (tmp_path / "p.json").write_text("[[1, 2], [3]]", "utf-8")
    (tmp_path / "data_dump.json").write_text(CONFIGURATION, "utf-8")
    monkeypatch.setattr("webbrowser.open", lambda _address: True)
    return tmp_path


def needs_more(words: list[str]) -> bool:
    """Whether an example needs PyTorch, or releases of an index: tests/live has one of each."""
    return "--model" in words or words[0] == "port" or any("==" in word for word in words)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", cli.COMMANDS)
@pytest.mark.e2e
def test_the_examples_of_a_command_run_as_they_stand(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    examples = import_module(cli.COMMANDS[command][0]).EXAMPLES
    for line in examples:
        assert len(line) <= 78
        program, *words = shlex.split(line)
        assert (program, words[0]) == ("msdump", command)
        if needs_more(words):
            continue
        assert cli.main(words) == 0, capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    shown = capsys.readouterr().out
    assert shown.endswith("\n".join(["examples:", *(f"  {line}" for line in examples)]) + "\n")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", cli.COMMANDS)
@pytest.mark.e2e
def test_the_examples_print_one_document_each(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in import_module(cli.COMMANDS[command][0]).EXAMPLES:
        words = shlex.split(line)[1:]
        if needs_more(words) or "--suggest" in words:
            continue  # a suggested suite is TOML
        end = words.index("--") if "--" in words else len(words)
        capsys.readouterr()
        assert cli.main([*words[:end], *([] if "--json" in words else ["--json"]), *words[end:]]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["command"], found["exit_code"]) == (command, 0)

"""A suite that `msdump init` writes for a wrong port fails, and the same file passes on the mended port.

Needs PyTorch and MindSpore in one environment. The ports and their mistakes are in small_ports.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from live.small_ports import PORTS

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

pytestmark = pytest.mark.live

# Moving statistics are no outputs of a cell.
UNSEEN = {("pynative", "cnn", "bn_momentum")}
MISTAKES = [
    (mode, model, mistake)
    for mode in ("graph", "pynative")
    for model, mistakes in PORTS.items()
    for mistake in mistakes
    if (mode, model, mistake) not in UNSEEN
]
SOUND = [
    (mode, model, port)
    for mode in ("graph", "pynative")
    for model, port in (*((model, "right") for model in PORTS), ("cnn", "renamed"))
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("torch", "mindspore"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("ports")
    for mode in ("graph", "pynative"):
        (folder / mode).mkdir()
        command = [sys.executable, str(Path(__file__).with_name("small_ports.py")), mode, str(folder / mode)]
        made = subprocess.run(command, env=os.environ | {"GLOG_v": "3"}, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
    return folder


def judged(suite: Path, *more: str) -> int:
    return main(["compare", "--config", str(suite), "--report-dir", str(suite.with_suffix("")), *more])


def causes(suite: Path) -> list[str]:
    """Modules of what is called a cause, else of what fails first, as the recorder names them."""
    tensors = read_json(suite.with_suffix("") / "results.json")["tensors"]
    failing = [one for one in tensors if one["verdict"] in ("fail", "error", "undefined")]
    told = [one for one in failing if one.get("role") == "cause"] or failing[:1]
    # Default/blocks-CellList/0-Block/act-GELU/GeLU-op0 is of blocks.0.act.
    return [re.sub(r"-\w+", "", one["left"]["address"]).removeprefix("Default/").replace("/", ".") for one in told]


@pytest.mark.parametrize(("mode", "model", "mistake"), MISTAKES)
def test_the_suite_of_a_wrong_port_is_red_and_green_once_the_port_is_mended(
    mode: str, model: str, mistake: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, folder = tmp_path / "made.msdump.toml", runs / mode / model
    assert main(["init", str(folder / mistake), str(folder / "reference"), "-o", str(suite), "-q"]) == 0
    before = suite.read_bytes()
    capsys.readouterr()
    assert judged(suite) == 1
    printed = capsys.readouterr().out
    assert "re-run just this: " in printed or "coverage: " in printed
    assert any(module.startswith(PORTS[model][mistake]) for module in causes(suite))
    # A renamed layer keeps its name.
    mended = "renamed" if (model, mistake) == ("cnn", "last_layer") else "right"
    assert judged(suite, "-l", str(folder / mended)) == 0, capsys.readouterr().out
    assert suite.read_bytes() == before


@pytest.mark.parametrize(("mode", "model", "port"), SOUND)
def test_the_suite_of_a_right_port_is_green(
    mode: str, model: str, port: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, folder = tmp_path / "made.msdump.toml", runs / mode / model
    assert main(["init", str(folder / port), str(folder / "reference"), "-o", str(suite), "-q"]) == 0
    for more in ([], ["--profile=strict"]):
        assert judged(suite, *more) == 0, capsys.readouterr().out
    # Calls that do not feed each other have no names but their numbers.
    assert model == "recurrent" or "-op" not in suite.read_text("utf-8")


def test_what_the_port_computes_after_the_last_hook_is_named(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hooks of all modules but the model itself save nothing to judge it by."""
    sides = [str(runs / "graph/encoder" / side) for side in ("head_scale", "reference")]
    assert main(["match", *sides]) == 0
    assert "goes on after head" in capsys.readouterr().out
    # Also where a header is not read: behind the counts of a run that passes.
    main(["compare", "--quiet", *sides, f"--report-dir={tmp_path}"])
    assert "goes on after head" in capsys.readouterr().out.partition("89 pass")[2]

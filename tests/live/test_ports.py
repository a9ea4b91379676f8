"""A suite that `msdump init` writes for a wrong port fails, and the same file passes on the mended port.

Needs PyTorch and MindSpore in one environment. The ports and their mistakes are in small_ports.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from live.small_ports import PORTS

from pytest_msdump.cli import main

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


@pytest.mark.parametrize(("mode", "model", "mistake"), MISTAKES)
def test_the_suite_of_a_wrong_port_is_red_and_green_once_the_port_is_mended(
    mode: str, model: str, mistake: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, folder = tmp_path / "made.msdump.toml", runs / mode / model
    assert main(["init", str(folder / mistake), str(folder / "reference"), "-o", str(suite), "-q"]) == 0
    before = suite.read_bytes()
    capsys.readouterr()
    assert judged(suite) == 1
    assert "first failing: " in capsys.readouterr().out
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
    assert judged(suite) == 0, capsys.readouterr().out
    # Calls that do not feed each other have no names but their numbers.
    assert model == "recurrent" or "-op" not in suite.read_text("utf-8")

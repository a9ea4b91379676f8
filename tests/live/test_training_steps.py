"""Training steps of a CNN ported to MindSpore: `init && pytest` is green on the right port alone.

The reference is PyTorch with hooks of one's own, with dots or underscores in names. What fails first, or is called a
cause, is the place of the mistake. Needs PyTorch and MindSpore.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live.runs import EVERYTHING, run

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

pytest.importorskip("torch")
pytest.importorskip("mindspore")
pytestmark = pytest.mark.live

PROGRAM = Path(__file__).with_name("training_steps.py")
# Mistake → what the name of a cause, or of the first that fails, has.
MISTAKES = {
    "bn_momentum": "bn1.moving_mean",
    # MindSpore leaves beta and gamma out of weight decay where weights are not grouped.
    "nodecay": "moments.bn1.gamma",
    "lr": "conv1.weight",
    "momentum": "moments.conv1.weight",
    "reduction": "_loss_fn-CrossEntropyLoss",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make each side once: the reference in a style of names, or the port with a mistake."""
    # MindSpore takes no dots in the path of a dump.
    root = tmp_path_factory.mktemp("ports")

    def reference(style: str) -> Path:
        folder = root / style
        if not folder.exists():
            words = [sys.executable, PROGRAM, "reference", style, root / "weights.npz", folder]
            subprocess.run(list(map(str, words)), check=True, timeout=120)
        return folder

    def port(mistake: str) -> Path:
        folder, config = root / mistake, root / f"{mistake}.json"
        if not folder.exists():
            reference("dots")
            common = {**EVERYTHING, "input_output": 2, "path": str(folder)}
            config.write_text(json.dumps({"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}))
            variables = {"MINDSPORE_DUMP_CONFIG": str(config), "GLOG_v": "3"}
            words = [sys.executable, PROGRAM, "port", mistake, root / "weights.npz"]
            ran = run(list(map(str, words)), variables, root)
            assert ran.returncode == 0, ran.stderr
        return folder

    return lambda *, style="", mistake="right": reference(style) if style else port(mistake)


def gated(folder: Path, left: Path, right: Path, profile: str) -> tuple[int, dict[str, Any]]:
    """What `init && pytest` gives: the exit code and the results."""
    assert main(["init", str(left), str(right), "-o", str(folder / "a.msdump.toml"), "-q"]) == 0
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "a.msdump.toml"]
    words.append(f"--msdump-profile={profile}")
    code = subprocess.run(words, cwd=folder, capture_output=True, check=False, timeout=300).returncode
    return code, read_json(folder / "msdump-report/results.json")


@pytest.mark.parametrize(
    ("style", "profile"), [("dots", "default"), ("dots", "strict"), ("underscores", "strict"), ("flat", "strict")]
)
def test_a_right_port_is_green(style: str, profile: str, made: Callable[..., Path], tmp_path: Path) -> None:
    code, results = gated(tmp_path, made(), made(style=style), profile)
    assert code == 0, [one for one in results["tensors"] if one["verdict"] not in ("pass", "warn")]
    # The gradient of conv2.bias before BatchNorm is rounding alone, in both steps.
    assert results["counts"]["warn"] == 2
    assert results["coverage"]["value"] == 1 or style == "underscores"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_red_with_its_place(mistake: str, made: Callable[..., Path], tmp_path: Path) -> None:
    code, results = gated(tmp_path, made(mistake=mistake), made(style="dots"), "strict")
    assert code == 1
    failing = [one for one in results["tensors"] if one["verdict"] in ("fail", "error", "undefined")]
    told = [one for one in failing if one.get("role") == "cause"] or failing[:1]
    causes = [one["left"]["address"] for one in told]
    assert any(MISTAKES[mistake] in address for address in causes), causes

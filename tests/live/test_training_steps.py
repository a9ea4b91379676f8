"""A transformer, and training steps of a CNN, ported to MindSpore: `init && pytest` is green on the right port alone.

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
from live.runs import EVERYTHING, NETS, _run, msdump

from pytest_msdump.core.report.json_report import read_json

pytest.importorskip("torch")
pytest.importorskip("mindspore")
pytestmark = pytest.mark.live

# Kind, mistake → what the name of a cause, or of the first that fails, has.
MISTAKES = {
    ("transformer", "scale"): "0-Block/attn-Attention/proj",
    ("transformer", "axis"): "0-Block/attn-Attention/proj",
    ("transformer", "lneps"): "0-Block/ln1-LayerNorm",
    ("transformer", "gelu"): "0-Block/act-GELU",
    ("transformer", "nobias"): "0-Block/fc2-Dense",
    ("transformer", "headw"): "head.weight",
    ("transformer", "transp"): "blocks.1.attn.k.weight",
    ("cnn", "pad"): "conv1-Conv2d",
    ("cnn", "bneps"): "bn2-BatchNorm2d",
    ("cnn", "fcw"): "fc-Dense",
    ("cnn", "bnmom"): "bn1.moving_mean",
    # MindSpore leaves beta and gamma out of weight decay where weights are not grouped.
    ("cnn", "nodecay"): "moments.bn1.gamma",
    ("cnn", "lr"): "conv1.weight",
    ("cnn", "momentum"): "moments.conv1.weight",
    ("cnn", "reduction"): "_loss_fn-CrossEntropyLoss",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make each side once: the reference of a kind and style of names, the port of a kind with a mistake."""
    # MindSpore takes no dots in the path of a dump.
    root = tmp_path_factory.mktemp("ports")

    def reference(kind: str, style: str) -> Path:
        folder = root / f"{kind}_{style}"
        if not folder.exists():
            words = [sys.executable, NETS / "reference.py", kind, style, root / f"{kind}.npz", folder]
            subprocess.run(list(map(str, words)), check=True, timeout=120)
        return folder

    def port(kind: str, mistake: str) -> Path:
        folder, config = root / f"{kind}-{mistake}", root / f"{kind}-{mistake}.json"
        if not folder.exists():
            reference(kind, "dots")
            common = {**EVERYTHING, "input_output": 2, "path": str(folder)}
            config.write_text(json.dumps({"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}))
            variables = {"MINDSPORE_DUMP_CONFIG": str(config), "GLOG_v": "3"}
            words = [sys.executable, NETS / "ported.py", kind, mistake, root / f"{kind}.npz"]
            ran = _run(list(map(str, words)), variables, root)
            assert ran.returncode == 0, ran.stderr
        return folder

    return lambda kind, *, style="", mistake="right": reference(kind, style) if style else port(kind, mistake)


def gated(folder: Path, left: Path, right: Path, profile: str) -> tuple[int, dict[str, Any]]:
    """What `init && pytest` gives: the exit code and the results."""
    assert msdump(folder, "init", str(left), str(right), "-o", "a.msdump.toml").returncode == 0
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "a.msdump.toml"]
    words.append(f"--msdump-profile={profile}")
    code = subprocess.run(words, cwd=folder, capture_output=True, check=False, timeout=300).returncode
    return code, read_json(folder / "msdump-report/results.json")


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize(
    ("kind", "style"),
    [("transformer", "dots"), ("transformer", "underscores"), ("cnn", "dots"), ("cnn", "underscores"), ("cnn", "flat")],
)
def test_a_right_port_is_green(kind: str, style: str, profile: str, made: Callable[..., Path], tmp_path: Path) -> None:
    code, results = gated(tmp_path, made(kind), made(kind, style=style), profile)
    assert code == 0, [one for one in results["tensors"] if one["verdict"] not in ("pass", "warn")]
    # The gradient of conv2.bias before BatchNorm is rounding alone, in both steps.
    assert results["counts"]["warn"] == (2 if kind == "cnn" else 0)
    assert results["coverage"]["value"] == 1 or style == "underscores"


@pytest.mark.parametrize(("kind", "mistake"), MISTAKES, ids="-".join)
def test_a_mistake_is_red_with_its_place(kind: str, mistake: str, made: Callable[..., Path], tmp_path: Path) -> None:
    code, results = gated(tmp_path, made(kind, mistake=mistake), made(kind, style="dots"), "strict")
    assert code == 1
    failing = [one for one in results["tensors"] if one["verdict"] in ("fail", "error", "undefined")]
    causes = [one["left"]["address"] for one in failing if one.get("role") == "cause"] or [
        failing[0]["left"]["address"]
    ]
    assert any(MISTAKES[kind, mistake] in address for address in causes), causes


def test_what_the_port_computes_after_the_last_hook_is_named(made: Callable[..., Path], tmp_path: Path) -> None:
    """Hooks of all modules but the model itself save nothing to judge it by."""
    sides = (str(made("transformer", mistake="headscale")), str(made("transformer", style="dots")))
    assert "goes on after head" in msdump(tmp_path, "match", *sides).stdout
    # Also where a header is not read: behind the counts of a run that passes.
    summary = msdump(tmp_path, "compare", "--quiet", *sides).stdout.partition("62 pass")[2]
    assert "goes on after head" in summary

"""A copy of a training dump with four bad files: each is told by itself, the rest is compared, the gate fails.

The dump is one step of MindSpore 2.10 on a processor (outputs), with forward, backward and optimizer operators.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

TRAINING = Path(__file__).parents[1] / "data" / "training"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1552\n"
NET = "Default/network-Loss/net-Cnn"
# The graph numbers it 1, its file 0.
GRADIENT = f"Gradients/{NET}/conv-Conv2d/Grad_Conv2D/Conv2DBackpropFilter-op1"
CUT, EMPTIED, REMOVED = f"{NET}/conv-Conv2d/Conv2D-op0", f"{NET}/ReLU-op0", f"{NET}/pool-MaxPool2d/MaxPool-op0"
FILES = {
    CUT: "Conv2D.*.output.0.*",
    EMPTIED: "ReLU.*.output.0.*",
    REMOVED: "MaxPool.*.output.0.*",
    GRADIENT: "Conv2DBackpropFilter.*.output.0.*",
}
SAID = {
    # Of the values, 2·4·6·6 of 4 bytes, behind a header of 128.
    CUT: "cut off after 872 of 1152 bytes; the run was probably killed while writing: dump it again",
    EMPTIED: "is empty (0 bytes); the run was probably killed while writing: dump it again",
    GRADIENT: "is a Git LFS pointer, not the tensor itself; run `git lfs pull`",
}
GONE = "a graph of the {side} run, and no setting leaves it out: the run ended early, or the file was deleted"
COUNT = len(list(TRAINING.rglob("*.npy")))


def the_file(root: Path, operator: str) -> Path:
    (path,) = root.glob(f"rank_0/Net/0/0/{FILES[operator]}")
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    root = shutil.copytree(TRAINING, tmp_path / "damaged")
    conv = the_file(root, CUT)
    conv.write_bytes(conv.read_bytes()[:1000])
    the_file(root, EMPTIED).write_bytes(b"")
    the_file(root, REMOVED).unlink()
    the_file(root, GRADIENT).write_bytes(POINTER)
    return root


@pytest.fixture(params=["left", "right"])
def side(request: pytest.FixtureRequest) -> str:
    """Which side is damaged."""
    return str(request.param)


@pytest.fixture
def sides(side: str, damaged: Path) -> tuple[Path, Path]:
    return (damaged, TRAINING) if side == "left" else (TRAINING, damaged)


def by_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"),
            *("--msdump-report-dir", "out", *arguments),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ran.returncode, " ".join((ran.stdout + ran.stderr).split())


def by_command(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["compare", *arguments, "--report-dir", str(folder / "out")])
    return code, " ".join(capsys.readouterr().out.split())


def results_of(folder: Path) -> dict[str, Any]:
    return dict(read_json(folder / "out" / "results.json"))


def check_records(results: dict[str, Any], side: str) -> None:
    """Three errors with their own words, every other tensor equal, one without a partner."""
    other = "right" if side == "left" else "left"
    records = {record[side]["true_name"] or record[side]["name"]: record for record in results["tensors"]}
    assert len(records) == len(results["tensors"]) == COUNT - 1
    errors = {name: record for name, record in records.items() if record["verdict"] != "pass"}
    assert set(errors) == set(SAID)
    for name, record in errors.items():
        (finding,) = record["findings"]
        assert record["verdict"] == "error"
        assert SAID[name] in finding["sentence"]
        assert the_file(TRAINING, name).name in finding["sentence"]
    assert all(record["equal"] for name, record in records.items() if name not in errors)
    (gone,) = results["unmatched"]
    assert (gone["side"], gone["address"]) == (other, f"{REMOVED}:output:0")
    assert GONE.format(side=side) in gone["reason"]
    assert results["complete"] is True


def test_the_command_tells_each_and_compares_the_rest(
    sides: tuple[Path, Path], side: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = by_command(tmp_path, capsys, *map(str, sides))
    assert code == 1
    check_records(results_of(tmp_path), side)
    for name, said in SAID.items():
        assert name in text.replace(" ", "") or name in text
        assert said in text
    assert "Traceback" not in text
    assert f"{COUNT - 1} tensors: {COUNT - 4} pass, 3 error" in text


@pytest.mark.e2e
def test_a_removed_file_that_a_map_names_is_missing(
    sides: tuple[Path, Path], side: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "msdump.toml"
    suite.write_text(
        f'[msdump]\nleft = "{sides[0]}"\nright = "{sides[1]}"\n\n'
        f'[[msdump.map]]\nleft = "{REMOVED}"\nright = "{REMOVED}"\n'
    )
    # The other three are mended: what is missing must fail the gate alone.
    for operator in SAID:
        for root in sides:
            if root != TRAINING:
                shutil.copy(the_file(TRAINING, operator), the_file(root, operator))
    code, text = by_pytest(tmp_path, "msdump.toml", "-v")
    assert code == 1
    assert re.findall(r"::(\S+) FAILED", text) == ["coverage"]
    (missing,) = results_of(tmp_path)["missing"]
    assert (missing["left"], missing["right"]) == (REMOVED, REMOVED)
    code, text = by_command(tmp_path, capsys, "--config", str(suite))
    assert code == 1
    assert f"{COUNT - 1} tensors: {COUNT - 1} pass" in text
    assert "coverage: 1 map entry found no pair" in text
    assert f"mapped, but not paired (1): {REMOVED} <-> {REMOVED}: no operator {REMOVED} on the {side} side" in text
    (gone,) = results_of(tmp_path)["unmatched"]
    assert GONE.format(side=side) in gone["reason"]


def test_the_whole_dump_passes_and_every_tensor_is_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(TRAINING, tmp_path / "copy")
    code, text = by_command(tmp_path, capsys, str(TRAINING), str(copy), "--min-coverage", "100")
    assert code == 0
    assert f"{COUNT} tensors: {COUNT} pass" in text

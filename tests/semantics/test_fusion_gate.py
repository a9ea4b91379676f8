"""The gate through the fusion-mapping JSON, as a user types it: pytest in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from semantics.gate import ask

from pytest_msdump.core.report.json_report import read_json

pytestmark = pytest.mark.e2e

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
FUSED = GOLDEN / "a_fusion_nchw"


def gate(folder: Path, *arguments: str, left: Path, right: Path) -> tuple[int, str, dict[str, Any]]:
    """Exit code, what was printed, results.json."""
    own = ("-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider")
    sides = ("--msdump-left", str(left), "--msdump-right", str(right))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *own, *sides, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    file = folder / "msdump-report" / "results.json"
    results = read_json(file) if file.is_file() else {}
    return ran.returncode, ran.stdout + ran.stderr, results


def failing(results: dict[str, Any]) -> dict[str, str]:
    return {
        record["left"]["address"]: record["verdict"] for record in results["tensors"] if record["verdict"] != "pass"
    }


def missing(results: dict[str, Any]) -> list[str]:
    return [entry["left"] for entry in results["missing"]]


def without_repeats(folder: Path) -> tuple[Path, Path]:
    """The same dumps as one run would leave them: of a tensor that is there twice, the newer file alone."""
    for side in ("left", "right"):
        shutil.copytree(FUSED / side, folder / side)
    (folder / "left" / "Relu.dup_relu.12.1.1600000000000012").unlink()
    (folder / "right" / "conv1_relu.0.1600000000000050.npy").unlink()
    return folder / "left", folder / "right"


def test_exactly_what_is_wrong_fails(tmp_path):
    left, right = without_repeats(tmp_path)
    code, said, results = gate(tmp_path, "--msdump-fusion", str(FUSED / "fusion.json"), left=left, right=right)
    assert code == 1
    assert failing(results) == {"loss:output:0": "fail", "argmax:output:0": "fail", "wrong_shape:output:0": "error"}
    assert missing(results) == ["pool_norightfile:output:0", "gone:output:0"]
    items = set(re.findall(r"^FAILED \S*?::?(\S+) - ", said, re.MULTILINE)) or set(
        re.findall(r"^FAILED (\S+) - ", said, re.MULTILINE)
    )
    assert {item.rsplit("::", 1)[-1] for item in items} == {"loss", "argmax", "wrong_shape", "coverage"}
    answer = ask(FUSED / "left", FUSED / "right", "-f", str(FUSED / "fusion.json"), reports=tmp_path / "out")
    assert "paired: fusion.json: conv1 + conv1/bn + conv1/relu" in answer.text
    by = {record["left"]["address"]: record["by"] for record in answer.results["tensors"]}
    assert by["conv1conv1/bnconv1/relu:output:0"] == "fusion.json: conv1 + conv1/bn + conv1/relu"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("model.om", "IMOD....", "atc --mode=1 --om={path} --json="),
        ("fusion.json", '{"graph": [{"op": [{"type": "Relu"}]}]}', "fusion.json: graph[0].op[0]: 'name' is missing"),
        ("fusion.json", '{"graph": [{"op": [{"name": "other", "type": "Relu"}]}]}', "knows no operator of the left"),
        ("missing.json", None, "missing.json"),
    ],
)
def test_a_rule_file_that_cannot_be_used_is_one_line_and_4(name, content, says, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    code, said, _ = gate(tmp_path, "--msdump-fusion", str(path), left=FUSED / "left", right=FUSED / "right")
    (line,) = [line for line in said.splitlines() if line.startswith("ERROR: ")]
    assert (code, says.format(path=path) in line, "Traceback" in said) == (4, True, False)


def test_cycles_duplicates_and_lacking_parts_are_told_and_survived(tmp_path):
    operators = [
        {"name": "loss", "type": "ReduceMean", "input": ["argmax:0"]},
        {"name": "argmax", "type": "ArgMaxD", "input": ["loss:0"]},
        {"name": "loss", "type": "Other"},
        {"name": "split1", "type": "SplitD", "input": ["", "nobody:3"]},
    ]
    rules = tmp_path / "fusion.json"
    rules.write_text(json.dumps({"graph": [{"op": operators}]}))
    code, _, results = gate(tmp_path, "--msdump-fusion", str(rules), left=FUSED / "left", right=FUSED / "right")
    assert code == 1
    notes = " ".join(results["left"]["notes"])
    assert "loss" in notes
    assert "circle" in notes
    pairs = {record["left"]["address"]: record["how"] for record in results["tensors"]}
    assert pairs["loss:output:0"] == pairs["split1:output:0"] == "fused"


def test_fault_19_a_killed_worker_ends_the_run(tmp_path):
    """The vendor's tool waits for ever for a worker that the system killed."""
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text(
        "import os, signal\n"
        "def pytest_runtest_setup(item):\n"
        "    if item.name.startswith('argmax') and hasattr(item.config, 'workerinput'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    arguments = ("--msdump-fusion", str(FUSED / "fusion.json"), "-n", "2", "--max-worker-restart=0", "--confcutdir=.")
    code, said, results = gate(tmp_path, *arguments, str(tmp_path), left=FUSED / "left", right=FUSED / "right")
    assert code == 1
    assert "crashed" in said
    assert results["complete"] is False
    verdicts = {record["left"]["address"]: record["verdict"] for record in results["tensors"]}
    assert verdicts["argmax:output:0"] == "not_run"

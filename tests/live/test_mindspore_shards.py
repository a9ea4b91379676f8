"""Parameters that MindSpore's own functions have cut are put together by its own strategy files, bit for bit.

Needs MindSpore in an environment of its own, whose interpreter MSDUMP_MINDSPORE_PYTHON names.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

PYTHON = os.environ.get("MSDUMP_MINDSPORE_PYTHON")
PROGRAM = Path(__file__).parent / "mindspore_shards.py"

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not PYTHON, reason="MSDUMP_MINDSPORE_PYTHON is not set"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make both runs, once."""
    folder = tmp_path_factory.mktemp("shards")
    command = [str(PYTHON), str(PROGRAM), str(folder)]
    made = subprocess.run(command, env={**os.environ, "GLOG_v": "3"}, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


@pytest.mark.parametrize(("run", "parameters"), [("one", 12), ("stages", 3)])
def test_parameters_are_merged_bit_for_bit(runs, tmp_path, run, parameters):
    (runs / f"{run}.toml").write_text(
        f'[msdump]\nleft = "{run}"\nright = "{run}_whole"\n[msdump.shards]\nleft = {{ strategy = "{run}.ckpt" }}\n'
    )
    assert main(["compare", "--config", str(runs / f"{run}.toml"), f"--report-dir={tmp_path}"]) == 0
    tensors = read_json(tmp_path / "results.json")["tensors"]
    assert [one["equal"] for one in tensors] == [True] * parameters

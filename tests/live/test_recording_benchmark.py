"""The benchmark of recordings measures each kind on each network, in each framework that is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_pages import ROOT

pytestmark = pytest.mark.live

# Framework → the package that it needs, and how many kinds of recordings there are of each network.
KINDS = {"torch": ("torch", 5), "keras": ("tensorflow", 3), "onnx": ("onnxruntime", 2), "mindspore": ("mindspore", 3)}


def interpreter(framework: str) -> str:
    """One that has the framework: this one, or that which an environment variable names."""
    package = KINDS[framework][0]
    named = os.environ.get(f"MSDUMP_{framework.upper()}_PYTHON")
    if named is None:
        pytest.importorskip(package)
    return named or sys.executable


@pytest.mark.parametrize("framework", KINDS)
def test_the_benchmark_measures_each_kind_of_recording_on_each_network(framework: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            *(interpreter(framework), ROOT / "benchmarks/recording.py"),
            *("--framework", framework, "--steps", "1", "--dir", tmp_path),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    pattern = r"^(convolutions|transformer) +\D+[\d.]+ +[\d.]+ +([\d.]+) +(\d+) +([\d.]+) +(\d+|-)$"
    rows = re.findall(pattern, ran.stdout, re.MULTILINE)
    count = KINDS[framework][1]
    assert [name for name, *_ in rows] == ["convolutions"] * count + ["transformer"] * count
    assert all(int(files) >= 8 and float(size) > 0.5 for _, _, files, size, _ in rows)
    # Whoever records more writes more.
    assert float(rows[1][3]) > float(rows[0][3])
    assert list(tmp_path.iterdir()) == []

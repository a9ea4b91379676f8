"""The benchmark of recordings that one leaves switched on measures each kind, and says what breaks a limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from docs_pages import ROOT

pytestmark = pytest.mark.live

pytest.importorskip("torch")

OURS = ["sketch", "sketch+gradients", "full", "full+gradients+parameters"]


def test_the_benchmark_measures_each_kind_of_recording(tmp_path: Path) -> None:
    dumps, values = tmp_path / "dumps", tmp_path / "values.json"
    dumps.mkdir()
    command = [sys.executable, ROOT / "benchmarks/leave_on.py", "small", "--rounds", "1", "--steps", "2"]
    ran = subprocess.run(
        [*command, "--threads", "1", "--dir", dumps, "--json", values, "--strict"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.rstrip().endswith("limits: all kept")
    rows = json.loads(values.read_text("utf-8"))
    assert [(row["kind"], row["job"]["kernel"]) for row in rows] == [
        *((kind, "compiled") for kind in OURS),
        *((kind, "numpy") for kind in OURS[:2]),
    ]
    for row in rows:
        # Rounds of a step's seconds and CPU seconds; what is printed is their quotient.
        ((plain, _),), ((recorded, _),) = row["plain"], row["recorded"]
        assert row["cells"][3] == f"{recorded / plain:.2f}"
        assert row["opening"][0] > 0
    sketch, sketch_gradients, full, everything = (row["bytes"] for row in rows[:4])
    # Four layers and the model itself; three of the outputs are 4 × 16 × 30 × 30 float32.
    assert rows[0]["tensors"] == rows[2]["tensors"] == 5
    assert full > 3 * 4 * 4 * 16 * 30 * 30 > sketch
    assert everything > full
    assert sketch_gradients > sketch
    assert list(dumps.iterdir()) == []

"""The benchmark of limits from a perturbed run finds mistakes and passes harmless runs of a small network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from docs_pages import ROOT

pytestmark = pytest.mark.live

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")

from rounding.networks import made  # noqa: E402 - needs the framework
from rounding.runs import Setting, harmless, run  # noqa: E402
from rounding.scores import at_fault, clopper_pearson, conformal, distances, worst_slice  # noqa: E402


def test_a_small_network_is_measured_and_told(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks/limits.py", "lstm", "--dir", tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    few = ["--variants", "3", "--places", "1", "--steps", "2"]
    ran = subprocess.run([*command, *few], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "| one perturbed run, 12 and 64 | 0 of 3 (0.00% … 63.16%) |" in ran.stdout
    assert "| LSTM: gates swapped | 1 of 1 | 0 | 0 | 0 |" in ran.stdout
    rows = [json.loads(line) for line in (tmp_path / "lstm.jsonl").read_text("utf-8").splitlines()]
    tensors = len(rows[0]["tensors"])
    assert {len(some) for row in rows if "far" in row for some in row["far"]} == {tensors}
    pool = ["--controls", "--pool", "25", "--draws", "5", "--steps", "2"]
    ran = subprocess.run([*command, *pool], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5 times 19 of them set the limits, for runs drawn as these were:" in ran.stdout


@pytest.mark.parametrize("setting", [Setting(parts=2, shuffle=3), Setting(order="reversed", onednn=False)])
def test_a_harmless_run_has_the_tensors_of_the_reference_in_their_places(setting: Setting) -> None:
    network = made("lstm", 1)
    exact = Setting(dtype=torch.float64)
    left, right = run(network, setting), run(network, exact)
    # Gradients of a fused layer arrive in any order.
    assert sorted(one.operator for one in left) == sorted(one.operator for one in right)
    # Any sample or part in another's place is 1 and not 1e-5 apart.
    assert max(distances(left, right).euclid) < 1e-5


def test_harmless_settings_differ() -> None:
    settings = harmless(made("lstm", 1), 12)
    assert len({one.name for one in settings}) == 12


def test_distances_are_those_of_numpy() -> None:
    network = made("lstm", 1)
    left, right = run(network, Setting(dtype=torch.bfloat16)), run(network, Setting())
    found = distances(left, right)
    # Gradients of a fused layer arrive in any order.
    values = {one.operator: one.values.numpy() for one in left}
    for number, other in enumerate(right):
        a, b = values[other.operator], other.values.numpy()
        assert found.euclid[number] == pytest.approx(np.linalg.norm(a - b) / np.linalg.norm(b), rel=1e-12)
        assert found.largest[number] == pytest.approx(np.abs(a - b).max() / np.abs(b).max(), rel=1e-12)


def test_the_worst_slice_is_the_channel_that_is_wrong() -> None:
    right = torch.ones(4, 3, 8, dtype=torch.float64)
    left = right.clone()
    left[:, 1] *= 1.5
    assert worst_slice(left, right, 2**-24) == pytest.approx(0.5)
    assert worst_slice(left[:1, :, :4], right[:1, :, :4], 2**-24) is None


def test_the_interval_of_no_alarm_in_360_ends_at_its_exact_bound() -> None:
    assert clopper_pearson(0, 360) == (0.0, pytest.approx(1 - 0.05 ** (1 / 360)))


def test_19_runs_earn_5_percent_by_their_largest_score() -> None:
    assert conformal([*range(19)], 0.05) == 18
    with pytest.raises(ValueError, match="18 runs are too few"):
        conformal([*range(18)], 0.05)


@pytest.mark.parametrize(
    ("operator", "at", "is_fault"),
    [
        ("a.b:0", "a.b", True),
        ("a.b@1/grad_output:0", "a.b", True),
        ("a.b.weight/grad:0", "a.b", True),
        ("a.bc:0", "a.b", False),
        ("a:0", "a.unseen", True),
        ("c.weight/updated:0", "*/updated", True),
    ],
)
def test_a_tensor_belongs_to_its_module(operator: str, at: str, *, is_fault: bool) -> None:
    assert at_fault(operator, at, {"a:0": None, "a.b:0": None}) is is_fault

"""A metric of another package: an entry point and a function of the sums, and it is measured, limited and reported."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels import EACH

from pytest_msdump.core.report.json_report import read_json

PACKAGE = '''
import math

from pytest_msdump.core.facts.metrics import MetricFact


def signal_to_noise(totals):
    """20·log10(|r| / |l-r|), in dB."""
    signal = totals.partial.right[0].squares.value
    return 10 * math.log10(signal / totals.errors.squares.value)


SIGNAL_TO_NOISE = MetricFact("signal to noise", "high", "loudness", least=-math.inf, define=signal_to_noise)
'''


@pytest.mark.e2e
@pytest.mark.parametrize("kernel", EACH)
def test_a_metric_of_another_package_is_measured_limited_and_reported(kernel: str, tmp_path: Path) -> None:
    site, data = tmp_path / "site", tmp_path / "data"
    information = site / "snr-1.0.dist-info"
    information.mkdir(parents=True)
    data.mkdir()
    (site / "snr.py").write_text(PACKAGE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: snr\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[pytest_msdump.metrics]\nloudness_ratio = snr:SIGNAL_TO_NOISE\n")
    right = np.random.default_rng(1).normal(size=5000)
    left = right + np.random.default_rng(2).normal(size=5000) * 1e-9
    np.save(data / "left.npy", left)
    np.save(data / "right.npy", right)
    expected = 20 * math.log10(np.linalg.norm(right) / np.linalg.norm(left - right))

    def compare(limit: float) -> subprocess.CompletedProcess[str]:
        command = ["compare", "left.npy", "right.npy", "--threshold", f"loudness={limit}"]
        return subprocess.run(
            [sys.executable, "-m", "pytest_msdump", *command, "--report-dir", "out"],
            cwd=data,
            env={**os.environ, "PYTHONPATH": str(site), "MSDUMP_KERNEL": kernel},
            capture_output=True,
            text=True,
            check=False,
        )

    passing = compare(expected - 1)
    assert (passing.returncode, passing.stderr) == (0, "")
    failing = compare(expected + 1)
    assert failing.returncode == 1, failing.stderr
    assert re.search(r"^  loudness .* FAIL$", failing.stdout, re.MULTILINE)
    (record,) = read_json(data / "out" / "results.json")["tensors"]
    assert record["metrics"]["loudness_ratio"] == pytest.approx(expected, rel=1e-12)
    assert [finding["metric"] for finding in record["findings"] if finding["outcome"] == "fail"] == ["loudness_ratio"]

"""The memory benchmark works, on files small enough for every run of the tests; its figures are no test's business."""

import re
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "peak_memory.py"


def test_the_memory_benchmark_measures_five_passing_comparisons(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, BENCHMARK, "--mib", "16", "--dir", tmp_path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = re.findall(r"^(.+?) +(\d+) +([\d.]+) +([\d.]+)$", ran.stdout, re.MULTILINE)
    assert [(title, code) for title, code, _, _ in rows] == [
        ("msdump compare, both C order", "0"),
        ("msdump compare, right Fortran", "0"),
        ("msdump compare, left Fortran", "0"),
        ("pytest, both C order", "0"),
        ("pytest, right Fortran", "0"),
    ]
    # An interpreter with numpy alone is above 20 MiB: a smaller number would be another process's, or another unit.
    assert all(20 < float(peak) < 150 for _, _, peak, _ in rows)
    assert list(tmp_path.iterdir()) == []


def test_the_memory_benchmark_fails_above_its_limit(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, BENCHMARK, "--mib", "1", "--dir", tmp_path, "--limit-mib", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr


def test_the_network_benchmark_compares_every_operator_that_was_dumped(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, BENCHMARK.with_name("ascend_network.py"), "--operators", "20", "--dir", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "matched 15 of 15 right tensors (100 %)" in ran.stdout
    assert "20 tensors: 20 pass" in ran.stdout
    assert re.search(r"^exit 0, [\d.]+ seconds, peak \d+ MiB$", ran.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


def test_the_benchmark_of_details_writes_every_element(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, BENCHMARK.with_name("detail.py"), "--elements", "20000", "--dir", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = re.findall(r"^(.+?) +(\d+) +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+)$", ran.stdout, re.MULTILINE)
    assert [row[:2] for row in rows] == [
        ("msaccucmp -op, lists only", "0"),
        ("msaccucmp -op", "0"),
        ("msdump compare -d", "0"),
    ]
    assert all(20 < float(row[2]) < 150 for row in rows)
    assert float(rows[1][3]) > 1 > float(rows[0][3])
    assert list(tmp_path.iterdir()) == []

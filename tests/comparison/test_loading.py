"""Two files are compared by what two files need: nobody else's format, no graph, no matching, no command."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

ROOMS = ("cli", "graphs", "localising", "matching", "plugin", "scheduling", "settings", "suite")
PROGRAM = """
import sys
from pytest_msdump import compare
record = compare("left.npy", "right.npy")
print(record.verdict.outcome, record.comparison.elements, *sys.modules)
"""


@pytest.mark.e2e
def test_the_library_compares_two_files_with_few_modules(tmp_path):
    for side in ("left", "right"):
        np.save(tmp_path / f"{side}.npy", np.arange(7, dtype=np.float32))
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True)
    outcome, elements, *modules = ran.stdout.split()
    assert (outcome, elements) == ("pass", "7")
    assert not [name for name in modules if name.startswith(tuple(f"pytest_msdump.{room}" for room in ROOMS))]
    readers = {name.rpartition(".")[2] for name in modules if name.startswith("pytest_msdump.dumps.")}
    assert "npy_file" in readers
    assert readers.isdisjoint({"ascend", "converted", "mindspore", "npy_folder", "statistics"})
    # Finding out what other packages bring takes longer than all of this.
    assert "importlib.metadata" not in modules

"""The example dumps, made anew by PyTorch and MindSpore themselves, pass and fail as the committed ones do.

Needs both frameworks, each in an environment of its own, whose interpreters MSDUMP_TORCH_PYTHON and
MSDUMP_MINDSPORE_PYTHON name; `.ci/run live` makes them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from docs_pages import ROOT, copy_project, run

from pytest_msdump import assert_dumps_close, open_dump
from pytest_msdump.core.report.json_report import read_json

TORCH = os.environ.get("MSDUMP_TORCH_PYTHON")
MINDSPORE = os.environ.get("MSDUMP_MINDSPORE_PYTHON")
EXAMPLES = ROOT / "example_suites"

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not (TORCH and MINDSPORE), reason="MSDUMP_TORCH_PYTHON and MSDUMP_MINDSPORE_PYTHON are not set"),
]


def _make(example: Path, *options: str) -> None:
    made = subprocess.run(
        [sys.executable, example / "make_dumps.py", "--mindspore-python", str(MINDSPORE), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose dumps were all made just now."""
    project = copy_project(tmp_path_factory.mktemp("live"))
    lenet, wrong = project / "example_suites/01_lenet_port", project / "example_suites/02_failing_on_purpose"
    for dump in (lenet / "reference", lenet / "run", wrong / "run"):
        shutil.rmtree(dump)
    _make(lenet, "--torch-python", str(TORCH))
    _make(wrong)
    return project


def test_the_fresh_dumps_of_the_right_port_pass(fresh: Path) -> None:
    code, printed = run("pytest -q example_suites/01_lenet_port --msdump-profile=strict", fresh, fresh.parent)
    assert code == 0, "\n".join(printed)
    assert printed[-1].startswith("11 passed")


def test_the_fresh_dump_of_the_wrong_port_fails_from_conv2_on(fresh: Path) -> None:
    code, printed = run("pytest -q --tb=no example_suites/02_failing_on_purpose", fresh, fresh.parent)
    assert code == 1, "\n".join(printed)
    assert printed[-1].startswith("7 failed, 4 passed")
    assert any("first failing: op 6 of 23, DRIFT Default/conv2-Conv2d/BiasAdd-op0" in line for line in printed)


@pytest.mark.parametrize("dump", ["01_lenet_port/run", "01_lenet_port/reference", "02_failing_on_purpose/run"])
def test_fresh_dumps_are_those_that_are_committed(dump: str, fresh: Path) -> None:
    made, committed = open_dump(fresh / "example_suites" / dump), open_dump(EXAMPLES / dump)
    assert list(made) == list(committed)
    for address in committed:
        # numpy's word beside the engine's.
        np.testing.assert_allclose(made.read(address), committed.read(address), rtol=1e-4, atol=1e-5)
    assert_dumps_close(fresh / "example_suites" / dump, EXAMPLES / dump, profile="strict", io="all", min_coverage=1.0)


def test_the_dump_that_mindspore_is_configured_for_is_gated_as_it_is(fresh: Path, tmp_path: Path) -> None:
    lenet = fresh / "example_suites/01_lenet_port"
    weights, config, dump = tmp_path / "weights.npz", tmp_path / "dump.json", tmp_path / "dump"
    subprocess.run([str(MINDSPORE), lenet / "make_weights.py", weights], check=True)
    settings = json.loads((EXAMPLES / "01_lenet_port/run/rank_0/.dump_metadata/data_dump.json").read_text())
    settings["common_dump_settings"]["path"] = str(dump)
    config.write_text(json.dumps(settings))
    subprocess.run(
        [str(MINDSPORE), lenet / "make_target.py", lenet / "network.py", weights],
        env=os.environ | {"MINDSPORE_DUMP_CONFIG": str(config), "GLOG_v": "3"},
        cwd=tmp_path,
        check=True,
    )
    # Untouched: graphs beside the tensors, files read-only.
    assert list(dump.glob("rank_0/graphs/*.ir"))
    command = f"MINDSPORE_DUMP_CONFIG={config} pytest -q example_suites/01_lenet_port --msdump-left=@env"
    code, printed = run(command, fresh, fresh.parent)
    assert code == 0, "\n".join(printed)
    assert printed[-1].startswith("11 passed")
    left = read_json(fresh / "msdump-report/results.json")["left"]
    assert (left["directory"], left["unexplained"]) == (str(dump), [])

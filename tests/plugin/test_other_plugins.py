"""Beside other plugins of pytest: the same outcomes, the same results.json, and their own output.

``MSDUMP_PLUGINS`` says that all of them are installed: then none of these tests is skipped.
"""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump.core.report.json_report import read_json

pytestmark = pytest.mark.e2e

NAMES = tuple("abcdefgh")
SUITE = '[msdump]\nleft = "run"\nright = "ref"\n'
OTHERS = ("pytest_html", "pytest_rerunfailures", "pytest_randomly", "pytest_timeout")


def needs(module: str) -> pytest.MarkDecorator:
    is_missing = importlib.util.find_spec(module) is None and "MSDUMP_PLUGINS" not in os.environ
    return pytest.mark.skipif(is_missing, reason=f"{module} is not installed; the lane plugins has it")


@pytest.fixture
def gate(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of eight operators, of which `c` and `f` drift. Of the other plugins none is loaded unasked."""
    values = np.linspace(1, 2, 12, dtype=np.float32)
    write_reference(pytester.path / "ref", dict.fromkeys(NAMES, values))
    write_reference(pytester.path / "run", {name: values * (1.02 if name in "cf" else 1) for name in NAMES})
    (pytester.path / "msdump.toml").write_text(SUITE, "utf-8")
    return pytester


def run(gate: pytest.Pytester, *words: str, plugin: str = "") -> pytest.RunResult:
    off = [f"-pno:{name.removeprefix('pytest_')}" for name in OTHERS if name != plugin]
    return gate.runpytest_subprocess("-p", "no:cacheprovider", *off, *words)


def results(gate: pytest.Pytester) -> list[dict[str, object]]:
    tensors: list[dict[str, object]] = read_json(gate.path / "msdump-report/results.json")["tensors"]
    return tensors


@needs("pytest_rerunfailures")
@pytest.mark.parametrize("more", [(), ("-n", "2")])
def test_a_failure_that_is_run_again_is_one_failure(gate: pytest.Pytester, more: tuple[str, ...]) -> None:
    result = run(gate, "--reruns=2", *more, plugin="pytest_rerunfailures")
    counted = result.parseoutcomes()
    assert {name: counted[name] for name in ("passed", "failed", "rerun")} == {"passed": 7, "failed": 2, "rerun": 4}
    result.stdout.fnmatch_lines(["8 tensors: 6 pass, 2 fail, 100 % of the reference compared"])
    assert [one["verdict"] for one in results(gate)].count("fail") == 2

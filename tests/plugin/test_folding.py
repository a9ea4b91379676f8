"""In pytest: inherited failures stay failures and become a line; --msdump-all shows them whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plugin.suites import write_suite

GRAPH = Path(__file__).parents[1] / "data" / "localising" / "target_bad" / "ms_output_trace_code_graph_0.ir"
FOLDED = "inherited from Default/conv2-Conv2d/BiasAdd-op0; --msdump-all shows it whole"


@pytest.fixture
def suite(pytester: pytest.Pytester, lenet: Path) -> Path:
    extra = f"graph_files = ['{GRAPH}']"
    return write_suite(pytester.path / "msdump.toml", lenet, "target_bad", extra=extra)


def _results(pytester: pytest.Pytester) -> str:
    return (pytester.path / "msdump-report" / "results.json").read_text("utf-8")


def test_inherited_failures_are_a_line_each_and_still_fail(pytester: pytest.Pytester, suite: Path) -> None:
    result = pytester.runpytest(suite, "--junitxml=junit.xml")
    result.assert_outcomes(failed=7, passed=4)
    text = result.stdout.str()
    assert text.count(FOLDED) == 6
    assert text.count("worst elements") == 1
    assert "role cause: all that feeds it and was compared passes" in text
    assert "1 cause, 6 inherited; told by the run's own graph" in text
    assert re.search(r"6 inherited: Default/relu2-ReLU/ReLU-op0,\s+Default/pool2-MaxPool2d/MaxPool-op0", text)
    assert "FAILED msdump.toml::Default/relu2-ReLU/ReLU-op0 - inherited from" in text
    # What machines read has every failure whole.
    assert (pytester.path / "junit.xml").read_text("utf-8").count("worst elements") == 7


def test_all_unfolds(pytester: pytest.Pytester, suite: Path) -> None:
    text = pytester.runpytest(suite, "--msdump-all").stdout.str()
    assert text.count("worst elements") == 7
    assert "shows it whole" not in text
    assert re.search(r"role inherited from\s+Default/conv2-Conv2d/BiasAdd-op0", text)
    assert re.search(r"6 inherited: .*Default/fc2-Dense/BiasAdd-op0", text, re.DOTALL)


@pytest.mark.e2e
def test_workers_give_the_same_roles_and_the_same_lines(pytester: pytest.Pytester, suite: Path) -> None:
    alone = pytester.runpytest(suite)
    results = _results(pytester)
    spread = pytester.runpytest_subprocess(suite, "-n2")
    spread.assert_outcomes(failed=7, passed=4)
    assert _results(pytester) == results
    assert json.loads(results)["localised_by"] == "graph"
    assert spread.stdout.str().count(FOLDED) == alone.stdout.str().count(FOLDED) == 6


def test_without_the_cause_nothing_is_folded(pytester: pytest.Pytester, suite: Path) -> None:
    result = pytester.runpytest(suite, "-k", "relu2")
    result.assert_outcomes(failed=1, deselected=10)
    text = result.stdout.str()
    assert "worst elements" in text
    assert re.search(r"role unknown: .*BiasAdd-op0\s+\(not run\)", text, re.DOTALL)


@pytest.mark.parametrize("style", ["--tb=line", "--tb=no", "-q"])
def test_other_styles_stay_what_they_are(pytester: pytest.Pytester, suite: Path, style: str) -> None:
    result = pytester.runpytest(suite, style)
    result.assert_outcomes(failed=7, passed=4)
    assert result.stdout.str().count(FOLDED) == (6 if style == "-q" else 0)


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_the_bundle_is_written_by_one_process(pytester: pytest.Pytester, suite: Path, workers: list[str]) -> None:
    result = pytester.runpytest_subprocess(suite, "--msdump-bundle=bug", *workers)
    result.assert_outcomes(failed=7, passed=4)
    folders = [path.name for path in (pytester.path / "bug").iterdir() if path.is_dir()]
    assert folders == ["op6_Default_conv2-Conv2d_BiasAdd-op0"]
    assert "bug/causes.txt" in result.stdout.str()

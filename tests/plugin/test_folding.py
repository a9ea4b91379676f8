"""In pytest: causes are shown in full; other failures stay failures and become a line; --msdump-show=all unfolds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference
from plugin.suites import write_suite

GRAPH = Path(__file__).parents[1] / "data" / "localising" / "target_bad" / "ms_output_trace_code_graph_0.ir"
FOLDED = re.compile(
    r"^  (?:msdump\.toml::)?Default/\S+: cosine [\d.]+ < 0\.999; cause: Default/conv2-Conv2d/BiasAdd-op0$", re.MULTILINE
)


@pytest.fixture
def suite(pytester: pytest.Pytester, lenet: Path) -> Path:
    extra = f"graph_files = ['{GRAPH}']"
    return write_suite(pytester.path / "msdump.toml", lenet, "target_bad", extra=extra)


def test_inherited_failures_are_a_line_each_and_still_fail(pytester: pytest.Pytester, suite: Path) -> None:
    result = pytester.runpytest(suite, "--junitxml=junit.xml")
    result.assert_outcomes(failed=7, passed=4)
    text = result.stdout.str()
    assert len(FOLDED.findall(text)) == 6
    assert text.count("worst elements") == 1
    assert "role cause: bounded: all of its inputs that were compared pass" in text
    assert "1 cause, 6 inherited; found by the run's own graph" in text
    assert re.search(r"6 inherited: Default/relu2-ReLU/ReLU-op0,\s+Default/pool2-MaxPool2d/MaxPool-op0", text)
    assert "FAILED msdump.toml::Default/relu2-ReLU/ReLU-op0 - cosine 0.618 < 0.999" in text
    # Our summary is the last that is printed, but for pytest's own line.
    assert text.index("short test summary info") < text.index("= msdump =")
    assert re.search(r"re-run just this:\n  pytest msdump.toml::Default/conv2-Conv2d/BiasAdd-op0\n=+ 7 failed", text)
    # What machines read has every failure whole.
    assert (pytester.path / "junit.xml").read_text("utf-8").count("worst elements") == 7


@pytest.mark.parametrize("option", ["--msdump-show=all", "--msdump-full", "--msdump-all"])
def test_all_unfolds(pytester: pytest.Pytester, suite: Path, option: str) -> None:
    text = pytester.runpytest(suite, option).stdout.str()
    assert text.count("worst elements") == 7
    assert "also failing" not in text
    assert re.search(r"role inherited from\s+Default/conv2-Conv2d/BiasAdd-op0", text)
    assert re.search(r"6 inherited: .*Default/fc2-Dense/BiasAdd-op0", text, re.DOTALL)


@pytest.mark.parametrize(
    ("style", "in_full", "tables", "lines"),
    [
        ("-q", 1, 1, 6),
        ("-v", 1, 1, 6),
        ("--tb=native", 1, 1, 6),
        ("--tb=short", 0, 1, 6),
        ("--tb=line", 0, 0, 6),
        ("--tb=no", 0, 0, 0),
    ],
)
@pytest.mark.full
def test_styles_mean_what_they_say(
    pytester: pytest.Pytester, suite: Path, style: str, in_full: int, tables: int, lines: int
) -> None:
    result = pytester.runpytest(suite, style)
    result.assert_outcomes(failed=7, passed=4)
    text = result.stdout.str()
    assert text.count("worst elements") == in_full
    assert len(re.findall(r"^  metric +value +limit", text, re.MULTILINE)) == tables
    assert len(FOLDED.findall(text)) == lines


# -- many failures -----------------------------------------------------------------------------------------------------


@pytest.fixture
def many(pytester: pytest.Pytester) -> list[str]:
    """300 operators, the last 200 of which fail."""
    values = np.random.default_rng(23).standard_normal((300, 8)).astype(np.float32)
    for side in ("left", "right"):
        write_reference(
            pytester.path / side,
            {f"op{k}": one * (1.1 if side == "left" and k >= 100 else 1) for k, one in enumerate(values)},
        )
    return ["-q", "--msdump-left=left", "--msdump-right=right"]


# -- ids that pytest prints can be typed -------------------------------------------------------------------------------


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])
def test_the_id_of_an_item_without_a_file_can_be_typed(
    pytester: pytest.Pytester, many: list[str], workers: list[str]
) -> None:
    pytester.makepyfile("def test_other(): pass")
    pytester.runpytest_subprocess(*many, "msdump::op120", "msdump::op3:output:0", *workers).assert_outcomes(
        failed=1, passed=1
    )
    pytester.runpytest_subprocess(*many, "msdump::coverage", ".", *workers).assert_outcomes(passed=2)


def test_an_id_of_no_operator_is_exit_code_4(pytester: pytest.Pytester, many: list[str]) -> None:
    result = pytester.runpytest(*many, "msdump::op300")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: msdump::op300: there is no such operator; did you mean 'op30'?"])

"""In pytest: causes are shown in full; what followed from them fails and is counted; --msdump-show unfolds."""

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


def test_inherited_failures_are_counted_and_still_fail(pytester: pytest.Pytester, suite: Path) -> None:
    result = pytester.runpytest(suite, "--junitxml=junit.xml")
    result.assert_outcomes(failed=7, passed=4)
    text = result.stdout.str()
    assert FOLDED.findall(text) == []
    assert text.count("elements differ") == 1
    assert re.search(r"\nDRIFT  \S+\n +cause, bounded: all of its inputs that were compared pass", text)
    assert "\n1 cause: Default/conv2-Conv2d/BiasAdd-op0; 6 inherited (--msdump-show=failing)\n" in text
    assert text.count("all of its inputs that were compared pass") == 1
    assert len(re.findall("^FAILED ", text, re.MULTILINE)) == 1
    # Our summary is the last that is printed, but for pytest's own line, and the command to type its last line.
    assert text.index("short test summary info") < text.index("= msdump =")
    assert re.search(r"\nre-run just this: pytest msdump.toml::Default/conv2-Conv2d/BiasAdd-op0\n=+ 7 failed", text)
    assert text.count("re-run") == 1
    # What machines read has every failure whole.
    assert (pytester.path / "junit.xml").read_text("utf-8").count("elements differ") == 7


def test_a_failure_takes_few_lines_and_says_nothing_twice(
    pytester: pytest.Pytester, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = pytester.runpytest(suite).outlines
    assert len(lines) <= 45
    start = next(place for place, line in enumerate(lines) if line.startswith("DRIFT"))
    told = [line.strip() for line in lines[start:] if line.strip() and not line.startswith("=")]
    assert len(told) == len(set(told))
    assert "would pass" in "".join(told)


def test_failing_asks_for_a_line_each(pytester: pytest.Pytester, suite: Path) -> None:
    text = pytester.runpytest(suite, "--msdump-show=failing").stdout.str()
    assert len(FOLDED.findall(text.replace("\n    ", " "))) == 6
    assert text.count("elements differ") == 1
    assert len(re.findall("^FAILED ", text, re.MULTILINE)) == 7


@pytest.mark.parametrize("option", ["--msdump-show=all", "--msdump-full", "--msdump-all"])
def test_all_unfolds(pytester: pytest.Pytester, suite: Path, option: str) -> None:
    text = pytester.runpytest(suite, option).stdout.str()
    assert text.count("elements differ") == 7
    assert "also failing" not in text
    assert re.search(r"inherited from\s+Default/conv2-Conv2d/BiasAdd-op0", text)
    assert re.search(r"6inherited:.*Default/fc2-Dense/BiasAdd-op0", "".join(text.split()))


@pytest.mark.parametrize(
    ("style", "in_full", "tables", "reasons"),
    [
        ("-q", 1, 1, 0),
        ("-v", 1, 1, 0),
        ("--tb=native", 1, 1, 0),
        ("--tb=short", 0, 1, 0),
        ("--tb=line", 0, 0, 1),
        ("--tb=no", 0, 0, 1),
    ],
)
@pytest.mark.full
def test_styles_mean_what_they_say(
    pytester: pytest.Pytester, suite: Path, style: str, in_full: int, tables: int, reasons: int
) -> None:
    result = pytester.runpytest(suite, style)
    result.assert_outcomes(failed=7, passed=4)
    text = result.stdout.str()
    assert text.count("elements differ") == in_full
    assert len(re.findall(r"^  metric +value +limit", text, re.MULTILINE)) == tables
    # Without the text of the failure the summary says why it is the cause.
    assert len(re.findall(r"cause \S+ \(op \d+ of \d+\): bounded: all of", " ".join(text.split()))) == reasons


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

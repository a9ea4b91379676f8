"""The fixtures that make dumps inside of a test."""

from __future__ import annotations

import pytest

TEST = """
import numpy as np
from pathlib import Path
from pytest_msdump.capture import DumpWriter

def build(folder):
    with Path("calls").open("a") as file:
        file.write("x")
    with DumpWriter(folder) as writer:
        writer.write("op", np.ones(2))

def ask(number, msdump, msdump_recorder, msdump_reference):
    right = msdump_reference("net", build, key=[1])
    with msdump_recorder.writer() as writer:
        writer.write("op", np.ones(2))
    msdump.assert_dumps_close(writer.directory, right)
"""
CASES = "".join(
    f"\ndef test_{number}(msdump, msdump_recorder, msdump_reference):\n"
    f"    ask({number}, msdump, msdump_recorder, msdump_reference)\n"
    for number in range(4)
)


def calls(pytester):
    path = pytester.path / "calls"
    return len(path.read_text()) if path.exists() else 0


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_the_reference_is_made_once_and_kept_over_sessions(pytester, processes):
    pytester.makepyfile(TEST + CASES)
    for expected, options in ((1, ()), (1, ()), (2, ("--msdump-generate",))):
        pytester.runpytest_subprocess(*processes, *options, "-p", "no:cacheprovider").assert_outcomes(passed=4)
        assert calls(pytester) == expected
    assert (pytester.path / "msdump-references/net/msdump.json").is_file()


def test_where_references_are_kept_can_be_said(pytester):
    pytester.makepyfile(TEST + CASES)
    pytester.makeini("[pytest]\nmsdump_reference_dir = kept\n")
    pytester.runpytest_subprocess().assert_outcomes(passed=4)
    pytester.runpytest_subprocess("--msdump-reference-dir", "typed").assert_outcomes(passed=4)
    assert (pytester.path / "kept/net").is_dir()
    assert (pytester.path / "typed/net").is_dir()
    assert not (pytester.path / "msdump-references").exists()

"""Every command line of the vendor's overflow command is taken as written, and leaves the vendor's files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_msdump.capabilities.compat import msaccucmp

CASES = Path(__file__).parents[2] / "data" / "ascend_golden" / "h_overflow"
LINES = dict(re.findall(r"^\[(\w+)\].*\nmsaccucmp (overflow .*)$", (CASES / "command.txt").read_text(), re.M))


def test_all_lines_are_here():
    assert len(LINES) == (CASES / "command.txt").read_text().count("msaccucmp overflow ")


@pytest.mark.parametrize("label", LINES)
def test_each_line_is_taken_and_gates(label, in_case, capsys):
    folder = in_case("h_overflow")
    words = LINES[label].split()
    # Every case holds tensors with Inf or numbers at the end of float16's range, whatever its overflow files say.
    assert msaccucmp.main(words) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("msaccucmp: the same as: msdump overflow ")
    out = folder / words[words.index("-out") + 1]
    assert len(list(out.glob("overflow_summary_*.txt"))) == 1
    expected = CASES / "expected" / label / "out"
    wanted = {path.name for path in expected.glob("*") if path.suffix != ".txt"} if expected.is_dir() else set()
    # The vendor takes context 0 for none and blames another operator (facts 9.14).
    wanted = {
        name.replace("Mul_ctx5.12.3.1600000000000040.4.5.1.0", "Mul_ctx0.12.3.1600000000000041.4.0.1.0")
        for name in wanted
    }
    assert wanted <= {path.name for path in out.iterdir()}

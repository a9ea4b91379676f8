"""``msaccucmp file_compare``: eight numbers of two files, and a verdict."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from outcomes import without_run

from pytest_msdump.capabilities.compat.msaccucmp import main
from pytest_msdump.cli import main as msdump

CASES = Path(__file__).parents[2] / "data" / "d_values"
LINES = dict(re.findall(r"^\[(\w+)\].*\nmsaccucmp (file_compare .*)$", (CASES / "command.txt").read_text(), re.M))

BOOL = "section 3: of two bool arrays the vendor's errors fail; INTERFACE 5, dtype: bools are equal or not, as integers"
FINITE = "section 9 item 4: a NaN of the right side is no error to the vendor's relative metrics"
SHAPE = "INTERFACE 5, Shape: an error is a verdict, told with its reason"
ERRORS = "MaxAbsoluteError RelativeEuclideanDistance MeanAbsoluteError RootMeanSquareError"
# label → exit code, titles whose numbers are not the vendor's, why.
LISTED = {
    "file_compare_bool": (
        1,
        f"{ERRORS} AccumulatedRelativeError MaxRelativeError MeanRelativeError",
        BOOL,
    ),
    "file_compare_nan_right": (
        1,
        "AccumulatedRelativeError MaxRelativeError MeanRelativeError",
        FINITE,
    ),
    "file_compare_shape_mismatch": (1, "", SHAPE),
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    for side in ("left", "right"):
        shutil.copytree(CASES / side, tmp_path / side)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def told(path):
    return dict(line.split(": ", 1) for line in path.read_text().splitlines())


@pytest.mark.parametrize("label", LINES)
def test_each_line_of_the_vendors_gives_its_numbers(label, files):
    code, titles, reason = LISTED.get(label, (0, "", ""))
    assert main(LINES[label].split()) == code, reason
    (written,) = (files / "expected" / label / "out").glob("file_result_*.txt")
    ours = told(written)
    golden = CASES / "expected" / label / "out" / "file_result.txt"
    if golden.exists():
        theirs = told(golden)
        assert list(ours)[:8] == list(theirs)
        assert {title for title in theirs if ours[title] != theirs[title]} == set(titles.split()), reason
    assert ours["Verdict"] == {0: "pass"}.get(code, ours["Verdict"])
    assert ("Reason" in ours) == (code == 1)


def test_the_table_of_deviations_has_no_line_that_is_gone():
    assert len(LINES) == 4
    assert set(LISTED) < set(LINES)


def test_the_new_spelling_is_told_once_and_is_the_same_gate(files, capsys):
    assert main(["file_compare", "-m", "left/bool.npy", "-g", "right/bool.npy", "-out", "out"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    saved = without_run((files / "out/msdump-report/results.json").read_bytes())
    (files / "out/msdump-report/results.json").unlink()
    program, *words = shlex.split(line.removeprefix("msaccucmp: the same gate as: "))
    assert program == "msdump"
    assert msdump(words) == 1
    assert without_run((files / "out/msdump-report/results.json").read_bytes()) == saved

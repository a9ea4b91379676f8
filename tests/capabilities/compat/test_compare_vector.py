"""The older script's command line, and the same flags of ``msdump compare``."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump.capabilities.compat.compare_vector import main
from pytest_msdump.cli import main as msdump
from pytest_msdump.core.report.json_report import read_json

TITLES = [
    "LeftOp",
    "RightOp",
    "TensorIndex",
    "CosineSimilarity",
    "MaxAbsoluteError",
    "AccumulatedRelativeError",
    "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence",
    "StandardDeviation",
]


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two folders, of which one operator of three differs."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_reference(tmp_path / "L", {"a": values, "b": values, "c": values})
    write_reference(tmp_path / "R", {"a": values, "b": values + 9, "c": values})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def sides(left="L", right="R"):
    return ["-l", left, "-r", right]


@pytest.mark.parametrize(
    ("words", "file", "is_csv"),
    [
        (["-o", "x/result.txt"], "x/result.txt", False),
        (["-o", "x/result.csv", "-csv"], "x/result.csv", True),
        (["-o", "x/result.csv"], "x/result.csv", True),
        (["-o", "x/r.txt", "-csv"], "x/r.txt", True),
        (["-o", "x"], "x/result.txt", False),
        (["-o", "x/y.z", "-csv"], "x/y.z/result.csv", True),
        (["-o", "RESULT.TXT"], "RESULT.TXT", False),
    ],
)
@pytest.mark.parametrize("program", [main, lambda words: msdump(["compare", *words])])
def test_what_ends_in_txt_or_csv_is_a_file_else_a_folder(two, program, words, file, is_csv):
    assert program([*sides(), *words]) == 1
    text = (two / file).read_text()
    rows = list(csv.reader(text.splitlines())) if is_csv else [line.split(" ") for line in text.splitlines()]
    assert rows[0] == TITLES
    assert [row[:3] for row in rows[1:]] == [[name, name, f"{name}:output:0"] for name in "abc"]
    assert rows[2][4] == "9.000000"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["-o", "r.txt", "-d", "a"], "-o: with -d it is the folder for several files, and r.txt looks like a file"),
        (["-o", "r.txt", "-t", "output"], "-t: says more about one operator; say which with -d OP"),
        (["-o", "r.txt", "-i", "0"], "-i: says more about one operator; say which with -d OP"),
        (["-out", "r.txt"], "unknown option '-out'; did you mean '-"),
        (["-o", "r.txt", "-cutsom", "x"], "did you mean '-custom'?"),
        ([], "-o PATH is missing"),
        (["-o", ""], "-o is empty"),
        (["-o", "L/a.0.1700000000000000.npy/r.txt"], "cannot be made"),
        (["-o", "dir.txt"], "is a folder"),
        (["-o", "r.txt", "-f", "gone.json"], "gone.json"),
        (["-o", "r.txt", "-f", "L"], "L: cannot be read"),
        (["-o", "r.txt", "-custom", "gone"], "there is no such folder"),
    ],
)
def test_a_usage_error_is_one_line_and_4(two, words, line, capsys):
    (two / "dir.txt").mkdir()
    assert main([*sides(), *words]) == 4
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert line in err


@pytest.mark.parametrize(("words", "inputs"), [(["-o", "r.txt"], True), (["-o", "r.txt", "--io", "output"], False)])
def test_the_vendors_spelling_of_msdump_compares_inputs_too(in_case, words, inputs):
    in_case("a_fusion_nchw")
    msdump(["compare", *sides("left", "right"), "-f", "fusion.json", *words])
    assert ("fc1:input:0" in Path("r.txt").read_text()) == inputs
    report = read_json(Path("msdump-report/results.json"))
    assert any(record["left"]["address"] == "fc1:input:0" for record in report["tensors"]) == inputs


@pytest.mark.usefixtures("two")
def test_csv_without_a_table_is_a_usage_error(capsys):
    assert msdump(["compare", "L", "R", "-csv"]) == 4
    assert "-csv: no table" in capsys.readouterr().err

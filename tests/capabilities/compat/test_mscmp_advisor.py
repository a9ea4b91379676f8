"""Advice on a table that is there already: ours, and the vendor's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_msdump.capabilities.compat import msaccucmp
from pytest_msdump.capabilities.compat.mscmp_advisor import main
from pytest_msdump.cli import main as msdump

GOLDEN = Path(__file__).parents[2] / "data" / "ascend_golden"
OVERFLOWN = GOLDEN / "d2_values_dump" / "expected" / "overflow" / "out" / "result.csv"


def test_a_table_of_ours_gives_the_advice_of_its_run(in_case, capsys):
    in_case("a_fusion_nchw")
    line = ["compare", "-m", "left", "-g", "right", "-f", "fusion.json", "-out", "out", "-advisor"]
    assert msaccucmp.main(line) == 1
    (table,) = Path("out").glob("result_*.csv")
    capsys.readouterr()
    assert main(["-i", str(table), "-o", "again"]) == 1
    out, err = capsys.readouterr()
    assert Path("again/advisor_summary.txt").read_text() == Path("out/advisor_summary.txt").read_text() == out
    spelled = [line for line in err.splitlines() if "the same gate as: " in line]
    assert spelled == ["mscmp_advisor: the same gate as: msdump check out/msdump-report/results.json"]
    assert msdump(["check", "out/msdump-report/results.json"]) == 1


@pytest.mark.parametrize(
    ("table", "advised"),
    [
        (OVERFLOWN, ("FP16 Overflow", "28")),
        (GOLDEN / "a_fusion_nchw" / "expected" / "select" / "out" / "result.csv", ("Global Consistency", "NA")),
    ],
)
def test_a_table_of_the_vendors_has_no_verdicts_and_will_do(table, advised, tmp_path, capsys):
    main(["-i", str(table), "-o", str(tmp_path)])
    kind, number, _ = capsys.readouterr().out.splitlines()
    assert (kind, number) == (f"Detection Type: {advised[0]}", f"Operator Index: {advised[1]}")


def table(tmp_path, *rows):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["Index,OpType,NPUDump,CosineSimilarity", *rows, ""]))
    return ["-i", str(path), "-o", str(tmp_path)]


@pytest.mark.parametrize(
    ("rows", "words", "code", "kind", "number"),
    [
        (["0,Add,a,1.000000"], [], 0, "Global Consistency", "NA"),
        (["0,Add,a,0.5"], [], 1, "Global Consistency", "0"),
        (["0,Add,a,0.5"], ["-input_nodes", "b; a"], 1, "Input Inconsistent", "0"),
        (["0,Add,a,1.0", "1,Add,b,0.2"], ["-input_nodes", "a;"], 1, "Global Consistency", "1"),
        (["0,Add,a,NaN"], [], 1, "Global Consistency", "NA"),
        ([], [], 1, "Global Consistency", "NA"),
    ],
)
def test_inputs_may_be_named_and_nothing_compared_is_not_fine(rows, words, code, kind, number, tmp_path, capsys):
    assert main([*table(tmp_path, *rows), *words]) == code
    assert capsys.readouterr().out.startswith(f"Detection Type: {kind}\nOperator Index: {number}\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "has no column Index"),
        ("Index,OpType,NPUDump\n", "has no column CosineSimilarity"),
        ("\0", "t.csv"),
    ],
)
def test_what_is_no_such_table_is_refused(text, line, tmp_path, capsys):
    (tmp_path / "t.csv").write_text(text)
    assert main(["-i", str(tmp_path / "t.csv"), "-o", str(tmp_path)]) == 4
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert line in err
    assert main(["-i", str(tmp_path / "gone.csv")]) == 4
    assert "gone.csv: there is no such file" in capsys.readouterr().err

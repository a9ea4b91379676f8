"""A user's code runs when the command line named its folder, and in no other case; what ran is told."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump.capabilities.compat import compare_vector, msaccucmp
from pytest_msdump.cli import main as msdump
from pytest_msdump.core.report.json_report import read_json

RUNS = "from pathlib import Path\nPath({mark!r}).write_text('ran')\ndef compare(l, r, a):\n    return '7', 'mine'\n"


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A folder of code that leaves a mark, and two equal sides."""
    for side in ("L", "R"):
        write_reference(tmp_path / side, {"a": np.float32([1, 2])})
    folder = tmp_path / "code"
    (folder / "algorithm").mkdir(parents=True)
    (folder / "algorithm" / "alg_Mine.py").write_text(RUNS.format(mark=str(tmp_path / "mark")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return folder


PROGRAMS = {
    "msdump": lambda words: msdump(["compare", "-l", "L", "-r", "R", *words]),
    "compare_vector": lambda words: compare_vector.main(["-l", "L", "-r", "R", "-o", "r.txt", *words]),
    "msaccucmp": lambda words: msaccucmp.main(["compare", "-m", "L", "-g", "R", *words]),
}


@pytest.mark.usefixtures("code")
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_runs_when_it_is_named_and_every_file_is_told(program, capsys):
    flag = "-c" if program == "msaccucmp" else "-custom"
    assert PROGRAMS[program]([flag, "code"]) == 0
    assert Path("mark").read_text() == "ran"
    sentence = "ran user code: code/algorithm/alg_Mine.py"
    assert sentence in capsys.readouterr().out
    report = read_json(Path("msdump-report/results.json"))
    assert report["notes"] == [sentence]
    assert report["tensors"][0]["custom"] == {"Mine": {"value": "7", "message": "mine"}}


@pytest.mark.usefixtures("code")
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_does_not_run_when_it_is_not_named(program):
    assert PROGRAMS[program]([]) == 0
    assert not Path("mark").exists()
    assert "notes" not in read_json(Path("msdump-report/results.json"))


@pytest.mark.usefixtures("code")
@pytest.mark.parametrize("key", ["custom", "user_code", "extras", "c"])
def test_no_suite_file_can_name_it(key, capsys):
    Path("msdump.toml").write_text(f'[msdump]\nleft = "L"\nright = "R"\n{key} = "code"\n')
    assert msdump(["compare"]) == 4
    assert f"'{key}'" in capsys.readouterr().err
    assert not Path("mark").exists()


def test_no_ini_key_nor_flag_of_pytest_can_name_it(code, pytester, monkeypatch):
    monkeypatch.chdir(pytester.path)
    sides = [f"--msdump-left={code.parent / 'L'}", f"--msdump-right={code.parent / 'R'}"]
    pytester.makeini(f"[pytest]\nmsdump_custom = {code}\nmsdump_user_code = {code}\n")
    pytester.runpytest_inprocess(*sides, "-W", "ignore")
    for flag in ("--msdump-custom", "--msdump-user-code"):
        assert pytester.runpytest_inprocess(*sides, f"{flag}={code}").ret == 4
    assert not (code.parent / "mark").exists()


def test_only_what_was_asked_for_runs_with_its_arguments(in_case, capsys):
    in_case("k_custom_alg")
    words = ["compare", "-m", "left/a.npy", "-g", "right/a.npy", "-c", "custom", "-out", "out"]
    msaccucmp.main([*words, "-alg", "0,MyAlg", "-a", "MyAlg:k=3,j=x;0:z=1"])
    captured = capsys.readouterr()
    assert "('j', 'x'), ('k', '3')" in captured.out
    assert "takes no arguments; z has no effect" in captured.err
    (row,) = table()
    assert [title for title in row if title in ("CosineSimilarity", "MaxAbsoluteError", "MyAlg", "Bad")] == [
        "CosineSimilarity",
        "MyAlg",
    ]
    record = read_json(Path("out/msdump-report/results.json"))["tensors"][0]
    assert list(record["custom"]) == ["MyAlg"]


def test_a_users_numbers_have_no_part_in_the_verdict(code):
    (code / "algorithm" / "alg_Mine.py").write_text("def compare(l, r, a):\n    raise ValueError('no')\n")
    assert msaccucmp.main(["compare", "-m", "L", "-g", "R", "-c", "code", "-out", "out"]) == 0
    (row,) = table()
    assert (row["Mine"], row["Verdict"]) == ("NaN", "pass")
    assert "alg_Mine.py raised ValueError in line 2: no" in row["CompareFailReason"]


def test_a_users_conversion_is_used_and_named(in_case, capsys):
    in_case("a_fusion_nchw")
    Path("code/format_convert").mkdir(parents=True)
    file = Path("code/format_convert/convert_NC1HWC0_to_NCHW.py")
    file.write_text("def convert(shape_from, shape_to, array):\n    raise RuntimeError('this very file')\n")
    words = ["-l", "left", "-r", "right", "-f", "fusion.json", "-custom", "code", "-o", "r.txt"]
    assert compare_vector.main(words) == 1
    out = capsys.readouterr().out
    assert "this very file" in out
    assert f"ran user code: {file}" in out


def table():
    (path,) = Path("out").glob("result_*.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))

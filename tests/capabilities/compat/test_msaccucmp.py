"""The newer script's command line: what each option does, and what no run may lose."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference
from outcomes import without_run

from pytest_msdump.capabilities.compat.msaccucmp import main
from pytest_msdump.cli import main as msdump
from pytest_msdump.core.report.json_report import read_json


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two folders of one operator, which differs in its last element only."""
    left = np.arange(1, 101, dtype=np.float32).reshape(4, 25)
    right = left.copy()
    right[-1, -1] = -100
    write_reference(tmp_path / "L", {"a": left})
    write_reference(tmp_path / "R", {"a": right})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def compare(*words, left="L", right="R", out="out"):
    return main(["compare", "-m", left, "-g", right, "-out", out, *words])


def table(pattern="out/result_*.csv"):
    (path,) = Path().glob(pattern)
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_results_of_one_second_do_not_replace_each_other(two, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda _form: "20211122000000")
    for _ in range(3):
        compare()
    names = sorted(path.name for path in (two / "out").glob("*.csv"))
    assert names == ["result_20211122000000.csv", "result_20211122000000_1.csv", "result_20211122000000_2.csv"]
    assert len({(two / "out" / name).read_bytes() for name in names}) == 1


@pytest.mark.parametrize("words", [[], ["-alg", "0"], ["-overflow_detection"]])
def test_the_new_spelling_is_told_once_and_is_the_same_gate(in_case, words, capsys):
    folder = in_case("a_fusion_nchw")
    for older in ("right/conv1_relu.0.1600000000000050.npy", "left/Relu.dup_relu.12.1.1600000000000012"):
        (folder / older).unlink()
    code = compare("-f", "fusion.json", *words, left="left", right="right")
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "the same gate as: " in line)
    report = without_run((folder / "out/msdump-report/results.json").read_bytes())
    (folder / "out/msdump-report/results.json").unlink()
    program, *typed = shlex.split(line.partition("the same gate as: ")[2])
    assert program == "msdump"
    assert msdump(typed) == code
    assert without_run((folder / "out/msdump-report/results.json").read_bytes()) == report


class TestFirstElements:
    @pytest.mark.usefixtures("two")
    def test_a_part_that_is_equal_is_never_a_pass(self):
        assert compare("-max", "99") == 0
        (row,) = table()
        assert (row["Verdict"], row["MaxAbsoluteError"]) == ("warn", "0.000000")
        assert row["Reason"] == "only the first 99 of 100 elements were compared"

    def test_the_places_of_elements_are_those_in_the_whole(self, two):
        right = np.arange(1, 101, dtype=np.float32).reshape(4, 25)
        right[2, 3] = -7
        write_reference(two / "R", {"a": right})
        assert compare("-max", "60") == 1
        record = read_json(Path("out/msdump-report/results.json"))["tensors"][0]
        assert record["where"]["max_absolute_error"] == [2, 3]
        assert (record["elements"], record["total_elements"]) == (60, 100)

    @pytest.mark.usefixtures("two")
    @pytest.mark.parametrize("count", ["-1", "x", "1.5", "", "9" * 30])
    def test_a_count_that_is_none_is_refused(self, count, capsys):
        assert compare("-max", count) == 4
        assert "is not a number of elements" in capsys.readouterr().err


class TestChoosing:
    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (["-r", "1,2", "-s", "1"], "cannot both choose"),
            (["-r", "x"], "'x' is not a number of an operator"),
            (["-s", "1,"], "is not a number of an operator"),
            (["-r", "1,2,3,4"], "is not start,end,step"),
            (["-r", "5,2"], "start must not be beyond end"),
            (["-r", "1,5,0"], "step at least 1"),
            (["-r", "-2"], "start must not be beyond end"),
            (["-s", "77,99"], "no operator of fusion.json has such a number; they go up to 14"),
        ],
    )
    def test_numbers_that_cannot_be_meant_are_refused(self, in_case, words, line, capsys):
        in_case("a_fusion_nchw")
        assert compare("-f", "fusion.json", *words, left="left", right="right") == 4
        assert line in capsys.readouterr().err

    @pytest.mark.usefixtures("two")
    def test_without_a_model_there_are_no_numbers(self, capsys):
        assert compare("-s", "1") == 4
        assert "give its JSON with -f" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("span", "sequences"),
        [
            ("13", [13, 14]),
            ("13,-1", [13, 14]),
            ("13,,", [13, 14]),
            (",2", [1, 2]),
            ("9,14,4", [9, 13, 14]),
            ("-1", [14]),
            ("14,99999999", [14]),
        ],
    )
    def test_what_is_left_out_is_first_last_and_one(self, in_case, span, sequences):
        in_case("a_fusion_nchw")
        compare("-f", "fusion.json", "-r", span, left="left", right="right")
        assert sorted({int(row["OpSequence"]) for row in table()}) == sequences


def test_a_table_that_cannot_be_written_leaves_nothing_behind(two, monkeypatch, capsys):
    replace = Path.replace

    def full(path, target):
        if target.suffix == ".csv":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    assert compare() == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list((two / "out").glob("*.csv")) == []


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "unknown command ''; known: compare, convert, file_compare, overflow"),
        (["comapre"], "did you mean 'compare'?"),
        (["convert", "-d", "x"], "x: no such directory or file"),
        (["convert", "-d", "L", "-t", "pt"], "-t pt: a PyTorch file is a pickle"),
        (["convert", "-d", "L", "-t", "nyp"], "did you mean 'npy'?"),
        (["convert", "-d", "L", "-f", "NCHV", "-out", "y"], "did you mean 'NCHW'?"),
        (["convert", "-d", "L/conv1.0.1.npy", "-o", "x", "-out", "y"], "-o x: give the number of a tensor"),
        (["overflow", "-d", "x"], "-out DIR is missing"),
        (["overflow", "-d", "x", "-out", "y"], "x: no such directory"),
        (["overflow", "-d", ".", "-out", "y", "-n", "6"], "-n 6: give a number from 1 to 5"),
        (["overflow", "-d", ".", "-out", "y", "-n", "-1"], "-n -1: give a number from 1 to 5"),
        (["file_compare"], "-m FILE is missing"),
        (["compare", "-g", "R"], "-m PATH is missing"),
        (
            ["compare", "-m", "L", "-g", "R", "-op", "a", "-o", "0", "-i", "0"],
            "-o and -i do not go together",
        ),
        (["compare", "-m", "L", "-g", "R", "-op", "a", "-advisor"], "-advisor: is about all operators"),
        (["compare", "-m", "L", "-g", "R", "-n", "3"], "-n: says more about one operator; say which with -op OP"),
        (["compare", "-m", "L", "-g", "R", "-algo", "0"], "did you mean '-alg'?"),
        (["compare", "-m", "L", "-g", "R", "-alg", "10"], "known: 0=CosineSimilarity"),
        (["compare", "-m", "L", "-g", "R", "-p", "1"], "HDF5"),
        (["compare", "-m", "gone", "-g", "R"], "gone"),
        (["compare", "-m", "L", "-g", "R", "-f", "gone.json"], "gone.json"),
        (["compare", "-m", "L", "-g", "R", "-q", "gone.json"], "gone.json"),
        (["compare", "-m", "L", "-g", "R", "-cf", "gone.json"], "gone.json"),
        (["compare", "-m", "L", "-g", "R", "-out", "L/a.0.1700000000000000.npy"], "-out: "),
        (["compare", "-m", "L", "-g", "R", "-a", "x"], "NAME:KEY=VALUE"),
    ],
)
def test_a_usage_error_is_one_line_and_4(words, line, capsys):
    assert main(words) == 4
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert line in err


class TestBatch:
    @pytest.fixture
    def models(self, in_case):
        """Two models, dumped at one time: one that is right, and one with a drift."""
        folder = in_case("g2_pb_right")
        rules = folder / "rules"
        rules.mkdir()
        for name in ("net_a", "net_b"):
            model = json.loads((folder / "fusion.json").read_text())
            model["graph"][0]["name"] = name
            (rules / f"{name}.json").write_text(json.dumps(model))
            shutil.copytree(folder / "left", folder / "20211122000000" / "0" / name / "1" / "0")
        return folder

    def test_the_worst_code_is_the_whole_ones_and_one_bad_model_does_not_stop_the_next(self, models, capsys):
        """Fault 16, among models; the vendor's code is that of the last one."""
        broken = next((models / "20211122000000/0/net_a/1/0").iterdir())
        broken.write_bytes(broken.read_bytes()[:20])
        assert compare("-f", "rules", left="20211122000000", right="right") == 1
        assert {row["Verdict"] for row in table("out/0_net_b_0_result_*.csv")} == {"pass"}
        (models / "rules" / "net_a.json").write_text('{"graph": [{"name": "net_a", "op": 3}]}')
        shutil.rmtree("out")
        capsys.readouterr()
        assert compare("-f", "rules", left="20211122000000", right="right") == 4
        assert "0_net_a_0: " in capsys.readouterr().err
        assert table("out/0_net_b_0_result_*.csv")


@pytest.mark.parametrize("step", ["1", "37"])
def test_a_batch_of_another_step_is_compared_as_one_of_step_0(in_case, step, capsys):
    tables = []
    for number in ("0", step):
        folder = in_case("i_l1_and_multi")
        place = folder / "20260121093000" / "0" / "net" / "1" / number
        place.parent.mkdir(parents=True)
        (folder / "left").rename(place)
        (folder / "rules").mkdir()
        model = json.loads((folder / "fusion.json").read_text())
        (folder / "rules" / "net.json").write_text(json.dumps({"graph": [g | {"name": "net"} for g in model["graph"]]}))
        code = compare("-f", "rules", left="20260121093000", right="right")
        tables.append((code, table("out/*.csv")))
        shutil.rmtree(folder)
    assert tables[0] == tables[1]
    assert any(row["CosineSimilarity"] not in ("NaN", "") for row in tables[1][1])
    assert f"iteration {step} of the left meets iteration 0 of the right" in capsys.readouterr().out


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(("words", "line"), [(["-ffts"], "-ffts changes nothing"), (["-v", "2"], "-v changes nothing")])
def test_what_has_no_effect_is_said(words, line, capsys):
    compare(*words)
    assert line in capsys.readouterr().err

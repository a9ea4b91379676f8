"""``msdump compare -d``: which tensors are meant, where their files go, and which exit code that is."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump.cli import main


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two dumps: `a` is equal, `b` drifts, `c` has another shape, `d` is on the left only; `s` has three outputs."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for side, more in (("L", {"c": values, "d": values}), ("R", {"c": values[:, :2]})):
        drifted = values + (side == "R")
        write_reference(tmp_path / side, {"a": values, "x_b": drifted, **more})
    for side in ("L", "R"):
        for slot in range(3):
            np.save(tmp_path / side / f"s.{slot}.1700000000000009.npy", values + slot)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def files(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_verdict_decides_the_exit_code_and_files_are_written_either_way(two, capsys):
    assert main(["compare", "L", "R", "-d", "a"]) == 0
    assert main(["compare", "L", "R", "-d", "x_b"]) == 1
    names = [f"{op}_output_0" for op in ("a", "x_b")]
    tails = ["_0.csv", "_absolute_error_topn.csv", "_relative_error_topn.csv", "_summary.txt"]
    assert files(two / "msdump-report" / "detail") == sorted(name + tail for name in names for tail in tails)
    assert "msdump-report/detail/a_output_0_summary.txt" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "slots"), [(["-d", "s"], [0, 1, 2]), (["-d", "s", "-i", "1"], [1]), (["-d", "s:output:2"], [2])]
)
def test_an_operator_stands_for_each_of_its_outputs(two, words, slots):
    assert main(["compare", "L", "R", *words]) == 0
    found = [name for name in files(two / "msdump-report" / "detail") if name.endswith("summary.txt")]
    assert found == [f"s_output_{slot}_summary.txt" for slot in slots]


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["-d", "x_bb"], 4, "no operator is called 'x_bb' among those that are selected; did you mean 'x_b'?"),
        (["-d", "s", "-i", "3"], 4, "operator s has no output 3; it has output 0, output 1, output 2"),
        (["-d", "a", "-t", "input"], 4, "operator a has no input; it has output 0"),
        (["-d", "a:output:0", "-i", "1"], 4, "one tensor"),
        (["-d", "d"], 1, "d:output:0 has no partner: "),
        (["-d", "a", "-i", "x"], 4, "-i: 'x' is not a whole number"),
        (["-d", "a", "--top", "0"], 4, "--top: '0' is not a whole number from 1 to 10000"),
        (["-d", "a", "--rows", "1000001"], 4, "--rows: '1000001' is not a whole number from 0 to 1000000"),
        (["-d", "a", "-o", "a.csv"], 4, "-o: with -d it is the folder for several files, and a.csv looks like a file"),
        (["-d", "a", "--scheduler", "tcp://h:8786"], 4, "--scheduler: one operator (-d) is looked at here"),
        (["-t", "output"], 4, "-t: says more about one operator; say which with -d OP"),
    ],
)
def test_what_cannot_be_meant_or_compared_is_one_line(two, words, code, line, capsys):
    assert main(["compare", "L", "R", *words]) == code
    err = capsys.readouterr().err
    assert line in err
    assert len(err.splitlines()) == 1
    assert not (two / "msdump-report").exists()


def test_a_pair_of_different_shapes_is_1_with_the_reason(two, capsys):
    assert main(["compare", "L", "R", "-d", "c"]) == 1
    said = capsys.readouterr()
    assert "no details: left (2, 3) and right (2, 2) differ along axis 1 alone" in said.err
    assert "ERROR  c:output:0" in said.out
    assert files(two / "msdump-report") == [".gitignore", "results.json"]


def test_the_first_failing_tensors_can_be_asked_for(two, capsys):
    assert main(["compare", "L", "R", "--detail", "1"]) == 1
    out = capsys.readouterr().out
    assert "details of x_b:output:0: msdump-report/detail/x_b_output_0_summary.txt" in out
    assert "1 more failing tensor" in out
    assert not list((two / "msdump-report" / "detail").glob(".*"))

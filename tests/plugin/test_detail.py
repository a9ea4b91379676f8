"""``--msdump-detail``: what fails is written element by element, as much of it as was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump.cli import main

OPERATORS = [f"op{number}" for number in range(7)]


@pytest.fixture
def dumps(pytester: pytest.Pytester) -> list[str]:
    """Two dumps of seven operators, of which the first is equal; return what names them."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_reference(pytester.path / "L", dict.fromkeys(OPERATORS, values))
    write_reference(pytester.path / "R", {name: values + 9 * (name != "op0") for name in OPERATORS})
    return ["--msdump-left=L", "--msdump-right=R"]


def summaries(pytester: pytest.Pytester, folder: str = "msdump-report") -> list[str]:
    return sorted(path.name.split("_")[0] for path in (pytester.path / folder / "detail").glob("*_summary.txt"))


def test_the_first_five_that_fail_have_details_and_say_where(pytester, dumps):
    result = pytester.runpytest(*dumps, "--msdump-detail")
    result.assert_outcomes(passed=2, failed=6)
    assert summaries(pytester) == OPERATORS[1:6]
    text = result.stdout.str()
    for name in OPERATORS[1:6]:
        assert f"details of {name}:output:0: msdump-report/detail/{name}_output_0_summary.txt" in text
    assert "details of op6:output:0: left out, since 5 failing tensors of this run have theirs already" in text
    result.stdout.fnmatch_lines(["details of 5 failing tensors: msdump-report/detail; none for 1 more"])
    folder = pytester.path / "msdump-report"
    assert [path.name for path in (folder / "detail").iterdir() if path.name.startswith(".")] == []
    assert (folder / ".gitignore").read_text() == "*\n"


def test_details_and_the_cache_are_told_in_chinese_by_both_drivers(pytester, dumps, capsys):
    options = ["lang=zh", "cache=files", "detail=2"]
    text = pytester.runpytest(*dumps, *(f"--msdump-{one}" for one in options)).stdout.str()
    main(["compare", "L", "R", *(f"--{one}" for one in options)])
    for printed in (text, capsys.readouterr().out):
        assert "明细" in printed
        assert "缓存" in printed
        assert not [line for line in printed.splitlines() if "details of" in line or "cache:" in line]


@pytest.mark.parametrize(
    ("ini", "toml", "count"),
    [
        ("msdump_detail = 2", "", 2),
        ("", "detail = 2", 2),
        ("msdump_detail = 1", "detail = 2", 2),
        ("", "detail = true", 5),
    ],
)
@pytest.mark.usefixtures("dumps")
def test_it_can_be_said_in_files(pytester, ini, toml, count):
    pytester.makeini(f"[pytest]\n{ini}\n")
    (pytester.path / "msdump.toml").write_text(f"[msdump]\nleft = 'L'\nright = 'R'\nreport_dir = 'out'\n{toml}\n")
    assert pytester.runpytest().ret == 1
    assert summaries(pytester, "out") == OPERATORS[1 : count + 1]


def test_a_path_behind_the_option_is_told(pytester, dumps):
    result = pytester.runpytest(*dumps, "--msdump-detail", "tests")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--msdump-detail: 'tests' is not a number of failing tensors; before a path write*"])


def test_what_cannot_be_compared_takes_no_place(pytester, dumps):
    write_reference(pytester.path / "R", {"op1": np.zeros((5, 5), np.float32)})
    for path in (pytester.path / "R").glob("op1.*"):
        if np.load(path).shape == (2, 3):
            path.unlink()
    result = pytester.runpytest(*dumps, "--msdump-detail=1")
    assert summaries(pytester) == ["op2"]
    text = result.stdout.str()
    assert "details of op1:output:0: left (2, 3)" in text
    result.stdout.fnmatch_lines(["details of 1 failing tensor: msdump-report/detail; none for 5 more"])


def test_an_unwritable_place_does_not_hide_the_failure(pytester, dumps):
    (pytester.path / "msdump-report").mkdir()
    (pytester.path / "msdump-report" / "detail").write_text("")
    result = pytester.runpytest(*dumps, "--msdump-detail")
    result.assert_outcomes(passed=2, failed=6)
    assert "DRIFT  op1:output:0" in result.stdout.str()

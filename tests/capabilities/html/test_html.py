"""The page: a pure function of results.json, small, and closed to whatever a dump's names hold."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from report.big_results import results

from pytest_msdump.capabilities.html.content import Pool, file_columns, short
from pytest_msdump.capabilities.html.page import page as page_of
from pytest_msdump.capabilities.html.words import PAGE
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import report_from

HOSTILE = "<script>alert(1)</script>"


def page(values):
    """The page of a results.json."""
    return page_of(report_from(values))


@pytest.fixture(scope="module")
def small():
    return results(40, names=[HOSTILE, "a]]>--><!--", "x\udc80y"], roles=True)


@pytest.fixture(scope="module")
def large():
    return results(5000, failing=1.0)


@pytest.fixture(scope="module")
def large_page(large):
    return page(large).decode("utf-8")


def data_of(text):
    """What the page's program reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found[1])


def cell(values, row):
    return values["all"] if isinstance(values, dict) else values[row]


def texts(coded, rows):
    """Front coding undone, as the page does it: counted in UTF-16 units."""
    found, before = [], ""
    for row in range(rows):
        units = before.encode("utf-16-le", "surrogatepass")[: 2 * cell(coded["shared"], row)]
        before = units.decode("utf-16-le", "surrogatepass") + cell(coded["rest"], row)
        found.append(before)
    return found


@pytest.mark.full
def test_five_thousand_tensors_fit_into_two_million_bytes(large_page):
    assert 1_000_000 < len(large_page.encode()) < 2_000_000


def test_names_of_files_share_all_but_the_operator_the_task_and_the_time():
    paths = [f"0/Conv2D.net_{n}.{3 * n + 5}.0.{1_795_222_395_086_104 + n}.output.0.npy" for n in range(9)]
    pool = Pool()
    columns = file_columns(paths, [f"net_{n}" for n in range(9)], pool)
    assert pool.values == ["0/", "Conv2D.\x01.\x03.0.\x02.output.0.npy"]
    tasks, times, found = 0, 0, []
    for row in range(9):
        tasks, times = tasks + cell(columns["task"], row), times + cell(columns["time"], row)
        base = pool.values[cell(columns["template"], row)].replace("\x01", f"net_{row}")
        found.append("0/" + base.replace("\x03", str(tasks)).replace("\x02", str(times)))
    assert found == paths
    # A number that is part of a name, or begins with a 0, stays.
    other = Pool()
    file_columns(["net_7.007.npy", "7.5.npy"], ["net_7", "net_8"], other)
    assert other.values == ["", "\x01.007.npy", "7.5.npy"]


def test_a_cosine_that_fails_is_told_from_one(small):
    values = copy.deepcopy(small)
    rows = [next(n for n, one in enumerate(values["tensors"]) if one["verdict"] == word) for word in ("fail", "pass")]
    for row in rows:
        values["tensors"][row]["metrics"]["cosine_similarity"] = 1 - 7.25e-9
    shown = data_of(page(values).decode("utf-8"))["report"]["tensors"]["values"]["cosine_similarity"]
    assert (1 - shown[rows[0]], shown[rows[1]]) == (pytest.approx(7.25e-9, rel=1e-6), 1)


def test_the_same_results_give_the_same_bytes_and_are_not_changed(small):
    before = copy.deepcopy(small)
    assert page(small) == page(json.loads(json.dumps(small)))
    assert small == before


def test_a_name_never_becomes_markup(small):
    text = page(small).decode("utf-8")
    assert HOSTILE not in text
    inside = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert not set("<>&") & set(inside)
    assert texts(data_of(text)["report"]["tensors"]["left"]["label"], 3) == [HOSTILE, "a]]>--><!--", "x\udc80y"]


def test_the_policy_names_exactly_the_program_and_the_style_of_the_page(small):
    text = page(small).decode("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    programs = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(programs) == len(styles) == 1
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (*programs, *styles)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def test_the_page_names_nothing_outside_of_itself(small):
    text = page(small).decode("utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[a-z][\w.]*\.\w+[^\s\"']*", text))
    assert addresses == {"//www.w3.org/2000/svg"} or addresses == {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert "innerHTML" not in text
    assert set(re.findall(r'(?:src|href)="([^"]*)"', text)) == {"data:,"}


def test_numbers_limits_and_outcomes_of_every_record_are_there(small):
    report = data_of(page(small).decode("utf-8"))["report"]
    assert report["rows"] == 40
    for row, record in enumerate(small["tensors"]):
        pool, tensors = report["pool"], report["tensors"]
        for metric, values in tensors["values"].items():
            assert cell(values, row) == pytest.approx(record["metrics"][metric], rel=1e-5)
        limited = [check for check in record["checks"] if check["limit"] is not None]
        assert pool[cell(tensors["limits"], row)] == [
            [check["metric"], check["limit"], check["level"], check["rule"]] for check in limited
        ]
        assert pool[cell(tensors["outcomes"], row)] == [check["outcome"].lower() for check in limited]
        assert pool[cell(tensors["verdict"], row)] == record["verdict"]


def test_what_fails_first_is_told_in_full_when_there_is_no_room_for_all(large_page):
    report = data_of(large_page)["report"]
    told, left_out = report["details"]["of"], report["details"]["left_out"]
    assert "worst" in told["0"]
    assert 0 not in left_out
    assert len(left_out) > 100
    assert all(str(row) not in told or "worst" not in told[str(row)] for row in left_out)


@pytest.mark.full
def test_causes_are_told_before_the_failures_that_inherit_from_them(large):
    role = {"role": "cause", "causes": [], "suspects": [], "role_reason": ""}
    tensors = [*large["tensors"][:-1], {**large["tensors"][-1], **role}]
    values = {**large, "tensors": tensors}
    report = data_of(page(values).decode("utf-8"))["report"]
    assert "worst" in report["details"]["of"]["4999"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345678, 0.123457), (3.0, 3), (7, 7), (2**60, 1.15292e18), (10**400, str(10**400)), ("NaN", "NaN"),
     ([1.23456789, None], [1.23457, None]), (True, True), (5e-324, 5e-324)],
)  # fmt: skip
def test_numbers_keep_the_digits_that_a_person_reads(value, shown):
    assert short(value) == shown
    assert type(short(value)) is type(shown)


def test_the_program_asks_only_for_words_that_there_are():
    assets = files("pytest_msdump.capabilities.html") / "assets"
    program = "".join(file.read_text("utf-8") for file in assets.iterdir() if file.name.endswith(".js"))
    asked = set(re.findall(r"\bt\(\"(\w+)\"", program))
    assert len(asked) > 100
    assert asked <= PAGE.keys()


def test_a_saved_result_is_drawn_again_byte_for_byte(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for side, factor in (("left", 1.0), ("right", 1.5)):
        (tmp_path / side).mkdir()
        for number in range(3):
            np.save(f"{side}/op{number}.0.17952223950861{number}.npy", np.ones(4, "f4") * (factor if number else 1))
    assert main(["compare", "left", "right", "--report", "json,html,csv"]) == 1
    first = (tmp_path / "msdump-report" / "index.html").read_bytes()
    table = (tmp_path / "msdump-report" / "ops.csv").read_bytes()
    capsys.readouterr()
    assert main(["report", "msdump-report/results.json", "--out", "again", "--report", "html,csv"]) == 0
    assert capsys.readouterr().out.split() == ["again/index.html", "again/ops.csv"]
    assert (tmp_path / "again" / "index.html").read_bytes() == first
    assert (tmp_path / "again" / "ops.csv").read_bytes() == table
    assert main(["report", "msdump-report/results.json"]) == 0
    assert capsys.readouterr().out.split() == ["msdump-report/index.html"]


def test_the_page_alone_keeps_the_results_that_it_refers_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        np.save(f"{side}/a.0.179522395086100.npy", np.ones(4, "f4"))
    assert main(["compare", "left", "right", "--report", "html"]) == 0
    assert {file.name for file in (tmp_path / "msdump-report").iterdir()} >= {"index.html", "results.json"}


@pytest.fixture
def saved(tmp_path, monkeypatch, capsys):
    """Results of two ranks, of which the second one fails."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("right", 1.0), ("left0", 1.0), ("left1", 2.0)):
        (tmp_path / name).mkdir()
        np.save(f"{name}/a.0.179522395086100.npy", np.full(4, value, "f4"))
    for rank in (0, 1):
        assert main(["compare", f"left{rank}", "right", "--report-dir", f"rank{rank}/out"]) == rank
    capsys.readouterr()
    return tmp_path


@pytest.mark.usefixtures("saved")
def test_several_results_make_one_page(capsys):
    assert main(["report", "rank0/out", "rank1/out/results.json", "rank1/out"]) == 0
    assert capsys.readouterr().out == "msdump-report/all.html\n"
    text = Path("msdump-report/all.html").read_text("utf-8")
    assert '<div class="stamp is-fail">FAIL' in text
    data = data_of(text)
    assert data["names"] == ["rank0/out", "rank1/out/results.json", "rank1/out"]
    assert [one["counts"]["fail"] for one in (data["report"], *data["others"])] == [0, 1, 1]
    assert main(["report", "rank0/out", "rank1/out", "-o", "x"]) == 0
    assert data_of(Path("x/all.html").read_text("utf-8"))["names"] == ["rank0", "rank1"]


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rank0/out", "rank1/out", "--report", "md"], "of several results there is one page, html, not md"),
        (["rank0/out", "--report", "md", "--open"], "--open: shows the page; add html to --report"),
        (["right"], "right/results.json"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(words, said, capsys):
    assert main(["report", *words]) == 4
    wrong = capsys.readouterr().err
    assert said in wrong
    assert wrong.count("\n") == 1

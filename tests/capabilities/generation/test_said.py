"""Token by token: what the report keeps, what a failure and the page say, and that ids have no distance there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from pytest_msdump.cli import main

RULES = """[msdump]
left = "left"
right = "right"
profile = "generation"
[[msdump.rule]]
match = "logits"
logits = true
[[msdump.rule]]
match = "tokens"
ties = "logits"
"""
SEQUENCES, TOKENS, WIDTH = 2, 12, 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(RULES)
    return tmp_path


def gate(left: Any, right: Any, *options: str, tokens: tuple[Any, Any] | None = None) -> dict[str, Any]:
    """Gate logits and their largest ids; return results.json."""
    tokens = (left.argmax(-1), right.argmax(-1)) if tokens is None else tokens
    for side, logits, ids in zip(("left", "right"), (left, right), tokens, strict=True):
        Path(side).mkdir(exist_ok=True)
        np.save(f"{side}/logits.0.1700000000000000.npy", logits.astype(np.float32))
        np.save(f"{side}/tokens.0.1700000000000001.npy", ids)
    code = main(["compare", "--config", "s.toml", "--report", "json,html,md", *options])
    found: dict[str, Any] = json.loads(Path("msdump-report/results.json").read_text())
    assert code == int(any(one["verdict"] == "fail" for one in found["tensors"]))
    return found


def sides(wrong: tuple[int, int] | None, tie: tuple[int, int] | None = None) -> tuple[Any, Any]:
    """Logits of the reference, and of a run that is off from one token of a sequence on; one token is a tie."""
    rng = np.random.default_rng(1)
    right = 3 * rng.standard_normal((SEQUENCES, TOKENS, WIDTH))
    if tie is not None:
        right[tie][[3, 5]] = 14.0, 14.0 - 2e-6
    left = right + 1e-6 * rng.standard_normal(right.shape)
    if tie is not None:
        left[tie][[3, 5]] = 14.0 - 2e-6, 14.0
    if wrong is not None:
        sequence, token = wrong
        # Another id, by far.
        left[sequence, token:, 7] += 20.0
    return left, right


@pytest.mark.parametrize("wrong", [(0, 0), (0, 5), (1, 11)])
def test_the_first_wrong_token_is_the_one_that_was_made_wrong_and_a_tie_before_it_is_none(
    wrong: tuple[int, int], folder: Path
) -> None:
    tie = None if wrong == (0, 0) else (0, 2)
    left, right = sides(wrong, tie)
    found = gate(left, right)
    part = found["parts"]["generation"]["tensors"][0]
    number = wrong[0] * TOKENS + wrong[1]
    assert part["wrong"] == number
    logits = next(one for one in found["tensors"] if one["left"]["address"].startswith("logits"))
    said = next(one["sentence"] for one in logits["findings"] if "first wrong" in one["sentence"])
    assert (
        f"sequence {wrong[0]}, token {wrong[1]}: id {left[wrong].argmax()} left, {right[wrong].argmax()} right" in said
    )
    page = (folder / "msdump-report/index.html").read_text()
    marked = re.findall(r"<tr class=marked>(.*?)</tr>", page)
    assert len(marked) == 2
    cells = re.findall("<td>(.*?)</td>", marked[0])
    ids = [str(side[wrong].argmax()) for side in (right, left)]
    assert cells[:3] == [f"sequence {wrong[0]}, token {wrong[1]}", *ids]
    assert cells[-1] == "first wrong token: another id"
    if tie is not None:
        row = next(row for row in re.findall("<tr>(.*?)</tr>", page) if row.startswith("<td>sequence 0, token 2</td>"))
        assert row.endswith("<td>near tie</td>")


def test_a_wrong_token_with_the_same_id_is_found_by_its_kl(folder: Path) -> None:
    left, right = sides(None)
    right[1, 4, 6] = left[1, 4, 6] = 20.0
    left[1, 4] *= 0.5
    part = gate(left, right)["parts"]["generation"]["tensors"][0]
    assert part["wrong"] == TOKENS + 4
    assert "first wrong token: KL above its limit" in (folder / "msdump-report/index.html").read_text()


@pytest.mark.usefixtures("folder")
def test_without_a_limit_on_kl_the_first_wrong_token_is_another_id_by_more_than_a_tie() -> None:
    Path("s.toml").write_text(RULES.replace('profile = "generation"\n', ""))
    assert gate(*sides((1, 2), tie=(0, 2)))["parts"]["generation"]["tensors"][0]["wrong"] == TOKENS + 2
    assert gate(*sides(None, tie=(0, 2)))["parts"]["generation"]["tensors"][0]["wrong"] is None


@pytest.mark.usefixtures("folder")
def test_the_short_list_of_failures_has_no_distance_of_ids(capsys: pytest.CaptureFixture[str]) -> None:
    left, right = sides(None)
    ids = right.argmax(-1)
    for side, factor in (("left", 2.0), ("right", 1.0)):
        Path(side).mkdir()
        np.save(f"{side}/hidden.0.1600000000000000.npy", factor * np.ones(8, np.float32))
    others = ids.copy()
    others[1, 3] += 17
    Path("s.toml").write_text(RULES.partition('[[msdump.rule]]\nmatch = "tokens"')[0])
    gate(left, right, tokens=(others, ids))
    line = capsys.readouterr().out.partition("also failing")[2].partition("\n  tokens: ")[2].partition("\n")[0]
    assert line.startswith("1 of 24 integers differ")


def test_a_run_within_its_limits_has_a_chart_and_a_table_and_no_wrong_token(folder: Path) -> None:
    part = gate(*sides(None, tie=(1, 3)))["parts"]["generation"]["tensors"][0]
    assert part["wrong"] is None
    assert len(part["kl"]) == len(part["rows"]) == SEQUENCES * TOKENS
    page = (folder / "msdump-report/index.html").read_text()
    assert "first wrong" not in page.partition("<script")[0]
    drawn = ElementTree.fromstring(re.search(r'<svg class="curve".*?</svg>', page)[0])  # type: ignore[index]
    stems = [one for one in drawn.iter("line") if one.get("class", "").startswith("stem")]
    assert len(stems) == SEQUENCES * TOKENS
    # Nothing of it needs a program, a style of its own or another file.
    added = page.partition('<section class="added"')[2].partition("<noscript")[0]
    assert not re.search(r"style=|on\w+=|href=|url\(", added)


def test_a_long_run_keeps_the_largest_of_each_stretch_and_the_rows_that_say_most(folder: Path) -> None:
    rng = np.random.default_rng(2)
    right = rng.standard_normal((1, 1000, 30)).astype(np.float32)
    left = right + 1e-5 * rng.standard_normal(right.shape).astype(np.float32)
    left[0, 701] += rng.standard_normal(30).astype(np.float32)
    part = gate(left, right)["parts"]["generation"]["tensors"][0]
    assert (part["step"], len(part["kl"]), len(part["rows"])) == (4, 250, 64)
    assert part["wrong"] == 701
    assert int(np.argmax(part["kl"])) == 701 // 4
    assert 701 in [row[0] for row in part["rows"]]
    assert "64 of 1000 tokens" in (folder / "msdump-report/index.html").read_text()


@pytest.mark.e2e
@pytest.mark.full
def test_processes_of_a_session_give_the_same_page(folder: Path) -> None:
    """Those of xdist hand on numbers alone."""
    one = gate(*sides((0, 5)))["parts"]
    arguments = ["--msdump-config=s.toml", "--msdump-report-dir=again", "-p", "no:cacheprovider", "-n", "1"]
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={folder}", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert json.loads((folder / "again/results.json").read_text())["parts"] == one


def test_the_page_has_no_distance_of_ids(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = sides(None)
    ids = right.argmax(-1)
    others = ids.copy()
    others[1, 3] += 17
    counts = {"nonfinite_mismatch", "saturated_count", "allclose", "bitwise_mismatch"}
    for rules in (RULES, RULES.partition('[[msdump.rule]]\nmatch = "tokens"')[0]):
        Path("s.toml").write_text(rules + '[[msdump.rule]]\nmatch = "*"\nmean_abs = 1e-3\n')
        capsys.readouterr()
        gate(left, right, "--show=all", tokens=(others, ids))
        printed = capsys.readouterr().out
        page = (folder / "msdump-report/index.html").read_text()
        data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["report"]  # type: ignore[index]
        row = 1
        shown = {
            name: column if isinstance(column, list) else [column["all"]] * 2
            for name, column in data["tensors"]["values"].items()
        }
        assert {name for name, column in shown.items() if column[row] is not None} <= counts
        limits = data["tensors"]["limits"]
        number = limits["all"] if isinstance(limits, dict) else limits[row]
        assert {one[0] for one in data["pool"][number]} <= counts
        details = data["details"]["of"][str(row)]
        assert {"would_pass", "where", "moments", "spread"}.isdisjoint(details)
        assert details["worst"] == [[[1, 3], int(others[1, 3]), int(ids[1, 3])]]
        said = " ".join(sentence for _, sentence in details["findings"])
        assert "1 of 24" in said
        assert str(others[1, 3]) in said
        summary = (folder / "msdump-report/summary.md").read_text()
        of_ids = printed.partition("tokens:output:0")[2].partition("matched 2 of 2")[0]
        for text in (of_ids, summary):
            assert not re.search(r"max_abs|mean_abs|cosine|rmse|rel_euclid|would pass", text)


@pytest.mark.parametrize(
    "wrong",
    [
        "tensors",
        {"tensors": 3},
        {"tensors": [{"name": "a"}]},
        {"tensors": [{"name": "a", "shape": [2], "kl": ["x"], "step": 1, "rows": []}]},
        {"tensors": [{"name": "a", "shape": [-2], "kl": [1.0], "step": 1, "rows": []}]},
        {"tensors": [{"name": "a", "shape": [2], "kl": [1.0], "step": 0, "rows": []}]},
        {"tensors": [{"name": "a", "shape": [2], "kl": [1.0], "step": 1, "rows": [[1, 2]]}]},
    ],
)
def test_what_another_program_wrote_is_refused_in_one_line(
    wrong: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = gate(*sides(None))
    capsys.readouterr()
    found["parts"]["generation"] = wrong
    (folder / "other.json").write_text(json.dumps(found))
    assert main(["report", "other.json"]) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_a_name_and_an_infinite_kl_are_drawn_as_text_and_at_the_top(folder: Path) -> None:
    left, right = sides(None)
    left[0, 3, right[0, 3].argmax()] = -np.inf
    found = gate(left, right)
    assert found["parts"]["generation"]["tensors"][0]["kl"][3] == "Infinity"
    found["parts"]["generation"]["tensors"][0]["name"] = "<script>alert(1)</script>"
    (folder / "other.json").write_text(json.dumps(found))
    assert main(["report", "other.json", "-o", "again"]) == 0
    page = (folder / "again/index.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page

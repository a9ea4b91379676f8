"""Two results of one suite: what is fixed, broken, worse and better, and what never counts as fixed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.cli import main
from pytest_msdump.core.model.comparison import Finding, Verdict
from pytest_msdump.core.report.json_report import read_json, report_from, write_json
from pytest_msdump.core.text import Message

VALUES = np.linspace(1, 2, 50, dtype=np.float32)
HOLES = np.where(np.arange(50) == 7, np.float32("nan"), VALUES)
LOOSE = ["--threshold=rel_euclid=0.5", "--threshold=norm_max=0.5"]


def times(factor: float) -> np.ndarray:
    return VALUES * np.float32(factor)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def result(name: str, left: dict[str, np.ndarray], *words: str, right: dict[str, np.ndarray] | None = None) -> Path:
    """Compare two folders; return the folder of the result."""
    write_reference(Path(name) / "left", left)
    write_reference(Path(name) / "right", dict.fromkeys(left, VALUES) if right is None else right)
    main(["compare", f"{name}/left", f"{name}/right", f"--report-dir={name}", "--min-coverage=0", *words])
    return Path(name)


def edited(folder: Path, **changes: object) -> None:
    """Change fields of the report that a folder holds."""
    write_json(replace(report_from(read_json(folder / "results.json")), **changes), folder)


def diff(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["diff", "a", "b", *words])
    return code, capsys.readouterr().out


# What one tensor was and is, by which options each was judged, and what became of it.
CASES = {
    "fixed": (times(1.02), [], times(1), [], [], "fixed: failed before", 0),
    "broken": (times(1), [], times(1.02), [], [], "broken: passed before", 1),
    "fails as before": (times(1.02), [], times(1.02), [], [], "nothing became worse: 1 as before", 0),
    "fails by more": (times(1.02), [], times(1.08), [], [], "nothing became worse: 1 as before", 0),
    "fails by more than the factor": (times(1.02), [], times(1.08), [], ["--factor=3"], "0.02 → 0.08", 1),
    "grew within limits": (times(1.0001), [], times(1.0004), [], [], "nothing became worse: 1 as before", 0),
    "grew by the factor": (times(1.0001), [], times(1.0004), [], ["--factor=3"], "1 worse", 1),
    "grew by less": (times(1.0001), [], times(1.0004), [], ["--factor=5"], "nothing became worse: 1 as", 0),
    "fell by the factor": (times(1.0004), [], times(1.0001), [], ["--factor=3"], "1 better", 0),
    # One rounding apart: no factor makes that worse.
    "rounding": (VALUES, [], np.nextafter(VALUES, 3), [], ["--factor=2"], "nothing became worse: 1 as before", 0),
    "limit loosened": (
        times(1.02),
        [],
        times(1.02),
        LOOSE,
        [],
        "limit loosened: relative Euclid 0.02 → 0.02, limit",
        0,
    ),
    "loosened over a growth": (times(1.0002), [], times(1.02), LOOSE, [], "beyond the limit before, 0.001", 1),
    "fixed under a looser limit": (times(1.02), [], times(1.0002), LOOSE, [], "1 fixed", 0),
    "limit tightened": (times(1.0005), [], times(1.0005), ["--profile=strict"], [], "limit tightened: ", 1),
    "a NaN appears": (VALUES, [], HOLES, [], [], "1 broken", 1),
    "a NaN stays": (HOLES, [], HOLES, [], ["--factor=2"], "nothing became worse: 1 as before", 0),
    "a NaN is gone": (HOLES, [], VALUES, [], [], "1 fixed", 0),
    "other shape": (times(1.02), [], VALUES[:9], [], [], "fail → error", 1),
    "shape mended": (VALUES[:9], [], times(1.02), [], [], "error → fail", 0),
    "no number any more": (times(1.02), [], VALUES * 0, [], [], "fail → undefined", 1),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_tensor_became(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    before, words_before, after, words_after, words, sentence, code = CASES[case]
    result("a", {"x": before}, *words_before)
    result("b", {"x": after}, *words_after)
    found, printed = diff(capsys, *words)
    assert sentence in printed
    assert found == code


def test_another_rule_for_nan_fixes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for name, rule in (("a", "forbid"), ("b", "match")):
        Path(f"{name}.toml").write_text(
            f'[msdump]\nleft = "{name}/left"\nright = "{name}/right"\nnan = "{rule}"', "utf-8"
        )
        for side in ("left", "right"):
            write_reference(Path(name) / side, {"x": HOLES})
        main(["compare", f"--config={name}.toml", f"--report-dir={name}"])
    code, printed = diff(capsys)
    assert "1 passing by looser judgement" in printed
    assert "fixed: failed" not in printed
    assert code == 0


def test_a_number_that_is_not_measured_any_more_fixes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": times(1.02)})
    folder = result("b", {"x": times(1.02)})
    (record,) = report_from(read_json(folder / "results.json")).records
    assert record.comparison is not None
    cosine = {"cosine_similarity": record.comparison.measurements["cosine_similarity"]}
    comparison = replace(record.comparison, measurements=cosine)
    checks = tuple(one for one in record.checks if one.metric == "cosine_similarity")
    edited(folder, records=(record.changed(verdict=Verdict("pass"), comparison=comparison, checks=checks),))
    code, printed = diff(capsys)
    assert "limit loosened: relative Euclid 0.02 → –, limit 0.001 → –" in printed
    assert code == 0


def test_near_ties_that_a_rule_lets_pass_fix_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    ids, others = np.arange(9), np.arange(9)
    others[3] = 8
    result("a", {"x": others}, right={"x": ids})
    folder = result("b", {"x": others}, right={"x": ids})
    (record,) = report_from(read_json(folder / "results.json")).records
    about = {
        "n": 1,
        "elements": 9,
        "place": (3,),
        "token": "at [3]",
        "left": 8,
        "right": 3,
        "values": "y",
        "margin": 1e-9,
        "error": 1e-7,
    }
    near = Verdict("warn", (Finding("warn", Message("near_ties", about)),))
    checks = tuple(one._replace(outcome="warn") for one in record.checks)
    edited(folder, records=(record.changed(verdict=near, checks=checks),))
    code, printed = diff(capsys)
    assert "fail → warn, passes by a permission or an excuse that it did not have" in printed
    assert code == 0
    # The same by what has no code of a permission: its number is beyond the limit that it had.
    edited(folder, records=(record.changed(verdict=Verdict("pass"), checks=checks),))
    assert "passes by a permission or an excuse" in diff(capsys)[1]


def test_fewer_elements_fix_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": times(1.02)})
    folder = result("b", {"x": VALUES})
    (record,) = report_from(read_json(folder / "results.json")).records
    assert record.comparison is not None
    edited(folder, records=(record.changed(comparison=replace(record.comparison, elements=10, finite=10)),))
    code, printed = diff(capsys)
    assert "fail → pass, 10 of 50 elements are compared now" in printed
    assert code == 0


def test_zeros_that_a_relative_error_leaves_out_are_beyond_any_limit(capsys: pytest.CaptureFixture[str]) -> None:
    left, right = VALUES.copy(), VALUES.copy()
    left[7], right[7] = 1e-5, 0
    result("a", {"x": left}, "--threshold=max_rel=0.5", right={"x": right})
    result("b", {"x": left}, right={"x": right})
    code, printed = diff(capsys)
    assert "fail → pass, limit loosened: max relative" in printed
    assert code == 0


def test_coverage_that_fails_now_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    right = {"x": VALUES, "y": VALUES}
    result("a", {"x": VALUES}, right=right)
    result("b", {"x": VALUES}, "--min-coverage=90", right=right)
    code, printed = diff(capsys)
    assert "coverage fails now: " in printed
    assert code == 1


def test_a_known_drift_fixes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": times(1.02)})
    result("b", {"x": times(1.02)})
    drift = (
        'match = "x"\nreason = "known"\nuntil = 2099-12-31\nmax_relative_error = 1.0\nrel_euclid = 0.5\nnorm_max = 0.5'
    )
    Path("b.toml").write_text(f'[msdump]\nleft = "b/left"\nright = "b/right"\n[[msdump.known_drift]]\n{drift}', "utf-8")
    main(["compare", "--config=b.toml", "--report-dir=b"])
    code, printed = diff(capsys)
    assert "fail → warn, limit loosened: " in printed
    assert "1 passing by looser judgement" in printed
    assert code == 0


def test_less_that_is_compared_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    right = {"x": VALUES, "y": VALUES, "z": VALUES}
    result("a", {"x": VALUES, "y": times(1.02), "w": VALUES}, right=right)
    result("b", {"x": VALUES, "z": VALUES, "w": VALUES}, "--deselect=z", right=right)
    code, printed = diff(capsys)
    assert "gone: no longer compared\n  y:output:0: fail → –\n" in printed
    assert "less of the reference is compared: 66.6 % → 50 %" in printed
    assert "fixed" not in printed
    assert code == 1


def test_a_tensor_that_is_new_is_worse_only_if_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": VALUES})
    result("b", {"x": VALUES, "y": VALUES})
    assert diff(capsys)[0] == 0
    result("b", {"x": VALUES, "y": times(1.02)})
    code, printed = diff(capsys)
    assert "1 new and failing" in printed
    assert code == 1


def test_a_run_that_did_not_end_fixes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": times(1.02), "y": VALUES, "z": VALUES})
    folder = result("b", {"x": VALUES, "y": VALUES, "z": VALUES})
    first, second, third = report_from(read_json(folder / "results.json")).records
    not_run = second.changed(verdict=Verdict("not_run"), comparison=None, checks=())
    edited(folder, records=(first, not_run, third))
    code, printed = diff(capsys)
    assert "the later run is not complete" in printed
    assert "x:output:0: fail → pass, passes, but its run is not complete\n" in printed
    assert "y:output:0: pass → not_run\n" in printed
    assert "fixed: failed" not in printed
    assert code == 1
    # The other way round the same tensors are judged for the first time.
    capsys.readouterr()
    assert main(["diff", "b", "a"]) == 1
    assert "1 broken, 1 new, 1 as before" in capsys.readouterr().out


def test_an_operator_with_another_name_is_known_by_its_partner(capsys: pytest.CaptureFixture[str]) -> None:
    entry = '[msdump]\nleft = "{0}/left"\nright = "{0}/right"\n[[msdump.map]]\nleft = "{1}"\nright = "conv"\n'
    for name, operator, values in (("a", "node_3", times(1.02)), ("b", "node_5", VALUES)):
        write_reference(Path(name) / "left", {operator: values, "same": VALUES})
        write_reference(Path(name) / "right", {"conv": VALUES, "same": VALUES})
        Path(f"{name}.toml").write_text(entry.format(name, operator), "utf-8")
        main(["compare", f"--config={name}.toml", f"--report-dir={name}"])
    code, printed = diff(capsys)
    assert "node_5:output:0 (was node_3:output:0): fail → pass, relative Euclid 0.02 → 0, limit 0.001" in printed
    assert "1 fixed, 1 as before" in printed
    assert code == 0


def test_ranks_are_not_confused(capsys: pytest.CaptureFixture[str]) -> None:
    for name, far in (("a", 0), ("b", 1)):
        write_reference(Path(name) / "right", {"x": VALUES})
        for rank in (0, 1):
            values = times(1.02) if rank == far else VALUES
            write_mindspore(Path(name) / "left", [("ReLU", "x", "output", 0, values)], rank=rank)
        main(["compare", f"{name}/left", f"{name}/right", f"--report-dir={name}"])
    code, printed = diff(capsys)
    assert "fails now\n  x:output:0 [rank1]: pass → fail" in printed
    assert "passes now\n  x:output:0 [rank0]: fail → pass" in printed
    assert code == 1


def test_results_of_two_suites_are_not_called_good(capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": VALUES})
    result("b", {"y": VALUES})
    code, printed = diff(capsys)
    assert "no tensor is in both results" in printed
    assert code == 1


def test_names_break_neither_terminal_nor_table(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a|b<script>`c`\x1b[31m"
    result("a", {name: VALUES})
    result("b", {name: times(1.02)})
    code, printed = diff(capsys, "-o", "out/diff.md")
    assert code == 1
    assert "\x1b" not in printed
    text = Path("out/diff.md").read_text("utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| `")]
    # Four cells: a bar in a name is no end of one.
    assert row.replace("\\|", "").count("|") == 5
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "it has no schema_version"),
        ('{"schema_version": 2}', "written with schema_version 2"),
        ("[1, 2", "bad JSON"),
        ('{"schema_version": 1}', "is missing"),
    ],
)
def test_what_is_no_result_is_refused(content: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": VALUES})
    Path("b").mkdir()
    Path("b/results.json").write_text(content, "utf-8")
    assert main(["diff", "a", "b"]) == 4
    assert main(["compare", "a/left", "a/right", "--compare-to=b/results.json", "--report-dir=c"]) == 4
    error = capsys.readouterr().err
    assert error.count(words) == 2
    assert "--compare-to: " in error


@pytest.mark.parametrize("factor", ["1", "0.5", "nan", "two", "-3"])
def test_a_factor_is_above_one(factor: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "a", "b", f"--factor={factor}"]) == 4
    assert "--factor" in capsys.readouterr().err


def test_a_run_says_what_became_of_an_earlier_one_and_keeps_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": VALUES, "y": times(1.02)})
    # The file that the run itself replaces.
    result("b", {"x": VALUES, "y": times(1.02)})
    capsys.readouterr()
    write_reference(Path("b/left"), {"x": times(1.0002), "y": VALUES})
    assert main(["compare", "b/left", "b/right", "--report-dir=b", "--compare-to=b/results.json"]) == 0
    printed = capsys.readouterr().out
    assert (
        "since b/results.json: nothing became worse: 1 fixed, 1 as before (the verdict of this run is its own)"
        in printed
    )
    part = json.loads(Path("b/results.json").read_text("utf-8"))["parts"]["diff"]
    assert part["counts"]["fixed"] == 1
    assert [row["left"] for row in part["tensors"]] == ["y:output:0"]
    # Worse, and yet the limits of this run alone decide.
    assert main(["compare", "b/left", "b/right", *LOOSE, "--report-dir=c", "--compare-to=a"]) == 0
    write_reference(Path("b/left"), {"x": times(1.02), "y": VALUES})
    assert main(["compare", "b/left", "b/right", *LOOSE, "--report-dir=c", "--compare-to=a", "--report=json,html"]) == 0
    assert "something became worse: 1 worse, 1 fixed" in capsys.readouterr().out
    assert "beyond the limit before" in Path("c/index.html").read_text("utf-8")


@pytest.mark.parametrize(
    "change",
    [
        {"counts": {"fixed": "many"}},
        {"counts": {"fixed": -1}},
        {"tensors": [{"kind": "fixed"}]},
        {"tensors": 3},
        {"reasons": ["text"]},
        {"before": None},
    ],
)
def test_an_edited_part_is_refused(change: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    result("a", {"x": times(1.02)})
    result("b", {"x": VALUES}, "--compare-to=a")
    values = json.loads(Path("b/results.json").read_text("utf-8"))
    values["parts"]["diff"] |= change
    Path("b/results.json").write_text(json.dumps(values), "utf-8")
    capsys.readouterr()
    assert main(["report", "b"]) == 4
    assert capsys.readouterr().err.startswith("msdump: b/results.json")

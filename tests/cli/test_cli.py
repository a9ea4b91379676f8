"""The command: the engine without pytest, with the same numbers and exit codes."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from dump_builder import write_reference
from outcomes import without_run
from plugin.suites import write_suite

from pytest_msdump.cli import COMMANDS, main
from pytest_msdump.core.report.json_report import read_json


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(("left", "code"), [("target", 0), ("target_bad", 1)])
def test_compare_gates(lenet, tmp_path, left, code, capsys):
    suite = write_suite(tmp_path / "msdump.toml", lenet, left)
    assert main(["compare", "--config", str(suite)]) == code
    out = capsys.readouterr().out
    assert f"left  = under test  {lenet / left}" in out
    assert ("DRIFT  Default/conv2-Conv2d/BiasAdd-op0:output:0" in out) == bool(code)


def test_the_command_that_is_printed_last_compares_just_the_first_cause_again(lenet, capsys):
    assert main(["compare", str(lenet / "target_bad"), str(lenet / "target"), "--profile", "strict"]) == 1
    typed = capsys.readouterr().out.partition("\nre-run just this: ")[2]
    program, *words = shlex.split(typed.replace("\\\n", ""))
    assert program == "msdump"
    assert main(words) == 1
    again = capsys.readouterr().out
    assert "1 tensor: 1 fail" in again
    assert again.count("DRIFT") == 1


@pytest.mark.parametrize(
    "words", [["LEFT", "RIGHT"], ["-l", "LEFT", "-r", "RIGHT"], ["--right", "RIGHT", "--left", "LEFT"]]
)
def test_the_sides_can_be_said_in_every_way(lenet, tmp_path, words):
    sides = {"LEFT": str(lenet / "target_bad"), "RIGHT": str(lenet / "target")}
    assert main(["compare", *[sides.get(word, word) for word in words]]) == 1
    report = read_json(tmp_path / "msdump-report/results.json")
    assert report["left"]["directory"] == sides["LEFT"]


def test_the_same_numbers_as_pytest(lenet, pytester):
    suite = write_suite(pytester.path / "msdump.toml", lenet, "target_bad")
    pytester.runpytest("--msdump-report=json,csv")
    main(["compare", "--config", str(suite), "--report", "json,csv", "--report-dir", "cli"])
    for name in ("results.json", "ops.csv"):
        ours, other = (without_run((pytester.path / place / name).read_bytes()) for place in ("msdump-report", "cli"))
        assert other == ours


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["compre", "a", "b"], "unknown command 'compre'; did you mean 'compare'?"),
        (["compare", "one"], "give LEFT and RIGHT"),
        (["compare", "gone", "gone"], "no such directory"),
        (["compare", "a", "b", "c"], "give LEFT and RIGHT"),
        (["compare", ".", ".", "--io", "sideways"], "--io"),
        (["compare", "--config", "gone.toml"], "there is no file"),
        (["frobnicate"], "frobnicate"),
        (["check", "gone.json"], "gone.json"),
    ],
)
def test_usage_errors_are_one_line_and_4(words, line, capsys):
    assert main(words) == 4
    captured = capsys.readouterr()
    assert line in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_without_words_it_prints_the_overview(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(f"\n    {name} " in text for name in COMMANDS)


def test_judging_again_keeps_what_coverage_was_asked_of_the_run(lenet, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    entry = '[[msdump.map]]\nleft = "Default/conv1-Conv2d/BiasAdd-op0"\nright = "conv1"\n'
    sides = f"left = '{lenet / 'target'}'\nright = '{lenet / 'reference'}'\n"
    (tmp_path / "msdump.toml").write_text(f"[msdump]\n{sides}{entry}", "utf-8")
    assert main(["compare", "--min-coverage", "90"]) == 1
    saved = "msdump-report/results.json"
    for profile in ("default", "strict"):
        assert main(["check", saved, "--profile", profile]) == 1
        assert "below the 90 % of min_coverage" in " ".join(capsys.readouterr().out.split())
    assert main(["check", saved, "--profile", "strict", "--min-coverage", "0"]) == 0


class TestCheck:
    @pytest.fixture
    def saved(self, lenet, tmp_path, capsys):
        suite = write_suite(tmp_path / "msdump.toml", lenet, "target_bad")
        main(["compare", "--config", str(suite)])
        capsys.readouterr()
        return "msdump-report/results.json"

    def test_wider_limits_pass_and_narrower_fail(self, saved, capsys):
        wide = [f"--threshold={limit}" for limit in ("cosine=0.3", "rel_euclid=2", "norm_max=3")]
        assert main(["check", saved, *wide]) == 0
        assert main(["check", saved, *wide, "--threshold=max_abs=1"]) == 1
        row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  max_abs"))
        assert row.split()[1:] == ["1.37497", "<=", "1", "--threshold", "max_abs=1", "FAIL"]

    def test_what_needs_the_data_is_undefined_and_fails(self, tmp_path, capsys):
        np.save("a.npy", np.float32([1, 2]))
        np.save("b.npy", np.float32([1, 2.00001]))
        assert main(["compare", "a.npy", "b.npy"]) == 0
        loose = tmp_path / "loose.toml"
        loose.write_text("[msdump]\n[[msdump.rule]]\nallclose = { rtol = 0.5, atol = 0.5 }\n", "utf-8")
        assert main(["check", "msdump-report/results.json", "--config", str(loose)]) == 1
        assert "compare again" in capsys.readouterr().out

    def test_an_incomplete_result_has_not_passed(self, saved, tmp_path):
        file = tmp_path / saved
        report = json.loads(file.read_text("utf-8"))
        for record in report["tensors"]:
            if record["verdict"] == "fail":
                record |= {"verdict": "not_run", "findings": [], "checks": []}
        report["counts"] |= {"fail": 0, "not_run": 7}
        file.write_text(json.dumps(report), "utf-8")
        assert main(["check", saved]) == 1

    def test_a_verdict_set_by_hand_is_found_out(self, saved, tmp_path, capsys):
        file = tmp_path / saved
        report = json.loads(file.read_text("utf-8"))
        for record in report["tensors"]:
            record["verdict"] = "pass"
        report["counts"] |= {"fail": 0, "pass": 10}
        file.write_text(json.dumps(report), "utf-8")
        assert main(["check", saved]) == 4
        assert "a limit was not met" in capsys.readouterr().err


def test_a_selection_that_matches_nothing_is_named_with_the_nearest_operator(tmp_path, capsys):
    for side in "LR":
        write_reference(tmp_path / side, {"conv1_relu": np.ones(3, np.float32), "pool1": np.ones(3, np.float32)})
    command = ["compare", str(tmp_path / "L"), str(tmp_path / "R"), "--report-dir", str(tmp_path / "report")]
    for chosen, hint in (("pol1", "did you mean 'pool1'?"), ("nosuch", "there are conv1_relu, pool1")):
        assert main([*command, "--select", chosen]) == 1
        out = " ".join(capsys.readouterr().out.split())
        assert f"--select {chosen} matched no operator; {hint}" in out
        assert "coverage: nothing was compared: no tensor is selected" in out
        assert main(["match", *command[1:3], "--select", chosen]) == 1
        assert f"--select {chosen} matched no operator; {hint}" in " ".join(capsys.readouterr().out.split())
    assert main([*command, "--select", "pool1", "--select", "nosuch"]) == 0
    assert main([*command, "--select", "pool1", "--io", "input"]) == 1
    assert "matched no operator" not in capsys.readouterr().out

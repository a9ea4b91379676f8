"""The campaign of kills: a sample of it, and its own judges, which find what is half-written when it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from campaign import kill
from campaign.kill import Trial, held, judge_reports, record, says_not_ended, values, write_side

from pytest_msdump.cli import main

KINDS = ("--report", kill.KINDS)


@pytest.mark.e2e
def test_of_eighteen_processes_that_are_killed_nothing_half_written_is_believed() -> None:
    command = [sys.executable, kill.__file__, "--times", "18", "--seed", "3"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("seed 3: 18 kills, ")
    assert done.stdout.endswith("believed half-written: 0\n")


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The reports of a run that passed, and of the same that fails, which are in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_side(tmp_path / "right", values(1))
    write_side(tmp_path / "left", values(1))
    assert main(["compare", "left", "right", *KINDS]) == 0
    before = kill.reports_in(tmp_path)
    write_side(tmp_path / "left", {**values(1), "op03": values(2)["op03"]})
    assert main(["compare", "left", "right", *KINDS]) == 1
    return before, kill.reports_in(tmp_path)


def test_whole_reports_of_a_run_that_ended_are_right(reports, tmp_path):
    assert judge_reports(*reports)(Trial(tmp_path, begun=True, ended=True)) == []


@pytest.mark.parametrize("name", kill.FILES)
def test_a_report_that_is_cut_or_of_yesterday_is_found(reports, tmp_path, name):
    before, after = reports
    file = tmp_path / "msdump-report" / name
    file.write_bytes(after[name][:-1])
    assert f"{name} is half-written" in judge_reports(before, after)(Trial(tmp_path, begun=True, ended=False))
    file.write_bytes(before[name])
    assert f"{name} of the run before stands" in judge_reports(before, after)(Trial(tmp_path, begun=True, ended=False))
    assert judge_reports(before, after)(Trial(tmp_path, begun=False, ended=False)) == []


def test_a_pass_of_yesterday_is_found_by_what_check_says(reports, tmp_path):
    before, after = reports
    (tmp_path / "msdump-report/results.json").write_bytes(before["results.json"])
    found = judge_reports(before, after)(Trial(tmp_path, begun=True, ended=False))
    assert "msdump check passes a run that failed or was ended" in found


def test_a_document_that_has_not_ended_holds_nothing(reports):
    document = {**json.loads(reports[1]["results.json"]), "complete": False}
    assert not says_not_ended(json.dumps(document).encode())
    empty = {**document, "tensors": [], "counts": dict.fromkeys(document["counts"], 0)}
    assert says_not_ended(json.dumps(empty).encode())
    assert not says_not_ended(json.dumps({**empty, "complete": True}).encode())
    assert not says_not_ended(json.dumps(empty).encode()[:-1])


def test_a_recording_that_is_believed_is_held_against_its_numbers(tmp_path):
    record(tmp_path / "d", values(1))
    assert held(tmp_path / "d", {"whole": values(1)}) == "whole"
    assert held(tmp_path / "d", {"other": values(2)}) == "48 of 48 tensors"
    # A plain folder, as recordings were before they had a manifest from the start.
    (tmp_path / "d/msdump.json").unlink()
    next((tmp_path / "d").glob("net_op03.*")).unlink()
    assert held(tmp_path / "d", {"whole": values(1)}) != "whole"
    np.save(tmp_path / "d/more.0.1700000000000000.npy", np.ones(1))
    assert held(tmp_path / "d", {"whole": values(1)}) != ""

"""A folder for each cause holds what it says, and nothing outside of the folder is written."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.capabilities.causes.bundling import write_bundle
from pytest_msdump.cli import main
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.record_json import to_json
from pytest_msdump.core.suite import load_suite

GOOD = np.arange(6, dtype="f4").reshape(2, 3)


def compared(folder: Path, **options: object) -> tuple[Plan, Report]:
    table = {"left": "left", "right": "right", **options}
    planned = plan(load_suite(file=None, table=table, options={}, directory=folder))
    return planned, build_report(planned, compare_plan(planned))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def drifted(tmp_path: Path) -> Path:
    write_mindspore(
        tmp_path / "left",
        [("MatMul", "Default/a", "input", 0, GOOD + 1), ("MatMul", "Default/a", "output", 0, GOOD.T * 2)],
    )
    write_reference(tmp_path / "right", {"Default_a": GOOD})
    return tmp_path


def test_both_tensors_are_written_as_they_were_compared(drifted: Path) -> None:
    entry = {"left": "Default/a", "right": "Default_a", "transpose": [1, 0]}
    planned, report = compared(drifted, map=[entry])
    (index,) = write_bundle(planned, report, drifted / "bug")
    folder = drifted / "bug" / "op1_Default_a"
    assert files(drifted / "bug") == [
        "causes.txt",
        *(f"{folder.name}/{name}" for name in ("command.txt", "input_0_left.npy", "limits.json")),
        *(f"{folder.name}/output_0_{side}.npy" for side in ("left", "right")),
    ]
    np.testing.assert_array_equal(np.load(folder / "output_0_left.npy"), GOOD.T * 2)
    np.testing.assert_array_equal(np.load(folder / "output_0_right.npy"), GOOD.T)
    np.testing.assert_array_equal(np.load(folder / "input_0_left.npy"), GOOD + 1)
    told = json.loads((folder / "limits.json").read_text("utf-8"))
    assert told["tensors"][0]["role"] == "cause"
    assert told["tensors"][0]["checks"] == to_json(report.records[0])["checks"]
    assert index.read_text("utf-8").startswith("op1_Default_a  Default/a\n  cause")


def test_its_command_compares_just_this(
    drifted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_mindspore(drifted / "left", [("ReLU", "Default/b", "output", 0, GOOD)])
    write_reference(drifted / "right", {"Default_b": GOOD})
    planned, report = compared(drifted)
    write_bundle(planned, report, drifted / "bug")
    program, *arguments = shlex.split((drifted / "bug" / "op1_Default_a" / "command.txt").read_text("utf-8"))
    monkeypatch.chdir(drifted)
    assert program == "msdump"
    assert main(arguments) == 1
    assert "1 tensor: 1 error" in capsys.readouterr().out


def test_a_tensor_that_cannot_be_read_is_told(drifted: Path) -> None:
    (next((drifted / "right").iterdir())).write_bytes(b"\x93NUMPY cut")
    planned, report = compared(drifted)
    (index,) = write_bundle(planned, report, drifted / "bug")
    assert "output_0_right was not written: " in index.read_text("utf-8")
    assert (drifted / "bug" / "op1_Default_a" / "output_0_left.npy").is_file()


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    names = ["..", "../../up", "a\n$(b)", "x" * 150, "Ünï"]
    write_mindspore(tmp_path / "left", [("ReLU", name, "output", 0, GOOD + 9) for name in names])
    write_mindspore(tmp_path / "right", [("ReLU", name, "output", 0, GOOD) for name in names])
    before = files(tmp_path)
    planned, report = compared(tmp_path)
    assert len(report.records) == len(names)
    write_bundle(planned, report, tmp_path / "deep" / "bug", is_whole=True)
    written = set(files(tmp_path)) - set(before)
    assert written
    assert all(name.startswith("deep/bug/") for name in written)


def test_a_folder_that_cannot_be_made_is_said(drifted: Path) -> None:
    (drifted / "bug").write_text("a file", "utf-8")
    with pytest.raises(MsdumpError, match="cannot be made"):
        write_bundle(*compared(drifted), drifted / "bug")


def test_the_command_takes_it(drifted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(drifted)
    assert main(["compare", "left", "right", "--bundle", "bug"]) == 1
    assert (drifted / "bug" / "causes.txt").is_file()

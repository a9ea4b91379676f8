"""How much of a reference a replay judged, what it could not, and that a gate fails on too little and on damage."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import cli
from pytest_msdump.capabilities.replay.forcing import damaged, not_replayable
from pytest_msdump.capabilities.replay.reference_model import share_of
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import missing_package
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.coverage import coverage_problems
from pytest_msdump.core.report.json_report import read_json, report_from, write_json
from pytest_msdump.core.report.summary import summary_lines
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter

# The last is a function that a recording has beside its module.
RIGHT = ("block.a", "block.b", "block.c", "block", "head", "head/relu")
NOT_CALLED = not_replayable("not_called", module="head/relu", call=0)
RIGHT_ALONE = Local("pass", "score", 1.0, 16.0)


def planned(tmp_path: Path, left: tuple[str, ...], **options):
    for side, names in (("left", left), ("right", RIGHT)):
        with DumpWriter(tmp_path / side, framework="torch") as writer:
            for name in names:
                writer.write(name, np.ones(3, "f4"))
    table = {"left": str(tmp_path / "left"), "right": str(tmp_path / "right"), **options}
    return plan(load_suite(file=None, table=table, options={}, directory=tmp_path))


def local_of(planned, **found):
    labels = [pair.right.key.op.label for pair in planned.pairing.pairs]
    found = {"head/relu": NOT_CALLED, **found}
    return {number: found.get(label.rpartition(".")[2], RIGHT_ALONE) for number, label in enumerate(labels)}


@pytest.mark.parametrize(
    ("left", "found", "share"),
    [
        (RIGHT, {}, (5, 5, ())),
        # A module without a partner that ran before one that was judged was judged with it; one around others is these.
        (("block.a", "block.c", "head"), {"c": RIGHT_ALONE._replace(segment=("block.b",))}, (4, 4, ())),
        (("block.a",), {}, (1, 4, ("block.b", "block.c", "head"))),
        (RIGHT, {"b": damaged("kind"), "head": not_replayable("dtype", dtype="x")}, (3, 5, ("block.b", "head"))),
        (RIGHT, {"b": not_replayable("random", operation="dropout")}, (4, 4, ())),
        (RIGHT, dict.fromkeys(["a", "b", "c", "block", "head"], not_replayable("random", operation="x")), (0, 0, ())),
    ],
)
def test_what_was_judged_is_a_share_of_what_can_be(tmp_path, left, found, share):
    made = planned(tmp_path, left)
    judged = share_of(made, local_of(made, **found))
    assert (judged.judged, judged.total, judged.not_judged) == share
    assert judged.is_enough == (share[0] > 0 and 2 * share[0] >= share[1])


@pytest.mark.parametrize(("least", "fails"), [(0.5, True), (0.25, False)])
def test_less_than_the_minimum_fails_and_is_told_by_name_everywhere(tmp_path, least, fails):
    made = planned(tmp_path, ("block.a",), min_replayed=least, min_coverage=0)
    local = local_of(made)
    records = {number: one.with_local(local[number]) for number, one in compare_plan(made).items()}
    report = build_report(made, records, share_of(made, local))
    report = report_from(read_json(write_json(report, tmp_path)), place="results.json")
    assert report.coverage.replay.not_judged == ("block.b", "block.c", "head")
    said = " ".join(" ".join(summary_lines(report)).split())
    assert "3 operators of the reference not judged: block.b, block.c, head" in said
    assert ("the replay judged 1 of 4 operators" in said) == fails
    assert bool(coverage_problems(report)) == fails


def test_a_damaged_tensor_is_an_error_of_its_record_and_named(tmp_path):
    made = planned(tmp_path, RIGHT)
    local = local_of(made, b=damaged("kind", dtype="complex64", other="float32"))
    records = {number: one.with_local(local[number]) for number, one in compare_plan(made).items()}
    report = build_report(made, records, share_of(made, local))
    outcomes = {one.left.key.op.label: one.verdict.outcome for one in report.records}
    assert outcomes == {**dict.fromkeys(RIGHT, "pass"), "block.b": "error"}
    said = " ".join(" ".join(summary_lines(report)).split())
    assert "1 tensor damaged: block.b: the left stores complex64, and the reference gives float32" in said


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("onnx", ["replay", "left", "--model", "model.onnx"]),
        ("onnx", ["compare", "left", "right", "--replay", "model.onnx"]),
        ("onnx", ["match", "left", "right", "--suggest", "--model", "model.onnx"]),
        ("torch", ["replay", "left", "--model", "file.py:build"]),
        ("keras", ["compare", "left", "right", "--replay", "file.py:build"]),
    ],
)
def test_a_missing_framework_is_a_line_and_exit_code_4(tmp_path, package, words, monkeypatch, capsys):
    planned(tmp_path, RIGHT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    Path("file.py").write_text(f"def build():\n    import {package}\n    return {package}\n", encoding="utf-8")
    assert cli.main(words) == 4
    (line,) = capsys.readouterr().err.splitlines()
    extra = {"keras": "tensorflow"}.get(package, package)
    assert f"{package} is not installed here, and " in line
    assert line.endswith(f"pip install 'pytest-msdump[{extra}]'")


def test_only_frameworks_are_said_to_be_missing():
    assert missing_package(ModuleNotFoundError("no", name="torch.nn"), need="it") is not None
    assert missing_package(ModuleNotFoundError("no", name="my_models"), need="it") is None
    assert missing_package(ValueError(), need="it") is None

"""`msdump overflow`: the vendor's golden cases, with the operators its tool names and the one it gets wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump import cli
from pytest_msdump.capabilities.overflow.device import find_overflows
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.text import say


def main(arguments: list[str]) -> int:
    return cli.main(arguments)


GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden" / "h_overflow"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name != "expected")

# Case → (unit, operator, status) of each report. The vendor blames Mul_ctx5 in ctx_thread, since it takes context 0 for
# "not set" (facts 9.14), prints only the last operator of old_dha_and_aicore, and fails on old_no_stream (facts 9.18).
CULPRITS = {
    "aic_v0": [("AIC", "Mul_7", "status 32: floating-point operation overflows")],
    "aicpu": [("AICPU", "Mul_7", "status 7")],
    "aiv_v1": [("AIV", "Add_9", "status 1, 2, 3, 4")],
    "bad_acc_type": [],
    "ctx_thread": [("AIC", "Mul_ctx0", "status 32: floating-point operation overflows")],
    "no_dump_file": [],
    "old_aicore": [("AI Core", "Add_9", "status 4: unknown bits 0x4")],
    "old_all_zero": [],
    "old_dha_and_aicore": [
        ("DHA Atomic Add", "Mul_7", "status 1"),
        ("AI Core", "Add_9", "status 4: unknown bits 0x4"),
    ],
    "old_no_stream": [("AI Core", "Mul_7", "status 4: unknown bits 0x4")],
    "old_wrong_size": [],
    "sdma": [("SDMA", "Mul_7", "status 1")],
    "status_zero": [],
    "two": [
        ("AIC", "Mul_7", "status 32: floating-point operation overflows"),
        ("AIC", "Add_9", "status 32: floating-point operation overflows"),
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_each_report_names_its_operator(case):
    dump = index(GOLDEN / case)
    found = {ref.key.op: ref.overflows for ref in (*dump.refs, *dump.older)}
    told = [(entry.unit, op.label, say(entry.words)) for op, entries in found.items() for entry in entries]
    assert sorted(told) == sorted(CULPRITS[case])


@pytest.mark.parametrize("case", CASES)
def test_the_command_tells_it_and_exits_1(case, capsys):
    assert main(["overflow", str(GOLDEN / case)]) == 1
    said = capsys.readouterr().out
    for unit, op, words in CULPRITS[case]:
        assert f"{unit} reports task" in said
        assert words in said
        assert op in said


@pytest.mark.parametrize("case", [case for case in CASES if CULPRITS[case] and case != "ctx_thread"])
def test_the_vendors_command_line_writes_what_the_vendor_writes(case, tmp_path, capsys):
    label = "two_top2" if case == "two" else case
    assert main(["overflow", "-d", str(GOLDEN / case), "-out", str(tmp_path), "-n", "2"]) == 1
    expected = GOLDEN / "expected" / label / "out"
    for file in expected.glob("*") if expected.exists() else ():
        if file.suffix == ".json":
            assert (tmp_path / file.name).read_text() == file.read_text()
        if file.suffix == ".npy":
            assert np.array_equal(np.load(tmp_path / file.name), np.load(file))
    (summary,) = tmp_path.glob("overflow_summary_*.txt")
    lines = summary.read_text().splitlines()
    for line in (expected / "overflow_summary.txt").read_text().splitlines() if expected.exists() else ():
        # True names come from the header there; statistics include Inf there.
        if "net/" not in line and "[Max:" not in line:
            assert line in lines
    assert capsys.readouterr().out.rstrip().endswith(str(tmp_path))


def test_an_array_that_is_written_keeps_its_name(tmp_path):
    """With file_format npy the dump has an array for each tensor, whose name says which tensor it is."""
    folder = tmp_path / "run" / "0" / "20231122101010" / "0" / "Net" / "1" / "0"
    folder.mkdir(parents=True)
    name = "Conv2D.Default_conv-op1.2.7.1612439563338020.output.0.NCHW.float16.npy"
    np.save(folder / name, np.array([1, np.inf], np.float16))
    unit = {"model_id": 1, "stream_id": 7, "task_id": 2, "task_type": 0, "pc_start": "0x0", "para_base": "0x0"}
    core = {"kernel_code": "0x0", "block_idx": 0, "status": 32}
    report = {"DHA Atomic Add": {**unit, "status": 0}, "L2 Atomic Add": {**unit, "status": 0}}
    report["AI Core"] = {**unit, **core}
    (folder / "Opdebug.Node_OpDebug.21.7.1612439563340000.output.0.json").write_text(json.dumps(report))
    assert main(["overflow", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 1
    (written,) = (tmp_path / "out").glob("*.npy")
    assert written.name == name


def test_an_origin_has_finite_inputs_and_what_follows_is_propagated(tmp_path, capsys):
    good, bad = np.ones(4, np.float32), np.array([1, np.inf, np.nan, 1], np.float32)
    write_mindspore(
        tmp_path,
        [
            ("Exp", "Default/exp", "input", 0, good),
            ("Exp", "Default/exp", "output", 0, bad),
            ("Add", "Default/add", "input", 0, bad),
            ("Add", "Default/add", "output", 0, bad),
            ("Sub", "Default/sub", "output", 0, bad),
            ("Mul", "Default/mul", "output", 0, good),
        ],
    )
    roles = {operator.op.label: operator.role for operator in find_overflows(index(tmp_path)).operators}
    assert roles == {"Default/exp": "origin", "Default/add": "propagated", "Default/sub": "unknown"}
    assert main(["overflow", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert said.index("ORIGIN      Default/exp") < said.index("PROPAGATED  Default/add")
    assert "1 NaN, 1 Inf of 4 elements; first at [1]" in said


def test_65535_means_unknown_and_blames_nobody(tmp_path):
    document = json.loads((GOLDEN / "expected/aic_v0/out").glob("*.json").__next__().read_text())
    document["acc_list"]["data"] |= {"task_id": 65535, "stream_id": 65535}
    shutil.copy(GOLDEN / "aic_v0" / "Mul.Mul_7.12.3.1600000000000040", tmp_path / "Mul.a.65535.65535.1600000000000040")
    (tmp_path / "Opdebug.Node_OpDebug.5.9.1600000000000050.output.0.json").write_text(json.dumps(document))
    found = find_overflows(index(tmp_path))
    assert [report.entry.task_id for report in found.unplaced] == [65535]
    assert not any(ref.overflows for ref in found.dump.refs)


@pytest.mark.parametrize("arguments", [[], ["a", "-d", "b"], ["a", "-n", "0"], ["no-such-directory"]])
def test_usage_errors_are_4(arguments, capsys):
    assert main(["overflow", *arguments]) == 4
    assert capsys.readouterr().err.count("\n") == 1

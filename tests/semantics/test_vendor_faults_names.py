"""The vendor's faults with names, of operators and of files; as test_vendor_faults, through the command."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from semantics import ascend_made as made
from semantics.gate import ask

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
HALF = np.random.default_rng(12).standard_normal((2, 19, 5, 7)).astype(np.float16)


def verdicts(answer) -> dict[str, str]:
    return {record["left"]["address"]: record["verdict"] for record in answer.results["tensors"]}


def test_fault_11_operators_that_share_a_file_name_are_not_taken_for_each_other(tmp_path):
    case = GOLDEN / "j2_name_matching"
    rules = ("--io", "all", "-f", str(case / "fusion.json"))
    answer = ask(case / "left", case / "right", *rules, reports=tmp_path / "reports")
    assert not {address for address in verdicts(answer) if address.startswith("collide")}
    reasons = [one["reason"] for one in answer.results["unmatched"] if "collide" in one["address"]]
    assert any("collide/x, collide_x of fusion.json have the same file name" in reason for reason in reasons)


@pytest.mark.parametrize("name", ["-minus", "=1+1", "+plus", "@at", "%percent"])
def test_fault_17_a_name_that_begins_with_an_operator_sign_is_a_row_like_any(name, tmp_path):
    for side, time in (("left", 0), ("right", 900)):
        made.device(tmp_path / side, "Add", "before", HALF, time=time)
        made.device(tmp_path / side, "Add", name, HALF, time=time + 1)
        made.device(tmp_path / side, "Add", "after", HALF, time=time + 2)
    answer = ask(tmp_path / "left", tmp_path / "right", "--report", "json,csv")
    assert answer.code == 0, answer.text
    with (tmp_path / "reports" / "ops.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    # What a spreadsheet would take for a formula begins with an apostrophe.
    shown = name if name == "%percent" else f"'{name}"
    assert [row["NPUDump"] for row in rows] == ["before", shown, "after"]
    assert {row["Verdict"] for row in rows} == {"pass"}


def test_fault_18_odd_files_beside_a_dump_stop_nothing(tmp_path):
    for side in ("left", "right"):
        folder = tmp_path / side
        made.device(folder, "Add", "good", HALF)
        (folder / "mapping.csv").write_text("")
        shutil.copy(folder / f"Add.good.1.1.{made.TIME}", folder / f"Add.odd.5.3.{made.TIME + 1}.7.11.0.0")
        shutil.copy(folder / f"Add.good.1.1.{made.TIME}", folder / "12345678901234567890")
        shutil.copy(folder / f"Add.good.1.1.{made.TIME}", folder / f"Opdebug.Node_OpDebug.5.{made.TIME + 9}")
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert answer.code == 0, answer.text
    assert verdicts(answer) == {"good:output:0": "pass"}
    notes = " ".join(answer.results["left"]["notes"])
    assert "task type" in notes
    assert "no mapping.csv explains" in notes


@pytest.mark.parametrize("name", ["a/b", "a.b", "a b", "a\\b", "onnx::node:1"])
def test_fault_28_names_with_odd_characters_meet(name, tmp_path):
    plain = name.replace("/", "_").replace(".", "_").replace(" ", "_").replace("\\", "_").replace(":", "_")
    made.device(tmp_path / "left", "Add", plain, HALF, original=HALF.shape)
    made.original(tmp_path / "right", plain, HALF)
    rules = made.rules(tmp_path / "fusion.json", made.operator(name, "Add"))
    answer = ask(tmp_path / "left", tmp_path / "right", "-f", str(rules))
    assert answer.code == 0, answer.text
    assert answer.record["left"]["address"] == f"{name}:output:0"


def test_fault_28_a_reference_with_a_dot_in_its_name_meets(tmp_path):
    made.device(tmp_path / "left", "Add", "a_dot", HALF, original=HALF.shape)
    (tmp_path / "right").mkdir()
    np.save(tmp_path / "right" / f"a.dot.0.{made.TIME}.npy", HALF)
    rules = made.rules(tmp_path / "fusion.json", made.operator("a.dot", "Add"))
    assert ask(tmp_path / "left", tmp_path / "right", "-f", str(rules)).code == 0


def test_fault_29_a_name_with_quant_in_it_makes_no_dump_a_quantised_one(tmp_path):
    made.device(tmp_path / "left", "Mul", "my_quant", HALF, original=HALF.shape)
    made.original(tmp_path / "right", "my_quant", HALF)
    rules = made.rules(tmp_path / "fusion.json", made.operator("my_quant", "Mul"))
    answer = ask(tmp_path / "left", tmp_path / "right", "-f", str(rules))
    assert answer.code == 0
    assert answer.record["how"] == "fused"
    assert "quant-fusion" not in " ".join(answer.results["left"]["notes"])
    # Without any rule file, the one that is asked for is not that of quantisation.
    asked = " ".join(ask(tmp_path / "left", tmp_path / "right").results["left"]["notes"])
    assert "--msdump-fusion" in asked
    assert "quant-fusion" not in asked

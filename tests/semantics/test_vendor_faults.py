"""The faults of the vendor's tool that concern comparison, each with the right answer. Numbers as they were collected.

Each test goes through the command. Faults of reading alone are in tests/dumps, those of its tables in
test_vendor_tables, those with names in test_ascend_reading, 19 (a killed worker) in test_fusion_gate, 24 in
tests/capabilities/compat.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from semantics import ascend_made as made
from semantics.gate import ask

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
RNG = np.random.default_rng(11)
HALF = RNG.standard_normal((2, 19, 5, 7)).astype(np.float16)


def golden(case: str, tmp_path: Path, *flags: str):
    reports = tmp_path / "reports"
    return ask(GOLDEN / case / "left", GOLDEN / case / "right", "--io", "all", *flags, reports=reports)


def verdicts(answer) -> dict[str, str]:
    return {record["left"]["address"]: record["verdict"] for record in answer.results["tensors"]}


def test_fault_01_all_channels_of_an_nhwc_origin_are_compared(tmp_path):
    answer = golden("b_npu_vs_npu", tmp_path)
    (record,) = [one for one in answer.results["tensors"] if one["left"]["address"] == "nhwc_origin:output:0"]
    assert record["verdict"] == "fail"
    assert record["elements"] == 2 * 5 * 7 * 19
    # 14 of the 19 channels were replaced by 100.
    assert record["differing"] == 2 * 5 * 7 * 14


def test_fault_13_slices_are_joined_in_the_order_of_their_numbers(tmp_path):
    whole = np.arange(24, dtype=np.float32).reshape(12, 2)
    attribute = made.dumpmade.sliced_json(threads=False, total=12, cuts=[[12, 1]])
    for side, start in (("left", 0), ("right", 900)):
        for number in range(12):
            part = whole[number : number + 1]
            # Written in another order than they are numbered in.
            name = f"Add.op_lxslice{number}.6.3.{made.TIME + start + 12 - number}.4.12.0.0"
            made.dumpmade.put(tmp_path / side, name, made.dumpmade.one_output(part, attribute=attribute))
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert answer.code == 0, answer.text
    from pytest_msdump import open_dump

    assert np.array_equal(open_dump(tmp_path / "left").read("op"), whole)


def test_fault_30_inputs_that_cannot_be_compared_are_told(tmp_path):
    for side, size in (("left", 6), ("right", 5)):
        made.device(tmp_path / side, "Add", "in_bad", HALF, slot_of_inputs=(np.ones(size, np.float16),))
    answer = ask(tmp_path / "left", tmp_path / "right", "--io", "all")
    assert answer.code == 1
    assert verdicts(answer) == {"in_bad:input:0": "error", "in_bad:output:0": "pass"}


def test_fault_11_operators_that_share_a_file_name_are_not_taken_for_each_other(tmp_path):
    case = GOLDEN / "j2_name_matching"
    rules = ("--io", "all", "-f", str(case / "fusion.json"))
    answer = ask(case / "left", case / "right", *rules, reports=tmp_path / "reports")
    assert not {address for address in verdicts(answer) if address.startswith("collide")}
    reasons = [one["reason"] for one in answer.results["unmatched"] if "collide" in one["address"]]
    assert any("collide/x, collide_x of fusion.json have the same file name" in reason for reason in reasons)


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

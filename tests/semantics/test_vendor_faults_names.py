"""The vendor's faults with names, of operators and of files; as test_vendor_faults, through the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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

"""Who is compared with whom, against the vendor's own answers."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from pytest_msdump.capabilities.graphs.execution_order import with_model_order
from pytest_msdump.capabilities.graphs.ge_model import read_model
from pytest_msdump.core.dumps.reruns import separate_runs
from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.matching.rules import FusionRules, rules_for
from pytest_msdump.core.matching.selection import Selection
from pytest_msdump.core.model.dump import Dump, in_order
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    Pairing,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    mangle,
)

CASES = Path(__file__).parents[1] / "data" / "fusion"

# Names of Ascend dump files end with one 16-digit time, and perhaps with four more numbers.
DEVICE_FILE = re.compile(r"([^.]+)\.([^.]+)\.(?:\d+\.){1,2}(\d{16})(?:\.\d+)*")
ORIGINAL_FILE = re.compile(r"(.+)\.(\d+)\.(\d{16})\.(?:npy|pb)")

# Rows that the vendor could not compare: no file on a side, or nothing that the rules know.
NOT_COMPARED = re.compile("no dump file|no the ground truth|no the my output|Skip the")

# What we pair and the vendor does not, or the other way round, by TensorIndex: the number of the fault in its tool.
EXCEPTIONS = {
    "j2_name_matching": {
        "a.dot:output:0": "28: names with a dot never match",
        "sp ace:output:0": "28: names with a space never match",
        "onnx::node:1:output:0": "28: names with a colon never match",
        "collide/x:output:0": "11: two operators share one file, silently",
        "collide_x:output:0": "11: two operators share one file, silently",
    },
    "b_npu_vs_npu": {
        "shape_mismatch:output:0": "30: shapes that differ lose their rows; they are a pair with verdict error",
        "count_mismatch:output:0": "30: counts that differ lose their rows",
    },
}


def tensors(line: str) -> list[TensorRef]:
    name, inputs, outputs = line.rsplit(" ", 2)
    at = Coordinates(iteration=0, occurrence=0)
    if found := ORIGINAL_FILE.fullmatch(name):
        key = TensorKey(OpKey(found[1], at), "output", int(found[2]))
        return [TensorRef(key, TensorSpec(), TensorSource.of(Path(name), int(found[3])), "npy-folder")]
    found = DEVICE_FILE.fullmatch(name)
    assert found, name
    # What a reader does with slices of one operator, when nobody asks for the slices.
    op = re.sub(r"^.*sgt_graph_\d+_|_lxslice\d+$", "", found[2])
    ports = [("input", k) for k in range(int(inputs))] + [("output", k) for k in range(int(outputs))]
    return [
        TensorRef(
            TensorKey(OpKey(op, at, found[1]), io, k),
            TensorSpec(),
            TensorSource.of(Path(name), int(found[3])),
            "ascend",
        )
        for io, k in ports
    ]


def listed(case: str, side: str) -> Dump:
    lines = (CASES / case / f"{side}.txt").read_text().splitlines()
    refs = [ref for line in lines for ref in tensors(line)]
    if case == "l_ffts":
        # Slices are joined by the reader.
        refs = list({ref.key: ref for ref in refs}.values())
    repeats = separate_runs(refs)
    return Dump(Path(side), refs[0].reader, in_order(repeats.newest), repeats.older)


def rules_of(case: str) -> FusionRules:
    model, quant = (CASES / case / name for name in ("fusion.json", "quant.json"))
    return FusionRules(*(read_model(path) if path.exists() else None for path in (model, quant)))


def pairing_of(case: str) -> Pairing:
    rules = rules_of(case)
    left = listed(case, "left")
    if rules.base is not None:
        left = with_model_order(left, rules.base)
    return pair_dumps(left, listed(case, "right"), rules=rules, selection=Selection(io="all"))


def rows(case: str, table: str = "result") -> list[dict[str, str]]:
    with (CASES / case / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def compared(case: str) -> dict[str, dict[str, str]]:
    return {
        row["TensorIndex"]: row
        for row in rows(case)
        if row["TensorIndex"] != "NaN" and not NOT_COMPARED.search(row["CompareFailReason"])
    }


ANSWERED = sorted(path.parent.name for path in CASES.glob("*/result.csv"))


@pytest.mark.parametrize("case", ANSWERED)
def test_the_same_left_tensors_are_paired_as_by_the_vendor(case: str) -> None:
    ours = {pair.left.key.address for pair in pairing_of(case).pairs}
    assert ours ^ compared(case).keys() == set(EXCEPTIONS.get(case, {}))


@pytest.mark.parametrize("case", ANSWERED)
def test_outputs_meet_an_operator_of_the_vendors_ground_truth_column(case: str) -> None:
    theirs = compared(case)
    for pair in pairing_of(case).pairs:
        row = theirs.get(pair.left.key.address)
        if row is not None and pair.left.key.io == "output" and row["GroundTruth"] != "*":
            assert pair.right.key.op.name in [mangle(name) for name in row["GroundTruth"].split(",")], row


def test_each_input_and_output_meets_the_tensor_of_the_vendors_mapping() -> None:
    ours = {pair.left.key.address: pair.right.key for pair in pairing_of("a_fusion_nchw").pairs}
    theirs = {
        row["TensorIndex"]: ORIGINAL_FILE.fullmatch(row["GroundTruthPath"])
        for row in rows("a_fusion_nchw", "mapping")
        if row["GroundTruthPath"] != "NaN"
    }
    # The mapping lists inner nodes of a fusion; the comparison itself leaves them out.
    assert theirs.pop("sm_part_a:input:0")
    assert {address: (key.op.name, key.slot) for address, key in ours.items()} == {
        address: (found[1], int(found[2])) for address, found in theirs.items() if found
    }


def test_a_pair_of_which_one_side_is_not_there_is_missing_and_data_and_const_are_not() -> None:
    missing = pairing_of("a_fusion_nchw").missing
    assert {(one.left, one.right) for one in missing} == {
        ("pool_norightfile:output:0", "pool_norightfile:output:0"),
        ("gone:output:0", "gone:output:0"),
    }


def test_one_right_file_is_one_tensor_of_coverage_however_many_left_ones_it_meets() -> None:
    pairing = pairing_of("i_l1_and_multi")
    assert (pairing.right_paired, pairing.right_total, len(pairing.pairs)) == (6, 6, 10)


def test_rule_files_of_the_golden_cases_are_the_right_ones() -> None:
    told = {case: rules_for(listed(case, "left"), listed(case, "right"), rules_of(case)) for case in ANSWERED}
    assert {case: advice for case, advice in told.items() if advice} == {}


def test_ascend_against_ascend_is_paired_by_name_alone() -> None:
    pairing = pairing_of("f_detail_split")
    assert {(pair.left.key.address, pair.how) for pair in pairing.pairs} == {
        ("big:output:0", "name"),
        ("five:output:0", "name"),
        ("small:output:0", "name"),
    }

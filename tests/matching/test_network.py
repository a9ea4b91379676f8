"""The compiled model as reports hold it: groups, originals and numbers of operators, as plain JSON values."""

from __future__ import annotations

from pathlib import Path

from pytest_msdump.core.matching.rules import FusionRules, combined, network_of
from pytest_msdump.core.model.graph import Operator, OperatorGraph
from pytest_msdump.dumps.graphs.ge_model import read_model

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"


def graph(*operators: Operator) -> OperatorGraph:
    return OperatorGraph(operators, source="model.json")


def test_what_the_compiler_inserted_stands_for_nobody():
    (entry,) = network_of(graph(Operator("pad", "PadD")))
    assert (entry.right, entry.relation) == (("*",), "inserted")


def test_a_model_s_groups_are_the_vendor_s():
    """Index, NPUDump and GroundTruth of each of its rows, by hand from its answer for this model."""
    entries = network_of(combined(FusionRules(read_model(GOLDEN / "a_fusion_nchw" / "fusion.json"))))
    rows = dict.fromkeys((one.index, ",".join(one.left), ",".join(one.right)) for one in entries)
    assert list(rows) == [
        (0, "input_1", "input_1"),
        (1, "conv1/weights", "*"),
        (2, "trans_TransData_0", "*"),
        (3, "conv1conv1/bnconv1/relu", "conv1,conv1/bn,conv1/relu"),
        (4, "split1", "split1"),
        (5, "npu_only_pad", "*"),
        (6, "sm_part_a,sm_part_b", "big_softmax"),
        (7, "fc1", "fc1"),
        (8, "loss", "loss"),
        (9, "argmax", "argmax"),
        (10, "pool_norightfile", "pool_norightfile"),
        (11, "dup_relu", "dup_relu"),
        (12, "gone", "gone"),
        (13, "wrong_shape", "wrong_shape"),
    ]

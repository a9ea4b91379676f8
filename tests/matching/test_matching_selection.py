from __future__ import annotations

import pytest
from matching.made import dump, reasons, run_tensor, tensor

from pytest_msdump.core.matching import MapEntry, Selection, pair_dumps

CONV = "Default/conv1-Conv2d/BiasAdd-op0"
RELU = "Default/relu1-ReLU/ReLU-op0"
LEFT = dump(run_tensor(CONV), run_tensor(RELU), run_tensor("Default/alone/Add-op0"))
RIGHT = dump(tensor("conv1"), tensor("relu1"), tensor("extra"))
ENTRIES = (MapEntry(CONV, "conv1"), MapEntry(RELU, "relu1"))


def paired(select: tuple[str, ...] = (), deselect: tuple[str, ...] = ()) -> list[str]:
    pairing = pair_dumps(LEFT, RIGHT, entries=ENTRIES, selection=Selection(select=select, deselect=deselect))
    return [pair.right.key.op.name for pair in pairing.pairs]


@pytest.mark.parametrize(
    "glob",
    [
        CONV,
        "Default_conv1-Conv2d_BiasAdd-op0",
        f"{CONV}:output:0",
        "Default_conv1-Conv2d_BiasAdd-op0:output:0",
        "*BiasAdd-op0",
        "Default/conv?-*",
        "*conv1*:output:*",
        "conv1",
        "conv1:output:0",
        "con[vw]1",
        f"BiasAdd.{CONV}",
        "BiasAdd.*",
    ],
)
def test_a_glob_meets_any_spelling_of_either_side(glob: str) -> None:
    assert paired(select=(glob,)) == ["conv1"]
    assert paired(deselect=(glob,)) == ["relu1"]


@pytest.mark.parametrize("glob", ["CONV1", "conv", "onv1", f"{CONV}:input:0", "BiasAdd", "Bias*.*", "ReLU.conv1"])
def test_a_glob_is_whole_and_case_sensitive_and_a_type_is_spelled_out(glob: str) -> None:
    assert paired(select=(glob,)) == []
    assert paired(deselect=(glob,)) == ["conv1", "relu1"]


def test_a_name_with_brackets_finds_itself() -> None:
    side = dump(tensor("x[12]"), tensor("y[12]"))
    pairing = pair_dumps(side, side, selection=Selection(select=("x[12]:output:0",)))
    assert [pair.left.key.op.name for pair in pairing.pairs] == ["x[12]"]


def test_unmatched_tensors_are_listed_and_counted_when_selected_by_their_own_name() -> None:
    pairing = pair_dumps(LEFT, RIGHT, entries=ENTRIES, selection=Selection(select=("conv1", "extra")))
    assert (pairing.right_paired, pairing.right_total) == (1, 2)
    assert list(reasons(pairing, "right")) == ["extra:output:0"]
    assert reasons(pairing) == {}


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(), 1),
        (Selection(select=("Default/gone/Add-op0",)), 1),
        (Selection(select=("Default_gone_Add-op0",)), 1),
        (Selection(select=("ghost",)), 1),
        (Selection(select=("conv1",)), 0),
        (Selection(deselect=("ghost",)), 0),
        (Selection(deselect=("*gone*:output:0",)), 0),
    ],
)
def test_a_missing_pair_is_kept_when_either_address_is_selected(selection: Selection, count: int) -> None:
    entry = MapEntry("Default/gone/Add-op0:output:0", "ghost")
    pairing = pair_dumps(LEFT, dump(tensor("ghost")), entries=[entry], selection=selection)
    assert len(pairing.missing) == count

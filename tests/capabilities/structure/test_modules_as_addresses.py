"""A module path in a map entry means what leaves the module, whatever numbers its operators have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matching.made import addresses, dump, run_tensor, tensor

from pytest_msdump.core.matching import MapEntry, pair_dumps
from pytest_msdump.core.model.dump import Dump, Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates

FC = "Default/layer0-EncLayer/fc-Dense/MatMul-op0"
ACT = "Default/layer0-EncLayer/act-GELU/GeLU-op"
NEXT = "Default/layer1-EncLayer/fc-Dense/MatMul-op0"


def run(number: int = 0) -> Dump:
    return dump(run_tensor(FC), run_tensor(f"{ACT}{number}"), run_tensor(NEXT), reader="mindspore")


def graphed(*operators: tuple[str, str]) -> Dump:
    """A run with its graph, from operators and what each takes."""
    made = [
        Operator(name, name.rpartition("/")[2].partition("-")[0], inputs=tuple(Edge(one, 0) for one in feeds.split()))
        for name, feeds in operators
    ]
    refs = [run_tensor(one.name) for one in made]
    return replace(dump(*refs, reader="mindspore"), graphs=((Coordinates(), OperatorGraph(tuple(made), "g.ir")),))


def paired(left: Dump, right: Dump, *entries: tuple[str, str]) -> list[tuple[str, str, str]]:
    return addresses(pair_dumps(left, right, entries=[MapEntry(*entry) for entry in entries]))


def why(left: Dump, *entry: str) -> str:
    (missing,) = pair_dumps(left, dump(tensor("x")), entries=[MapEntry(*entry)]).missing
    return missing.reason


@pytest.mark.parametrize("number", [0, 7])
@pytest.mark.parametrize("slot", ["", ":output:0"])
@pytest.mark.parametrize("typed", ["layer0.act", "Default/layer0-EncLayer/act-GELU", "layer{i}.act"])
def test_an_entry_names_what_leaves_a_module_on_either_side(typed: str, slot: str, number: int) -> None:
    other = dump(tensor("act0"))
    name = "act{i}" if "{" in typed else "act0"
    expected = (f"{ACT}{number}:output:0", "act0:output:0", "mapped")
    assert paired(run(number), other, (typed + slot, name)) == [expected]
    if "{" not in typed:
        assert paired(other, run(number), (name, typed + slot)) == [(*expected[1::-1], "mapped")]


def test_a_module_that_another_operator_interrupts_is_not_two_calls() -> None:
    div, add, mul = "Default/act-GELU/Div-op0", "Default/Add-op0", "Default/act-GELU/Mul-op0"
    left = graphed((div, "x"), (add, div), (mul, add), ("Default/Sub-op0", mul))
    assert paired(left, dump(tensor("x")), ("act@1", "x")) == []


def test_a_call_is_named_where_a_module_has_several() -> None:
    names = [f"Default/act-ReLU/ReLU-op{n}" for n in range(3)]
    feeds = [f"Default/fc{n}-Dense/MatMul-op0" for n in range(3)]
    steps = [step for n in range(3) for step in ((feeds[n], names[n - 1] if n else "x"), (names[n], feeds[n]))]
    left = graphed(*steps)
    assert "act is called 3 times on the left side" in why(left, "act", "x")
    assert "act is called 3 times on the left side" in why(left, "act@3", "x")
    assert paired(left, dump(tensor("x")), ("act@1", "x")) == [(f"{names[1]}:output:0", "x:output:0", "mapped")]
    # Without edges nothing says which operators are of one call.
    assert "unknown to which call" in why(replace(left, graphs=()), "act", "x")


@pytest.mark.parametrize(
    ("typed", "reason"),
    [("layer0", "several operators of layer0"), ("layer7.act", "no operator layer7.act"), ("", "no operator")],
)
def test_what_leaves_a_module_is_never_guessed(typed: str, reason: str) -> None:
    one, other = "Default/layer0-L/Add-op0", "Default/layer0-L/Mul-op0"
    left = graphed((one, "x"), (other, "x"), ("Default/Sub-op0", f"{one} {other}"))
    assert reason in why(left, typed, "x")

"""A tensor whose partner the other run was told not to dump says so, and nothing is claimed that is not sure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matching.made import dump, reasons, run_tensor, tensor

from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.matching.selection import MapEntry, Selection
from pytest_msdump.core.model.dump import Dump, DumpConfiguration, Operator, OperatorGraph, RunFacts
from pytest_msdump.core.model.tensor import Coordinates, TensorRef, TensorSpec

RELU, ADD = "Default/relu-ReLU/ReLU-op0", "Default/fc-Dense/Add-op0"
EVERYTHING = Selection(io="all")


def of_run(*refs: TensorRef, graph: tuple[Operator, ...] = (), **told: Any) -> Dump:
    run = RunFacts("2.10.0", "Ascend", (DumpConfiguration("data_dump.json", 0, **told),))
    graphs = ((Coordinates(), OperatorGraph(graph)),) if graph else ()
    return replace(dump(*refs), run=run, graphs=graphs)


def why(left: Dump, *right: TensorRef, **more: Any) -> str:
    """Return the reason of the only right tensor without a partner."""
    pairing = pair_dumps(left, dump(*right), selection=EVERYTHING, **more)
    (reason,) = reasons(pairing, "right").values()
    return reason


def test_an_operator_that_is_listed_and_not_there_is_a_bare_miss() -> None:
    left = of_run(run_tensor(RELU), kernels=("ReLU", "Add"))
    assert why(left, run_tensor(RELU), run_tensor(ADD)) == "no operator of that name on the left side"


def test_inputs_of_a_run_that_dumped_outputs_say_so() -> None:
    left = of_run(run_tensor(RELU), io="output")
    assert why(left, run_tensor(RELU), run_tensor(RELU, "input:0")) == (
        "not dumped: outputs only on the left side (input_output in data_dump.json)"
    )


def test_weights_of_a_run_that_dumped_inputs_say_so() -> None:
    left = of_run(run_tensor(RELU, "input:0"), io="input")
    weight = run_tensor("fc_weight", op_type="Parameter")
    assert why(left, run_tensor(RELU, "input:0"), weight) == (
        "not dumped: inputs only on the left side (input_output in data_dump.json)"
    )
    assert why(of_run(run_tensor(RELU)), run_tensor(RELU), weight) == "no operator of that name on the left side"


def test_an_iteration_that_is_not_selected_says_so() -> None:
    left = of_run(run_tensor(RELU), run_tensor(RELU, iteration=2), iterations="0|2-3")
    both = (run_tensor(RELU), run_tensor(RELU, iteration=2))
    assert why(left, *both, run_tensor(RELU, iteration=1)) == (
        'not dumped: iteration 1 is not selected on the left side (iteration "0|2-3" in data_dump.json)'
    )
    # Selected, and yet not there: the run ended before.
    assert "not dumped" not in why(left, *both, run_tensor(RELU, iteration=3))


def test_the_right_side_s_run_is_asked_about_left_tensors() -> None:
    left, right = dump(run_tensor(RELU), run_tensor(ADD)), of_run(run_tensor(RELU), kernels=("ReLU",))
    assert reasons(pair_dumps(left, right), "left") == {
        f"{ADD}:output:0": "not dumped: the kernels list of the right side does not name it (ReLU in data_dump.json)"
    }


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"scene": "overflow"}, "only operators that overflowed"),
        ({"scene": "exception"}, "only inputs of an operator with an exception"),
        ({"by_script": True}, "only what its script names with set_dump"),
    ],
)
def test_runs_that_dumped_something_special_say_so(told: dict[str, Any], words: str) -> None:
    reason = why(of_run(run_tensor(RELU), **told), run_tensor(RELU), run_tensor(ADD))
    assert reason.startswith("not dumped: ")
    assert words in reason


def test_what_mindspore_cannot_dump_is_told_by_type_and_by_graph() -> None:
    name, printed = "Default/Complex-op0", "Default/Print-op0"
    graph = (Operator(name, "Complex", host_outputs=(TensorSpec("complex64", (6,)),)), Operator(printed, "Print"))
    left = of_run(run_tensor(RELU), graph=graph)
    assert why(left, run_tensor(RELU), run_tensor(name)) == (
        "not dumped: complex64, which MindSpore could not dump on the left side"
    )
    assert why(left, run_tensor(RELU), run_tensor(printed, "input:0")) == (
        "not dumped: Print takes a string, which MindSpore cannot dump"
    )


def test_a_mapped_operator_that_the_list_leaves_out_says_so_on_both_lists() -> None:
    left = of_run(run_tensor(RELU), kernels=("ReLU",))
    pairing = pair_dumps(left, dump(tensor("fc")), entries=(MapEntry(ADD, "fc"),))
    told = "not dumped: the kernels list of the left side does not name it (ReLU in data_dump.json)"
    assert [one.reason for one in pairing.missing] == [f"no operator {ADD} on the left side; {told}"]
    (reason,) = reasons(pairing, "right").values()
    assert reason.endswith(f"no operator {ADD} on the left side; {told}")


def test_an_operator_that_the_graph_has_and_nothing_leaves_out_was_not_reached() -> None:
    graph = (Operator(RELU, "ReLU"), Operator(ADD, "Add"))
    told = why(of_run(run_tensor(RELU), graph=graph), run_tensor(RELU), run_tensor(ADD))
    assert told == (
        "not dumped: it is in a graph of the left run, and no setting leaves it out: the run ended early, or the file "
        "was deleted"
    )


def test_an_empty_tensor_is_never_written() -> None:
    graph = (Operator(RELU, "ReLU"), Operator(ADD, "Add", host_outputs=(TensorSpec("float32", (0, 3)),)))
    told = why(of_run(run_tensor(RELU), graph=graph), run_tensor(RELU), run_tensor(ADD))
    assert told == "not dumped: it is empty, (0, 3) in the graph, and MindSpore writes no empty tensors"
    # A scalar is not empty.
    graph = (graph[0], Operator(ADD, "Add", host_outputs=(TensorSpec("float32", ()),)))
    assert "it is empty" not in why(of_run(run_tensor(RELU), graph=graph), run_tensor(RELU), run_tensor(ADD))

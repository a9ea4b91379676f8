"""Operators within graphs of real runs: every line leads to its operators, every file back to its line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_msdump.capabilities.graphs.operators import operator_of, operators_of_line
from pytest_msdump.capabilities.graphs.source_lines import user_frames
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Dump, Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    SourceFrame,
    SourceStack,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
)

IR = Path(__file__).parents[1] / "data" / "ir"
SAMPLES = sorted(path.name for path in IR.iterdir() if path.is_dir() and list(path.glob("ms_output_*.ir")))


def run_of(root: Path, sample: str) -> Path:
    """A run of which nothing was dumped but what is beside the tensors."""
    for folder, pattern in (("graphs", "ms_output_*"), ("execution_order", "*.csv")):
        target = root / "rank_0" / folder
        target.mkdir(parents=True)
        for path in (IR / sample).glob(pattern):
            shutil.copy(path, target)
    return root


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_line_of_every_real_graph_leads_to_operators_and_back(tmp_path, sample):
    dump = index(run_of(tmp_path, sample))
    assert dump.graphs
    lines = 0
    for at, graph in dump.graphs:
        for place, operator in enumerate(graph.operators):
            for frame in user_frames(operator):
                lines += 1
                found = operators_of_line(dump, frame.place)
                assert (operator.name, place, at) in {(one.operator.name, one.place, one.at) for one in found}
            back = operator_of(dump, OpKey(operator.name.replace("/", "_"), at, operator.op_type, operator.name))
            assert back is not None
            assert back.operator == operator
    assert lines


@pytest.mark.parametrize("sample", SAMPLES)
def test_producers_and_consumers_are_each_others(tmp_path, sample):
    dump = index(run_of(tmp_path, sample))
    for at, graph in dump.graphs:
        placed = {
            operator.name: operator_of(dump, OpKey("", at, operator.op_type, operator.name))
            for operator in graph.operators
        }
        taken = {
            (name, slot, taker, taken)
            for name, one in placed.items()
            for slot, takers in one.takers.items()
            for taker, taken in takers
        }
        fed = {
            (edge.producer, edge.slot, operator.name, slot)
            for operator in graph.operators
            for slot, edge in enumerate(operator.inputs)
            if edge is not None and not edge.is_parameter
        }
        assert taken == fed


def test_an_operator_of_another_rank_or_graph_is_not_meant(tmp_path):
    dump = index(run_of(tmp_path, "lenet_train"))
    (at, graph), *_ = dump.graphs
    operator = graph.operators[0]

    def found(**where):
        op = OpKey("", Coordinates(**{"rank": 0, "graph": at.graph, **where}), operator.op_type, operator.name)
        return operator_of(dump, op)

    assert found() is not None
    assert found(net="any", iteration=7) is not None
    assert found(rank=1) is None
    assert found(graph=9) is None


def test_a_parameter_of_an_operators_name_is_not_its_tensor_nor_its_consumers():
    frame = SourceFrame("net.py", 5, "y = a(x)")
    graph = OperatorGraph(
        (
            Operator("a", "Mul", inputs=(Edge("a", 0, is_parameter=True),), stacks=(SourceStack((frame,)),)),
            Operator("b", "Add", inputs=(Edge("a", 0), Edge("a", 1, is_parameter=True))),
        )
    )
    refs = tuple(
        TensorRef(TensorKey(OpKey("a", Coordinates(rank=0), op_type), "output", 0), TensorSpec(), source, "npy-file")
        for op_type, source in (("Mul", TensorSource.of(Path("1"))), ("Parameter", TensorSource.of(Path("2"))))
    )
    dump = Dump(Path("run"), "mindspore", refs, graphs=((Coordinates(rank=0), graph),))
    (placed,) = operators_of_line(dump, "net.py:5")
    assert placed.refs == refs[:1]
    assert placed.takers == {0: (("b", 0),)}


def test_why_no_operator_is_found_depends_on_what_is_there(tmp_path, lenet):
    with pytest.raises(ConfigError, match=r"no operator of .* the lines that are known: .*\.py:[0-9]+"):
        operators_of_line(index(run_of(tmp_path, "lenet_train")), "nobody.py:1")
    with pytest.raises(ConfigError, match=r"name a saved \.ir with --graph FILE"):
        operators_of_line(index(lenet / "reference"), "nobody.py:1")

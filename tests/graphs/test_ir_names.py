"""Graphs of a run tell true names, places, lines and shapes of the operators that were dumped."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from graphs.samples import ROOT, order, read

from pytest_msdump.capabilities.graphs.execution_order import find_irs, find_orders, read_orders, with_order
from pytest_msdump.capabilities.graphs.flow import consumers
from pytest_msdump.capabilities.graphs.graph_files import PlacedGraph, read_graphs
from pytest_msdump.capabilities.graphs.ir_names import with_ir
from pytest_msdump.core.dumps.mindspore import MindSporeReader
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

LINE = SourceFrame("net.py", 7, "x = f(x)")
ANY = Coordinates()
PADDED = TensorSpec(memory_format="FracZ")


def tree(root: Path, sample: str) -> Path:
    """The tree of one sample's run: names only, since nothing here opens a tensor."""
    rank = root / "rank_0"
    for folder, pattern in (("graphs", "ms_output_*"), ("execution_order", "ms_execution_*")):
        (rank / folder).mkdir(parents=True)
        for path in (ROOT / sample).glob(pattern):
            shutil.copy(path, rank / folder)
    for line in (ROOT / sample / "npy_listing.txt").read_text().splitlines():
        path = rank / "Net" / line
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def indexed(root: Path, sample: str) -> tuple[Dump, tuple[PlacedGraph, ...]]:
    dump = MindSporeReader().index(tree(root, sample))
    graphs, notes = read_graphs(find_irs(root))
    assert not notes
    return dump, graphs


def ref(name: str, op_type: str = "Add", *, time: int | None = 1, **more: object) -> TensorRef:
    at = Coordinates(rank=0, net="Net", graph=0, iteration=0)
    key = TensorKey(OpKey(name, at, op_type), str(more.pop("io", "output")), int(str(more.pop("slot", 0))))
    source = TensorSource.of(Path(f"{op_type}.{name}.npy"), timestamp=time)
    spec = more.pop("spec", TensorSpec())
    return TensorRef(key, spec, source, "mindspore", place=more.get("place"))  # type: ignore[arg-type]


def dump_of(*refs: TensorRef) -> Dump:
    return Dump(Path(), "mindspore", refs)


def op(name: str, op_type: str = "Add", **fields: object) -> Operator:
    return Operator(name, op_type, stacks=(SourceStack((LINE,)),), **fields)  # type: ignore[arg-type]


def graph(*operators: Operator, **fields: object) -> OperatorGraph:
    return OperatorGraph(operators, "g.ir", **fields)  # type: ignore[arg-type]


def told(dump: Dump) -> list[tuple[str, int | None, bool]]:
    return [(one.key.op.label, one.place, one.line == LINE) for one in dump.refs]


# Real runs.


@pytest.mark.parametrize("sample", ["odd", "tuple", "zerodim", "eval_train", "jit", "names", "dynshape", "multi"])
def test_every_operator_of_a_run_gets_the_name_and_the_place_of_the_execution_order(
    tmp_path: Path, sample: str
) -> None:
    dump, graphs = indexed(tmp_path, sample)
    orders, _ = read_orders(find_orders(tmp_path))
    named = with_ir(with_order(dump, orders), graphs, orders=orders)
    assert {one.source for one in named.refs} == {one.source for one in dump.refs}
    for one in named.refs:
        key = one.key.op
        if key.op_type != "Parameter" and key.at.graph is not None:
            names = orders[Coordinates(rank=0, graph=key.at.graph)]
            assert one.place is not None
            assert names[one.place] == key.true_name
            assert key.true_name is not None
            assert key.true_name.rpartition("-op")[0].replace("/", "_") == key.name.rpartition("-op")[0]


def test_lines_shapes_and_parameters_of_a_run(tmp_path: Path) -> None:
    dump, graphs = indexed(tmp_path, "odd")
    named = with_ir(dump, graphs)
    refs = {(one.key.op.op_type, one.key.io, one.key.slot): one for one in named.refs}
    conv = refs["Conv2D", "output", 0]
    assert conv.line is not None
    assert conv.line.place == "/srv/demo/net.py:12"
    # A file in no device's format says itself what it holds, but for those of view operators, which have their input's.
    told = {key: one.spec.logical_shape for key, one in refs.items() if one.spec.logical_shape is not None}
    assert told == {("Flatten", "output", 0): (2, 32)}


def test_shapes_of_a_run_for_files_in_a_memory_format(tmp_path: Path) -> None:
    dump, graphs = indexed(tmp_path, "odd")
    padded = [replace(one, spec=replace(one.spec, memory_format="NC1HWC0")) for one in dump.refs]
    named = with_ir(replace(dump, refs=tuple(padded)), graphs)
    refs = {(one.key.op.op_type, one.key.io, one.key.slot): one.spec.logical_shape for one in named.refs}
    assert refs["Conv2D", "output", 0] == (2, 2, 4, 4)
    assert refs["Flatten", "output", 0] == (2, 32)
    assert refs["Split", "output", 1] == (2, 1, 4, 4)
    assert refs["StridedSlice", "input", 1] == (2,)


def test_parameters_of_a_run_get_their_names(tmp_path: Path) -> None:
    dump, graphs = indexed(tmp_path, "odd")
    named = with_ir(dump, graphs)
    parameters = {one.key.op.true_name for one in named.refs if one.key.op.op_type == "Parameter"}
    assert parameters == {"odd) = name(x, %y", "conv.weight", "x"}


@pytest.mark.parametrize("sample", ["lenet_train", "tuple", "zerodim", "eval_train"])
def test_a_graph_s_text_has_all_operators_that_ran_and_in_another_order(sample: str) -> None:
    path = ROOT / sample / "ms_output_trace_code_graph_0.ir"
    assert read(path).names != order(path)
    assert sorted(read(path).names) == sorted(order(path))


# One law at a time.


def test_a_name_without_scope_that_two_have_stays_unknown() -> None:
    named = with_ir(dump_of(ref("Add-op1")), [(ANY, graph(op("D/x/Add-op1"), op("D/y/Add-op1")))])
    assert told(named) == [("Add-op1", None, False)]


def test_numbers_are_matched_in_their_order_only_when_there_are_equally_many() -> None:
    of_graph = [(ANY, graph(op("D/Add-op3"), op("D/Add-op1"), op("D/Mul-op5", "Mul")))]
    two = with_ir(dump_of(ref("D_Add-op0"), ref("D_Add-op10")), of_graph)
    assert {one.key.op.name: one.key.op.true_name for one in two.refs} == {
        "D_Add-op0": "D/Add-op1",
        "D_Add-op10": "D/Add-op3",
    }
    one = with_ir(dump_of(ref("D_Add-op0")), of_graph)
    assert told(one) == [("D_Add-op0", None, False)]
    assert one.notes == ("g.ir: no operator of the dump is in it",)


def test_an_operator_that_has_its_name_is_not_given_to_another() -> None:
    named = with_ir(dump_of(ref("D_Add-op1"), ref("D_Add-op2")), [(ANY, graph(op("D/Add-op1")))])
    assert {one.key.op.name: one.key.op.true_name for one in named.refs} == {
        "D_Add-op1": "D/Add-op1",
        "D_Add-op2": None,
    }
    assert named.notes == ("g.ir does not have D_Add-op2: their lines and shapes are not known",)


@pytest.mark.parametrize("lost", [None, 0, 1, 2])
def test_a_lost_file_gives_no_other_one_another_operator(lost: int | None) -> None:
    """MindSpore 2.10 on CPU numbers files by the graph's text, in which operators have other numbers."""
    of_graph = graph(op("D/Add-op2"), op("D/Add-op0"), op("D/Add-op1"))
    refs = [ref(f"D_Add-op{number}", time=number) for number in range(3) if number != lost]
    run = replace(dump_of(*refs), labels=(("device_target", "CPU"), ("ms_version", "2.10.0")))
    names = {one.key.op.name: one.key.op.label for one in with_ir(run, [(ANY, of_graph)]).refs}
    every = {"D_Add-op0": "D/Add-op2", "D_Add-op1": "D/Add-op0", "D_Add-op2": "D/Add-op1"}
    assert names == {file: name for file, name in every.items() if file != f"D_Add-op{lost}"}


def test_in_a_graph_that_did_not_run_numbers_are_not_guessed_and_that_is_told() -> None:
    early = graph(op("D/Add-op1"), op("D/Mul-op1", "Mul"), is_final=False)
    named = with_ir(dump_of(ref("D_Add-op0"), ref("D_Mul-op1", "Mul", time=2)), [(ANY, early)])
    assert told(named) == [("D_Add-op0", None, False), ("D/Mul-op1", None, True)]
    assert named.notes == (
        "g.ir is not the graph that ran: operators may have been renamed, fused or removed since",
        "g.ir does not have D_Add-op0: their lines and shapes are not known",
    )


def test_many_missing_operators_are_counted() -> None:
    refs = [ref(f"op{number}", time=number) for number in range(5)]
    named = with_ir(dump_of(*refs), [(ANY, graph(op("op0")))])
    assert named.notes == ("g.ir does not have op1, op2, op3 and 1 more: their lines and shapes are not known",)


def test_many_names_with_other_numbers_are_counted() -> None:
    refs = [ref(f"D{number}_Add-op0", time=number) for number in range(3)]
    named = with_ir(dump_of(*refs), [(ANY, graph(*(op(f"D{number}/Add-op1") for number in range(3))))])
    (note,) = named.notes
    assert note == "D0/Add-op1 of the graph is written as D0_Add-op0 in file names, and 2 more are numbered differently"


def test_an_empty_tensor_has_a_shape() -> None:
    of_graph = [(ANY, graph(op("a", host_outputs=(TensorSpec("float32", (0, 3)),))))]
    assert with_ir(dump_of(ref("a", spec=PADDED)), of_graph).refs[0].spec.logical_shape == (0, 3)


def test_an_execution_order_wins_over_the_graphs() -> None:
    named = with_ir(
        dump_of(ref("D_Add-op0"), ref("D_Mul-op0", "Mul", place=9)),
        [(ANY, graph(op("D/Add-op1"), op("D/Mul-op0", "Mul")))],
        orders={Coordinates(graph=0): ("D/Mul-op0", "D/Add-op1")},
    )
    assert told(named) == [("D/Mul-op0", 0, True), ("D/Add-op1", 1, True)]


def test_of_several_graphs_the_first_counts() -> None:
    other = SourceFrame("old.py", 1)
    early = OperatorGraph((Operator("a", "Add", stacks=(SourceStack((other,)),)), op("b")), "early.ir", is_final=False)
    named = with_ir(dump_of(ref("a"), ref("b", time=2)), [(ANY, graph(op("a"))), (ANY, early)])
    assert told(named) == [("a", None, True), ("b", None, True)]


def test_what_is_known_of_a_tensor_stays_and_what_is_not_is_told() -> None:
    host, device = TensorSpec("float32", (2, 3)), TensorSpec("float16", (1, 1, 16, 16), "FracZ")
    of_graph = [(ANY, graph(op("a", host_outputs=(host,), device_outputs=(device,))))]
    bare = with_ir(dump_of(ref("a")), of_graph).refs[0]
    assert bare.spec == TensorSpec()
    agreed = [(ANY, graph(op("a", host_outputs=(host,), device_outputs=(replace(device, dtype="float32"),))))]
    assert with_ir(dump_of(ref("a")), agreed).refs[0].spec == TensorSpec("float32", dtype_from="g.ir")
    padded = with_ir(dump_of(ref("a", spec=PADDED)), of_graph).refs[0]
    assert padded.spec == TensorSpec("float16", None, "FracZ", (2, 3), dtype_from="g.ir", shape_from="g.ir")
    known = TensorSpec("int8", (6,), "FracZ", (3, 2))
    kept = with_ir(dump_of(replace(ref("a"), spec=known)), of_graph).refs[0]
    assert kept.spec == known


@pytest.mark.parametrize("shape", [None, (2, -1)])
def test_an_unknown_shape_tells_nothing(shape: tuple[int, ...] | None) -> None:
    of_graph = [(ANY, graph(op("a", host_outputs=(TensorSpec("float32", shape),))))]
    assert with_ir(dump_of(ref("a", spec=PADDED)), of_graph).refs[0].spec.logical_shape is None


def test_a_dump_without_graphs_stays_as_it_is() -> None:
    dump = dump_of(ref("a", place=3))
    assert with_ir(dump, []) == dump


def test_consumers_of_a_real_graph() -> None:
    found = consumers(read(ROOT / "odd" / "ms_output_trace_code_graph_0.ir"))
    assert found[Edge("Default/Split-op0", 1)] == (("Default/Concat-op1", 0),)
    assert found[Edge("Default/Split-op0", 0)] == (("Default/Concat-op1", 1),)
    assert found[Edge("conv.weight", 0, is_parameter=True)] == (("Default/conv-Conv2d/Conv2D-op0", 1),)
    assert Edge("Default/Add-op0", 0) not in found

"""Pairing by the modules that tensors leave: names, edges, calls, layouts, and what has to stay alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.made import dump, run_tensor

from pytest_msdump.capabilities.structure.scopes import node_scope
from pytest_msdump.core.matching import MapEntry, pair_dumps
from pytest_msdump.core.model.dump import Dump, Edge, Manifest, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Pairing, TensorKey, TensorRef, TensorSource, TensorSpec

SHAPE = (2, 3)


def recorded(name: str, kind: str = "", *, call: int = 0, shape: tuple[int, ...] = SHAPE, slot: int = 0) -> TensorRef:
    """The output of a recorded layer or ONNX node."""
    op = OpKey(name, Coordinates(iteration=0, occurrence=call), kind or None, name)
    return TensorRef(
        TensorKey(op, "output", slot), TensorSpec(shape=shape), TensorSource.of(Path("x.npy")), "npy-folder"
    )


def torch_dump(*refs: TensorRef, **weights: str) -> Dump:
    named = {name.replace("__", "."): digest for name, digest in weights.items()}
    return replace(dump(*refs, reader="npy-folder"), manifest=Manifest(framework="torch", weights=named))


def onnx_dump(*nodes: Operator, refs: Sequence[TensorRef] | None = None, edges: bool = True, **weights: str) -> Dump:
    """A recording of an ONNX model with its graph; every node is dumped unless `refs` says otherwise."""
    if refs is None:
        refs = [recorded(node.name, node.op_type) for node in nodes]
    manifest = Manifest(framework="onnxruntime", weights=weights)
    graphs = ((Coordinates(), OperatorGraph(nodes, "msdump.json")),) if edges else ()
    return replace(dump(*refs, reader="npy-folder"), manifest=manifest, graphs=graphs)


def node(name: str, *feeds: str, scope: str = "", kind: str = "") -> Operator:
    kind = kind or name.rpartition("/")[2]
    return Operator(name, kind, inputs=tuple(Edge(feed, 0) for feed in feeds), scope=scope)


def by_scope(pairing: Pairing) -> set[tuple[str, str]]:
    """Operators that meet, with the call on the right where there are several."""
    return {
        (pair.left.key.op.label, pair.right.key.op.label + ("'" * (pair.right.key.op.at.occurrence or 0)))
        for pair in pairing.pairs
        if pair.how == "structure"
    }


def nothing(_: object) -> bool:
    return False


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Default/layer0-EncLayer/q-Dense/BiasAdd-op0", "layer0.q"),
        ("Default/network-TrainOneStepCell/network-WithLossCell/_backbone-Net/fc-Dense/MatMul-op12", "fc"),
        ("Default/network-Net/layers-SequentialCell/0-Dense/MatMul-op0", "layers.0"),
        ("/b1/conv/Conv", "b1.conv"),
        ("/layer1/layer1.0/downsample/downsample.1/BatchNormalization", "layer1.0.downsample.1"),
        ("/features/features.0/features.0.0/Conv", "features.0.0"),
        ("/features/features.1/block/block.0/block.0.0/Conv", "features.1.block.0.0"),
        ("/encoder/layers.3/linear1/MatMul", "encoder.layers.3.linear1"),
        ("model/dense/BiasAdd", "model.dense"),
    ],
)
def test_the_path_of_modules_is_read_from_full_names(name: str, path: str) -> None:
    assert node_scope(name, nothing).path == tuple(path.split("."))


@pytest.mark.parametrize(
    "name", ["Gradients/Default/network-Net/fc-Dense/Grad_MatMul/MatMul-op0", "Default/optimizer-SGD/SGD-op0"]
)
def test_gradients_and_optimizer_are_apart(name: str) -> None:
    scope = node_scope(name, nothing)
    assert scope.is_apart
    assert scope.path is None


def test_a_name_of_a_million_parts_is_no_module() -> None:
    assert node_scope("/" + "a/" * 10**6 + "Conv", nothing).path is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(["a_b", "ab"], ["aB"]), (["layer1_0"], ["layer10"]), (["a_b", "A_B"], ["ab"])],
)
def test_two_modules_never_become_one(ours: list[str], theirs: list[str]) -> None:
    left, right = torch_dump(*map(recorded, ours)), torch_dump(*map(recorded, theirs))
    assert not pair_dumps(left, right).pairs
    assert not pair_dumps(right, left).pairs


def test_wrappers_are_dropped_unless_a_name_without_them_is_there() -> None:
    left = torch_dump(recorded("module.fc"), recorded("_backbone.conv"), recorded("conv"))
    pairing = pair_dumps(left, torch_dump(recorded("fc"), recorded("con_v")))
    assert by_scope(pairing) == {("module.fc", "fc")}


# -- the output of a module --------------------------------------------------------------------------------------------


def run(*names: str, **more: Any) -> Dump:
    """A run of MindSpore without a graph, in this order."""
    return dump(*(run_tensor(name, **more) for name in names), reader="mindspore")


def with_graph(run: Dump, *edges: tuple[int, int]) -> Dump:
    """The same with its graph: `edges` lead from one operator to another, by their places."""
    names = [ref.key.op.label for ref in run.refs]
    operators = tuple(
        Operator(
            name, run.refs[place].key.op.op_type or "", inputs=tuple(Edge(names[a], 0) for a, b in edges if b == place)
        )
        for place, name in enumerate(names)
    )
    return replace(run, graphs=((Coordinates(), OperatorGraph(operators, "graph.ir")),))


# The product of `self.fc(x) * 60` is nowhere, and may be the output of the head.
SCALED = ("Default/head-Head/fc-Dense/BiasAdd-op0", "Expand/_Muls/Mul-op0", "Default/act-ReLU/ReLU-op0")


@pytest.mark.parametrize("left", [run(*SCALED), with_graph(run(*SCALED), (0, 1), (1, 2))])
def test_what_may_end_a_module_is_not_guessed(left: Dump) -> None:
    pairing = pair_dumps(left, torch_dump(recorded("head.fc"), recorded("head"), recorded("act")))
    # A dense layer ends with its bias whatever follows.
    assert by_scope(pairing) == {("Default/head-Head/fc-Dense/BiasAdd-op0", "head.fc"), (SCALED[2], "act")}


@pytest.mark.parametrize("edges", [False, True])
def test_an_expanded_operator_inside_does_not_hide_what_leaves(edges: bool) -> None:
    left = run(
        "Default/b-B/fc-Dense/BiasAdd-op0", "Expand/_Muls/Mul-op0", "Default/b-B/ReLU-op0", "Default/act-ReLU/ReLU-op0"
    )
    right = torch_dump(recorded("b"))
    found = by_scope(pair_dumps(with_graph(left, (0, 1), (1, 2), (2, 3)) if edges else left, right))
    # Without edges it is not known whether the product is a part of it.
    assert found == ({("Default/b-B/ReLU-op0", "b")} if edges else set())


def test_a_missing_last_operator_is_not_replaced_by_the_one_before() -> None:
    left = run("Default/fc-Dense/MatMul-op0", "Default/act-ReLU/ReLU-op0")
    graph = with_graph(
        run("Default/fc-Dense/MatMul-op0", "Default/fc-Dense/BiasAdd-op0", "Default/act-ReLU/ReLU-op0"), (0, 1), (1, 2)
    )
    pairing = pair_dumps(replace(left, graphs=graph.graphs), torch_dump(recorded("fc"), recorded("act")))
    assert by_scope(pairing) == {("Default/act-ReLU/ReLU-op0", "act")}
    # An execution order shows the gap as well.
    placed = tuple(replace(ref, place=place) for ref, place in zip(left.refs, (0, 2), strict=True))
    assert by_scope(pair_dumps(replace(left, refs=placed), torch_dump(recorded("fc"), recorded("act")))) == {
        ("Default/act-ReLU/ReLU-op0", "act")
    }


def test_several_operators_that_leave_are_not_paired() -> None:
    left = onnx_dump(
        node("/m/Split"), node("/m/Relu", "/m/Split"), node("/m/Tanh", "/m/Split"), node("/Add", "/m/Relu", "/m/Tanh")
    )
    pairing = pair_dumps(left, torch_dump(recorded("m"), recorded("m", slot=1)))
    assert not pairing.pairs
    assert pairing.unmatched_right[0].why.code == "scope_several_leave"


# -- calls -----------------------------------------------------------------------------------------------------------


def test_another_number_of_calls_is_not_paired() -> None:
    left = onnx_dump(node("/fc/Gemm"), node("/fc_1/Gemm", "/fc/Gemm"), edges=False)
    pairing = pair_dumps(left, torch_dump(recorded("fc")))
    assert not pairing.pairs
    assert pairing.unmatched_right[0].why.code == "scope_calls_differ"


def test_calls_without_numbers_follow_the_edges_and_are_left_alone_where_none_does() -> None:
    chained = onnx_dump(node("a", scope="f"), node("b", "a", scope="g"), node("c", "b", scope="f", kind="a"))
    right = torch_dump(recorded("f"), recorded("g"), recorded("f", call=1))
    assert by_scope(pair_dumps(chained, right)) == {("a", "f"), ("b", "g"), ("c", "f'")}
    parallel = onnx_dump(node("a", scope="f"), node("c", scope="f", kind="a"), node("d", "a", "c", scope="g"))
    assert by_scope(pair_dumps(parallel, right)) == {("d", "g")}


def test_one_call_is_not_taken_for_two() -> None:
    twice = onnx_dump(node("a", scope="f"), node("c", "a", scope="f", kind="a"), node("d", "c", scope="g"))
    pairing = pair_dumps(twice, torch_dump(recorded("f"), recorded("g")))
    assert by_scope(pairing) == {("d", "g")}
    assert pairing.unmatched_right[0].why.code == "scope_calls_unknown"


def test_what_leaves_two_modules_at_once_is_compared_with_both() -> None:
    left = onnx_dump(node("/b/fc/Gemm"), node("/b/act/Relu", "/b/fc/Gemm"), node("/head/Gemm", "/b/act/Relu"))
    pairing = pair_dumps(left, torch_dump(recorded("b.fc"), recorded("b.act"), recorded("b"), recorded("head")))
    assert by_scope(pairing) == {
        ("/b/fc/Gemm", "b.fc"),
        ("/b/act/Relu", "b.act"),
        ("/b/act/Relu", "b"),
        ("/head/Gemm", "head"),
    }
    assert (pairing.right_paired, pairing.right_total) == (4, 4)


# -- folded normalisation --------------------------------------------------------------------------------------------

CONV = [recorded("conv", "Conv2d"), recorded("bn", "BatchNorm2d"), recorded("act", "ReLU")]
FOLDED = (node("/conv/Conv"), node("/act/Relu", "/conv/Conv"))


def test_a_folded_normalisation_meets_its_convolution() -> None:
    pairing = pair_dumps(onnx_dump(*FOLDED, scaled="2"), torch_dump(*CONV, conv__weight="1"))
    assert by_scope(pairing) == {("/conv/Conv", "bn"), ("/act/Relu", "act")}
    assert pairing.unmatched_right[0].why.code == "norm_folded"


def test_a_normalisation_that_was_left_out_is_not_taken_for_a_folded_one() -> None:
    pairing = pair_dumps(onnx_dump(*FOLDED, weight="1"), torch_dump(*CONV, conv__weight="1"))
    assert by_scope(pairing) == {("/conv/Conv", "conv"), ("/act/Relu", "act")}


# As timm has them: the activation is a part of the normalisation.
WITH_ACT = [recorded("bn.act", "ReLU"), recorded("bn", "BatchNormAct2d")]
FOLDED_BEFORE_ACT = (node("/conv/Conv"), node("/bn/act/Relu", "/conv/Conv"))


def test_a_folded_normalisation_with_an_activation_meets_by_what_it_gives_out_in_between() -> None:
    right = torch_dump(CONV[0], recorded("bn.drop", "Identity"), *WITH_ACT, conv__weight="1")
    pairing = pair_dumps(onnx_dump(*FOLDED_BEFORE_ACT, scaled="2"), right)
    assert by_scope(pairing) == {("/conv/Conv", "bn.drop"), ("/bn/act/Relu", "bn.act"), ("/bn/act/Relu", "bn")}


def test_a_folded_normalisation_that_gives_out_nothing_in_between_leaves_its_convolution_alone() -> None:
    pairing = pair_dumps(onnx_dump(*FOLDED_BEFORE_ACT, scaled="2"), torch_dump(CONV[0], *WITH_ACT, conv__weight="1"))
    assert by_scope(pairing) == {("/bn/act/Relu", "bn.act"), ("/bn/act/Relu", "bn")}
    assert [one.why.code for one in pairing.unmatched_right] == ["norm_folded"]


def test_a_normalisation_with_an_activation_that_is_there_is_not_folded() -> None:
    norm = node("/bn/BatchNormalization", "/conv/Conv")
    left = onnx_dump(node("/conv/Conv"), norm, node("/bn/act/Relu", "/bn/BatchNormalization"), scaled="2")
    pairing = pair_dumps(left, torch_dump(CONV[0], *WITH_ACT, conv__weight="1"))
    assert ("/conv/Conv", "conv") in by_scope(pairing)


# -- shapes ----------------------------------------------------------------------------------------------------------


def shaped(*shapes: tuple[tuple[int, ...], tuple[int, ...]], **more: Any) -> Pairing:
    left = torch_dump(*(recorded(f"a_{chr(97 + n)}", shape=one) for n, (one, _) in enumerate(shapes)))
    right = torch_dump(*(recorded(f"a{chr(97 + n)}", shape=other) for n, (_, other) in enumerate(shapes)))
    return pair_dumps(left, right, **more)


@pytest.mark.parametrize(
    ("left", "right", "transpose", "reshape"),
    [
        ((2, 8, 4, 5), (2, 4, 5, 8), (0, 3, 1, 2), False),
        ((2, 4, 5, 8), (2, 8, 4, 5), (0, 2, 3, 1), False),
        ((2, 8, 3, 4, 5), (2, 3, 4, 5, 8), (0, 4, 1, 2, 3), False),
        ((2, 8), (2, 8, 1, 1), None, True),
        ((2, 1, 1, 8), (2, 8, 1, 1), (0, 2, 3, 1), False),
        ((2, 8), (2, 8), None, False),
        ((34, 64), (2, 17, 64), None, True),
        ((2, 17, 64), (2, 17, 4, 16), None, True),
    ],
)
def test_layouts_and_axes_of_length_one_need_no_words(
    left: tuple[int, ...], right: tuple[int, ...], transpose: tuple[int, ...] | None, reshape: bool
) -> None:
    (pair,) = shaped((left, right)).pairs
    assert (pair.transform.transpose, pair.transform.reshape) == (transpose, reshape)


@pytest.mark.parametrize(("left", "right"), [((2, 8), (8, 2)), ((2, 6), (4, 3)), ((4,), (5,))])
def test_other_shapes_stay_alone(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    pairing = shaped((left, right))
    assert not pairing.pairs
    assert pairing.unmatched_left[0].why.code == "scope_shapes_differ"


def test_a_cube_has_the_order_of_the_other_tensors_of_its_side() -> None:
    cube = ((1, 8, 8, 8), (1, 8, 8, 8))
    images = ((1, 8, 4, 5), (1, 4, 5, 8))
    assert [pair.transform.transpose for pair in shaped(cube, images).pairs] == [(0, 3, 1, 2)] * 2
    assert [pair.transform.transpose for pair in shaped(cube).pairs] == [None]
    pairing = shaped(cube, images, ((1, 2, 4, 5), (1, 2, 4, 5)))
    assert len(pairing.pairs) == 2
    assert pairing.unmatched_left[0].why.code == "scope_layout_unknown"


def test_modules_of_other_kinds_are_not_the_same() -> None:
    left, right = torch_dump(recorded("a_b", "Conv2d")), torch_dump(recorded("ab", "MaxPool2d"))
    pairing = pair_dumps(left, right)
    assert pairing.unmatched_right[0].why.code == "scope_kinds_differ"


# -- when it is on, and coverage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "counted"), [(True, 1), (False, 2)])
def test_a_container_that_returns_what_is_inside_counts_there(second: bool, counted: int) -> None:
    calls = (
        node("block.fc", kind="Linear"),
        Operator("block", "Sequential", inputs=(None, Edge("block.fc", 0)), returns_inner=True),
        Operator("block", "Sequential", inputs=(None, Edge("block.fc", 0)), returns_inner=second, occurrence=1),
    )
    graph = OperatorGraph(calls, "msdump.json", is_recorded=True)
    right = torch_dump(recorded("block.fc"), recorded("block", "Sequential"))
    pairing = pair_dumps(torch_dump(recorded("block.fc")), replace(right, graphs=((Coordinates(), graph),)))
    assert (pairing.right_paired, pairing.right_total) == (1, counted)
    assert (pairing.unmatched_right[0].why.code == "returns_inner") == second


def test_what_passes_its_input_on_does_not_count_in_coverage() -> None:
    right = torch_dump(
        recorded("fc"), recorded("drop", "Dropout"), recorded("mine", "Noop"), recorded("lost", "Linear")
    )
    pairing = pair_dumps(torch_dump(recorded("fc")), right, exclude_types=["Noop"])
    assert (pairing.right_paired, pairing.right_total) == (1, 2)
    assert [one.why.code for one in pairing.unmatched_right[:2]] == ["passed_on", "passed_on"]
    mapped = pair_dumps(torch_dump(recorded("fc")), right, entries=[MapEntry("fc", "fc")])
    assert (mapped.right_paired, mapped.right_total) == (1, 4)


# -- random networks whose truth is known ----------------------------------------------------------------------------


class Network:
    """A random network: modules in modules, some called twice, and the operators that run inside of them.

    Running it gives each tensor a number, which both the record of its modules and that of its operators name.
    """

    def __init__(self, plan: Any) -> None:
        self.plan = plan
        # (path, call, value) of each module that ended; (name, scope, value, inputs) of each operator.
        self.modules: list[tuple[str, int, int]] = []
        self.operators: list[tuple[str, str, int, list[int]]] = []
        self._calls: dict[str, int] = {}
        self.call("", plan, self.operate("", "Input", []))

    def operate(self, path: str, kind: str, inputs: list[int]) -> int:
        value = len(self.operators)
        self.operators.append((f"n{value}_{kind}", path, value, inputs))
        return value

    def call(self, path: str, body: Any, value: int) -> int:
        given = value
        for name, what, again in body:
            inner = f"{path}.{name}".lstrip(".")
            for _ in range(1 + again):
                if isinstance(what, str):
                    # A letter is an operator of this module itself; `r` adds what the module was given.
                    value = self.operate(path, what, [value, given] if what == "r" else [value])
                else:
                    value = self.call(inner, what, value)
        if path:
            self.modules.append((path, self._calls.get(path, 0), value))
            self._calls[path] = self._calls.get(path, 0) + 1
        return value

    def right(self) -> Dump:
        return torch_dump(*(recorded(path, f"T{value}", call=call) for path, call, value in self.modules))

    def left(self, *, edges: bool, without: frozenset[int]) -> Dump:
        names = {value: name for name, _, value, _ in self.operators}
        nodes = [
            Operator(name, name.rpartition("_")[2], inputs=tuple(Edge(names[one], 0) for one in inputs), scope=path)
            for name, path, _, inputs in self.operators
        ]
        if edges:
            refs = [recorded(node.name, node.op_type) for place, node in enumerate(nodes) if place not in without]
            return onnx_dump(*nodes, refs=refs)
        refs = []
        for name, path, _, _ in self.operators:
            full = "/".join(["Default", *(f"{part}-C" for part in path.split(".") if part), f"{name}-op0"])
            refs.append(run_tensor(full, op_type=name.rpartition("_")[2]))
        return dump(*refs, reader="mindspore")

    def truth(self) -> dict[tuple[str, int], int]:
        return {(path, call): value for path, call, value in self.modules}


LETTERS = st.sampled_from("xyzr")
NAMES = st.sampled_from(["a", "b", "c_1", "d"])


def bodies(depth: int) -> Any:
    inner = LETTERS if depth == 0 else st.one_of(LETTERS, bodies(depth - 1))
    entry = st.tuples(NAMES, inner, st.sampled_from([0, 0, 0, 1]))
    return st.lists(entry, min_size=1, max_size=4, unique_by=lambda one: one[0])


@settings(deadline=None, max_examples=200)
@given(bodies(2), st.booleans(), st.frozensets(st.integers(0, 40), max_size=4))
def test_no_pair_of_a_random_network_is_wrong(plan: Any, edges: bool, without: frozenset[int]) -> None:
    network = Network(plan)
    left = network.left(edges=edges, without=without)
    if not left.refs:
        return
    truth = network.truth()
    pairing = pair_dumps(left, network.right())
    for pair in pairing.pairs:
        theirs = pair.right.key.op
        value = int(pair.left.key.op.label.rpartition("/")[2].partition("_")[0].removeprefix("n"))
        assert value == truth[theirs.label, theirs.at.occurrence or 0]


@settings(deadline=None, max_examples=100)
@given(bodies(1))
def test_most_modules_of_a_network_without_repeats_are_found(plan: Any) -> None:
    network = Network([(name, what, 0) for name, what, _ in plan])
    truth = network.truth()
    pairing = pair_dumps(network.left(edges=True, without=frozenset()), network.right())
    found = {pair.right.key.op.label for pair in pairing.pairs}
    kinds = {
        path: [name[name.index("_") :] for name, scope, _, _ in network.operators if scope == path] for path, _ in truth
    }
    plain = {path for path, made in kinds.items() if len(set(made)) == len(made)}
    assert plain <= found


# -- names of MindSpore that are another cell's -----------------------------------------------------------------------


def typed(name: str, *feeds: str) -> Operator:
    return node(name, *filter(None, feeds), kind=name.rpartition("/")[2].partition("-")[0])


def test_operators_named_after_the_first_cell_of_a_class_are_those_of_the_cell_they_run_in() -> None:
    """``construct`` of a class is compiled once: blocks.1 adds in ``0-Block/Add-op2``, and 1 + erf is no GELU's."""
    nodes, before = [], ""
    for number in range(3):
        own, first = f"Default/blocks-CellList/{number}-Block", "Default/blocks-CellList/0-Block"
        names = [f"{own}/fc-Dense/MatMul-op0", f"{first}/act-GELU/Erf-op{number}", f"{first}/Add-op{2 * number}"]
        names += [f"{first}/act-GELU/Mul-op{number}", f"{first}/Add-op{2 * number + 1}"]
        feeds = [(before,), (names[0],), (names[1],), (names[0], names[2]), (before, names[3])]
        nodes += [typed(name, *feed) for name, feed in zip(names, feeds, strict=True)]
        before = names[-1]
    nodes.append(typed("Default/head-Dense/MatMul-op0", before))
    modules = [recorded(f"blocks.{n}{part}") for n in range(3) for part in (".fc", ".act", "")]
    found = dict(by_scope(pair_dumps(onnx_dump(*nodes), torch_dump(*modules, recorded("head")))))
    numbers = {other: one.rpartition("/")[2] for one, other in found.items()}
    expected = {f"blocks.{n}.fc": "MatMul-op0" for n in range(3)} | {f"blocks.{n}.act": f"Mul-op{n}" for n in range(3)}
    expected |= {f"blocks.{n}": f"Add-op{2 * n + 1}" for n in range(3)}
    assert numbers == expected | {"head": "MatMul-op0"}


def test_no_name_is_moved_where_cells_would_have_unequally_many_operators() -> None:
    first = "Default/blocks-CellList/0-Block"
    names = [f"{first}/fc-Dense/MatMul-op0", "Default/blocks-CellList/1-Block/fc-Dense/MatMul-op0"]
    # Nothing says whether the second one is of the first cell or of the second.
    names = [names[0], f"{first}/ReLU-op0", f"{first}/ReLU-op1", names[1]]
    nodes = [typed(name, *names[max(0, n - 1) : n]) for n, name in enumerate(names)]
    pairing = pair_dumps(onnx_dump(*nodes), torch_dump(recorded("blocks.0"), recorded("blocks.1")))
    assert by_scope(pairing) == {(names[2], "blocks.0"), (names[3], "blocks.1")}


def test_operators_named_after_another_module_that_did_the_same_first_do_not_hide_what_leaves() -> None:
    """MindSpore calls each ``transpose`` after the module that first had one, and each ``x + y`` likewise."""
    edges = {
        "embed-Embed/proj-Conv2d/Conv2D-op0": "",
        "embed-Embed/Transpose-op0": "embed-Embed/proj-Conv2d/Conv2D-op0",
        "block-Block/attn-Attn/qkv-Dense/BiasAdd-op0": "embed-Embed/Transpose-op0",
        "embed-Embed/Transpose-op1": "block-Block/attn-Attn/qkv-Dense/BiasAdd-op0",
        "block-Block/attn-Attn/Softmax-op0": "embed-Embed/Transpose-op1",
        "embed-Embed/Transpose-op2": "block-Block/attn-Attn/Softmax-op0",
        "block-Block/attn-Attn/proj-Dense/BiasAdd-op0": "embed-Embed/Transpose-op2",
        "norm-Rms/Add-op0": "block-Block/attn-Attn/proj-Dense/BiasAdd-op0",
        "norm-Rms/Mul-op0": "norm-Rms/Add-op0",
        "last-Last/fc-Dense/MatMul-op0": "norm-Rms/Mul-op0",
        # `x + fc(x)` of the last module: it does not end with fc.
        "norm-Rms/Add-op1": "last-Last/fc-Dense/MatMul-op0",
        "head-Dense/MatMul-op0": "norm-Rms/Add-op1",
        # What joins two of its tensors is its own.
        "end-End/a-Dense/MatMul-op0": "head-Dense/MatMul-op0",
        "end-End/b-Dense/MatMul-op0": "end-End/a-Dense/MatMul-op0",
        "norm-Rms/Add-op2": "end-End/a-Dense/MatMul-op0 end-End/b-Dense/MatMul-op0",
    }
    nodes = [typed(f"Default/{name}", *(f"Default/{feed}" for feed in feeds.split())) for name, feeds in edges.items()]
    names = ("embed", "block", "block.attn", "block.attn.proj", "norm", "last", "head", "end")
    pairing = pair_dumps(onnx_dump(*nodes), torch_dump(*map(recorded, names)))
    found = {right: left.removeprefix("Default/") for left, right in by_scope(pairing)}
    ends = dict.fromkeys(("block", "block.attn", "block.attn.proj"), "block-Block/attn-Attn/proj-Dense/BiasAdd-op0")
    first = {"embed": "embed-Embed/Transpose-op0", "norm": "norm-Rms/Mul-op0", "head": "head-Dense/MatMul-op0"}
    assert found == {**first, **ends, "end": "norm-Rms/Add-op2"}


@pytest.mark.parametrize("turned", [False, True])
def test_names_of_modules_with_underscores_are_paths_of_the_other_side(turned: bool) -> None:
    calls = ("layer1-SequentialCell/0-Block/down_sample-Dense", "layer1-SequentialCell/0-Block/act-ReLU", "fc-Dense")
    operators = [f"Default/{call}/MatMul-op0" for call in calls]
    left = onnx_dump(*(typed(name, *operators[max(0, n - 1) : n]) for n, name in enumerate(operators)))
    right = torch_dump(*map(recorded, ("layer1_0_downsample", "layer1_0_act", "layer1_0", "layer1", "layer1_1", "fc")))
    found = by_scope(pair_dumps(right, left) if turned else pair_dumps(left, right))
    expected = dict(zip(("layer1_0_downsample", "layer1_0_act", "fc"), operators, strict=True))
    expected |= dict.fromkeys(("layer1_0", "layer1"), operators[1])
    assert {pair if turned else pair[::-1] for pair in found} == set(expected.items())


def test_a_name_with_underscores_that_may_be_two_paths_is_none() -> None:
    operators = ["Default/a_b-A/c-Dense/MatMul-op0", "Default/a-A/b_c-Dense/MatMul-op0"]
    left = onnx_dump(typed(operators[0]), typed(operators[1], operators[0]))
    assert not by_scope(pair_dumps(left, torch_dump(recorded("a_b_c"))))

"""MindSpore's IR of all releases becomes operators, who feeds whom, shapes and source lines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from graphs.samples import IDS, IRS, ROOT, by_name, dumped, order, read
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.graphs.ir import dtype_name, parse_ir
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Edge, OperatorGraph
from pytest_msdump.core.model.tensor import TensorSpec, mangle

ODD = ROOT / "odd" / "ms_output_trace_code_graph_0.ir"
SHIFT = "odd) = name(x, %y"


def parse(*lines: str) -> OperatorGraph:
    return parse_ir("\n".join(lines), source="g.ir")


def node(number: int, call: str, types: str = "", name: str = "") -> tuple[str, ...]:
    full = name or f"Default/{call.partition('(')[0]}-op{number}"
    return (
        f"  %{number}(CNode_{number}) = {call}",
        *((f"      : {types}",) if types else ()),
        f"      # Fullname with scope: ({full})",
    )


def f32(*shape: int) -> TensorSpec:
    return TensorSpec(dtype="float32", shape=shape)


# Graphs of real runs against what the same runs wrote elsewhere.


@pytest.mark.parametrize("path", IRS, ids=IDS)
def test_operators_are_those_of_the_execution_order(path: Path) -> None:
    graph = read(path)
    assert sorted(graph.names) == sorted(order(path))
    assert graph.notes == ()


@pytest.mark.parametrize("path", IRS, ids=IDS)
def test_inputs_and_outputs_are_as_many_as_the_kernel_has(path: Path) -> None:
    for operator in read(path).operators:
        counts = (len(operator.inputs), len(operator.host_inputs), len(operator.host_outputs))
        assert counts == (len(operator.device_inputs), len(operator.device_inputs), len(operator.device_outputs))


@pytest.mark.parametrize("path", IRS, ids=IDS)
def test_slots_are_those_of_the_files(path: Path) -> None:
    operators = {mangle(operator.name): operator for operator in read(path).operators}
    for tensor in dumped(path):
        operator = operators.get(tensor.op)
        if operator is not None:
            slots = operator.device_inputs if tensor.io == "input" else operator.device_outputs
            assert operator.op_type == tensor.op_type
            assert getattr(slots[tensor.slot], "dtype", None) == tensor.dtype


@pytest.mark.parametrize("path", IRS, ids=IDS)
def test_producers_come_before_their_consumers(path: Path) -> None:
    graph = read(path)
    seen: set[str] = set()
    for operator in graph.operators:
        for edge in operator.inputs:
            assert edge is None or edge.producer in (graph.parameters if edge.is_parameter else seen)
        seen.add(operator.name)


def test_a_small_net_by_hand() -> None:
    graph = read(ODD)
    operators = by_name(graph)
    assert graph.parameters == (SHIFT, "conv.weight", "x")
    assert operators["Default/conv-Conv2d/Conv2D-op0"].inputs == (Edge("x", 0, True), Edge("conv.weight", 0, True))
    split = operators["Default/Split-op0"]
    assert split.inputs == (Edge("Default/conv-Conv2d/Conv2D-op0", 0), None, None)
    assert split.host_outputs == (f32(2, 1, 4, 4), f32(2, 1, 4, 4))
    concat = operators["Default/Concat-op1"]
    assert concat.inputs == (Edge("Default/Split-op0", 1), Edge("Default/Split-op0", 0), None)
    assert concat.host_inputs == (f32(2, 1, 4, 4), f32(2, 1, 4, 4), TensorSpec(dtype="int64", shape=()))
    stored = TensorSpec(dtype="float32", shape=(2, 2, 4, 4), memory_format="DefaultFormat")
    assert concat.device_outputs == (stored,)
    assert operators["Default/Mul-op0"].inputs == (Edge("Default/StridedSlice-op0", 0), None)
    assert operators["Default/Add-op0"].inputs == (Edge("Expand/_SumExt/ReduceSum-op0", 0), Edge(SHIFT, 0, True))


# Data is followed through what hands it on.


def test_data_is_followed_through_everything_that_is_no_kernel() -> None:
    graph = parse(
        "# IR entry: @g",
        "%para1_w: <Ref[Tensor[Float32]], (2), ref_key=w>",
        "subgraph @g() {",
        *node(0, "Load(%para1_w, UMonad[U])"),
        *node(1, "PrimFunc_TopK(%0, I64(1))"),
        *node(2, "TupleGetItem(%1, I64(1))"),
        *node(3, "UpdateState(UMonad[U], %0)"),
        *node(4, "Depend(%2, %3)"),
        *node(5, "MakeTuple(%3, %0, %4)"),
        *node(6, "TupleGetItem(%5, I64(2))"),
        *node(7, "MakeTuple(%6, %5)"),
        *node(8, "Print(%6, %7, %3)"),
        "  Return(%8)",
        "}",
    )
    topk, use = graph.operators
    weight, chosen = Edge("w", 0, is_parameter=True), Edge(topk.name, 1)
    assert topk.op_type == "TopK"
    assert topk.inputs == (weight, None)
    # The state is no tensor, wherever it stands.
    assert use.inputs == (chosen, chosen, weight, chosen)


def test_all_outputs_of_a_kernel_feed_whoever_takes_it_whole() -> None:
    graph = parse(
        *node(0, "Split(%para1_x)", "(<Tensor[Float32], (2)>) -> (<Tuple[Tensor[Float32]*2], TupleShape((1), (1))>)"),
        *node(1, "Depend(%0, %0)"),
        *node(2, "Concat(%1)", "(<Tuple[Tensor[Float32]*2], TupleShape((1), (1))>) -> (<Tensor[Float32], (2)>)"),
    )
    split, concat = graph.operators
    assert concat.inputs == (Edge(split.name, 0), Edge(split.name, 1))
    assert concat.host_inputs == (f32(1), f32(1))


@pytest.mark.parametrize(("item", "slot"), [("I64(0)", 0), ("1", 1), ("I64(-1)", 1), ("I64(-2)", 0)])
def test_a_choice_may_count_from_the_end(item: str, slot: int) -> None:
    lines = (*node(0, "Add(1)"), *node(1, "Sub(1)"), *node(2, "MakeTuple(%0, %1)"))
    graph = parse(*lines, *node(3, f"TupleGetItem(%2, {item})"), *node(4, "Mul(%3)"))
    assert graph.operators[2].inputs == (Edge(graph.operators[slot].name, 0),)


@pytest.mark.parametrize("number", [0, 1, 9])
def test_what_a_node_is_given_before_it_is_made_leads_to_nothing(number: int) -> None:
    graph = parse(*node(0, f"Abs(%{number})"), *node(1, "Neg(%0)"))
    assert [operator.inputs for operator in graph.operators] == [(None,), (Edge("Default/Abs-op0", 0),)]


@pytest.mark.parametrize("item", ["I64(2)", "I64(-3)", "%9", '"0"', "I64(0), I64(0)"])
def test_a_choice_that_is_none_leads_to_nothing(item: str) -> None:
    graph = parse(
        *node(0, "Add(1)"), *node(1, "MakeTuple(%0, %0)"), *node(2, f"TupleGetItem(%1, {item})"), *node(3, "Mul(%2)")
    )
    assert graph.operators[1].inputs == (None,)


def test_nodes_and_parameters_of_other_subgraphs_are_found_by_their_graph() -> None:
    graph = parse(
        "# IR entry: @a",
        "%para1_my (w: <Tensor[Float32], (2)>",
        "subgraph @a() {",
        *node(0, "Add(%para1_my (w, %para1_my (w)"),
        "}",
        "subgraph @b parent: [subgraph @a](%para2_x) {",
        *node(0, "Mul(%para2_x, $(@a:CNode_0), $(@a:para1_my (w), %0)"),
        "}",
    )
    add, multiply = graph.operators
    weight = Edge("my (w", 0, is_parameter=True)
    assert add.inputs == (weight, weight)
    # %0 is the subgraph's own, which does not feed itself.
    assert multiply.inputs == (Edge("x", 0, is_parameter=True), Edge(add.name, 0), weight, None)


def test_a_value_may_go_on_for_several_lines() -> None:
    graph = parse(
        "  %0(a) = Add(%para1_x, Tensor(shape=[2, 2], dtype=Float32, value=",
        "[[1 2]",
        " [3 4]]), %para2_y) primitive_attrs: {a: (1, 2)}",
        "      : (<null>, <null>, <null>) -> (<null>)",
        "      # Fullname with scope: (Default/Add-op0)",
    )
    assert graph.operators[0].inputs == (Edge("x", 0, True), None, Edge("y", 0, True))
    assert graph.operators[0].host_inputs == (None, None, None)


@pytest.mark.parametrize("text", ['"a, (b"', '"a)"', '"%para1_", "("', '")", "" , "(("'])
def test_texts_may_hold_brackets_and_commas(text: str) -> None:
    graph = parse(*node(0, f"Print({text}, %para1_x)"))
    assert graph.operators[0].inputs == (*[None] * (text.count('"') // 2), Edge("x", 0, True))


def test_a_quote_that_does_not_end_is_a_letter() -> None:
    assert parse(*node(0, 'Print(", %para1_x)')).operators[0].inputs == (None, Edge("x", 0, True))


def test_types_may_hold_brackets() -> None:
    head = "HyperMap_add[f(x)]{leaf: Graph{(Tensor, Tensor)}, n: 2}(%para1_x)"
    (operator,) = parse(*node(0, head, name="a")).operators
    assert (operator.op_type, operator.inputs) == ("HyperMap_add", (Edge("x", 0, True),))


def test_a_call_of_a_node_elsewhere_is_no_kernel() -> None:
    assert parse(*node(0, "$(@g:CNode_1)(%para1_x)", name="0"), *node(1, "Neg(1)")).names == ("Default/Neg-op1",)


# The forms of earlier releases.

HEAD = "  %0(out) = Conv2D(%para1_x, %para2_w) primitive_attrs: {groups: 1, pad_mod: same, format: NCHW,"
_HOST_OLD = "(<Tensor[Float32]x[const vector][2, 3, 8, 8]>, <Ref[Tensor(F16)]x[const vector][5, 3, 1, 1]>)"
_HOST_NEW = "(<Tensor[Float32], (2, 3, 8, 8)>, <Ref[Tensor[Float16]], (5, 3, 1, 1), ref_key=:w>)"
_DEVICE = "(<Float16xNC1HWC0[const vector][2, 1, 8, 8, 16]>, <Float16xFracZ[const vector][1, 1, 16, 16]>)"
_DEVICE_OUT = "(<Float16xNC1HWC0[const vector][2, 1, 8, 8, 16]>)"
OLD = (
    " IsFeatureMapOutput: true}",
    f"       : {_HOST_OLD} -> (<Tensor[Float16]x[const vector][2, 5, 8, 8]>)",
    f"       : {_DEVICE} -> {_DEVICE_OUT}",
)
NEW = (
    f"      : {_HOST_NEW} -> (<Tensor[Float16], (2, 5, 8, 8)>)",
    f"      : {_DEVICE} -> {_DEVICE_OUT}".replace("vector][", "vector]{").replace("]>", "}>"),
)
FRAMEWORK = "/usr/lib/python3.9/site-packages/mindspore/nn/layer/conv.py"
FORMS = {
    "1.x": (
        *OLD,
        "       : (Default/net-Net/Conv2D-op7)",
        f"       # In file {FRAMEWORK}(253)/        output = self.conv2d(x, self.weight)/",
        "       # In file /home/me/alexnet.py(58)/        x = self.conv3(x)/",
    ),
    "between": (
        *NEW,
        "      : full_name_with_scope: (Default/net-Net/Conv2D-op7)",
        f"      # In file {FRAMEWORK}(253)/        output = self.conv2d(x, self.weight)/",
        "      # In file /home/me/alexnet.py(58)/        x = self.conv3(x)/",
    ),
    "2.1": (
        *NEW,
        "      # fullname_with_scope: (Default/net-Net/Conv2D-op7)",
        "      # inlined:In file /home/me/alexnet.py:58/        x = self.conv3(x)/",
        f"      # In file {FRAMEWORK}:253/        output = self.conv2d(x, self.weight)/",
    ),
    "2.10": (
        *NEW,
        "      : (Tensor, Tensor) -> (Tensor)",
        "      # Fullname with scope: (Default/net-Net/Conv2D-op7)",
        "      # In file /home/me/alexnet.py:58, 8~26/        x = self.conv3(x)/",
        f"      # In file {FRAMEWORK}:253, 17~44/        output = self.conv2d(x, self.weight)/<~~This line is shared./",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: str) -> None:
    (operator,) = parse("# IR entry: @g", HEAD, *FORMS[form]).operators
    assert (operator.name, operator.op_type) == ("Default/net-Net/Conv2D-op7", "Conv2D")
    assert operator.inputs == (Edge("x", 0, True), Edge("w", 0, True))
    weight = TensorSpec(dtype="float16", shape=(5, 3, 1, 1))
    assert operator.host_inputs == (f32(2, 3, 8, 8), weight)
    device = TensorSpec(dtype="float16", shape=(2, 1, 8, 8, 16), memory_format="NC1HWC0")
    assert operator.device_inputs == (
        device,
        TensorSpec(dtype="float16", shape=(1, 1, 16, 16), memory_format="FracZ"),
    )
    assert operator.device_outputs == (device,)
    ((outer, inner),) = [stack.frames for stack in operator.stacks]
    assert (outer.place, outer.text) == ("/home/me/alexnet.py:58", "x = self.conv3(x)")
    assert (inner.file, inner.line, inner.text) == (FRAMEWORK, 253, "output = self.conv2d(x, self.weight)")


def test_a_graph_of_the_front_end_has_places_for_names() -> None:
    graph = parse(
        "#IR entry      : @1_construct.295",
        "subgraph @1_construct.295() {",
        "  %0([CNode]8) = Add(%para1_x, %para2_y) primitive_attrs: {output_names: [output]}",
        "      : (<Tensor[Float32]x()>, <Tensor[Float32]x[const vector][]>) -> (<Tensor[Float32]x()>)",
        "      # scope: (Default)",
        "      # In file demo.py:14/        x = x + y/",
        "  return(%0)",
        "}",
    )
    assert graph.names == ("@1_construct.295:%0",)
    assert graph.operators[0].host_inputs == (f32(), f32())
    assert graph.operators[0].stacks[0].frames[0].place == "demo.py:14"
    assert graph.notes == ("g.ir: 1 operator without a full name, called by their place",)


def test_of_two_operators_of_one_name_the_first_counts() -> None:
    graph = parse(*node(0, "Add(1)", name="a"), *node(1, "Mul(1)", name="a"))
    assert [operator.op_type for operator in graph.operators] == ["Add"]
    assert graph.notes == ("g.ir: a occurs more than once; the first counts",)


def test_many_names_that_are_there_twice_are_counted() -> None:
    lines = [line for name in "abcdabcd" for line in node(0, "Add(1)", name=name)]
    assert parse(*lines).notes == ("g.ir: a, b, c and 1 more occurs more than once; the first counts",)


# Types.


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("<Tensor[BFloat16], (4, -1)>", "bfloat16", (4, -1)),
        ("<Ref[Tensor[Int8]], (1), ref_key=a) -> (b, is_parameter>", "int8", (1,)),
        ("<Tensor[Complex64], (2, 2)>", "complex64", (2, 2)),
        ("<Bool, NoShape>", "bool", ()),
        ("<Int64, NoShape, value=...>", "int64", ()),
        ("<Tensor[Float8E4M3FN], ()>", "float8_e4m3fn", ()),
        ("<Tensor[NoSuchType], (3)>", None, (3,)),
        ("<Tensor[Float16], (0, 10)>", "float16", (0, 10)),
    ],
)
def test_host_types(text: str, dtype: str | None, shape: tuple[int, ...]) -> None:
    if ") -> (" in text:
        text = text.replace(") -> (", ") (")
    (operator,) = parse(*node(0, "Cast(%para1_x)", f"({text}) -> ({text})")).operators
    assert operator.host_inputs == operator.host_outputs == (TensorSpec(dtype=dtype, shape=shape),)


@pytest.mark.parametrize("sizes", ["1, -", "1, 2-3", ", ".join(["1"] * 65)])
def test_a_shape_that_cannot_be_is_not_told(sizes: str) -> None:
    types = f"(<Tensor[Float32], ({sizes})>) -> (<Tensor[Float32], (2)>)"
    device = f"      : (<Float32xNCHW[const vector]{{{sizes}}}>, <Float32xNCHW[const vector]{{2}}>, <Unknown>) -> ()"
    (operator,) = parse(*node(0, "Cast(%para1_x)", types), device).operators
    assert operator.host_inputs == (None,)
    assert operator.device_inputs == (None, TensorSpec(dtype="float32", shape=(2,), memory_format="NCHW"), None)


@pytest.mark.parametrize("text", ["<null>", "<TypeType, NoShape>", "<Tuple[Tensor[Float32]*2], TupleShape((2))>", "<"])
def test_what_is_no_tensor_has_no_type(text: str) -> None:
    (operator,) = parse(*node(0, "Cast(%para1_x)", f"({text}) -> (<Tensor[Float32], (2)>)")).operators
    assert operator.host_inputs == (None,)


def test_members_of_a_tuple_are_joined_with_their_shapes_and_states_are_none() -> None:
    kinds = "Tuple[UMonad,Tensor[Float32]*2,Int64], TupleShape(NoShape, (2, 3), (), NoShape)"
    (operator,) = parse(*node(0, "Op()", f"() -> (<{kinds}>)")).operators
    assert operator.host_outputs == (f32(2, 3), f32(), TensorSpec(dtype="int64", shape=()))


def test_a_forged_count_of_members_is_not_believed() -> None:
    (operator,) = parse(*node(0, "Op()", "() -> (<Tuple[Tensor[Float32]*999999], TupleShape((2))>)")).operators
    assert operator.host_outputs == (None,)


@pytest.mark.parametrize(("text", "name"), [("F16", "float16"), ("I32", "int32"), ("U8", "uint8"), ("X9", None)])
def test_short_names_of_dtypes(text: str, name: str | None) -> None:
    assert dtype_name(text) == name


# Damage.


@pytest.mark.parametrize(
    "text", ["", "hello", "\x00" * 100, '{"graph": []}', "NodeExecutionOrder-FullNameWithScope\na"]
)
def test_what_is_no_ir_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^g.ir: not an IR of MindSpore"):
        parse(text)


def test_a_text_that_ends_too_early_tells_what_is_there() -> None:
    text = ODD.read_bytes()
    whole = parse_ir(text, source="g.ir")
    for end in range(text.index(b"subgraph @kernel_graph0() {") + 30, text.rindex(b"}"), 97):
        part = parse_ir(text[:end], source="g.ir")
        assert part.notes[0].startswith("g.ir ends too early: ")
        assert part.names == whole.names[: len(part.names)]
    assert len(part.names) == len(whole.names)


def test_tuples_that_hold_each_other_beyond_measure_are_refused() -> None:
    lines = [*node(0, "Add(%para1_x)")]
    for number in range(1, 60):
        lines += node(number, f"MakeTuple(%{number - 1}, %{number - 1})")
    with pytest.raises(ConfigError, match="its tuples hold each other too often"):
        parse(*lines, *node(60, "AddN(%59)"))


PIECES = st.binary(max_size=6) | st.sampled_from([b"(", b")", b'"', b"%", b"<", b"\n", b"$(@", b"%para1_"])


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_damaged_text_is_refused_or_read_never_more(data: st.DataObject) -> None:
    text = bytearray(ODD.read_bytes()[:4000])
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 40))] = data.draw(PIECES)
    with suppress(ConfigError):
        assert parse_ir(bytes(text), source="g.ir").source == "g.ir"

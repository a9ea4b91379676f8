"""Graphs that GE wrote as text are read as the JSON of the compiled model is."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.graphs.graph_files import parse_ge_onnx, parse_ge_proto
from pytest_msdump.capabilities.graphs.text_proto import Schema, parse_text
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.tensor import TensorSpec

PROTO = r"""
name: "ge_model"
version: 1
custom_version: "\344\270\255"
graph {
  name: "graph_1"
  input: "x:0"
  op {
    name: "x"
    type: "Data"
    attr { key: "index" value { i: 0 } }
    output_desc { name: "y" dtype: DT_FLOAT layout: "NCHW" shape { dim: 2 dim: 3 dim: 8 dim: 8 } }
    id: 0
  }
  op {
    name: "Default/conv1-Conv2d/Conv2D-op1"
    type: "Conv2D"
    input: "x:0"
    input: ""
    input: "Default/w:1"
    input: "barrier:-1"
    attr { key: "_datadump_original_op_names" value { list { s: "conv1" s: "bn\"1\"" val_type: VT_LIST_STRING } } }
    attr { key: "_datadump_is_multiop" value { b: true } }
    attr { key: "pads" value { list { i: 0 i: 0 val_type: VT_LIST_INT } } }
    attr { key: "weights" value { t { desc { dtype: DT_FLOAT shape { dim: 1 } } data: "\000\001}{" } } }
    input_desc { dtype: DT_FLOAT16 layout: "NC1HWC0" shape { dim: 2 dim: 1 dim: 8 dim: 8 dim: 16 }
      attr { key: "origin_format" value { s: "NCHW" } }
      attr { key: "origin_shape" value { list { i: 2 i: 3 i: 8 i: 8 val_type: VT_LIST_INT } } }
    }
    output_desc { dtype: DT_BF16 layout: "FRACTAL_NZ" shape { dim: [-1, 16] }
      attr { key: "_datadump_origin_name" value { s: "bn1" } }
      attr { key: "_datadump_origin_output_index" value { i: 2 } }
      attr { key: "origin_shape" value { list { val_type: VT_LIST_INT } } }
    }
    id: 7
    stream_id: -1
  }
}
graph { name: "sub" op { name: "inner" type: "Add" input: "x:0" } }
"""

ONNX = r"""
ir_version: 6
producer_name: "GE"
graph {
  node {
    output: "x:0"
    name: "x"
    op_type: "ge:Data"
    attribute { name: "id" type: INT }
  }
  node {
    input: "x:0"
    input: ""
    input: "Default/w:1"
    input: "barrier:-1"
    output: "conv:0"
    name: "Default/conv1-Conv2d/Conv2D-op1"
    op_type: "ge:Conv2D"
    attribute { name: "_datadump_original_op_names" strings: "conv1" strings: "bn\"1\"" type: STRINGS }
    attribute { name: "_datadump_is_multiop" i: 1 type: INT }
    attribute { name: "id" i: 7 type: INT }
    attribute { name: "input_desc_dtype:0" s: "DT_FLOAT16" type: STRING }
    attribute { name: "input_desc_layout:0" s: "NC1HWC0" type: STRING }
    attribute { name: "input_desc_origin_layout:0" s: "NCHW" type: STRING }
    attribute { name: "input_desc_origin_shape:0" ints: 2 ints: 3 ints: 8 ints: 8 type: INTS }
    attribute { name: "input_desc_shape:0" ints: 2 ints: 1 ints: 8 ints: 8 ints: 16 type: INTS }
    attribute { name: "output_desc_dtype:1" s: "DT_BF16" type: STRING }
    attribute { name: "output_desc_shape:1" type: INTS }
    attribute { name: "output_desc_origin_shape:1" type: INTS }
    attribute { i: 3 type: INT }
  }
  node {
    name: "sub"
    op_type: "subgraph"
    attribute { name: "graph" type: GRAPH g { name: "sub" node { input: "x:0" name: "inner" op_type: "ge:Add" } } }
  }
  node { name: "last" op_type: "ge:NetOutput" }
}
"""
CONV = "Default/conv1-Conv2d/Conv2D-op1"


def test_a_graph_as_an_onnx_model() -> None:
    graph = parse_ge_onnx(ONNX, source="ge.pbtxt")
    assert graph.names == ("x", CONV, "last", "inner")
    conv = graph.operators[1]
    same = parse_ge_proto(PROTO, source="ge.txt").operators[1]
    for field in ("op_type", "id", "inputs", "originals", "is_multiop", "host_inputs", "device_inputs"):
        assert getattr(conv, field) == getattr(same, field)
    assert [getattr(spec, "dtype", None) for spec in conv.device_outputs] == [None, "bfloat16"]
    assert conv.device_outputs[1] == conv.host_outputs[1] == TensorSpec(dtype="bfloat16", shape=())
    assert conv.outputs[1].shape == ()


@pytest.mark.parametrize("parse", [parse_ge_proto, parse_ge_onnx])
@pytest.mark.parametrize("text", ["", 'name: "x"', "graph {", "}", "graph { op { name: } }", "a b", 'graph: "', "% {"])
def test_what_is_no_graph_is_refused(parse: type[parse_ge_proto], text: str) -> None:
    with pytest.raises(ConfigError, match=r"^g: (not|cut off)"):
        parse(text, source="g")


def test_an_operator_without_a_type_is_told_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"graph\[0\].op\[0\]: 'type' is missing"):
        parse_ge_proto('graph { op { name: "a" } }', source="g")


@pytest.mark.parametrize(
    ("text", "parse", "end"),
    [(PROTO, parse_ge_proto, PROTO.index('graph { name: "sub"')), (ONNX, parse_ge_onnx, len(ONNX))],
)
def test_a_text_that_is_cut_within_a_graph_is_refused(text: str, parse: type[parse_ge_proto], end: int) -> None:
    for cut in range(text.index("graph {") + 7, len(text[:end].rstrip()) - 1, 29):
        with pytest.raises(ConfigError, match=r"^g: (not|cut off)"):
            parse(text[:cut], source="g")


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_damaged_text_is_refused_or_read_never_more(data: st.DataObject) -> None:
    text, parse = data.draw(st.sampled_from([(PROTO, parse_ge_proto), (ONNX, parse_ge_onnx)]))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        piece = data.draw(st.text(max_size=4) | st.sampled_from(["{", "}", '"', "[", "]", ": 5", "<"]))
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 30)) :]
    with suppress(ConfigError):
        assert parse(text, source="g").source == "g"


# The text format.

FLAT = Schema({"a": None, "b": None, "m": Schema({"c": None}, frozenset({"c"}))}, frozenset({"b"}))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a: 1", {"a": 1}),
        ("a: 1 a: -2", {"a": -2}),
        ("b: 1, b: 2; b: [3, 4] b: []", {"b": [1, 2, 3, 4]}),
        ("a: true # b: 2\nb: NAME", {"a": True, "b": ["NAME"]}),
        ("a: 1.5e3", {"a": "1.5e3"}),
        (r"""a: 'it\'s' b: "\x41\101\n\"" """, {"a": "it's", "b": ['AA\n"']}),
        (r'a: "\344\270\255"', {"a": "中"}),
        ("m { c: 1 other { c: 2 } c: 3 }", {"m": {"c": [1, 3]}}),
        ("m: < c: 1 >", {"m": {"c": [1]}}),
        ("other { a: 1 m { c: 1 } } a: 2", {"a": 2}),
        ("m: 5 a { c: 1 }", {}),
        ("[google.x.y] { a: 1 } a: 3", {"a": 3}),
    ],
)
def test_fields_that_the_schema_asks_for_are_kept(text: str, fields: dict[str, object]) -> None:
    assert parse_text(text, FLAT, source="t") == fields


@pytest.mark.parametrize("text", ["a: 1 }", "a", "a: {", "m { c: 1 >", "a: ]", ": 1", '"x"', "a: [1", 'a: "x'])
def test_what_is_no_text_format_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^t: (not Protobuf text|cut off)"):
        parse_text(text, FLAT, source="t")


def test_the_line_of_an_error_is_told() -> None:
    with pytest.raises(ConfigError, match=r"^t: not Protobuf text, line 3: '\? 2'$"):
        parse_text("a: 1\n\n? 2", FLAT, source="t")

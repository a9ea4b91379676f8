"""Graph files: those that a run left beside its dump, and those that a user kept elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.graphs.execution_order import GRAPH_NAME
from pytest_msdump.capabilities.graphs.ge_model import READ_ATTRIBUTES, is_of_type, model_graph, parse_model
from pytest_msdump.capabilities.graphs.ir import dtype_name, parse_ir
from pytest_msdump.capabilities.graphs.ms_pb import parse_pb
from pytest_msdump.capabilities.graphs.text_proto import Schema, parse_text
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Operator, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, TensorSpec
from pytest_msdump.core.storage.files import read_user_file
from pytest_msdump.core.text import Message, say

# Graphs that GE, the compiler of Ascend models, writes as text: ``ge_proto_*.txt`` and ``ge_onnx_*.pbtxt``.
#
# They are the same graph: the first in GE's own structure, which the JSON of a compiled model has too, the second as an
# ONNX model whose operator types begin with ``ge:`` and whose attributes hold what ONNX has no field for.
#
# References
# ----------
# CANN documentation, environment variables ``DUMP_GE_GRAPH``, ``DUMP_GRAPH_LEVEL`` and ``DUMP_GRAPH_PATH``; the public
# sources of GE's graph writer, which name the attributes.

_LIST = Schema(dict.fromkeys("sifb"), frozenset("sifb"))
_VALUE = Schema({**dict.fromkeys("sifb"), "list": _LIST})
_ATTR = Schema(
    {"key": None, "value": _VALUE},
    is_wanted=lambda attr: attr.get("key") in READ_ATTRIBUTES or is_of_type(attr.get("key")),
)
_SHAPE = Schema({"dim": None}, frozenset({"dim"}))
_DESC = Schema({"dtype": None, "layout": None, "shape": _SHAPE, "attr": _ATTR}, frozenset({"attr"}))
_OP_LISTS = frozenset({"input", "attr", "input_desc", "output_desc"})
_OP = Schema(
    {"name": None, "type": None, "id": None, "input": None, "attr": _ATTR, "input_desc": _DESC, "output_desc": _DESC},
    _OP_LISTS,
)
_GE_MODEL = Schema({"graph": Schema({"op": _OP}, frozenset({"op"}))}, frozenset({"graph"}))

# One of `input_desc_dtype:0`, `output_desc_origin_shape:1`, ….
_DESC_ATTRIBUTE = re.compile(
    r"(?P<io>input|output)_desc_(?P<what>dtype|shape|layout|origin_shape|origin_layout):(?P<slot>[0-9]{1,4})"
)
_ONNX_ID = "id"
_ONNX_SUBGRAPH = "graph"
_ONNX_ATTRIBUTE = Schema(
    {"name": None, "i": None, "s": None, "ints": None, "strings": None, "type": None},
    frozenset({"ints", "strings"}),
    lambda attribute: _is_used(attribute.get("name")),
)
_ONNX_NODE = Schema(
    {"name": None, "op_type": None, "input": None, "attribute": _ONNX_ATTRIBUTE}, frozenset({"input", "attribute"})
)
_ONNX_GRAPH = Schema({"node": _ONNX_NODE}, frozenset({"node"}))
_ONNX_MODEL = Schema({"graph": _ONNX_GRAPH})
# A subgraph is an attribute of a node that stands for it.
_ONNX_ATTRIBUTE.fields["g"] = _ONNX_GRAPH

_TYPE_PREFIX = "ge:"
_TRUTHS = frozenset({"_datadump_is_multiop"})
_OF_FORMATS = {"origin_layout": "origin_format"}
_LISTS = frozenset({"INTS", "STRINGS"})
_DT = "DT_"
_RENAMED = {"bf16": "bfloat16"}


def parse_ge_proto(text: str, *, source: str) -> OperatorGraph:
    """Read a graph in GE's own structure, a whole ``ge_proto_*.txt``; ConfigError where it is none, or cut off."""
    return _graph(parse_text(text, _GE_MODEL, source=source), source)


def parse_ge_onnx(text: str, *, source: str) -> OperatorGraph:
    """Read a graph that GE wrote as an ONNX model: as `parse_ge_proto`, for a ``ge_onnx_*.pbtxt``."""
    model = parse_text(text, _ONNX_MODEL, source=source)
    ops = [_op(node) for node in _onnx_nodes(model)]
    return _graph({"graph": [{"op": ops}]} if ops else {}, source)


def _is_used(name: object) -> bool:
    return isinstance(name, str) and (
        name in READ_ATTRIBUTES or name in (_ONNX_ID, _ONNX_SUBGRAPH) or _DESC_ATTRIBUTE.fullmatch(name) is not None
    )


def _graph(model: Mapping[str, Any], source: str) -> OperatorGraph:
    if "graph" not in model:
        raise ConfigError(f"{source}: not a graph of GE, there is none in it")
    for graph in model["graph"]:
        graph.setdefault("op", [])
    graph = model_graph(model, source=source)
    entries = {op["name"]: op for part in model["graph"] for op in reversed(part["op"])}
    return graph._replace(operators=tuple(_described(op, entries.get(op.name, {})) for op in graph.operators))


def _described(operator: Operator, entry: Mapping[str, Any]) -> Operator:
    inputs, outputs = entry.get("input_desc", []), entry.get("output_desc", [])
    return replace(
        operator,
        host_inputs=tuple(map(_on_host, inputs)),
        host_outputs=tuple(map(_on_host, outputs)),
        device_inputs=tuple(map(_on_device, inputs)),
        device_outputs=tuple(map(_on_device, outputs)),
    )


def _on_host(desc: Mapping[str, Any]) -> TensorSpec:
    """Return what the tensor was before the compiler chose a memory format."""
    attributes = {attr["key"]: attr.get("value", {}) for attr in desc.get("attr", [])}
    layout = attributes.get("origin_format", {}).get("s") or desc.get("layout")
    origin = attributes.get("origin_shape")
    sizes = origin.get("list", {}).get("i", []) if origin is not None else desc.get("shape", {}).get("dim", [])
    return TensorSpec(dtype=_dtype(desc), shape=_sizes(sizes), memory_format=_text(layout))


def _on_device(desc: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(
        dtype=_dtype(desc), shape=_sizes(desc.get("shape", {}).get("dim", [])), memory_format=_text(desc.get("layout"))
    )


def _dtype(desc: Mapping[str, Any]) -> str | None:
    name = str(desc.get("dtype", "")).removeprefix(_DT).lower()
    return dtype_name(_RENAMED.get(name, name))


def _sizes(sizes: list[Any]) -> tuple[int, ...] | None:
    return tuple(sizes) if all(isinstance(size, int) for size in sizes) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _onnx_nodes(model: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """List the operators, those of subgraphs behind those of the graph."""
    waiting = [model.get("graph", {})]
    for graph in waiting:
        for node in graph.get("node", []):
            inner = [attribute["g"] for attribute in node.get("attribute", []) if "g" in attribute]
            waiting += inner
            if not inner:
                yield node


def _op(node: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {attribute["name"]: attribute for attribute in node.get("attribute", [])}
    op: dict[str, Any] = {key: node[key] for key in ("name", "input") if key in node}
    if "op_type" in node:
        op["type"] = str(node["op_type"]).removeprefix(_TYPE_PREFIX)
    op["id"] = attributes.get(_ONNX_ID, {}).get("i", 0)
    read = sorted(READ_ATTRIBUTES & attributes.keys())
    op["attr"] = [{"key": name, "value": _value(attributes[name])} for name in read]
    for io in ("input", "output"):
        op[f"{io}_desc"] = list(_descs(io, attributes))
    return op


def _descs(io: str, attributes: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    found: dict[int, dict[str, Mapping[str, Any]]] = {}
    for name, attribute in attributes.items():
        match = _DESC_ATTRIBUTE.fullmatch(name)
        if match and match["io"] == io:
            found.setdefault(int(match["slot"]), {})[match["what"]] = attribute
    for slot in range(max(found, default=-1) + 1):
        of_slot = found.get(slot, {})
        desc: dict[str, Any] = {what: of_slot[what].get("s", "") for what in ("dtype", "layout") if what in of_slot}
        desc["shape"] = {"dim": of_slot.get("shape", {}).get("ints", [])}
        desc["attr"] = [
            {"key": _OF_FORMATS.get(what, what), "value": _value(of_slot[what])}
            for what in ("origin_shape", "origin_layout")
            if what in of_slot
        ]
        yield desc


def _value(attribute: Mapping[str, Any]) -> dict[str, Any]:
    if attribute.get("type") in _LISTS or "ints" in attribute or "strings" in attribute:
        return {"list": {"i": attribute.get("ints", []), "s": attribute.get("strings", [])}}
    value = {key: attribute[key] for key in ("s", "i") if key in attribute}
    # ONNX has no truth values.
    return {"b": bool(value.get("i"))} if attribute["name"] in _TRUTHS else value


# The rank, net and number of a graph, and the graph; a coordinate that is not set stands for every value.
PlacedGraph = tuple[Coordinates, OperatorGraph]

_MAX_BYTES = 2**30
_NUMBERED = re.compile(r"graph_?(?P<graph>[0-9]{1,9})(?=[._]|$)")
# GE writes a graph once more when it is built; what it wrote before is not what ran.
_BUILT = re.compile(r"ge_(?:proto|onnx)_.*_Build\.\w+")

_BARE = re.compile(r"trace_code_graph_[0-9]{1,9}")
_SUFFIXES = (".ir", ".dat", ".pb", ".pbtxt", ".txt")
_MAGIC_ONNX = re.compile(r"\s*(?:ir_version:|producer_name:|model_version:|graph \{\s+node \{)")
_MAGIC_GE = re.compile(r"\s*(?:(?:name|version|custom_version):[^\n]*\s+)*graph \{")


def is_graph_file(path: Path) -> bool:
    """Whether a file may, by its name, be a graph that `read_graph` reads."""
    return path.suffix.lower() in _SUFFIXES or _BARE.fullmatch(path.name) is not None


def read_graph(path: Path) -> OperatorGraph:
    """Read an IR of MindSpore, its Protobuf form, a graph that GE wrote as text, or the JSON of a compiled model."""
    data = read_user_file(path, _MAX_BYTES, want="give a graph that MindSpore or GE wrote")
    name = path.name
    graph = _parsed(data, name)
    return graph._replace(is_final=GRAPH_NAME.fullmatch(name) is not None or _BUILT.fullmatch(name) is not None)


def _parsed(data: bytes, name: str) -> OperatorGraph:
    if name.lower().endswith(".pb"):
        return parse_pb(data, source=name)
    start = data[:4096].decode("utf-8-sig", errors="replace")
    if start.lstrip().startswith("{"):
        return parse_model(data, source=name)
    if _MAGIC_ONNX.match(start):
        return parse_ge_onnx(data.decode("utf-8-sig", errors="replace"), source=name)
    if _MAGIC_GE.match(start):
        return parse_ge_proto(data.decode("utf-8-sig", errors="replace"), source=name)
    return parse_ir(data, source=name)


def read_graphs(files: Mapping[Coordinates, Path]) -> tuple[tuple[PlacedGraph, ...], tuple[str, ...]]:
    """Read the graphs that a run left, as far as they can be read, and a sentence about each of the others."""
    graphs: list[PlacedGraph] = []
    notes: list[str] = []
    for at, path in files.items():
        graph, failure = _attempt(path)
        other = path.with_suffix(".pb")
        if graph is None and other != path and other.is_file():
            graph, _ = _attempt(other)
        if graph is None:
            notes.append(say(Message("note_graph_unread", {"why": str(failure), "graph": str(at.graph)})))
        else:
            graphs.append((at, graph))
    return tuple(graphs), tuple(notes)


def _attempt(path: Path) -> tuple[OperatorGraph | None, ConfigError | None]:
    try:
        return read_graph(path), None
    except ConfigError as error:
        return None, error


def read_named_graphs(files: Iterable[Path]) -> tuple[PlacedGraph, ...]:
    """Read graphs that a user named, in that order; a number in a file's name is the graph's."""
    graphs: list[PlacedGraph] = []
    for path in files:
        numbers = _NUMBERED.findall(path.name)
        graphs.append((Coordinates(graph=int(numbers[-1]) if numbers else None), read_graph(path)))
    return tuple(graphs)

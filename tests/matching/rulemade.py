"""Hand-built models and the dumps that go with them: rule files need no disk either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matching.made import dump

from pytest_msdump.capabilities.graphs.ge_model import parse_model
from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.matching.rules import FusionRules
from pytest_msdump.core.matching.selection import Selection
from pytest_msdump.core.model.dump import Dump, OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, OpKey, Pairing, TensorKey, TensorRef, TensorSource, TensorSpec

# `originals` of an operator that says nothing about them, so that it is its own.
ABSENT = None


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def output(
    name: str | None = None,
    index: int | None = None,
    *,
    dtype: str | None = "DT_FLOAT16",
    shape: tuple[int, ...] | None = None,
    memory_format: str | None = None,
) -> dict[str, Any]:
    """An entry of `output_desc`; `name` is the original operator."""
    attributes = []
    if name is not None:
        attributes.append(attribute("_datadump_origin_name", s=name))
    if index is not None:
        attributes.append(attribute("_datadump_origin_output_index", i=index))
    if shape is not None:
        attributes.append(attribute("origin_shape", list={"i": list(shape), "val_type": "VT_LIST_INT"}))
    if memory_format is not None:
        attributes.append(attribute("_datadump_origin_format", s=memory_format))
    return {"attr": attributes, **({} if dtype is None else {"dtype": dtype})}


def op(
    name: str,
    op_type: str = "Add",
    inputs: tuple[str, ...] = (),
    outputs: tuple[dict[str, Any], ...] = (),
    *,
    originals: tuple[str, ...] | None = ABSENT,
    multi: bool = False,
    l1: str = "",
    **more: Any,
) -> dict[str, Any]:
    """An entry of `op`; `originals=()` is an operator that the compiler inserted."""
    attributes = list(more.pop("attr", ()))
    if originals is not None:
        names = {"s": list(originals)} if originals else {}
        attributes.append(attribute("_datadump_original_op_names", list={"val_type": "VT_LIST_STRING", **names}))
    if multi:
        attributes.append(attribute("_datadump_is_multiop", b=True))
    if l1:
        attributes.append(attribute("_L1_fusion_sub_graph_no", s=l1))
    return {
        "name": name,
        "type": op_type,
        "input": list(inputs),
        "attr": attributes,
        "output_desc": list(outputs),
        **more,
    }


def was(name: str, *, op_type: str = "Add", inputs: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """An operator that is what it was, with one output."""
    return op(name, op_type, inputs, (output(name, 0),), originals=(name,), **more)


def text(*ops: dict[str, Any]) -> str:
    return json.dumps({"name": "made", "graph": [{"name": "g", "op": list(ops)}]})


def model(*ops: dict[str, Any], source: str = "fusion.json") -> OperatorGraph:
    return parse_model(text(*ops), source=source)


def device(name: str, *ports: str, op_type: str = "Add", time: int = 0, **at: Any) -> tuple[TensorRef, ...]:
    """The tensors of one Ascend dump file: by default one output."""
    place = Coordinates(**{"iteration": 0, "occurrence": 0, **at})
    source = TensorSource.of(Path(f"{op_type}.{name}.1.1.{time}"), time)
    refs = []
    for port in ports or ("output:0",):
        io, slot = port.split(":")
        key = TensorKey(OpKey(name, place, op_type), io, int(slot))
        refs.append(TensorRef(key, TensorSpec(), source, "ascend"))
    return tuple(refs)


def ascend(*files: tuple[TensorRef, ...]) -> Dump:
    return dump(*(ref for file in files for ref in file), reader="ascend")


def paired(
    left: Dump,
    right: Dump,
    *ops: dict[str, Any],
    quant: OperatorGraph | None = None,
    close: OperatorGraph | None = None,
    io: str = "output",
    **more: Any,
) -> Pairing:
    rules = FusionRules(model(*ops) if ops else None, quant, close)
    return pair_dumps(left, right, rules=rules, selection=Selection(io=io), **more)

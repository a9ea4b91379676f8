"""Teacher forcing of ONNX models: node by node, by the reference evaluator of the package onnx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.frameworks.onnx import Model, OnnxNode
from pytest_msdump.capabilities.replay.forcing import (
    EXP_FAMILY,
    ForcedPlace,
    Forcing,
    Marks,
    not_replayable,
    nudged,
    precision,
)
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.dtypes.decode import rounded_to
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.record import Local

Array = npt.NDArray[Any]
_Values = Mapping[str, Any]
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
# Of onnx.proto's TensorProto.DataType: float32, float16 and bfloat16 are float64 here.
_DOUBLE, _LOWER = 11, (1, 10, 16)
_PRECISIONS = np.float32, np.float64


def inputs_of(model: Model, source: str, dumps: Iterable[Dump]) -> dict[str, Array]:
    """Return what a model is fed, which the first dump has that recorded what its nodes were given."""
    weights = {one.name for one in model.proto.graph.initializer}
    missing = [one.name for one in model.proto.graph.input if one.name not in weights]
    found: dict[str, Array] = {}
    takers = {(node.name, slot): name for node in model.nodes for slot, name in enumerate(node.inputs)}
    for dump in dumps:
        for ref in dump.refs:
            name = takers.get((ref.key.op.label, ref.key.slot), "") if ref.key.io == "input" else ""
            if name in missing and name not in found and not ref.is_unseen:
                with closing(open_view(ref)) as view:
                    found[name] = view.read(0, view.size).reshape(view.shape).copy()
    lost = [name for name in missing if name not in found]
    if lost:
        raise ConfigError(
            f"{source}: neither dump has the input {lost[0]} of the model; record one side with inputs=True"
        )
    return found


def force_nodes(model: Model, feeds: _Values, forcing: Forcing) -> dict[int, Local]:
    """Run each node in float32 and in float64, both with the left's tensors; return the judgement of each pair."""
    nodes = model.nodes
    dtype, _ = precision(forcing.dtypes(node.name for node in nodes))
    given = {**dict(model.weights()), **feeds}
    if dtype != "float32":
        given = {name: rounded_to(one, dtype) if one.dtype.kind == "f" else one for name, one in given.items()}
    own, exact = ({"": None, **{name: _as(one, to) for name, one in given.items()}} for to in _PRECISIONS)
    # In 16 bits inside of attention, as the evaluator computes it where it is given these.
    coarse = {} if dtype == "float32" else {name: _as(one, _numpy_type(dtype)) for name, one in own.items()}
    marks: dict[str, Marks] = {}
    left_uses = Counter(name for node in nodes for name in (*node.inputs, *node.read))
    for node, proto in zip(nodes, model.proto.graph.node, strict=True):
        taken = (*node.inputs, *node.read)
        mark = Marks(frozenset({node.name}), has_exp=EXP_FAMILY.search(node.op_type.lower()) is not None)
        mark = mark._replace(random=node.op_type if node.op_type in _RANDOM else "")
        for name in taken:
            mark |= marks.get(name, Marks())
        try:
            plain = _run(model, node, proto, own)
        except Exception as error:
            reason = f"{node.op_type}: {type(error).__name__}: {error!s:.300}"
            return forcing.whole(not_replayable("raised", reason=reason))
        wide = _attempted(model, node, _in_double(proto), exact)
        if wide is None:
            # What follows is judged from the left's own values again.
            wide, mark = plain, mark | Marks(single=node.op_type)
        rough = _attempted(model, node, proto, coarse) if coarse else None
        for slot, name in enumerate(node.outputs):
            if not name:
                continue
            own[name], exact[name], marks[name] = _as(plain[slot], np.float32), _as(wide[slot], np.float64), mark
            coarse |= {name: own[name] if rough is None else rough[slot]} if coarse else {}
            if not isinstance(exact[name], np.ndarray):
                continue
            judging: dict[str, Any] = {"ties": partial(_ties, model, node, proto, exact, slot, rounding_unit(dtype))}
            if rough is not None and mark.has_exp and ("attention" in node.op_type.lower() or len(mark.modules) > 1):
                judging["coarse"] = partial(_as, rough[slot], np.float32)
            left = forcing.put(ForcedPlace(node.name, slot), own[name], exact[name], mark, **judging)
            if left is not None:
                own[name], exact[name] = left.astype(own[name].dtype), left.astype(exact[name].dtype)
                coarse |= {name: _as(own[name], _numpy_type(dtype))} if coarse else {}
                marks[name] = Marks(after=frozenset({node.name}))
        left_uses.subtract(taken)
        for name in taken:
            if name and not left_uses[name]:
                own.pop(name, None), exact.pop(name, None), coarse.pop(name, None)
    return forcing.whole()


def _numpy_type(dtype: str) -> Any:
    from onnx import TensorProto, helper

    return helper.tensor_dtype_to_np_dtype(getattr(TensorProto, dtype.upper()))


def _attempted(model: Model, node: OnnxNode, proto: Any, values: Mapping[str, Any]) -> list[Any] | None:
    try:
        return _run(model, node, proto, values)
    except Exception:
        return None


def _ties(
    model: Model, node: OnnxNode, proto: Any, values: Mapping[str, Any], slot: int, unit: float
) -> Iterator[Array]:
    """Yield an output of a node as it is where rounding moves what the node is given."""
    moved = next((name for name in node.inputs if getattr(values.get(name), "dtype", None) == np.float64), "")
    for one in nudged(values[moved], unit) if moved else ():
        made = _attempted(model, node, _in_double(proto), {**values, moved: one})
        if made is not None:
            yield np.asarray(made[slot])


def _run(model: Model, node: OnnxNode, proto: Any, values: Mapping[str, Any]) -> list[Any]:
    from onnx import ValueInfoProto, helper
    from onnx.reference import ReferenceEvaluator

    given = {name: values[name] for name in (*node.inputs, *node.read) if name and name in values}
    outputs = [name for name in node.outputs if name]
    # Some operators are made of others in a way that depends on types.
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        if isinstance(one, np.ndarray)
        else ValueInfoProto(name=name)
        for name, one in given.items()
    ]
    graph = helper.make_graph([proto], "replay", inputs, [ValueInfoProto(name=name) for name in outputs])
    whole = helper.make_model(graph, opset_imports=model.proto.opset_import, functions=model.proto.functions)
    found = ReferenceEvaluator(whole).run(None, given)
    made = dict(zip(outputs, found, strict=True))
    return [made.get(name) for name in node.outputs]


def _in_double(proto: Any) -> Any:
    """Return a node that casts to float64 where it casts to less."""
    changed = [one for one in proto.attribute if one.name in ("to", "dtype") and one.i in _LOWER]
    if not changed:
        return proto
    copy = type(proto)()
    copy.CopyFrom(proto)
    for one in copy.attribute:
        if one.name in ("to", "dtype") and one.i in _LOWER:
            one.i = _DOUBLE
    return copy


def _as(value: Any, dtype: Any) -> Any:
    """Return a float in a precision; what is none, and no tensor, as it is."""
    if value is None or isinstance(value, (list, dict)):
        return value
    array = np.asarray(value)
    return array.astype(dtype) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array

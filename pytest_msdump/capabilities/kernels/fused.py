"""What an operator should have made that a compiler fused of several: the composition of its originals.

Their definitions are in a graph from before the fusion, or of the model compiled without it. The fused kernel may round
between them, or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from pytest_msdump.capabilities.graphs.ir import dtype_name, parse_attributes
from pytest_msdump.capabilities.kernels.operators import elementwise
from pytest_msdump.capabilities.kernels.operators.definition import Array, Call, Definition, Result, computed
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.dtypes.decode import rounded_to
from pytest_msdump.core.errors import NotReplayableError
from pytest_msdump.core.facts.dtypes import EPSILON
from pytest_msdump.core.model.dump import Edge, Operator
from pytest_msdump.core.model.tensor import TensorSpec

# What lies between two originals is hardly ever larger than what goes in and comes out.
_MOST_LARGER = 64
# Beyond an operator that mixes elements, errors add up at random.
_DEVIATIONS = 4
_Place = tuple[str, int]


@dataclass(frozen=True)
class _Made:
    """An output of an original, and how far a sound kernel may be from it on the way to the next."""

    result: Result
    deviation: Array


def composed(
    operator: Operator,
    call: Call,
    graph: Mapping[str, Operator],
    originals: Mapping[str, Operator],
    known: Mapping[str, Definition],
    *,
    is_rounded: bool,
) -> list[Result | None]:
    """Compute a fused operator's outputs from its inputs, original by original; with `is_rounded` each is rounded."""
    parts = {name: originals.get(name) for name in operator.originals}
    given = {_origin(graph, edge): slot for slot, edge in enumerate(operator.inputs) if edge is not None}
    made: dict[_Place, _Made] = {}
    waiting = dict(parts)
    while waiting:
        for name, part in waiting.items():
            if part is None:
                raise NotReplayableError("replay_original", name=name)
            inner = {edge.producer for edge in part.inputs if edge is not None}
            if not inner & waiting.keys() - {name}:
                made |= _outputs(part, operator, call, given, made, known, is_rounded=is_rounded)
                del waiting[name]
                break
        else:
            raise NotReplayableError("replay_failed", why=", ".join(waiting))
    found: list[Result | None] = []
    for slot in range(len(call.outputs)):
        place = _original_output(operator, slot)
        found.append(made[place].result if place in made else None)
    return found


def _original_output(operator: Operator, slot: int) -> _Place:
    """Return which output of the original model an output of the compiled one is."""
    origin = operator.outputs[slot] if slot < len(operator.outputs) else None
    if origin is not None and origin.name:
        return origin.name, origin.index
    return (operator.originals[-1] if operator.originals else operator.name), slot


def _origin(graph: Mapping[str, Operator], edge: Edge) -> _Place:
    """Follow an edge to what it carries in the original model, past what the compiler inserted."""
    # As many steps as there are operators: a damaged graph may have circles.
    for _ in graph:
        producer = graph.get(edge.producer)
        before = [one for one in producer.inputs if one is not None] if producer else []
        if producer is None or producer.originals or len(before) != 1:
            break
        edge = before[0]
    producer = graph.get(edge.producer)
    return _original_output(producer, edge.slot) if producer else (edge.producer, edge.slot)


def _outputs(
    part: Operator,
    operator: Operator,
    call: Call,
    given: Mapping[_Place, int],
    made: Mapping[_Place, _Made],
    known: Mapping[str, Definition],
    *,
    is_rounded: bool,
) -> dict[_Place, _Made]:
    definition = known.get(part.op_type)
    if definition is None:
        raise NotReplayableError("replay_no_definition", name=part.op_type)
    inputs: list[Array | None] = []
    deviations: dict[int, Array] = {}
    for slot, edge in enumerate(part.inputs):
        place = None if edge is None else (edge.producer, edge.slot)
        if place is not None and place in made:
            inputs.append(made[place].result.value)
            deviations[slot] = made[place].deviation
        elif place is None or place in given:
            inputs.append(None if place is None else call.given(given[place]))
        else:
            raise NotReplayableError("replay_original_input", name=place[0])
    specs = _specs(part, operator, call)

    def results(inputs: Sequence[Array | None]) -> list[Result | None]:
        return computed(definition, Call(part.op_type, inputs, parse_attributes(part.attributes), specs))

    found: dict[_Place, _Made] = {}
    base = results(inputs)
    for slot, result in enumerate(base):
        if result is not None:
            far = [
                _moved(lambda one, slot=slot: results(one)[slot], inputs, at, by, result)  # type: ignore[misc]
                for at, by in deviations.items()
            ]
            inherited = np.sum(far, axis=0) if far else np.zeros(())
            if far and part.op_type not in elementwise.DEFINITIONS:
                inherited = inherited + _DEVIATIONS * np.sqrt(np.mean(np.square(inherited)))
            found[part.name, slot] = _made(result, inherited, _dtype(specs, slot, call), is_rounded=is_rounded)
    return found


def _specs(part: Operator, operator: Operator, call: Call) -> list[TensorSpec | None]:
    """Return types and shapes of an original's outputs; those of the fused operator where it is one of these."""
    specs: list[TensorSpec | None] = [*part.host_outputs] or [
        TensorSpec(dtype_name((one.dtype or "").removeprefix("DT_").lower()), one.shape) for one in part.outputs
    ]
    largest = max(prod(one.shape or ()) for one in call.outputs if one is not None)
    largest = max([largest, *(one.size for one in call.inputs if one is not None)])
    if any(one is not None and prod(one.shape or ()) > _MOST_LARGER * largest for one in specs):
        raise NotReplayableError("replay_shapes", name=part.name)
    for slot, spec in enumerate(call.outputs):
        name, index = _original_output(operator, slot)
        if name == part.name and spec is not None:
            specs += [None] * (index + 1 - len(specs))
            specs[index] = spec
    return specs


def _dtype(specs: Sequence[TensorSpec | None], slot: int, call: Call) -> str:
    known = specs[slot] if slot < len(specs) else None
    own = next((one.dtype for one in call.outputs if one is not None and one.dtype), "float32")
    return (known.dtype if known is not None else None) or own


def _made(result: Result, inherited: Array, dtype: str, *, is_rounded: bool) -> _Made:
    """Add what is inherited to what may be off; an exact result that inherits is as uncertain as that."""
    if dtype not in EPSILON:
        return _Made(result, np.zeros(np.shape(result.value)))
    value = result.value
    if result.scale is None and inherited.any():
        result = Result(value, np.abs(value), is_sum=True)
    result = replace(result, absolute=result.absolute + inherited)
    if result.scale is None:
        return _Made(result, np.zeros(np.shape(value)))
    unit = min(rounding_unit(dtype), rounding_unit("float32"))
    scale = result.scale if result.widened is None else np.maximum(result.scale, result.widened())
    off = np.broadcast_to(result.limit * unit * scale + result.absolute, np.shape(value))
    if not is_rounded:
        return _Made(result, off)
    # Two values that are rounded may be a whole unit apart.
    middle, low, high = (
        rounded_to(np.reshape(one, -1), dtype).reshape(np.shape(value)) for one in (value, value - off, value + off)
    )
    return _Made(replace(result, value=middle), np.maximum(high - middle, middle - low))


def _moved(
    output: Callable[[Sequence[Array | None]], Result | None],
    inputs: Sequence[Array | None],
    slot: int,
    deviation: Array,
    base: Result,
) -> Array:
    """Return how far an output moves with one of its inputs."""
    signs = np.random.default_rng(0).choice((-1.0, 1.0), deviation.shape)
    far = np.zeros(np.shape(base.value))
    for sign in (1.0, -1.0, signs):
        moved = [*inputs]
        moved[slot] = np.asarray(inputs[slot]) + sign * deviation
        result = output(moved)
        if result is not None:
            far = np.maximum(far, np.nan_to_num(np.abs(result.value - base.value), nan=0.0))
    return far

"""Operators of a quantised run by the error that their own quantisation adds: by own inputs, else by growth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from math import inf, prod, sqrt
from statistics import median
from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.quantised.figures import (
    Array,
    Figures,
    Grid,
    error,
    figures_of,
    fitted_grid,
    grid_of,
    limits_of,
    weight_error,
)
from pytest_msdump.capabilities.quantised.graph import (
    DEQUANTISING,
    Quantised,
    integer_nodes,
    quantised_tensors,
    takers_of,
)
from pytest_msdump.core.compare.opening import logical_shape, open_logical
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.model.dump import Dump, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import TensorRef

_NUMBER = r"(-?[0-9.]{1,24}(?:e[-+]?[0-9]{1,3})?)"
_GRID = re.compile(f"scale: {_NUMBER}, zero_point: {_NUMBER}")
# So many elements of a tensor are looked at.
_MOST_READ = 1 << 22
# A layer's own error is what is left of its output's when that of its inputs has grown so many times.
_GROWTH = 1.5
_MOST_STEPS = 16
# Larger numbers have no squares.
_LARGEST = 1e100
# It is wrong when its error is so many times that of its inputs, that of most layers, and this large.
_TIMES, _LEAST, _LOST = 6.0, 0.08, 0.3
_ROUNDING_ACTIVATIONS = frozenset({"Relu", "Clip", "Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Dropout"})
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Add")
_LAYERS_OF_INTEGERS = ("QLinearConv", "QGemm", "QLinearMatMul", "QLinearAdd")
# What rounding adds to a weight of 8 bits is less.
_COARSE = 0.025
_ONE_REASON = 0.15
_SATURATED = 0.03
_CHANGED = ("unlike", "factor", "shifted")
_FACTOR = 0.03


class Own(NamedTuple):
    """One operator: its name, further nodes that are the same quantisation, and its figures."""

    name: str
    nodes: tuple[str, ...]
    figures: Figures


def own_errors(plan: Plan) -> list[Own] | None:
    """Return the operators of a quantised left run, those first that add most; ``None`` where it is none."""
    graphs = [dump.graphs[0][1] if dump.graphs else None for dump in (plan.left, plan.right)]
    own, other = graphs
    if own is None or other is None or not integer_nodes(own) or integer_nodes(other):
        return None
    with np.errstate(all="ignore"):
        found = list(_Search(plan, own, other).found())
    return sorted(found, key=lambda one: (not one.figures.is_wrong, -one.figures.own))


# A layer's error, that of its inputs, what rounding its weight adds, and its figures.
_Layer = tuple[float, float, float | None, Figures]


def _usual(numbers: list[float]) -> float:
    """Return what most have; 0 of fewer than three."""
    return median(numbers) if len(numbers) > 2 else 0.0


class _Search:
    """Reads what is needed of both sides, tensor by tensor."""

    def __init__(self, plan: Plan, own: OperatorGraph, other: OperatorGraph) -> None:
        self._own, self._other = own, other
        self._calls = {call.name: call for call in own.operators}
        self._takers = takers_of(own)
        self._refs = [_outputs(dump) for dump in (plan.left, plan.right)]
        self._inputs = {ref.key.op.label: ref for ref in plan.left.refs if ref.key.io == "input" and not ref.key.slot}
        self._partners = {
            pair.left.key.op.label: pair.right.key.op.label
            for pair in plan.pairing.pairs
            if pair.left.key.io == "output" and not pair.left.key.slot
        }
        # By node of the left, how far what it gives out is from the float side.
        self._errors: dict[str, float] = {}
        # The same of nodes that were not compared, by what feeds them.
        self._unknown: dict[str, float | None] = {}
        # Of inputs of the network whose floats were not saved, how many are at an end of their range.
        self._saturated: dict[str, float] = {}

    def found(self) -> Iterator[Own]:
        """Yield each quantisation and each layer with weights; what is both once."""
        tensors = [
            Own(one.codes, one.dequantised, figures)
            for one in quantised_tensors(self._own, self._other)
            if (figures := self._of_tensor(one)) is not None
        ]
        grids = {
            name: (one.figures.scale, one.figures.zero_point) for one in tensors for name in (one.name, *one.nodes)
        }
        for at, one in enumerate(tensors):
            # What passes values on keeps their grid, by rule.
            above = [grids[name] for name in self._above(one.name) if name in grids]
            if one.figures.why == "coarse" and any(_are_one(grids[one.name], grid) for grid in above):
                tensors[at] = one._replace(figures=one.figures._replace(is_wrong=False))
        worst: dict[str, Own] = {}
        for one in (*tensors, *self._judged(dict(self._layers()))):
            known = worst.get(one.name)
            # A range that is wrong says more than that the layer is.
            if known is None or (not known.figures.is_wrong and known.figures.own < one.figures.own):
                worst[one.name] = one
        yield from (one for one in worst.values() if one.figures.own or one.figures.is_wrong)

    def _above(self, name: str) -> Iterator[str]:
        """Yield what feeds a node that rounds, or what that is fed by."""
        for edge in self._calls[name].inputs[:1]:
            if edge is not None:
                yield edge.producer
                yield from (one.producer for one in self._calls[edge.producer].inputs if one is not None)

    def _of_tensor(self, one: Quantised) -> Figures | None:
        """Return the figures of a tensor of whole numbers."""
        exact = self._read(1, one.stands_for)
        codes, limits = self._read(0, one.codes), self._limits(one.codes)
        if codes is None or limits is None:
            return None
        values = next((found for name in one.dequantised if (found := self._read(0, name)) is not None), None)
        # What a layer of whole numbers is given is none that it rounds, even where it has the same shape.
        is_rounding = self._calls[one.codes].op_type.endswith("QuantizeLinear")
        begun = self._read_input(one.codes) if is_rounding else None
        begun = begun if begun is not None else self._read(0, one.given)
        if begun is None and not any(self._calls[one.codes].inputs):
            self._saturated[one.codes] = float(np.mean((codes == limits[0]) | (codes == limits[1])))
        stand = exact
        if begun is not None and set(one.activations) <= _ROUNDING_ACTIVATIONS:
            stand = begun = _activated(begun, exact, one.activations)
        grid = self._grid(one.codes, limits)
        if values is not None and values.size == codes.size:
            grid = grid_of(codes, values, limits)
        elif grid is None and stand is not None and stand.size == codes.size:
            grid = fitted_grid(codes, stand, limits)
        if values is None and grid is not None:
            values = (codes - grid.zero_point) * grid.scale
        if values is None:
            if exact is not None:
                # No grid brings its codes near to what they stand for.
                self._errors[one.codes] = 1.0
            return None
        channels = self._channels(one.codes, values.size)
        if exact is not None and exact.size == values.size:
            for name in (one.codes, *one.dequantised):
                self._errors[name] = error(values, exact, channels)
        else:
            exact = None
        needed = self._needed(one, exact)
        low, high = self._cut(one)
        if begun is not None and begun is stand:
            begun = np.clip(begun, low, high)
        values, exact = np.clip(values, low, high), None if exact is None else np.clip(exact, low, high)
        if begun is not None and stand is not None and begun.size == values.size:
            if exact is None and one.given is None:
                # An input of the network is the same on both sides.
                self._errors |= dict.fromkeys((one.codes, *one.dequantised), error(values, begun, channels))
            return figures_of(begun, values, begun if exact is None else exact, grid, channels, needed)
        if exact is None or grid is None:
            return None
        # Of whole numbers that a layer gives out it is seen what their grid makes of the floats.
        figures = figures_of(exact, np.clip(grid.rounded(exact), low, high), exact, grid, channels, needed)
        # Nothing changed on the way through: it can be the range alone, or the steps.
        return figures if figures.why not in _CHANGED else figures._replace(why="rounded", is_wrong=False)

    def _cut(self, one: Quantised) -> tuple[float, float]:
        """Return the range that activations leave which follow in the run itself; a grid need not hold more."""
        names = [user for name in (one.codes, *one.dequantised) for user, _ in self._takers[name]]
        users = [self._calls[name] for name in names if name not in one.dequantised]
        if not users or any(call.op_type not in ("Relu", "Clip") for call in users):
            return -inf, inf
        ends = [self._read(1, self._partners.get(call.name, call.name)) for call in users if call.op_type == "Clip"]
        if any(end is None for end in ends):
            return -inf, inf
        clipped = [end for end in ends if end is not None]
        low = min((float(end.min()) for end in clipped), default=0.0) if len(clipped) == len(users) else 0.0
        high = max(float(end.max()) for end in clipped) if len(clipped) == len(users) else inf
        return min(low, 0.0), high

    def _needed(self, one: Quantised, exact: Array | None) -> tuple[float, float] | None:
        """Return the range of an activation with bounds, which calibration takes; ``None`` for that of the values."""
        if exact is None or "Clip" not in one.activations:
            return None
        low, high = self._bounds
        return min(low, 0.0), max(float(exact.max()), high)

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        """The range of what the float side's activations with bounds give out."""
        ends = [self._read(1, call.name) for call in self._other.operators if call.op_type == "Clip"]
        known = [end for end in ends if end is not None]
        return min((float(end.min()) for end in known), default=0.0), max(
            (float(end.max()) for end in known), default=0.0
        )

    def _layers(self) -> Iterator[tuple[str, _Layer]]:
        """Yield layers with weights: the error of the output, that of the inputs, and figures."""
        constants = {call.name for call in self._own.operators if call.op_type == DEQUANTISING and not any(call.inputs)}
        for call in self._own.operators:
            weights = self._weights(call, constants)
            out = self._error_of(call.name)
            feeds = [edge.producer for edge in call.inputs if edge is not None and edge.producer not in constants]
            errors = [self._error_above(name) for name in feeds]
            if weights is None or out is None or not errors or any(one is None for one in errors):
                continue
            before = max(one for one in errors if one is not None)
            own = sqrt(max(out**2 - (_GROWTH * before) ** 2, 0.0))
            why, times = self._why(call.name)
            rounding = self._weight_error(weights)
            yield (
                call.name,
                (out, before, rounding, Figures(max(own, rounding or 0.0), why, is_wrong=False, times=times)),
            )

    def _judged(self, layers: Mapping[str, _Layer]) -> Iterator[Own]:
        """Yield layers, and inputs of the network whose floats were not saved where these explain a layer's error."""
        own = [figures.own for _, _, rounding, figures in layers.values() if rounding is None]
        usual = _usual(own)
        coarse = _usual([rounding for _, _, rounding, _ in layers.values() if rounding is not None])
        for name, (out, before, rounding, figures) in layers.items():
            most = max(_LEAST, _TIMES * (usual if rounding is None else min(rounding, coarse or rounding)))
            is_wrong = out > most and out > _TIMES * before and before < _LOST
            is_coarse = rounding is not None and rounding > _COARSE and bool(coarse) and rounding > _TIMES * coarse
            why = "coarse_weights" if is_coarse else figures.why if is_wrong else "layer"
            begins = [one for one in self._feeds(name) if one in self._saturated] if is_wrong else []
            share = max((self._saturated[one] for one in begins), default=0.0)
            if share > _SATURATED:
                yield Own(begins[0], self._feeds(name), Figures(figures.own, "saturated", is_wrong=True, clipped=share))
                continue
            nodes = tuple(dict.fromkeys((*begins, *self._feeds(name)))) if begins and is_wrong else ()
            yield Own(name, nodes, figures._replace(is_wrong=is_wrong or is_coarse, why=why, reaches=before))

    def _feeds(self, name: str) -> tuple[str, ...]:
        """Return what feeds a node, and what that dequantises."""
        feeds = [edge.producer for edge in self._calls[name].inputs if edge is not None]
        above = [edge.producer for one in feeds for edge in self._calls[one].inputs[:1] if edge is not None]
        return (*feeds, *above)

    def _weight_error(self, name: str) -> float | None:
        """Return what rounding adds to a weight; ``None`` where it was not dequantised."""
        ref, values = self._refs[0].get(name), self._read(0, name)
        if ref is None or values is None:
            return None
        shape = logical_shape(ref)
        if shape is None or len(shape) < 2:
            return None
        return weight_error(values, shape, 0 if len(shape) == 4 else len(shape) - 1)

    def _weights(self, call: Operator, constants: set[str]) -> str | None:
        """Return what dequantises the weight of a layer, or nothing for one of whole numbers."""
        found = [edge.producer for edge in call.inputs if edge is not None and edge.producer in constants]
        if call.op_type in _LAYERS and found:
            return found[0]
        is_constant = call.op_type in _LAYERS_OF_INTEGERS and sum(one is not None for one in call.inputs) == 1
        return "" if is_constant else None

    def _why(self, name: str) -> tuple[str, float | None]:
        """Return what the error of a layer's output looks like."""
        values, exact = self._read(0, name), self._read(1, self._partners.get(name))
        if values is None or exact is None or values.size != exact.size or not np.dot(exact, exact):
            return "weights", None
        channels, total = self._channels(name, values.size), float(np.sum((values - exact) ** 2)) or 1.0
        factor = float(np.dot(values, exact) / np.dot(exact, exact))
        if channels is not None:
            number = channels.astype(np.int64)
            means = np.bincount(number, values - exact) / np.maximum(np.bincount(number), 1)
            if float(np.sum((values - exact - means[number]) ** 2)) < _ONE_REASON * total:
                return "bias", None
        if abs(factor - 1) > _FACTOR and float(np.sum((values - factor * exact) ** 2)) < _ONE_REASON * total:
            return "weights_factor", factor
        return "weights", None

    def _error_above(self, name: str, most: int = _MOST_STEPS) -> float | None:
        """Return the error of what a node gives out, or of the nearest before it that is known."""
        found = self._error_of(name)
        call = self._calls.get(name)
        if found is not None or call is None or not most or name in self._unknown:
            return found if found is not None else self._unknown.get(name)
        # While it is looked for, and where nodes feed each other.
        self._unknown[name] = None
        feeds = [edge.producer for edge in call.inputs if edge is not None]
        errors = [one for feed in feeds if (one := self._error_above(feed, most - 1)) is not None]
        self._unknown[name] = max(errors, default=None if feeds else 0.0)
        return self._unknown[name]

    def _error_of(self, name: str) -> float | None:
        if name not in self._errors and name in self._partners:
            values, exact = self._read(0, name), self._read(1, self._partners[name])
            if values is not None and exact is not None and values.size == exact.size:
                self._errors[name] = error(values, exact, self._channels(name, values.size))
        return self._errors.get(name)

    def _read(self, side: int, name: str | None) -> Array | None:
        return _values(self._refs[side].get(name or ""))

    def _read_input(self, name: str) -> Array | None:
        return _values(self._inputs.get(name))

    def _grid(self, name: str, limits: tuple[int, int]) -> Grid | None:
        """Return the grid that a recorder wrote beside a node."""
        match = _GRID.fullmatch(self._calls[name].attributes)
        scale, zero = (float(match[1]), float(match[2])) if match is not None else (0.0, 0.0)
        return Grid(scale, zero, *limits) if 0 < scale < inf else None

    def _limits(self, name: str) -> tuple[int, int] | None:
        ref = self._refs[0].get(name)
        if ref is None:
            return None
        try:
            with closing(open_logical(ref)) as view:
                return limits_of(view.dtype)
        except (MsdumpError, OSError):
            return None

    def _channels(self, name: str, size: int) -> Array | None:
        """Return the channel of each element: the second axis of pictures, else the last."""
        ref = self._refs[0].get(name)
        shape = None if ref is None else logical_shape(ref)
        if shape is None or len(shape) < 2 or not prod(shape):
            return None
        axis = 1 if len(shape) == 4 else len(shape) - 1
        inner = prod(shape[axis + 1 :])
        return (np.arange(size) // inner % shape[axis]).astype(np.float64)


def _outputs(dump: Dump) -> dict[str, TensorRef]:
    found: dict[str, TensorRef] = {}
    for ref in dump.refs:
        if ref.key.io == "output" and not ref.key.slot:
            found.setdefault(ref.key.op.label, ref)
    return found


def _values(ref: TensorRef | None) -> Array | None:
    if ref is None:
        return None
    try:
        with closing(open_logical(ref)) as view:
            values = np.asarray(view.read(0, min(view.size, _MOST_READ)))
    except (MsdumpError, OSError):
        return None
    if values.dtype.kind not in "iuf" or not values.size:
        return None
    found = values.astype(np.float64)
    return found if np.abs(found).max() < _LARGEST else None


def _activated(values: Array, exact: Array | None, types: tuple[str, ...]) -> Array:
    """Return values behind activations whose work the range of a quantisation does."""
    if "Clip" in types and exact is not None:
        return np.clip(values, exact.min(), exact.max())
    return np.maximum(values, 0.0) if "Relu" in types else values


def _are_one(one: tuple[float | None, float | None], other: tuple[float | None, float | None]) -> bool:
    """Whether two grids are the same."""
    return None not in (*one, *other) and abs(one[0] - other[0]) < 1e-3 * one[0] and one[1] == other[1]  # type: ignore[operator]

"""Operators that move values (views, slices, gathers), and those that reduce axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from pytest_msdump.capabilities.kernels.operators.definition import (
    Array,
    Call,
    Definition,
    Result,
    exact,
    fitting,
    rounded,
)
from pytest_msdump.core.errors import NotReplayableError


def _reshaped(call: Call) -> Result:
    """Views hand on their elements in C order; the graph knows the shape."""
    value = call.given(0)
    if value.size != prod(call.shape()):
        raise NotReplayableError("replay_no_shape", slot=0)
    return exact(value.reshape(call.shape()))


def _concat(call: Call) -> Result:
    if "axis" in call.attributes:
        axis, count = int(call.attribute("axis")), len(call.inputs)
    else:
        # Behind tensors of any number, the last operand says the axis.
        literals = [int(name[8:]) for name in call.attributes if name.startswith("operand ")]
        count = max([*literals, len(call.inputs) - 1])
        axis = int(call.attribute("axis", count))
    return exact(np.concatenate([call.given(slot) for slot in range(count)], axis))


def _stack(call: Call) -> Result:
    count = int(call.attribute("num N", default=len(call.inputs)))
    return exact(np.stack([call.given(slot) for slot in range(count)], int(call.attribute("axis", default=0))))


def _unstack(call: Call) -> list[Result | None]:
    return [exact(part) for part in np.moveaxis(call.given(0), int(call.attribute("axis", default=0)), 0)]


def _split(call: Call) -> list[Result | None]:
    value, axis = call.given(0), int(call.attribute("axis split_dim", 1))
    sizes = [call.shape(slot)[axis] for slot in range(len(call.outputs))]
    return [exact(part) for part in np.split(value, np.cumsum(sizes)[:-1], axis)]


def _slice(call: Call) -> Result:
    value = call.given(0)
    begin, size = call.attribute("begin", 1), call.attribute("size", 2)
    ends = [b + s if s >= 0 else n for b, s, n in zip(begin, size, value.shape, strict=True)]
    return exact(value[tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))])


def _index(call: Call, rank: int, begin: int, masks: int | None) -> tuple[Any, ...]:
    """Read the index of a strided slice: its bounds from slot `begin` on, its masks from slot `masks` on."""
    bounds = [call.attribute(name, begin + place) for place, name in enumerate(("begin", "end", "strides"))]
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    at = {
        name: int(call.attribute(name, None if masks is None else masks + place, 0)) for place, name in enumerate(names)
    }
    index: list[Any] = []
    for place, (first, last, step) in enumerate(zip(*bounds, strict=True)):
        bit = 1 << place
        if at["ellipsis_mask"] & bit:
            index.append(...)
        elif at["new_axis_mask"] & bit:
            index.append(None)
        elif at["shrink_axis_mask"] & bit:
            index.append(int(first))
        else:
            index.append(
                slice(
                    None if at["begin_mask"] & bit else int(first),
                    None if at["end_mask"] & bit else int(last),
                    int(step),
                )
            )
    if len([one for one in index if one is not None and one is not ...]) > rank:
        raise NotReplayableError("replay_no_attribute", name="begin")
    return tuple(index)


def _strided_slice(call: Call) -> Result:
    value = call.given(0)
    return exact(value[_index(call, value.ndim, 1, 4)])


def _strided_slice_grad(call: Call) -> Result:
    dy = call.given(0)
    grad = np.zeros(call.shape())
    grad[_index(call, grad.ndim, 2, None)] = dy
    return exact(grad)


def _fits(call: Call, elements: int) -> None:
    """Refuse attributes that make an output of another size than the dump has."""
    if elements != prod(call.shape()):
        raise NotReplayableError("replay_shapes", name="output")


def _tile(call: Call) -> Result:
    value, times = call.given(0), call.attribute("multiples dims", 1)
    _fits(call, value.size * prod(times))
    return exact(np.tile(value, times))


def _pad(call: Call) -> Result:
    pads = np.reshape(call.attribute("paddings", 1), (-1, 2))
    value = call.given(0)
    _fits(call, prod(size + max(0, int(a + b)) for size, (a, b) in zip(value.shape, pads, strict=True)))
    return exact(np.pad(value, pads.tolist(), constant_values=float(call.attribute("value", 2, 0))))


def _rows(indices: Array, size: int) -> Array:
    """Return indices as numpy takes them; those outside of the axis are marked by -1."""
    whole = indices.astype(np.int64)
    whole = np.where(whole < 0, whole + size, whole)
    return np.where((whole >= 0) & (whole < size), whole, -1)


def _gather(call: Call) -> Result:
    value, axis = call.given(0), int(call.attribute("axis", 2, 0))
    if int(call.attribute("batch_dims", 3, 0)):
        raise NotReplayableError("replay_variant", name="batch_dims")
    rows = _rows(call.given(1), value.shape[axis])
    _fits(call, rows.size * value.size // max(value.shape[axis], 1))
    found = np.take(value, np.maximum(rows, 0), axis)
    # MindSpore's kernels give 0 for an index outside of the axis.
    axis %= value.ndim
    inside = np.reshape(rows >= 0, (*[1] * axis, *rows.shape, *[1] * (value.ndim - axis - 1)))
    return exact(np.where(inside, found, 0))


def _gather_d(call: Call) -> Result:
    value, axis = call.given(0), int(call.attribute("dim", 1))
    rows = _rows(call.given(2), value.shape[axis])
    fitting(rows.shape, np.take(value, [0] * rows.shape[axis], axis))
    return exact(np.take_along_axis(value, rows, axis))


def _added(shape: tuple[int, ...], index: tuple[Any, ...], values: Array) -> Result:
    """Add values at indexes, several of which may be the same."""
    total, squares, terms = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(total, index, values)
    np.add.at(squares, index, np.square(values))
    np.add.at(terms, index, 1)
    return rounded(total, float(terms.max(initial=1)), np.sqrt(squares))


def _gather_d_grad(call: Call) -> Result:
    axis, indices, dy = int(call.attribute("dim", 1)), call.given(2), call.given(3)
    shape = call.shape()
    index: list[Array] = list(np.indices(indices.shape))
    index[axis] = _rows(indices, shape[axis])
    return _added(shape, tuple(index), dy)


def _segment_sum(call: Call) -> Result:
    value, ids = call.given(0), call.given(1).astype(np.int64)
    inside = (ids >= 0) & (ids < call.shape()[0])
    return _added(call.shape(), (ids[inside],), value[inside])


def _one_hot(call: Call) -> Result:
    indices, depth, axis = call.given(0), int(call.attribute("depth", 1)), int(call.attribute("axis", 4, -1))
    _fits(call, indices.size * depth)
    chosen = np.expand_dims(indices, axis if axis >= 0 else indices.ndim)
    steps = np.arange(depth).reshape([-1 if n == axis % chosen.ndim else 1 for n in range(chosen.ndim)])
    return exact(np.where(chosen == steps, call.given(2), call.given(3)))


# -- reductions --------------------------------------------------------------------------------------------------------


def _reduced(call: Call) -> tuple[Array, tuple[int, ...], bool]:
    value = call.given(0)
    axes = call.axes(value.ndim, "axis axes", 1)
    keep = bool(call.attribute("keep_dims keepdims keep_dim", 2, False))
    if not keep and call.outputs and call.outputs[0] is not None:
        keep = value.ndim > 0 and call.outputs[0].shape == tuple(
            1 if n in axes else size for n, size in enumerate(value.shape)
        )
    return value, axes, keep


def _sum(call: Call, *, mean: bool = False) -> Result:
    value, axes, keep = _reduced(call)
    count = prod(value.shape[axis] for axis in axes)
    return _added_up(value, axes, count, max(count, 1) if mean else 1, keep=keep)


def _added_up(value: Array, axes: tuple[int, ...], count: int, divisor: int = 1, *, keep: bool = False) -> Result:
    total = np.asarray(value.sum(axis=axes, keepdims=keep))
    size = np.sqrt(np.square(value, dtype=np.float64).sum(axis=axes, keepdims=keep))

    def partial() -> Array:
        rest = [size for axis, size in enumerate(value.shape) if axis not in axes]
        running = np.cumsum(np.moveaxis(value, axes, range(len(axes))).reshape(-1, *rest), axis=0)
        far = running.max(axis=0, initial=0) - running.min(axis=0, initial=0)
        return np.asarray(far / divisor).reshape(total.shape)

    return rounded(total / divisor if divisor > 1 else total, count, np.asarray(size / divisor), partial)


def _bias_add_grad(call: Call) -> Result:
    dy = call.given(0)
    last = "NHWC" in str(call.attribute("data_format format", 1, "NCHW")) or dy.ndim == 2
    dy = np.moveaxis(dy, -1 if last else 1, -1).reshape(-1, dy.shape[-1 if last else 1])
    return _added_up(dy, (0,), len(dy))


def _reduction(function: Callable[..., Any]) -> Definition:
    def of(call: Call) -> Result:
        value, axes, keep = _reduced(call)
        return exact(np.asarray(function(value, axis=axes, keepdims=keep)))

    return of


def _arg(function: Callable[..., Any]) -> Definition:
    def of(call: Call) -> Result:
        found = function(call.given(0), axis=int(call.attribute("axis dimension", 1, -1)))
        return exact(np.reshape(found, call.shape()))

    return of


def _cumsum(call: Call) -> Result:
    value, axis = call.given(0), int(call.attribute("axis", 1))
    if call.attribute("exclusive", 2, False) or call.attribute("reverse", 3, False):
        raise NotReplayableError("replay_variant", name="exclusive, reverse")
    size = np.sqrt(np.cumsum(np.square(value), axis))
    total = np.cumsum(value, axis)
    return rounded(total, value.shape[axis], size, lambda: np.maximum.accumulate(np.abs(total), axis))


_VIEWS = "Reshape Flatten FlattenGrad ExpandDims Squeeze View ReshapeView"
DEFINITIONS: Mapping[str, Definition] = {
    **dict.fromkeys(_VIEWS.split(), _reshaped),
    **dict.fromkeys(("Argmax", "ArgMax", "ArgMaxV2"), _arg(np.argmax)),
    **dict.fromkeys(("Argmin", "ArgMin"), _arg(np.argmin)),
    "BiasAddGrad": _bias_add_grad,
    **dict.fromkeys(("BroadcastTo", "BroadcastToD"), lambda call: exact(np.broadcast_to(call.given(0), call.shape()))),
    **dict.fromkeys(("Concat", "ConcatD"), _concat),
    "CumSum": _cumsum,
    **dict.fromkeys(("Gather", "GatherV2"), _gather),
    "GatherD": _gather_d,
    "GatherDGradV2": _gather_d_grad,
    "OneHot": _one_hot,
    **dict.fromkeys(("Pad", "PadV3", "PadD"), _pad),
    "ReduceAll": _reduction(np.all),
    "ReduceAny": _reduction(np.any),
    **dict.fromkeys(("ReduceMax", "ReduceMaxD"), _reduction(np.max)),
    **dict.fromkeys(("ReduceMean", "ReduceMeanD"), partial(_sum, mean=True)),
    **dict.fromkeys(("ReduceMin", "ReduceMinD"), _reduction(np.min)),
    **dict.fromkeys(("ReduceSum", "ReduceSumD", "SumExt"), _sum),
    "Slice": _slice,
    **dict.fromkeys(("Split", "SplitD"), _split),
    **dict.fromkeys(("Stack", "Pack"), _stack),
    **dict.fromkeys(("StridedSlice", "StridedSliceD"), _strided_slice),
    "StridedSliceGrad": _strided_slice_grad,
    "Tile": _tile,
    **dict.fromkeys(
        ("Transpose", "TransposeD"), lambda call: exact(call.given(0).transpose(call.attribute("perm", 1)))
    ),
    "UnsortedSegmentSum": _segment_sum,
    **dict.fromkeys(("Unstack", "Unpack"), _unstack),
}

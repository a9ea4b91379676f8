"""Matrix products, convolutions and pooling, with their gradients.

A convolution is a sum over the positions of its kernel, one matrix product each: nothing larger than one of its tensors
is held. The sums of the squares of all terms come from the same walk over squared inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.kernels.operators.definition import Array, Call, Definition, Result, exact, rounded
from pytest_msdump.core.errors import NotReplayableError

# Partial sums are looked at this many times.
_CHUNKS = 16
# A kernel or its padding is hardly ever larger than what it is laid on.
_MOST_WIDER = 8


def _product(left: Array, right: Array) -> Result:
    terms = left.shape[-1]

    def partial() -> Array:
        step = max(1, -(-terms // _CHUNKS))
        parts = (left[..., k : k + step] @ right[..., k : k + step, :] for k in range(0, terms, step))
        return _range_of_sums(parts)

    return rounded(left @ right, terms, np.sqrt(np.square(left) @ np.square(right)), partial)


def _range_of_sums(parts: Iterator[Array]) -> Array:
    """Return how far apart running sums are, 0 among them: any stretch of them is at most as large."""
    total = low = high = np.zeros(())
    for part in parts:
        total = total + part
        low, high = np.minimum(low, total), np.maximum(high, total)
    return np.asarray(high - low)


def _matmul(call: Call) -> Result:
    left, right = call.given(0).astype(float), call.given(1).astype(float)
    if call.attribute("transpose_a transpose_x1 adj_x1", 2, False):
        left = np.swapaxes(left, -1, -2)
    if call.attribute("transpose_b transpose_x2 adj_x2", 3, False):
        right = np.swapaxes(right, -1, -2)
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if (*stack, left.shape[-2], right.shape[-1]) != call.shape():
        raise NotReplayableError("replay_shapes", name="output")
    return _product(left, right)


# -- windows -----------------------------------------------------------------------------------------------------------


class _Window(NamedTuple):
    """How a kernel moves over height and width; `before` and `after` are the padding."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]
    out: tuple[int, int]

    def padded(self, x: Array, value: float = 0.0) -> Array:
        edges = [(0, 0)] * (x.ndim - 2) + list(zip(self.before, self.after, strict=True))
        return np.pad(x, edges, constant_values=value) if any(self.before + self.after) else x

    def views(self, padded: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield for each position in the kernel the elements that meet it, one for each output."""
        for i, j in np.ndindex(*self.kernel):
            rows = slice(i * self.dilation[0], i * self.dilation[0] + (self.out[0] - 1) * self.stride[0] + 1)
            columns = slice(j * self.dilation[1], j * self.dilation[1] + (self.out[1] - 1) * self.stride[1] + 1)
            yield i, j, padded[..., rows, columns][..., :: self.stride[0], :: self.stride[1]]

    def cropped(self, padded: Array) -> Array:
        height, width = padded.shape[-2:]
        return padded[..., self.before[0] : height - self.after[0], self.before[1] : width - self.after[1]]


def _two(value: object) -> tuple[int, int]:
    """Return the numbers for height and width of one, two or, for each axis, four."""
    values = value if isinstance(value, tuple) else (value, value)
    found = tuple(int(one) for one in (values * 2 if len(values) == 1 else values)[-2:])
    return (found[0], found[1])


_MODES = {"0": "PAD", "1": "SAME", "2": "VALID"}


def _window(
    call: Call, size: tuple[int, ...], out: tuple[int, ...], kernel: tuple[int, int], slots: tuple[int | None, ...]
) -> _Window:
    """Read how a kernel moves over the last two axes of `size` to give those of `out`."""
    if "NHWC" in str(call.attribute("data_format format", default="NCHW")):
        raise NotReplayableError("replay_variant", name="NHWC")
    stride = _two(call.attribute("stride strides", slots[0]))
    dilation = _two(call.attribute("dilation dilations", default=1))
    mode = str(call.attribute("pad_mode padding", slots[1], "PAD")).upper()
    mode = _MODES.get(mode, mode)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if mode == "PAD":
        pads = call.attribute("pad_list pads pad padding", default=(0, 0, 0, 0))
        top, bottom, left, right = pads if isinstance(pads, tuple) and len(pads) == 4 else (*_two(pads),) * 2
        before, after = [int(top), int(left)], [int(bottom), int(right)]
    else:
        needed = [max(0, (o - 1) * s + r - n) for o, s, r, n in zip(out[-2:], stride, reach, size[-2:], strict=True)]
        before, after = [n // 2 for n in needed], [n - n // 2 for n in needed]
    # What a rounded-up output (ceil_mode) reaches beyond the padding.
    for axis in range(2):
        end = (out[-2 + axis] - 1) * stride[axis] + reach[axis]
        after[axis] = max(after[axis], end - size[-2 + axis] - before[axis])
        # Attributes that do not belong to these shapes would ask for any amount of memory.
        whole = size[-2 + axis] + before[axis] + after[axis]
        if min(before[axis], after[axis]) < 0 or not 0 < reach[axis] <= whole or whole - end >= stride[axis]:
            raise NotReplayableError("replay_shapes", name="output")
        if max(before[axis], after[axis], kernel[axis]) > _MOST_WIDER * (size[-2 + axis] + out[-2 + axis]):
            raise NotReplayableError("replay_shapes", name="output")
    return _Window(kernel, stride, dilation, (before[0], before[1]), (after[0], after[1]), (out[-2], out[-1]))


def _groups(x: Array, groups: int) -> Array:
    """Split channels into groups, and join height and width: (N, groups, C, H·W)."""
    if groups < 1 or x.shape[1] % groups:
        raise NotReplayableError("replay_no_attribute", name="group")
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)


def _kernels(w: Array, groups: int, i: int, j: int) -> Array:
    if w.shape[0] % groups:
        raise NotReplayableError("replay_no_attribute", name="group")
    return w[:, :, i, j].reshape(groups, w.shape[0] // groups, w.shape[1])


def _group(call: Call) -> int:
    return int(call.attribute("group groups", default=1))


def _four(call: Call, *slots: int) -> list[Array]:
    """Return inputs, which have to have four axes."""
    arrays = [call.given(slot) for slot in slots]
    if any(array.ndim != 4 for array in arrays):
        raise NotReplayableError("replay_variant", name="not 4-D")
    return arrays


def _conv2d(call: Call) -> Result:
    (x, w), groups = _four(call, 0, 1), _group(call)
    window = _window(call, x.shape, call.shape(), (w.shape[2], w.shape[3]), (None, None))

    def parts(x: Array, w: Array) -> Iterator[Array]:
        for i, j, view in window.views(window.padded(x)):
            product = _kernels(w, groups, i, j) @ _groups(view, groups)
            yield product.reshape(len(x), w.shape[0], *window.out)

    return _summed(parts, x, w, w[0].size)


def _summed(parts: Callable[[Array, Array], Iterator[Array]], one: Array, other: Array, terms: float) -> Result:
    squares = np.sqrt(_total(parts(np.square(one), np.square(other))))
    return rounded(_total(parts(one, other)), terms, squares, lambda: _range_of_sums(parts(one, other)))


def _total(parts: Iterator[Array]) -> Array:
    total = next(parts)
    for part in parts:
        total += part
    return total


def _conv2d_input(call: Call) -> Result:
    """Gradient of a convolution's input, which is also a transposed convolution."""
    (dy, w), groups = _four(call, 0, 1), _group(call)
    shape = call.shape()
    window = _window(call, shape, dy.shape, (w.shape[2], w.shape[3]), (None, None))

    def parts(dy: Array, w: Array) -> Iterator[Array]:
        grouped = _groups(dy, groups)
        for i, j in np.ndindex(*window.kernel):
            padded = window.padded(np.zeros(shape))
            one = next(view for row, column, view in window.views(padded) if (row, column) == (i, j))
            one += (_kernels(w, groups, i, j).swapaxes(1, 2) @ grouped).reshape(one.shape)
            yield window.cropped(padded)

    return _summed(parts, dy, w, prod(window.kernel) * w.shape[0] / groups)


def _conv2d_filter(call: Call) -> Result:
    (dy, x), groups = _four(call, 0, 1), _group(call)
    shape = call.shape()
    window = _window(call, x.shape, dy.shape, (shape[2], shape[3]), (None, None))

    def parts(dy: Array, x: Array) -> Iterator[Array]:
        for sample in range(len(x)):
            left = _groups(dy[sample : sample + 1], groups)
            found = np.empty(shape)
            for i, j, view in window.views(window.padded(x[sample : sample + 1])):
                product = left @ _groups(view, groups).swapaxes(2, 3)
                found[:, :, i, j] = product.reshape(shape[:2])
            yield found

    return _summed(parts, dy, x, len(x) * prod(window.out))


# -- pooling -----------------------------------------------------------------------------------------------------------


def _pool_window(call: Call, size: tuple[int, ...], out: tuple[int, ...], first: int | None) -> _Window:
    """Read a pooling's window; `first` is the slot of its kernel's size where that and what follows are operands."""
    slots = (None, None, None) if first is None else (first, first + 1, first + 2)
    kernel = _two(call.attribute("kernel_size ksize", slots[0]))
    return _window(call, size, out, kernel, slots[1:])


def _max_pool(call: Call) -> Result:
    (x,) = _four(call, 0)
    window = _pool_window(call, x.shape, call.shape(), None)
    best = np.full(call.shape(), -np.inf)
    for _, _, view in window.views(window.padded(x, -np.inf)):
        best = np.maximum(best, view)
    return exact(best)


def _max_pool_grad(call: Call) -> Result:
    """The gradient goes to the first of the largest."""
    x, y, dy = _four(call, 0, 1, 2)
    window = _pool_window(call, x.shape, y.shape, None)
    padded = window.padded(x, -np.inf)
    grad, open_ = np.zeros(padded.shape), np.ones(y.shape, bool)
    for (_, _, values), (_, _, target) in zip(window.views(padded), window.views(grad), strict=True):
        taken = open_ & (values == y)
        target += np.where(taken, dy, 0)
        open_ &= ~taken
    grad = window.cropped(grad)
    if all(s >= k for s, k in zip(window.stride, window.kernel, strict=True)):
        return exact(grad)
    return rounded(grad, prod(window.kernel), _spread(window, np.abs(dy), x.shape))


def _spread(window: _Window, dy: Array, shape: tuple[int, ...]) -> Array:
    grad = window.padded(np.zeros(shape))
    for _, _, target in window.views(grad):
        target += dy
    return window.cropped(grad)


def _counts(call: Call, window: _Window, shape: tuple[int, ...]) -> Array:
    """Return how many elements each mean of a pooling is over."""
    if call.attribute("count_include_pad", default=False):
        return np.asarray(prod(window.kernel))
    ones = window.padded(np.ones((1, 1, *shape[-2:])))
    return _total(view.copy() for _, _, view in window.views(ones))


def _avg_pool(call: Call) -> Result:
    (x,) = _four(call, 0)
    window = _pool_window(call, x.shape, call.shape(), 1)
    padded, counts = window.padded(x), _counts(call, window, x.shape)
    total = _total(view.copy() for _, _, view in window.views(padded))
    squares = _total(np.square(view) for _, _, view in window.views(padded))
    return rounded(total / counts, prod(window.kernel), np.sqrt(squares) / counts)


def _avg_pool_grad(call: Call) -> Result:
    x, dy = _four(call, 0, 2)
    window = _pool_window(call, x.shape, dy.shape, 3)
    counts = _counts(call, window, x.shape)
    size = np.sqrt(_spread(window, np.square(dy / counts), x.shape))
    return rounded(_spread(window, dy / counts, x.shape), prod(window.kernel), size)


DEFINITIONS: Mapping[str, Definition] = {
    **dict.fromkeys(("MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2"), _matmul),
    "Conv2D": _conv2d,
    **dict.fromkeys(("Conv2DBackpropInput", "Conv2DTranspose", "Conv2DTransposeD"), _conv2d_input),
    "Conv2DBackpropFilter": _conv2d_filter,
    **dict.fromkeys(("MaxPool", "MaxPoolV2"), _max_pool),
    "MaxPoolGrad": _max_pool_grad,
    "AvgPool": _avg_pool,
    "AvgPoolGrad": _avg_pool_grad,
}

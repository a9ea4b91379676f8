"""Each definition of an operator gives what PyTorch's double-precision kernel gives, gradients what autograd gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402, N812

from pytest_msdump.capabilities.kernels.operators import definitions  # noqa: E402
from pytest_msdump.capabilities.kernels.operators.definition import Call, Result  # noqa: E402
from pytest_msdump.core.model.tensor import TensorSpec  # noqa: E402

pytestmark = pytest.mark.live

KNOWN = definitions()
# Of the sum of absolute terms.
CLOSE = 1e-12


class Case(NamedTuple):
    """Inputs and attributes of a call, and its outputs by PyTorch; ``None`` for what is not judged."""

    inputs: Sequence[Any]
    expected: Sequence[Any]
    attributes: Mapping[str, str] = MappingProxyType({})


class Draw:
    """Draws sizes, choices and tensors of one example."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.random = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31), label="seed"))

    def size(self, low: int = 1, high: int = 5) -> int:
        return self.data.draw(st.integers(low, high))

    def one(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(self.size(low, high)))

    def normal(self, *shape: int, grad: bool = False) -> Any:
        return torch.randn(shape, generator=self.random, dtype=torch.float64).requires_grad_(grad)

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        return low + (high - low) * torch.rand(shape, generator=self.random, dtype=torch.float64)

    def whole(self, high: int, *shape: int) -> Any:
        return torch.randint(0, high, shape, generator=self.random)


Row = Callable[[Draw], Case]


def backward(draw: Draw, y: Any) -> Any:
    """Go back from `y` with gradients that are drawn, and return them."""
    dy = draw.normal(*y.shape)
    y.backward(dy)
    return dy


def unary(function: Callable[[Any], Any], low: float = -4, high: float = 4) -> Row:
    def row(draw: Draw) -> Case:
        x = draw.uniform(low, high, *draw.shape())
        return Case([x], [function(x)])

    return row


def binary(function: Callable[[Any, Any], Any], low: float = -4) -> Row:
    def row(draw: Draw) -> Case:
        shape = draw.shape()
        other = tuple(draw.one(size, 1) for size in shape[draw.size(0, len(shape)) :])
        left, right = draw.uniform(low, 4, *shape), draw.uniform(low, 4, *other)
        if draw.one(True, False) and left.shape == right.shape:
            right = left.clone()
        return Case([left, right], [function(left, right)])

    return row


def gradient(function: Callable[[Any], Any], order: str, low: float = -6, high: float = 6) -> Row:
    """Rows whose kernels take some of dy, x and y in this order."""

    def row(draw: Draw) -> Case:
        x = draw.uniform(low, high, *draw.shape()).requires_grad_()
        y = function(x)
        dy = backward(draw, y)
        return Case([{"d": dy, "x": x, "y": y}[letter] for letter in order], [x.grad])

    return row


def add_n(draw: Draw) -> Case:
    shape = draw.shape()
    parts = [draw.normal(*shape) for _ in range(draw.size())]
    return Case(parts, [sum(parts)])


def bias_add(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(2))
    bias = draw.normal(x.shape[1])
    return Case([x, bias, None], [x + bias.reshape(-1, *[1] * (x.ndim - 2))], {"operand 2": "I64(0)"})


def bias_add_grad(draw: Draw) -> Case:
    dy = draw.normal(*draw.shape(2))
    return Case([dy], [dy.sum([axis for axis in range(dy.ndim) if axis != 1])])


def select(draw: Draw) -> Case:
    shape = draw.shape()
    mask, one, other = draw.whole(2, *shape).bool(), draw.normal(*shape), draw.normal(*shape)
    return Case([mask, one, other], [torch.where(mask, one, other)])


def masked_fill(draw: Draw) -> Case:
    x, value = draw.normal(*draw.shape()), draw.normal()
    mask = draw.whole(2, *x.shape).bool()
    return Case([x, mask, value], [x.masked_fill(mask, value)])


def cast(draw: Draw) -> Case:
    x, kind = draw.normal(*draw.shape()) * 10, draw.one(torch.float16, torch.float32, torch.int32, torch.bool)
    return Case([x], [x.to(kind)])


def clip(draw: Draw) -> Case:
    x, low, high = draw.normal(*draw.shape()), -draw.uniform(0, 1), draw.uniform(0, 1)
    return Case([x, low, high], [x.clamp(low, high)])


def fill(draw: Draw) -> Case:
    shape, value = draw.shape(1), draw.normal()
    return Case([torch.tensor(shape), value], [torch.full(shape, float(value), dtype=torch.float64)])


def elu(draw: Draw) -> Case:
    x, alpha = draw.normal(*draw.shape()) * 3, draw.one(1.0, 0.5)
    return Case([x], [F.elu(x, alpha)], {"alpha": f"F32({alpha})"})


def leaky(draw: Draw) -> Case:
    x, slope = draw.normal(*draw.shape()), draw.one(0.5, 0.25)
    return Case([x], [F.leaky_relu(x, slope)], {"negative_slope": f"F32({slope})"})


def prelu(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(2))
    weight = draw.normal(draw.one(1, x.shape[1]))
    return Case([x, weight], [F.prelu(x, weight)])


def power(draw: Draw) -> Case:
    x, exponent = draw.uniform(0.1, 4, *draw.shape()), draw.uniform(-3, 3)
    return Case([x, exponent], [x**exponent])


# -- products and windows ----------------------------------------------------------------------------------------------


def matmul(stacked: bool) -> Row:
    def row(draw: Draw) -> Case:
        m, k, n = draw.size(), draw.size(1, 40), draw.size()
        stack = tuple(draw.size(1, 3) for _ in range(draw.size(1, 2))) if stacked else ()
        a, b = draw.one(False, True), draw.one(False, True)
        left = draw.normal(*stack, *((k, m) if a else (m, k)))
        right = draw.normal(*stack, *((n, k) if b else (k, n)))
        expected = (left.mT if a else left) @ (right.mT if b else right)
        attributes = {"operand 2": f"Bool({int(a)})", "operand 3": f"Bool({int(b)})"}
        if draw.one(True, False):
            attributes = {"transpose_a": str(a).lower(), "transpose_b": str(b).lower()}
        return Case([left, right], [expected], attributes)

    return row


def conv2d(draw: Draw) -> Case:
    groups = draw.one(1, 2, 3)
    kernel, stride, dilation = ((draw.size(1, 3), draw.size(1, 3)) for _ in range(3))
    pad = draw.size(0, 2), draw.size(0, 2)
    sizes = [max(1, (k - 1) * d + 1 - 2 * p) + draw.size(0, 6) for k, d, p in zip(kernel, dilation, pad, strict=True)]
    x = draw.normal(draw.size(1, 3), groups * draw.size(1, 2), *sizes, grad=True)
    w = draw.normal(groups * draw.size(1, 2), x.shape[1] // groups, *kernel, grad=True)
    attributes = {
        "stride": f"(1, 1, {stride[0]}, {stride[1]})",
        "dilation": f"(I64(1), I64(1), I64({dilation[0]}), I64({dilation[1]}))",
        "pad_list": f"({pad[0]}, {pad[0]}, {pad[1]}, {pad[1]})",
        "pad_mode": draw.one('"pad"', "I64(0)"),
        "group": f"I64({groups})",
        "format": '"NCHW"',
    }
    return Case([x, w], [F.conv2d(x, w, None, stride, pad, dilation, groups)], attributes)


def conv2d_input(draw: Draw) -> Case:
    case = conv2d(draw)
    x, w = case.inputs
    dy = backward(draw, case.expected[0])
    return Case([dy, w, None], [x.grad], case.attributes)


def conv2d_filter(draw: Draw) -> Case:
    case = conv2d(draw)
    x, w = case.inputs
    dy = backward(draw, case.expected[0])
    return Case([dy, x, None], [w.grad], case.attributes)


def pooling(draw: Draw) -> tuple[Any, tuple[int, int], tuple[int, int]]:
    kernel, stride = ((draw.size(1, 3), draw.size(1, 3)) for _ in range(2))
    sizes = [k + draw.size(0, 6) for k in kernel]
    return draw.normal(draw.size(1, 3), draw.size(1, 3), *sizes, grad=True), kernel, stride


def max_pool(draw: Draw) -> Case:
    x, kernel, stride = pooling(draw)
    attributes = {
        "kernel_size": f"(1, 1, {kernel[0]}, {kernel[1]})",
        "strides": f"(1, 1, {stride[0]}, {stride[1]})",
        "pad_mode": '"VALID"',
    }
    return Case([x], [F.max_pool2d(x, kernel, stride)], attributes)


def max_pool_grad(draw: Draw) -> Case:
    case = max_pool(draw)
    x, y = case.inputs[0], case.expected[0]
    dy = backward(draw, y)
    return Case([x, y, dy], [x.grad], case.attributes)


def avg_pool(draw: Draw, first: int = 1) -> Case:
    x, kernel, stride = pooling(draw)
    words = (f"(I64({kernel[0]}), I64({kernel[1]}))", f"(I64({stride[0]}), I64({stride[1]}))", "I64(2)", "I64(0)")
    attributes = {f"operand {first + place}": word for place, word in enumerate(words)}
    return Case([x], [F.avg_pool2d(x, kernel, stride)], attributes)


def avg_pool_grad(draw: Draw) -> Case:
    case = avg_pool(draw, 3)
    x, y = case.inputs[0], case.expected[0]
    dy = backward(draw, y)
    return Case([x, y, dy], [x.grad], case.attributes)


# -- normalisations, losses --------------------------------------------------------------------------------------------


def batch_norm(draw: Draw) -> Case:
    shape = draw.size(2, 4), draw.size(1, 4), *(draw.size() for _ in range(draw.one(0, 2)))
    x, channels = draw.normal(*shape, grad=True), shape[1]
    gamma, beta = draw.normal(channels, grad=True), draw.normal(channels, grad=True)
    mean, var = draw.normal(channels), draw.uniform(0.5, 2, channels)
    training, eps = draw.one(True, False), draw.one(1e-5, 1e-3)
    y = F.batch_norm(x, mean.clone(), var.clone(), gamma, beta, training, 0.1, eps)
    return Case([x, gamma, beta, mean, var], [y], {"is_training": f"Bool({int(training)})", "epsilon": str(eps)})


def batch_norm_grad(draw: Draw) -> Case:
    case = batch_norm(draw)
    x, gamma, beta, mean, var = case.inputs
    dy = backward(draw, case.expected[0])
    return Case([dy, x, gamma, mean, var, None], [x.grad, gamma.grad, beta.grad], case.attributes)


def layer_norm(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(2), draw.size(2, 6))
    begin = draw.size(1, x.ndim - 1)
    shape, eps = x.shape[begin:], draw.one(1e-5, 1e-7)
    gamma, beta = draw.normal(*shape), draw.normal(*shape)
    y, mean, _ = torch.native_layer_norm(x, shape, gamma, beta, eps)
    attributes = {"operand 3": f"I64({begin})", "operand 4": f"I64({begin - x.ndim})", "operand 5": f"F64({eps})"}
    return Case([x, gamma, beta], [y, mean], attributes)


def layer_norm_grad(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(2), draw.size(2, 6), grad=True)
    begin = draw.size(1, x.ndim - 1)
    shape, eps = x.shape[begin:], draw.one(1e-5, 1e-7)
    gamma, beta = draw.normal(*shape, grad=True), draw.normal(*shape, grad=True)
    y = F.layer_norm(x, shape, gamma, beta, eps)
    dy = backward(draw, y)
    attributes = {"begin_norm_axis": str(begin), "begin_params_axis": str(begin), "epsilon": str(eps)}
    return Case([x, dy, None, None, gamma], [x.grad, gamma.grad, beta.grad], attributes)


def rms_norm(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1), draw.size(2, 6), grad=True)
    gamma = draw.normal(x.shape[-1], grad=True)
    inverse = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    return Case([x, gamma], [F.rms_norm(x, (x.shape[-1],), gamma, 1e-6), inverse], {"epsilon": "1e-06"})


def rms_norm_grad(draw: Draw) -> Case:
    case = rms_norm(draw)
    (x, gamma), (y, inverse) = case.inputs, case.expected
    dy = backward(draw, y)
    return Case([dy, x, inverse, gamma], [x.grad, gamma.grad])


def group_norm_parts(draw: Draw) -> tuple[int, Any, Any, Any, Any, Any, Any]:
    groups = draw.size(1, 3)
    x = draw.normal(draw.size(1, 3), groups * draw.size(1, 2), draw.size(2, 4), draw.size(2, 4), grad=True)
    gamma, beta = draw.normal(x.shape[1], grad=True), draw.normal(x.shape[1], grad=True)
    grouped = x.reshape(len(x), groups, -1)
    inverse = torch.rsqrt(grouped.var(-1, correction=0) + 1e-5)
    return groups, x, gamma, beta, grouped.mean(-1), inverse, F.group_norm(x, groups, gamma, beta, 1e-5)


def group_norm(draw: Draw) -> Case:
    groups, x, gamma, beta, mean, _, y = group_norm_parts(draw)
    return Case([x, None, gamma, beta], [y, mean], {"operand 1": f"I64({groups})", "eps": "1e-05"})


def group_norm_grad(draw: Draw) -> Case:
    groups, x, gamma, beta, mean, inverse, y = group_norm_parts(draw)
    dy = backward(draw, y)
    return Case([dy, x, mean, inverse, gamma], [x.grad, gamma.grad, beta.grad], {"num_groups": str(groups)})


def softmax(function: Callable[..., Any]) -> Row:
    def row(draw: Draw) -> Case:
        x = draw.normal(*draw.shape(1)) * 5
        axis = draw.size(-x.ndim, x.ndim - 1)
        attributes = {draw.one("operand 1", "axis"): f"(I64({axis}))"}
        return Case([x], [function(x, axis)], attributes)

    return row


def softmax_grad(function: Callable[..., Any]) -> Row:
    def row(draw: Draw) -> Case:
        x = draw.normal(*draw.shape(1)).requires_grad_()
        y = function(x, -1)
        dy = backward(draw, y)
        return Case([y, dy], [x.grad])

    return row


def sparse_cross_entropy(draw: Draw) -> Case:
    x = draw.normal(draw.size(), draw.size(2, 6), grad=True)
    labels, grad = draw.whole(x.shape[1], len(x)), draw.one(True, False)
    loss = F.cross_entropy(x, labels)
    loss.backward()
    return Case([x, labels], [x.grad if grad else loss], {"is_grad": f"Bool({int(grad)})", "sens": "F32(1)"})


def cross_entropy(draw: Draw) -> Case:
    x = draw.normal(draw.size(), draw.size(2, 6), grad=True)
    labels = torch.softmax(draw.normal(*x.shape), 1)
    loss = F.cross_entropy(x, labels, reduction="none")
    loss.sum().backward()
    return Case([x, labels], [loss, x.grad])


REDUCTIONS = ("none", "mean", "sum")


def smooth_l1(draw: Draw) -> Case:
    x, beta, how = draw.normal(*draw.shape(1)), draw.one(1.0, 0.5), draw.one(*REDUCTIONS)
    target = draw.normal(*x.shape)
    return Case(
        [x, target], [F.smooth_l1_loss(x, target, reduction=how, beta=beta)], {"beta": str(beta), "reduction": how}
    )


def smooth_l1_grad(draw: Draw) -> Case:
    x, beta = draw.normal(*draw.shape(1)).requires_grad_(), draw.one(1.0, 0.5)
    target, dy = draw.normal(*x.shape), draw.normal(*x.shape)
    F.smooth_l1_loss(x, target, reduction="none", beta=beta).backward(dy)
    return Case([x, target, dy], [x.grad], {"operand 3": f"F32({beta})", "operand 4": "I64(2)"})


def bce(draw: Draw) -> Case:
    x, how = draw.normal(*draw.shape(1)), draw.one(*REDUCTIONS)
    target, weight, positive = (draw.uniform(0, 1, *x.shape) for _ in range(3))
    expected = F.binary_cross_entropy_with_logits(x, target, weight, reduction=how, pos_weight=positive)
    return Case([x, target, weight, positive], [expected], {"reduction": how})


def nll(draw: Draw) -> Case:
    log = torch.log_softmax(draw.normal(draw.size(), draw.size(2, 6)), 1)
    labels, weight, how = draw.whole(log.shape[1], len(log)), draw.uniform(0.5, 1, log.shape[1]), draw.one(*REDUCTIONS)
    return Case([log, labels, weight], [F.nll_loss(log, labels, weight, reduction=how), None], {"reduction": how})


def dropout(draw: Draw) -> Case:
    x = draw.normal(*draw.shape())
    return Case([x], [F.dropout(x, 0.0)], {"keep_prob": "F32(1)"})


# -- moves and reductions ----------------------------------------------------------------------------------------------


def view(draw: Draw) -> Case:
    x = draw.normal(*draw.shape())
    return Case([x], [x.reshape(draw.one((-1,), (1, x.numel(), 1)))])


def transpose(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1))
    axes = draw.data.draw(st.permutations(range(x.ndim)))
    return Case([x], [x.permute(axes)], {"operand 1": f"({', '.join(f'I64({axis})' for axis in axes)})"})


def concat(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis = draw.size(0, len(shape) - 1)
    parts = [draw.normal(*shape[:axis], draw.size(), *shape[axis + 1 :]) for _ in range(draw.size(1, 3))]
    attributes = draw.one({f"operand {len(parts)}": f"I64({axis})"}, {"axis": f"I64({axis})"})
    return Case(parts, [torch.cat(parts, axis)], attributes)


def stack(draw: Draw) -> Case:
    shape = draw.shape()
    parts, axis = [draw.normal(*shape) for _ in range(draw.size(1, 3))], draw.size(0, len(shape))
    return Case(parts, [torch.stack(parts, axis)], {"axis": str(axis), "num": str(len(parts))})


def unstack(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1))
    axis = draw.size(0, x.ndim - 1)
    return Case([x], torch.unbind(x, axis), {"axis": str(axis)})


def split(draw: Draw) -> Case:
    shape, parts = draw.shape(1), draw.size(1, 3)
    axis = draw.size(0, len(shape) - 1)
    x = draw.normal(*shape[:axis], shape[axis] * parts, *shape[axis + 1 :])
    return Case([x], x.chunk(parts, axis), {"operand 1": f"I64({axis})", "operand 2": f"I64({parts})"})


def slice_(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1))
    begin = [draw.size(0, size - 1) for size in x.shape]
    size = [draw.size(1, whole - b) for whole, b in zip(x.shape, begin, strict=True)]
    found = x
    for axis, (b, n) in enumerate(zip(begin, size, strict=True)):
        found = found.narrow(axis, b, n)
    return Case([x, torch.tensor(begin), torch.tensor(size)], [found])


def strided(draw: Draw, first: int) -> tuple[Any, Any, dict[str, str]]:
    x = draw.normal(*draw.shape(1)).requires_grad_()
    begin = [draw.size(0, size - 1) for size in x.shape]
    end = [draw.size(b + 1, size) for b, size in zip(begin, x.shape, strict=True)]
    step, shrink, open_ = [draw.size(1, 2) for _ in begin], draw.size(0, 2**x.ndim - 1), draw.size(0, 2**x.ndim - 1)
    index: list[Any] = []
    for n, (b, e, s) in enumerate(zip(begin, end, step, strict=True)):
        index.append(b if shrink >> n & 1 else slice(b, None if open_ >> n & 1 else e, s))
    attributes = {
        f"operand {first + n}": f"({', '.join(f'I64({one})' for one in row)})"
        for n, row in enumerate((begin, end, step))
    }
    masks = {"begin_mask": 0, "end_mask": open_, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": shrink}
    return x, x[tuple(index)], attributes | {name: f"I64({mask})" for name, mask in masks.items()}


def strided_slice(draw: Draw) -> Case:
    x, y, attributes = strided(draw, 1)
    return Case([x], [y], attributes)


def strided_slice_grad(draw: Draw) -> Case:
    x, y, attributes = strided(draw, 2)
    dy = backward(draw, y)
    return Case([dy, None], [x.grad], attributes)


def tile(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1))
    times = [draw.size(1, 3) for _ in range(x.ndim + draw.size(0, 1))]
    return Case([x, torch.tensor(times)], [x.tile(times)])


def broadcast(draw: Draw) -> Case:
    shape = draw.shape(1)
    x = draw.normal(*(draw.one(size, 1) for size in shape))
    return Case([x], [x.broadcast_to(shape)])


def pad(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1))
    pads = [(draw.size(0, 2), draw.size(0, 2)) for _ in range(x.ndim)]
    expected = F.pad(x, [size for pair in reversed(pads) for size in pair])
    return Case([x], [expected], {"paddings": str(tuple(pads))})


def gather(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1))
    axis = draw.size(0, x.ndim - 1)
    rows = draw.whole(x.shape[axis], *draw.shape(0, 2))
    expected = torch.index_select(x, axis, rows.reshape(-1))
    expected = expected.reshape((*x.shape[:axis], *rows.shape, *x.shape[axis + 1 :]))
    return Case([x, rows, None], [expected], {"operand 2": f"I64({axis})", "batch_dims": "I64(0)"})


def gather_d(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1)).requires_grad_()
    axis = draw.size(0, x.ndim - 1)
    rows = draw.whole(x.shape[axis], *x.shape[:axis], draw.size(), *x.shape[axis + 1 :])
    return Case([x, None, rows], [x.gather(axis, rows)], {"operand 1": f"I64({axis})"})


def gather_d_grad(draw: Draw) -> Case:
    case = gather_d(draw)
    x, y = case.inputs[0], case.expected[0]
    dy = backward(draw, y)
    return Case([x, None, case.inputs[2], dy], [x.grad], case.attributes)


def segment_sum(draw: Draw) -> Case:
    rows, count = draw.size(1, 8), draw.size()
    x, ids = draw.normal(rows, *draw.shape(0, 2)), draw.whole(count, rows)
    return Case([x, ids], [torch.zeros(count, *x.shape[1:], dtype=torch.float64).index_add(0, ids, x)])


def one_hot(draw: Draw) -> Case:
    depth = draw.size()
    indices, on, off = draw.whole(depth, *draw.shape(1, 3)), draw.normal(), draw.normal()
    chosen = F.one_hot(indices, depth).bool()
    return Case([indices, None, on, off], [torch.where(chosen, on, off)], {"depth": str(depth)})


def reduction(function: Callable[..., Any], *, whole: bool = False) -> Row:
    def row(draw: Draw) -> Case:
        shape = draw.shape(1)
        x = draw.whole(2, *shape).bool() if whole else draw.normal(*shape)
        axes = tuple(sorted({draw.size(0, x.ndim - 1) for _ in range(draw.size(1, 3))}))
        keep = draw.one(True, False)
        written = f"({', '.join(f'I64({axis})' for axis in axes)})"
        return Case([x], [function(x, axes, keep)], {"operand 1": written, "operand 2": f"Bool({int(keep)})"})

    return row


def arg(function: Callable[..., Any]) -> Row:
    def row(draw: Draw) -> Case:
        x = draw.normal(*draw.shape(1))
        return Case([x], [function(x, -1)], {"axis": "I64(-1)"})

    return row


def cumsum(draw: Draw) -> Case:
    x = draw.normal(*draw.shape(1))
    axis = draw.size(0, x.ndim - 1)
    return Case([x], [x.cumsum(axis)], {"axis": str(axis)})


# -- optimizers --------------------------------------------------------------------------------------------------------


def stepped(draw: Draw, kind: Callable[..., Any], steps: int, **options: Any) -> tuple[Any, Any, Any, Any]:
    """Take some steps of an optimizer; return weight and state before the last, its gradient, and both after it."""
    weight = draw.normal(*draw.shape(1)).requires_grad_()
    optimizer = kind([weight], **options)
    before: Any = {}
    for _ in range(steps):
        before = {name: one.clone() for name, one in optimizer.state.get(weight, {}).items() if torch.is_tensor(one)}
        old, weight.grad = weight.detach().clone(), draw.normal(*weight.shape)
        optimizer.step()
    return old, before, weight.grad, (weight.detach(), optimizer.state.get(weight, {}))


def momentum(draw: Draw) -> Case:
    nesterov = draw.one(True, False)
    old, before, grad, (weight, state) = stepped(draw, torch.optim.SGD, 3, lr=0.125, momentum=0.875, nesterov=nesterov)
    inputs = [old, before["momentum_buffer"], torch.tensor(0.125), grad, torch.tensor(0.875)]
    return Case(inputs, [weight, state["momentum_buffer"]], {"use_nesterov": f"Bool({int(nesterov)})"})


def sgd(draw: Draw) -> Case:
    nesterov = draw.one(True, False)
    old, before, grad, (weight, _) = stepped(
        draw, torch.optim.SGD, 3, lr=0.125, momentum=0.875, nesterov=nesterov, weight_decay=0.25
    )
    begun = torch.zeros_like(old)
    inputs = [old, grad, torch.tensor(0.125), before["momentum_buffer"], torch.tensor(0.875), begun]
    return Case(
        inputs, [weight], {"nesterov": f"Bool({int(nesterov)})", "weight_decay": "F32(0.25)", "dampening": "F32(0)"}
    )


def plain_sgd(draw: Draw) -> Case:
    old, _, grad, (weight, _) = stepped(draw, torch.optim.SGD, 1, lr=0.125)
    return Case([old, torch.tensor(0.125), grad], [weight])


def adam(draw: Draw) -> Case:
    # MindSpore divides by √v + ε before the correction, PyTorch after it: alike where ε is 0.
    steps = draw.size(2, 4)
    old, before, grad, (weight, state) = stepped(draw, torch.optim.Adam, steps, lr=0.125, betas=(0.875, 0.75), eps=0)
    powers = [torch.tensor(beta**steps, dtype=torch.float64) for beta in (0.875, 0.75)]
    settings_ = [torch.tensor(one, dtype=torch.float64) for one in (0.125, 0.875, 0.75, 0.0)]
    inputs = [old, before["exp_avg"], before["exp_avg_sq"], *powers, *settings_, grad]
    return Case(inputs, [weight, state["exp_avg"], state["exp_avg_sq"]])


def adam_weight_decay(draw: Draw) -> Case:
    shape = draw.shape(1)
    weight, m, v, grad = draw.normal(*shape), draw.normal(*shape), draw.uniform(0.1, 1, *shape), draw.normal(*shape)
    new_m, new_v = torch.lerp(grad, m, 0.875), torch.lerp(grad * grad, v, 0.75)
    new = torch.addcdiv(weight * (1 - 0.125 * 0.5), new_m, new_v.sqrt() + 0.25, value=-0.125)
    settings_ = [torch.tensor(one, dtype=torch.float64) for one in (0.125, 0.875, 0.75, 0.25, 0.5)]
    return Case([weight, m, v, *settings_, grad], [new, new_m, new_v])


def rms_prop(draw: Draw) -> Case:
    # MindSpore adds ε under the root, PyTorch outside: alike where it is 0.
    old, before, grad, (weight, _) = stepped(draw, torch.optim.RMSprop, 3, lr=0.125, alpha=0.75, momentum=0.5, eps=0)
    settings_ = [torch.tensor(one, dtype=torch.float64) for one in (0.125, 0.75, 0.5, 0.0)]
    # The buffer of PyTorch has no learning rate in it.
    inputs = [old, before["square_avg"], before["momentum_buffer"] * 0.125, settings_[0], grad, *settings_[1:]]
    return Case(inputs, [weight])


def assign(draw: Draw) -> Case:
    before, value = draw.normal(3, 2), draw.normal(3, 2)
    return Case([before, value], [value])


GELU = {"approximate": "tanh"}
PLAIN = "Abs Ceil Cos Erf Exp Expm1 Floor Neg Sigmoid Sign Sin Square Tanh"
POSITIVE = "Log Reciprocal Rsqrt Sqrt"
PAIRED = "Add Eq Ge Gt Le Logical_And Logical_Or Lt Maximum Minimum Mul Ne Sub"
RENAMED = {"Eq": "Equal", "Ge": "GreaterEqual", "Gt": "Greater", "Le": "LessEqual", "Lt": "Less", "Ne": "NotEqual"}
ROWS: dict[str, Row] = {
    **{name: unary(getattr(torch, name.lower())) for name in PLAIN.split()},
    **{name: unary(getattr(torch, name.lower()), 0.1) for name in POSITIVE.split()},
    **{RENAMED.get(name, name.replace("_", "")): binary(getattr(torch, name.lower())) for name in PAIRED.split()},
    "Adam": adam,
    "AdamWeightDecay": adam_weight_decay,
    "AddN": add_n,
    "ApplyGradientDescent": plain_sgd,
    "ApplyMomentum": momentum,
    "ApplyRMSProp": rms_prop,
    "Argmax": arg(torch.argmax),
    "Argmin": arg(torch.argmin),
    "Assign": assign,
    "AssignAdd": binary(torch.add),
    "AssignSub": binary(torch.sub),
    "AvgPool": avg_pool,
    "AvgPoolGrad": avg_pool_grad,
    "BCEWithLogitsLoss": bce,
    "BatchMatMul": matmul(stacked=True),
    "BatchNorm": batch_norm,
    "BatchNormGrad": batch_norm_grad,
    "BiasAdd": bias_add,
    "BiasAddGrad": bias_add_grad,
    "BroadcastTo": broadcast,
    "Cast": cast,
    "Clip": clip,
    "Concat": concat,
    "Conv2D": conv2d,
    "Conv2DBackpropFilter": conv2d_filter,
    "Conv2DBackpropInput": conv2d_input,
    "CumSum": cumsum,
    "Div": binary(torch.div, 0.1),
    "Dropout": dropout,
    "Elu": elu,
    "EluGrad": gradient(F.elu, "dy"),
    "FillV2": fill,
    "Gather": gather,
    "GatherD": gather_d,
    "GatherDGradV2": gather_d_grad,
    "GeLU": unary(lambda x: F.gelu(x, **GELU)),
    "GeLUGrad": gradient(lambda x: F.gelu(x, **GELU), "dxy"),
    "GroupNorm": group_norm,
    "GroupNormGrad": group_norm_grad,
    "HSigmoid": unary(F.hardsigmoid),
    # PyTorch's own kernel has 1/6 in single precision.
    "HSigmoidGrad": gradient(lambda x: torch.clamp(x + 3, 0, 6) / 6, "dx"),
    "HSwish": unary(F.hardswish),
    "HSwishGrad": gradient(F.hardswish, "dx"),
    "Identity": unary(torch.clone),
    "LayerNorm": layer_norm,
    "LayerNormGrad": layer_norm_grad,
    "LeakyReLU": leaky,
    "Log1p": unary(torch.log1p, -0.9),
    "LogSoftmax": softmax(torch.log_softmax),
    "LogSoftmaxGrad": softmax_grad(torch.log_softmax),
    "LogicalNot": unary(torch.logical_not),
    "MaskedFill": masked_fill,
    "MatMul": matmul(stacked=False),
    "MaxPool": max_pool,
    "MaxPoolGrad": max_pool_grad,
    "NLLLoss": nll,
    "OneHot": one_hot,
    "OnesLike": unary(torch.ones_like),
    "PReLU": prelu,
    "Pad": pad,
    "Pow": power,
    "ReLU": unary(torch.relu),
    "ReLU6": unary(F.relu6, -8, 8),
    "ReLU6Grad": gradient(F.relu6, "dx", -8, 8),
    "ReduceAll": reduction(lambda x, axes, keep: torch.all(x, axes, keep), whole=True),
    "ReduceAny": reduction(lambda x, axes, keep: torch.any(x, axes, keep), whole=True),
    "ReduceMax": reduction(torch.amax),
    "ReduceMean": reduction(torch.mean),
    "ReduceMin": reduction(torch.amin),
    "ReduceSum": reduction(torch.sum),
    "ReluGrad": gradient(torch.relu, "dy"),
    "Reshape": view,
    "RmsNorm": rms_norm,
    "RmsNormGrad": rms_norm_grad,
    "RsqrtGrad": gradient(torch.rsqrt, "yd", 0.1),
    "SGD": sgd,
    "Select": select,
    "SiLU": unary(F.silu),
    "SiLUGrad": gradient(F.silu, "dx"),
    "SigmoidGrad": gradient(torch.sigmoid, "yd"),
    "Slice": slice_,
    "SmoothL1Loss": smooth_l1,
    "SmoothL1LossGrad": smooth_l1_grad,
    "Softmax": softmax(torch.softmax),
    "SoftmaxCrossEntropyWithLogits": cross_entropy,
    "SoftmaxGrad": softmax_grad(torch.softmax),
    "Softplus": unary(F.softplus),
    "SparseSoftmaxCrossEntropyWithLogits": sparse_cross_entropy,
    "Split": split,
    "SqrtGrad": gradient(torch.sqrt, "yd", 0.1),
    "Stack": stack,
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_grad,
    "TanhGrad": gradient(torch.tanh, "yd"),
    "Tile": tile,
    "Transpose": transpose,
    "UnsortedSegmentSum": segment_sum,
    "Unstack": unstack,
    "ZerosLike": unary(torch.zeros_like),
}


def array(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().numpy()


def test_every_definition_has_a_row() -> None:
    covered = {id(KNOWN[name]) for name in ROWS}
    assert [name for name, row in KNOWN.items() if id(row) not in covered] == []


@pytest.mark.parametrize("op_type", ROWS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_definition_is_what_a_double_precision_kernel_computes(op_type: str, data: st.DataObject) -> None:
    case = ROWS[op_type](Draw(data))
    expected = [array(one) for one in case.expected]
    inputs = [array(one) for one in case.inputs]
    before = [None if one is None else one.copy() for one in inputs]
    specs = [None if one is None else TensorSpec(one.dtype.name, one.shape) for one in expected]
    found = KNOWN[op_type](Call(op_type, inputs, case.attributes, specs))
    results = [found] if isinstance(found, Result) else found
    assert len(results) <= len(expected)
    for result, wanted in zip(results, expected, strict=False):
        if wanted is None:
            continue
        assert result is not None
        assert result.value.shape == wanted.shape
        if result.scale is None:
            np.testing.assert_array_equal(result.value.astype(wanted.dtype), wanted)
        else:
            assert (np.abs(result.value - wanted) <= CLOSE * (result.scale + np.abs(wanted)) + 1e-300).all()
    for one, same in zip(inputs, before, strict=True):
        assert one is None or np.array_equal(one, same)

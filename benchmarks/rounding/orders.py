"""Other orders of sums and other formulas of the same operators, put under a whole run, its backward pass included.

Each is what another device, library or compiler may do, and none is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import e, log2
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["ORDERS", "order"]

aten = torch.ops.aten
Function = Callable[..., Any]


class order(TorchDispatchMode):  # noqa: N801 - used as `with order("reversed"):`
    """Compute operators of PyTorch in the way of this name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.table = ORDERS[name]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call what stands in the table for an operator, or the operator itself."""
        other = self.table.get(function)
        return other(function, *args, **kwargs or {}) if other else function(*args, **kwargs or {})


def _dims(x: torch.Tensor, dims: Any) -> list[int]:
    return list(dims) if dims else list(range(x.ndim))


def _spatial(x: torch.Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]


# -- reversed: every sum from its end ------------------------------------------------------------------------------


def _mm(function: Function, a: Any, b: Any) -> Any:
    return function(a.flip(-1), b.flip(-2))


def _addmm(function: Function, bias: Any, a: Any, b: Any, **options: Any) -> Any:
    return function(bias, a.flip(-1), b.flip(-2), **options)


def _convolution(function: Function, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    transposed, groups = rest[3], rest[5]
    if groups != 1:
        return function(x, weight, bias, *rest)
    return function(x.flip(1), weight.flip(0 if transposed else 1), bias, *rest)


def _convolution_backward(function: Function, grad: Any, x: Any, weight: Any, sizes: Any, *rest: Any) -> Any:
    *rest, mask = rest
    transposed, groups = rest[3], rest[5]
    to_x = to_weight = to_bias = None
    if mask[0]:
        turned = (grad.flip(1), weight.flip(1 if transposed else 0)) if groups == 1 else (grad, weight)
        to_x = function(turned[0], x, turned[1], sizes, *rest, [True, False, False])[0]
    if mask[1]:
        to_weight = function(grad.flip(0), x.flip(0), weight, sizes, *rest, [False, True, False])[1]
    if mask[2]:
        to_bias = grad.flip(_spatial(grad)).sum(_spatial(grad))
    return to_x, to_weight, to_bias


def _sum(function: Function, x: Any, dims: Any, *rest: Any, **options: Any) -> Any:
    return function(x.flip(_dims(x, dims)), dims, *rest, **options)


def _layer_norm(function: Function, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    flipped = [None if one is None else one.flip(-1) for one in (weight, bias)]
    out, *rest = function(x.flip(-1), shape, *flipped, eps)
    return out.flip(-1), *rest


def _layer_norm_backward(function: Function, grad: Any, x: Any, shape: Any, mean: Any, rstd: Any, *rest: Any) -> Any:
    to_x, *others = function(grad.flip(0), x.flip(0), shape, mean.flip(0), rstd.flip(0), *rest)
    return to_x.flip(0), *others


def _batch_norm(function: Function, x: Any, *rest: Any) -> Any:
    out, *others = function(x.flip(_spatial(x)), *rest)
    return out.flip(_spatial(x)), *others


def _batch_norm_backward(function: Function, grad: Any, x: Any, *rest: Any) -> Any:
    to_x, *others = function(grad.flip(_spatial(x)), x.flip(_spatial(x)), *rest)
    return to_x.flip(_spatial(x)), *others


def _softmax(function: Function, x: Any, dim: int, *rest: Any) -> Any:
    return function(x.flip(dim), dim, *rest).flip(dim)


def _softmax_backward(function: Function, grad: Any, out: Any, dim: int, *rest: Any) -> Any:
    return function(grad.flip(dim), out.flip(dim), dim, *rest).flip(dim)


def _embedding_backward(function: Function, grad: Any, words: Any, *rest: Any) -> Any:
    return function(grad.reshape(-1, grad.shape[-1]).flip(0), words.reshape(-1).flip(0), *rest)


def _reversed() -> Mapping[Any, Function]:
    return {
        aten.mm.default: _mm,
        aten.bmm.default: _mm,
        aten.addmm.default: _addmm,
        aten.convolution.default: _convolution,
        aten.convolution_backward.default: _convolution_backward,
        aten.sum.dim_IntList: _sum,
        aten.mean.dim: _sum,
        aten.native_layer_norm.default: _layer_norm,
        aten.native_layer_norm_backward.default: _layer_norm_backward,
        aten.native_batch_norm.default: _batch_norm,
        aten.native_batch_norm_backward.default: _batch_norm_backward,
        aten._softmax.default: _softmax,
        aten._log_softmax.default: _softmax,
        aten._softmax_backward_data.default: _softmax_backward,
        aten._log_softmax_backward_data.default: _softmax_backward,
        aten.embedding_dense_backward.default: _embedding_backward,
    }


# -- split: sums in parts, as kernels with split-K do; each part is rounded to the type of the data ----------------


def _split(parts: int) -> Mapping[Any, Function]:
    def mm(function: Function, a: Any, b: Any) -> Any:
        return sum(map(function, a.chunk(parts, -1), b.chunk(parts, -2)))

    def addmm(_: Function, bias: Any, a: Any, b: Any) -> Any:
        return sum(map(torch.mm, a.chunk(parts, -1), b.chunk(parts, -2))) + bias

    def convolution(function: Function, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
        transposed, groups = rest[3], rest[5]
        if groups != 1:
            return function(x, weight, bias, *rest)
        weights = weight.chunk(parts, 0 if transposed else 1)
        out = sum(function(*both, None, *rest) for both in zip(x.chunk(parts, 1), weights, strict=True))
        return out if bias is None else out + bias.view(-1, *[1] * (x.ndim - 2))

    def backward(function: Function, grad: Any, x: Any, weight: Any, sizes: Any, *rest: Any) -> Any:
        *rest, mask = rest
        to_x = function(grad, x, weight, sizes, *rest, [mask[0], False, False])[0]
        to_weight = to_bias = None
        if mask[1]:
            batches = zip(grad.chunk(parts), x.chunk(parts), strict=True)
            to_weight = sum(function(*both, weight, sizes, *rest, [False, True, False])[1] for both in batches)
        if mask[2]:
            to_bias = sum(one.sum(_spatial(grad)) for one in grad.chunk(parts))
        return to_x, to_weight, to_bias

    def total(function: Function, x: Any, dims: Any, *rest: Any, **options: Any) -> Any:
        return sum(function(one, dims, *rest, **options) for one in x.chunk(parts, _dims(x, dims)[-1]))

    return {
        aten.mm.default: mm,
        aten.bmm.default: mm,
        aten.addmm.default: addmm,
        aten.convolution.default: convolution,
        aten.convolution_backward.default: backward,
        aten.sum.dim_IntList: total,
    }


# -- double: every operator rounded once, as by a better device ----------------------------------------------------


def _wide(function: Function, *args: Any, **options: Any) -> Any:
    """Compute in float64 and round to the type of the first tensor; what is changed in place is written back."""
    kept = next(one.dtype for one in args if isinstance(one, torch.Tensor) and one.is_floating_point())
    wide = [one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in args]
    found = function(*wide, **options)
    if function is aten.native_batch_norm.default and args[5]:
        for number in (3, 4):
            args[number].copy_(wide[number])
    several = isinstance(found, tuple)
    rounded = [one.to(kept) if isinstance(one, torch.Tensor) else one for one in (found if several else [found])]
    return tuple(rounded) if several else rounded[0]


def _double() -> Mapping[Any, Function]:
    further = (aten.gelu, aten.gelu_backward, aten.silu, aten.silu_backward, aten.sigmoid, aten.tanh, aten.rsqrt)
    return {**dict.fromkeys(_reversed(), _wide), **dict.fromkeys([one.default for one in further], _wide)}


# -- exp2: functions of a processor without exp and erf ------------------------------------------------------------


def _exp(x: torch.Tensor) -> torch.Tensor:
    return torch.exp2(x * log2(e))


def _erf(x: torch.Tensor) -> torch.Tensor:
    """Abramowitz and Stegun, 7.1.26: within 1.5e-7."""
    t = 1 / (1 + 0.3275911 * x.abs())
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return x.sign() * (1 - series * _exp(-x * x))


def _exp2() -> Mapping[Any, Function]:
    def softmax(_: Function, x: Any, dim: int, *__: Any) -> Any:
        powers = _exp(x - x.amax(dim, keepdim=True))
        return powers / powers.sum(dim, keepdim=True)

    def gelu(function: Function, x: Any, *, approximate: str = "none") -> Any:
        if approximate != "none":
            return function(x, approximate=approximate)
        return x * 0.5 * (1 + _erf(x * 0.5**0.5))

    return {
        aten._softmax.default: softmax,
        aten._safe_softmax.default: softmax,
        aten.exp.default: lambda _, x: _exp(x),
        aten.sigmoid.default: lambda _, x: 1 / (1 + _exp(-x)),
        aten.silu.default: lambda _, x: x / (1 + _exp(-x)),
        aten.tanh.default: lambda _, x: 1 - 2 / (_exp(2 * x) + 1),
        aten.gelu.default: gelu,
    }


# -- decomposed: what a compiler makes of an operator before it fuses ----------------------------------------------


def _decomposed() -> Mapping[Any, Function]:
    from torch._decomp import core_aten_decompositions

    def parts(decomposition: Function, _: Function, *args: Any, **options: Any) -> Any:
        return decomposition(*args, **options)

    table = core_aten_decompositions()
    named = ("native_layer_norm", "native_layer_norm_backward", "native_batch_norm", "native_batch_norm_backward")
    more = ("_softmax", "_log_softmax", "_softmax_backward_data", "gelu", "gelu_backward", "silu", "silu_backward")
    functions = [getattr(aten, name).default for name in (*named, *more)]
    return {one: partial(parts, table[one]) for one in functions if one in table}


# -- columns: convolutions as products of matrices; norms as one factor and one offset -----------------------------


def _columns() -> Mapping[Any, Function]:
    def convolution(function: Function, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
        stride, padding, dilation, transposed, _, groups = rest
        if transposed:
            return function(x, weight, bias, *rest)
        size = weight.shape[2:]
        columns = torch.nn.functional.unfold(x, size, dilation, padding, stride)
        columns = columns.view(len(x), groups, -1, columns.shape[-1])
        out = torch.matmul(weight.reshape(groups, len(weight) // groups, -1), columns)
        sides = [(x.shape[2 + n] + 2 * padding[n] - dilation[n] * (size[n] - 1) - 1) // stride[n] + 1 for n in (0, 1)]
        out = out.reshape(len(x), len(weight), *sides)
        return out if bias is None else out + bias.view(-1, 1, 1)

    def batch_norm(function: Function, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any) -> Any:
        _, *kept = function(x, weight, bias, mean, variance, *rest)
        if rest[0]:
            mean, deviation = kept
        else:
            deviation = torch.rsqrt(variance + rest[2])
        factor = weight * deviation
        shape = (-1, *[1] * (x.ndim - 2))
        return x * factor.view(shape) + (bias - mean * factor).view(shape), *kept

    return {aten.convolution.default: convolution, aten.native_batch_norm.default: batch_norm}


# -- moments: the variance as the mean of squares less the square of the mean --------------------------------------


def _moments() -> Mapping[Any, Function]:
    def layer_norm(function: Function, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
        _, mean, _ = function(x, shape, weight, bias, eps)
        rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + eps)
        return (x - mean) * rstd * weight + bias, mean, rstd

    return {aten.native_layer_norm.default: layer_norm}


# Name → what makes the table of operators.
ORDERS: dict[str, Callable[[], Mapping[Any, Function]]] = {
    "reversed": _reversed,
    "split 2": partial(_split, 2),
    "split 4": partial(_split, 4),
    "split 8": partial(_split, 8),
    "double": _double,
    "exp2": _exp2,
    "decomposed": _decomposed,
    "columns": _columns,
    "moments": _moments,
}

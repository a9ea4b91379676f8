"""Operators that compute each element by itself: arithmetic, comparisons, activations and their gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import pi, sqrt
from typing import Any

import numpy as np

from pytest_msdump.capabilities.kernels.operators.definition import (
    Array,
    Call,
    Definition,
    Result,
    approximated,
    broadcasting,
    exact,
    exp_growth,
    fitting,
    rounded,
)
from pytest_msdump.core.errors import NotReplayableError

_TANH_CUT, _TANH_END = 4.9, 5
_TANH_GELU, _CUBE = sqrt(2 / pi), 0.044715
# Kernels that approximate erf by a polynomial: Abramowitz and Stegun 7.1.26.
_ERF_ERROR = 1.5e-7


def _of(inputs: int, function: Callable[..., Result]) -> Definition:
    """Return a definition by the operator's first inputs alone."""
    return lambda call: function(*map(call.given, range(inputs)))


def _exact(function: Callable[..., Any], inputs: int = 1) -> Definition:
    return _of(inputs, lambda *given: exact(np.asarray(function(*given))))


def _approximated(function: Callable[..., Any]) -> Definition:
    return _of(1, lambda x: approximated(np.asarray(function(x))))


def _rounded(function: Callable[..., Any], inputs: int = 1, steps: int = 1) -> Definition:
    return _of(inputs, lambda *given: rounded(np.asarray(function(*given)), steps=steps))


def sum_of_two(sign: int) -> Definition:
    """Return the definition of a sum, or of a difference where `sign` is -1."""
    return _of(2, lambda left, right: rounded(np.asarray(left + sign * right), 2, np.hypot(left, right)))


def _add_n(call: Call) -> Result:
    parts = [call.given(slot) for slot in range(len(call.inputs))]
    squares = sum((np.square(part, dtype=np.float64) for part in parts), np.float64(0))
    return rounded(np.asarray(sum(parts[1:], parts[0])), len(parts), np.sqrt(squares))


def _div(left: Array, right: Array) -> Result:
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        raise NotReplayableError("replay_variant", name="integers")
    return rounded(np.asarray(np.true_divide(left, right)))


def _bias_add(call: Call) -> Result:
    value, bias = call.given(0), call.given(1)
    last = "NHWC" in str(call.attribute("data_format format", default="NCHW"))
    shape = [1] * value.ndim
    shape[-1 if last or value.ndim == 2 else 1] = bias.size
    bias = bias.reshape(shape)
    fitting(value.shape, bias)
    return rounded(value + bias, 2, np.hypot(value, bias))


def _cast(call: Call) -> Result:
    value = call.given(0)
    target = call.outputs[0].dtype if call.outputs and call.outputs[0] else None
    if target == "bool":
        value = value != 0
    elif target and "int" in target and value.dtype.kind == "f":
        if not np.isfinite(value).all() or np.abs(value).max(initial=0) >= 2**31:
            raise NotReplayableError("replay_variant", name="float → integer, out of range")
        value = np.trunc(value)
    return exact(value)


# -- activations; gradients take what MindSpore's kernels take ---------------------------------------------------------


def _sigmoid_of(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _erf(x: Array) -> Result:
    from scipy.special import erf

    return approximated(np.asarray(erf(x)), absolute=_ERF_ERROR)


def _tanh(x: Array) -> Result:
    """Allow, beside rounding, what MindSpore's kernel on CPU is off: a fraction of polynomials, cut off near 5."""
    y, s = np.tanh(x), np.minimum(np.square(x), 25)
    fraction = (((s + 378) * s + 17325) * s + 135135) * x / (((28 * s + 3150) * s + 62370) * s + 135135)
    cut = (np.abs(x) > _TANH_CUT) * (1 - np.abs(y))
    return approximated(y, absolute=np.where(np.abs(x) < _TANH_END, np.maximum(np.abs(fraction - y), cut), cut))


def _gelu_grad(dy: Array, x: Array) -> Result:
    tanh = np.tanh(_TANH_GELU * (x + _CUBE * x**3))
    slope = 0.5 * x * (1 - tanh**2) * _TANH_GELU * (1 + 3 * _CUBE * x**2)
    # Where tanh is nearly 1, its distance from 1 is lost.
    lost = np.abs(0.5 * x * _TANH_GELU * (1 + 3 * _CUBE * x**2)) * (1 + np.abs(tanh))
    return approximated(dy * (0.5 * (1 + tanh) + slope), np.abs(dy) * (1 + lost))


def _silu_grad(dy: Array, x: Array) -> Result:
    s = _sigmoid_of(x)
    return approximated(dy * (s + x * s * (1 - s)), np.abs(dy) * (s + np.abs(x) * s))


def _softplus(x: Array) -> Result:
    y = np.logaddexp(x, 0)
    return approximated(y, np.where(x < 0, np.exp(np.minimum(x, 0)), y) + 1e-3)


def _elu(call: Call) -> Result:
    x, alpha = call.given(0), call.attribute("alpha", 1, 1.0)
    y = np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))
    return approximated(y, np.where(x > 0, y, np.abs(alpha)))


def _leaky(call: Call) -> Result:
    x, slope = call.given(0), call.attribute("negative_slope alpha", 1, 0.01)
    return rounded(np.where(x > 0, x, slope * x))


def _prelu(x: Array, weight: Array) -> Result:
    if weight.size > 1 and x.ndim > 1:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    fitting(x.shape, weight)
    return rounded(np.where(x > 0, x, weight * x))


def _hard_sigmoid_of(x: Array) -> Array:
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


def _hswish_grad(dy: Array, x: Array) -> Result:
    slope = np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * x + 3) / 6))
    return rounded(dy * slope, steps=3, size=np.abs(dy) * (np.abs(x) < 3))


def _pow(base: Array, power: Array) -> Result:
    y = np.asarray(np.power(base, power))
    return approximated(y, np.abs(y) * exp_growth(power * np.log(np.maximum(np.abs(base), 1e-300))))


_ALIASES = {
    "LeakyReLU": "LeakyRelu",
    "ReLU": "Relu ReLUV2",
    "Add": "AddV2 TensorAdd",
    "Sub": "Subtract",
    "Div": "RealDiv TrueDiv",
    "GeLU": "Gelu",
    "GeLUGrad": "GeluGrad",
    "ReluGrad": "ReLUGrad ReluGradV2",
    "SiLU": "Swish",
    "SiLUGrad": "SwishGrad",
    "Neg": "Negative",
    "Clip": "ClampTensor ClampScalar ClipByValue",
    "Identity": "Load Depend StopGradient BroadcastLike TensorMove TransData",
    "Select": "SelectV2 Where",
}
_ROWS: Mapping[str, Definition] = {
    "Abs": _exact(np.abs),
    "Add": sum_of_two(1),
    "AddN": _add_n,
    "BiasAdd": _bias_add,
    "Cast": _cast,
    "Ceil": _exact(np.ceil),
    "Clip": _exact(lambda x, low, high: np.minimum(np.maximum(x, low), high), 3),
    "Cos": _of(1, lambda x: approximated(np.cos(x), 1 + np.abs(x) / 64)),
    "Div": _of(2, _div),
    "Elu": _elu,
    "EluGrad": _of(2, lambda dy, y: rounded(np.where(y > 0, dy, dy * (y + 1)), steps=2, size=np.abs(dy))),
    "Equal": _exact(operator.eq, 2),
    "Erf": _of(1, _erf),
    "Exp": _of(1, lambda x: approximated(y := np.exp(x), y * exp_growth(x))),
    "Expm1": _approximated(np.expm1),
    "FillV2": lambda call: exact(np.broadcast_to(call.given(1), call.shape())),
    "Floor": _exact(np.floor),
    "GeLU": _of(1, lambda x: approximated(0.5 * x * (1 + np.tanh(_TANH_GELU * (x + _CUBE * x**3))), np.abs(x))),
    "GeLUGrad": _of(2, _gelu_grad),
    "Greater": _exact(operator.gt, 2),
    "GreaterEqual": _exact(operator.ge, 2),
    "HSigmoid": _of(1, lambda x: rounded(_hard_sigmoid_of(x), steps=2, size=(np.abs(x) < 4) * 1.0)),
    "HSigmoidGrad": _rounded(lambda dy, x: np.where(np.abs(x) < 3, dy / 6, 0), 2),
    "HSwish": _of(1, lambda x: rounded(x * _hard_sigmoid_of(x), steps=3, size=np.abs(x) * (np.abs(x) < 4))),
    "HSwishGrad": _of(2, _hswish_grad),
    "Identity": _exact(np.asarray),
    "LeakyReLU": _leaky,
    "Less": _exact(operator.lt, 2),
    "LessEqual": _exact(operator.le, 2),
    "Log": _approximated(np.log),
    "Log1p": _approximated(np.log1p),
    "LogicalAnd": _exact(np.logical_and, 2),
    "LogicalNot": _exact(np.logical_not),
    "LogicalOr": _exact(np.logical_or, 2),
    "MaskedFill": _exact(lambda x, mask, value: np.where(mask.astype(bool), value, x), 3),
    "Maximum": _exact(np.maximum, 2),
    "Minimum": _exact(np.minimum, 2),
    "Mul": _rounded(operator.mul, 2),
    "Neg": _exact(operator.neg),
    "NotEqual": _exact(operator.ne, 2),
    "OnesLike": lambda call: exact(np.ones(call.shape(), int)),
    "PReLU": _of(2, _prelu),
    "Pow": _of(2, _pow),
    "ReLU": _exact(lambda x: np.maximum(x, 0)),
    "ReLU6": _exact(lambda x: np.clip(x, 0, 6)),
    "ReLU6Grad": _exact(lambda dy, x: np.where((x > 0) & (x < 6), dy, 0), 2),
    "Reciprocal": _rounded(lambda x: 1 / x),
    "ReluGrad": _exact(lambda dy, y: np.where(y > 0, dy, 0), 2),
    "Rsqrt": _rounded(lambda x: 1 / np.sqrt(x), steps=2),
    "RsqrtGrad": _rounded(lambda y, dy: dy * -0.5 * y**3, 2, steps=4),
    "Select": _exact(lambda chosen, one, other: np.where(chosen.astype(bool), one, other), 3),
    "SiLU": _of(1, lambda x: approximated(y := x * _sigmoid_of(x), np.abs(y) * exp_growth(np.minimum(x, 0)))),
    "SiLUGrad": _of(2, _silu_grad),
    "Sigmoid": _of(1, lambda x: approximated(y := _sigmoid_of(x), y * exp_growth(np.minimum(x, 0)))),
    "SigmoidGrad": _of(2, lambda y, dy: rounded(dy * y * (1 - y), steps=3, size=np.abs(dy * y))),
    "Sign": _exact(np.sign),
    "Sin": _of(1, lambda x: approximated(y := np.sin(x), np.abs(y) + np.abs(x) / 64)),
    "Softplus": _of(1, _softplus),
    "Sqrt": _rounded(np.sqrt),
    "SqrtGrad": _rounded(lambda y, dy: dy * 0.5 / y, 2, steps=2),
    "Square": _rounded(np.square),
    "Sub": sum_of_two(-1),
    "Tanh": _of(1, _tanh),
    "TanhGrad": _of(2, lambda y, dy: rounded(dy * (1 - y * y), steps=3, size=np.abs(dy))),
    "ZerosLike": lambda call: exact(np.zeros(call.shape(), int)),
}
_OTHER_SHAPES = ("BiasAdd", "FillV2", "PReLU")
_CHECKED = {name: row if name in _OTHER_SHAPES else broadcasting(row, Call.shape) for name, row in _ROWS.items()}
DEFINITIONS: Mapping[str, Definition] = {
    **_CHECKED,
    **{other: _CHECKED[name] for name, others in _ALIASES.items() for other in others.split()},
}

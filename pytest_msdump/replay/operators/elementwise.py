"""Operators that compute each element by itself: arithmetic, comparisons, activations and their gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import pi, sqrt
from typing import Any

import numpy as np

from pytest_msdump.errors import NotReplayableError
from pytest_msdump.replay.operators.definition import (
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

_TANH_CUT, _TANH_END = 4.9, 5
_TANH_GELU, _CUBE = sqrt(2 / pi), 0.044715
# Kernels that approximate erf by a polynomial: Abramowitz and Stegun 7.1.26.
_ERF_ERROR = 1.5e-7


def _exact(function: Callable[..., Any], inputs: int = 1) -> Definition:
    return lambda call: exact(np.asarray(function(*map(call.given, range(inputs)))))


def _approximated(function: Callable[..., Any], inputs: int = 1) -> Definition:
    return lambda call: approximated(np.asarray(function(*map(call.given, range(inputs)))))


def _rounded(function: Callable[..., Any], inputs: int = 1, steps: int = 1) -> Definition:
    return lambda call: rounded(np.asarray(function(*map(call.given, range(inputs)))), steps=steps)


def _sum(sign: int) -> Definition:
    def of(call: Call) -> Result:
        left, right = call.given(0), call.given(1)
        return rounded(np.asarray(left + sign * right), 2, np.hypot(left, right))

    return of


def _add_n(call: Call) -> Result:
    parts = [call.given(slot) for slot in range(len(call.inputs))]
    squares = sum((np.square(part, dtype=np.float64) for part in parts), np.float64(0))
    return rounded(np.asarray(sum(parts[1:], parts[0])), len(parts), np.sqrt(squares))


def _div(call: Call) -> Result:
    left, right = call.given(0), call.given(1)
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


def _select(call: Call) -> Result:
    return exact(np.where(call.given(0).astype(bool), call.given(1), call.given(2)))


def _masked_fill(call: Call) -> Result:
    return exact(np.where(call.given(1).astype(bool), call.given(2), call.given(0)))


def _clip(call: Call) -> Result:
    return exact(np.minimum(np.maximum(call.given(0), call.given(1)), call.given(2)))


def _fill(call: Call) -> Result:
    return exact(np.broadcast_to(call.given(1), call.shape()))


def _like(value: int) -> Definition:
    return lambda call: exact(np.full(call.shape(), value))


# -- activations; gradients take what MindSpore's kernels take ---------------------------------------------------------


def _sigmoid_of(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _exp(call: Call) -> Result:
    x = call.given(0)
    y = np.exp(x)
    return approximated(y, y * exp_growth(x))


def _sigmoid(call: Call) -> Result:
    x = call.given(0)
    y = _sigmoid_of(x)
    return approximated(y, y * exp_growth(np.minimum(x, 0)))


def _erf(call: Call) -> Result:
    from scipy.special import erf

    return approximated(np.asarray(erf(call.given(0))), absolute=_ERF_ERROR)


def _tanh(call: Call) -> Result:
    """Allow, beside rounding, what MindSpore's kernel on CPU is off: a fraction of polynomials, cut off near 5."""
    x = call.given(0)
    y, s = np.tanh(x), np.minimum(np.square(x), 25)
    fraction = (((s + 378) * s + 17325) * s + 135135) * x / (((28 * s + 3150) * s + 62370) * s + 135135)
    cut = (np.abs(x) > _TANH_CUT) * (1 - np.abs(y))
    return approximated(y, absolute=np.where(np.abs(x) < _TANH_END, np.maximum(np.abs(fraction - y), cut), cut))


def _gelu(call: Call) -> Result:
    x = call.given(0)
    return approximated(0.5 * x * (1 + np.tanh(_TANH_GELU * (x + _CUBE * x**3))), np.abs(x))


def _gelu_grad(call: Call) -> Result:
    dy, x = call.given(0), call.given(1)
    tanh = np.tanh(_TANH_GELU * (x + _CUBE * x**3))
    slope = 0.5 * x * (1 - tanh**2) * _TANH_GELU * (1 + 3 * _CUBE * x**2)
    # Where tanh is nearly 1, its distance from 1 is lost.
    lost = np.abs(0.5 * x * _TANH_GELU * (1 + 3 * _CUBE * x**2)) * (1 + np.abs(tanh))
    return approximated(dy * (0.5 * (1 + tanh) + slope), np.abs(dy) * (1 + lost))


def _silu(call: Call) -> Result:
    x = call.given(0)
    y = x * _sigmoid_of(x)
    return approximated(y, np.abs(y) * exp_growth(np.minimum(x, 0)))


def _silu_grad(call: Call) -> Result:
    dy, x = call.given(0), call.given(1)
    s = _sigmoid_of(x)
    return approximated(dy * (s + x * s * (1 - s)), np.abs(dy) * (s + np.abs(x) * s))


def _sigmoid_grad(call: Call) -> Result:
    y, dy = call.given(0), call.given(1)
    return rounded(dy * y * (1 - y), steps=3, size=np.abs(dy * y))


def _tanh_grad(call: Call) -> Result:
    y, dy = call.given(0), call.given(1)
    return rounded(dy * (1 - y * y), steps=3, size=np.abs(dy))


def _softplus(call: Call) -> Result:
    x = call.given(0)
    y = np.logaddexp(x, 0)
    return approximated(y, np.where(x < 0, np.exp(np.minimum(x, 0)), y) + 1e-3)


def _elu(call: Call) -> Result:
    x, alpha = call.given(0), call.attribute("alpha", 1, 1.0)
    y = np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))
    return approximated(y, np.where(x > 0, y, np.abs(alpha)))


def _elu_grad(call: Call) -> Result:
    dy, y = call.given(0), call.given(1)
    return rounded(np.where(y > 0, dy, dy * (y + 1)), steps=2, size=np.abs(dy))


def _leaky(call: Call) -> Result:
    x, slope = call.given(0), call.attribute("negative_slope alpha", 1, 0.01)
    return rounded(np.where(x > 0, x, slope * x))


def _prelu(call: Call) -> Result:
    x, weight = call.given(0), call.given(1)
    if weight.size > 1 and x.ndim > 1:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    fitting(x.shape, weight)
    return rounded(np.where(x > 0, x, weight * x))


def _hard_sigmoid_of(x: Array) -> Array:
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


def _hswish(call: Call) -> Result:
    x = call.given(0)
    return rounded(x * _hard_sigmoid_of(x), steps=3, size=np.abs(x) * (np.abs(x) < 4))


def _hswish_grad(call: Call) -> Result:
    dy, x = call.given(0), call.given(1)
    slope = np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * x + 3) / 6))
    return rounded(dy * slope, steps=3, size=np.abs(dy) * (np.abs(x) < 3))


def _hsigmoid_grad(call: Call) -> Result:
    dy, x = call.given(0), call.given(1)
    return rounded(np.where(np.abs(x) < 3, dy / 6, 0))


def _pow(call: Call) -> Result:
    base, power = call.given(0), call.given(1)
    y = np.asarray(np.power(base, power))
    return approximated(y, np.abs(y) * exp_growth(power * np.log(np.maximum(np.abs(base), 1e-300))))


def _sqrt_grad(call: Call) -> Result:
    return rounded(np.asarray(call.given(1) * 0.5 / call.given(0)), steps=2)


def _rsqrt_grad(call: Call) -> Result:
    return rounded(np.asarray(call.given(1) * -0.5 * call.given(0) ** 3), steps=4)


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
    "Add": _sum(1),
    "AddN": _add_n,
    "BiasAdd": _bias_add,
    "Cast": _cast,
    "Ceil": _exact(np.ceil),
    "Clip": _clip,
    "Cos": lambda call: approximated(np.cos(x := call.given(0)), 1 + np.abs(x) / 64),
    "Div": _div,
    "Elu": _elu,
    "EluGrad": _elu_grad,
    "Equal": _exact(operator.eq, 2),
    "Erf": _erf,
    "Exp": _exp,
    "Expm1": _approximated(np.expm1),
    "FillV2": _fill,
    "Floor": _exact(np.floor),
    "GeLU": _gelu,
    "GeLUGrad": _gelu_grad,
    "Greater": _exact(operator.gt, 2),
    "GreaterEqual": _exact(operator.ge, 2),
    "HSigmoid": lambda call: rounded(_hard_sigmoid_of(x := call.given(0)), steps=2, size=(np.abs(x) < 4) * 1.0),
    "HSigmoidGrad": _hsigmoid_grad,
    "HSwish": _hswish,
    "HSwishGrad": _hswish_grad,
    "Identity": _exact(np.asarray),
    "LeakyReLU": _leaky,
    "Less": _exact(operator.lt, 2),
    "LessEqual": _exact(operator.le, 2),
    "Log": _approximated(np.log),
    "Log1p": _approximated(np.log1p),
    "LogicalAnd": _exact(np.logical_and, 2),
    "LogicalNot": _exact(np.logical_not),
    "LogicalOr": _exact(np.logical_or, 2),
    "MaskedFill": _masked_fill,
    "Maximum": _exact(np.maximum, 2),
    "Minimum": _exact(np.minimum, 2),
    "Mul": _rounded(operator.mul, 2),
    "Neg": _exact(operator.neg),
    "NotEqual": _exact(operator.ne, 2),
    "OnesLike": _like(1),
    "PReLU": _prelu,
    "Pow": _pow,
    "ReLU": _exact(lambda x: np.maximum(x, 0)),
    "ReLU6": _exact(lambda x: np.clip(x, 0, 6)),
    "ReLU6Grad": _exact(lambda dy, x: np.where((x > 0) & (x < 6), dy, 0), 2),
    "Reciprocal": _rounded(lambda x: 1 / x),
    "ReluGrad": _exact(lambda dy, y: np.where(y > 0, dy, 0), 2),
    "Rsqrt": _rounded(lambda x: 1 / np.sqrt(x), steps=2),
    "RsqrtGrad": _rsqrt_grad,
    "Select": _select,
    "SiLU": _silu,
    "SiLUGrad": _silu_grad,
    "Sigmoid": _sigmoid,
    "SigmoidGrad": _sigmoid_grad,
    "Sign": _exact(np.sign),
    "Sin": lambda call: approximated(np.sin(x := call.given(0)), np.abs(np.sin(x)) + np.abs(x) / 64),
    "Softplus": _softplus,
    "Sqrt": _rounded(np.sqrt),
    "SqrtGrad": _sqrt_grad,
    "Square": _rounded(np.square),
    "Sub": _sum(-1),
    "Tanh": _tanh,
    "TanhGrad": _tanh_grad,
    "ZerosLike": _like(0),
}
_OTHER_SHAPES = ("BiasAdd", "FillV2", "PReLU")
_CHECKED = {name: row if name in _OTHER_SHAPES else broadcasting(row, Call.shape) for name, row in _ROWS.items()}
DEFINITIONS: Mapping[str, Definition] = {
    **_CHECKED,
    **{other: _CHECKED[name] for name, others in _ALIASES.items() for other in others.split()},
}

"""Operators that write weights: what they leave, from what was there before the step.

Their results are those of the inputs that they write, by the order of `facts.operators.WRITTEN_INPUTS`: not all kernels
fill their outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_msdump.capabilities.kernels.operators.definition import (
    Array,
    Call,
    Definition,
    Result,
    broadcasting,
    exact,
    rounded,
)
from pytest_msdump.capabilities.kernels.operators.elementwise import sum_of_two


def _moved(weight: Array, step: Array, size: Array | None = None) -> Result:
    """Return a weight after a step, which is itself made of a few rounded numbers."""
    return rounded(weight - step, steps=4, size=np.hypot(weight, np.abs(step) if size is None else size))


def _momentum(call: Call) -> list[Result | None]:
    weight, average, rate, gradient, momentum = (call.given(slot) for slot in range(5))
    new = average * momentum + gradient
    size = np.hypot(average * momentum, gradient)
    step = gradient + momentum * new if call.attribute("use_nesterov", default=False) else new
    return [_moved(weight, rate * step, 2 * np.abs(rate) * size), rounded(new, steps=2, size=size)]


def _sgd(call: Call) -> Result:
    weight, gradient, rate, average, momentum, begun = (call.given(slot) for slot in range(6))
    gradient = gradient + float(call.attribute("weight_decay", default=0.0)) * weight
    size = np.abs(gradient)
    if float(momentum) > 0:
        damped = (1 - float(call.attribute("dampening", default=0.0))) * gradient
        # The buffer starts as the first gradient; `stat` is above 0 until then.
        new = np.where(begun > 0, gradient, average * momentum + damped)
        size = np.hypot(size, average * momentum)
        gradient = gradient + new * momentum if call.attribute("nesterov", default=False) else new
    return _moved(weight, rate * gradient, np.abs(rate) * 2 * size)


def _adam(call: Call) -> list[Result | None]:
    weight, m, v, power1, power2, rate, beta1, beta2, eps, gradient = (call.given(slot) for slot in range(10))
    new_m, new_v = m + (gradient - m) * (1 - beta1), v + (gradient * gradient - v) * (1 - beta2)
    rate = rate * np.sqrt(1 - power2) / (1 - power1)
    moved = new_m * beta1 + (1 - beta1) * gradient if call.attribute("use_nesterov", default=False) else new_m
    # 1 − beta^t loses digits where that is nearly 1.
    lost = 4 + 1 / np.abs(1 - power2) + 1 / np.abs(1 - power1)
    return _after(call, weight, rate * moved / (np.sqrt(new_v) + eps), lost, new_m, new_v, gradient)


def _after(
    call: Call, weight: Array, step: Array, lost: Array, m: Array, v: Array, gradient: Array
) -> list[Result | None]:
    before = np.abs(call.given(1)) + np.abs(gradient)
    # Moments cancel: what was there, and what comes.
    unsure = np.abs(step) * lost * (1 + before / np.maximum(np.abs(m), 1e-300))
    second = np.maximum(call.given(2), np.square(gradient))
    return [_moved(weight, step, unsure), rounded(m, steps=4, size=before), rounded(v, steps=4, size=second)]


def _adam_weight_decay(call: Call) -> list[Result | None]:
    weight, m, v, rate, beta1, beta2, eps, decay, gradient = (call.given(slot) for slot in range(9))
    new_m, new_v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient * gradient
    step = rate * (new_m / (np.sqrt(new_v) + eps) + decay * weight)
    return _after(call, weight, step, np.float64(4), new_m, new_v, gradient)


def _rms_prop(call: Call) -> Result:
    weight, squares, moment, rate, gradient, decay, momentum, eps = (call.given(slot) for slot in range(8))
    squares = decay * squares + (1 - decay) * gradient * gradient
    step = momentum * moment + rate * gradient / np.sqrt(squares + eps)
    return _moved(weight, step, 4 * (np.abs(momentum * moment) + np.abs(step)))


_ROWS: Mapping[str, Definition] = {
    "Adam": _adam,
    "AdamWeightDecay": _adam_weight_decay,
    "ApplyGradientDescent": lambda call: _moved(call.given(0), call.given(1) * call.given(2)),
    "ApplyMomentum": _momentum,
    "ApplyRMSProp": _rms_prop,
    "AssignAdd": sum_of_two(1),
    "AssignSub": sum_of_two(-1),
    "SGD": _sgd,
}
_CHECKED = {name: broadcasting(row, lambda call: call.given(0).shape) for name, row in _ROWS.items()}
DEFINITIONS: Mapping[str, Definition] = {
    **_CHECKED,
    "ApplyAdam": _CHECKED["Adam"],
    "Assign": lambda call: exact(np.broadcast_to(call.given(1), call.shape())),
}

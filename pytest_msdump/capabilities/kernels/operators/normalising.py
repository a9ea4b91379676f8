"""Normalisations, softmax and losses, with their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from pytest_msdump.capabilities.kernels.operators.definition import (
    Array,
    Call,
    Definition,
    Result,
    approximated,
    exact,
    exp_growth,
    fitting,
    rounded,
)
from pytest_msdump.core.errors import NotReplayableError

# Steps that round, between the input and the output of a normalisation.
_STEPS = 8


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return mean, variance and mean of squares, with the axes kept."""
    mean = x.mean(axis=axes, keepdims=True)
    centred = x - mean
    return mean, np.square(centred).mean(axis=axes, keepdims=True), np.square(x).mean(axis=axes, keepdims=True)


def _normalised(x: Array, mean: Array, var: Array, squares: Array, gamma: Array, beta: Array, eps: float) -> Result:
    """Scale and shift what is centred; the mean is as uncertain as the root of the mean of squares."""
    fitting(x.shape, mean, var, gamma, beta)
    inverse = 1 / np.sqrt(var + eps)
    y = (x - mean) * inverse * gamma
    # A variance may be made of the mean of squares, of which the square of the mean is taken away.
    size = np.abs(gamma) * inverse * (np.sqrt(squares) + np.abs(x)) + np.abs(y) * squares * inverse**2 + np.abs(beta)
    return rounded(y + beta, steps=_STEPS, size=size)


def _channels(value: Array, rank: int) -> Array:
    return value.reshape(-1, *[1] * (rank - 2))


def _batch_axes(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _nchw(call: Call) -> None:
    if str(call.attribute("data_format format", 8, "NCHW")) not in ("NCHW", "0", "ND", "DefaultFormat"):
        raise NotReplayableError("replay_variant", name="NHWC")


def _batch_norm(call: Call) -> list[Result | None]:
    x, gamma, beta = (call.given(slot) for slot in range(3))
    _nchw(call)
    training, eps = bool(call.attribute("is_training", 5, False)), float(call.attribute("epsilon", 6, 1e-5))
    scale, shift = _channels(gamma, x.ndim), _channels(beta, x.ndim)
    if not training:
        mean, var = _channels(call.given(3), x.ndim), _channels(call.given(4), x.ndim)
        return [_normalised(x, mean, var, np.square(mean), scale, shift, eps)]
    return [_normalised(x, *_moments(x, _batch_axes(x)), scale, shift, eps)]


def _batch_norm_grad(call: Call) -> list[Result | None]:
    dy, x, gamma = (call.given(slot) for slot in range(3))
    _nchw(call)
    training, eps = bool(call.attribute("is_training", 6, False)), float(call.attribute("epsilon", 7, 1e-5))
    axes, scale = _batch_axes(x), _channels(gamma, x.ndim)
    if training:
        mean, var, squares = _moments(x, axes)
    else:
        mean, var = _channels(call.given(3), x.ndim), _channels(call.given(4), x.ndim)
        squares = np.square(mean)
    dx, dgamma, dbeta = _norm_grads(dy, x, mean, var, squares, scale, eps, axes, axes, through_moments=training)
    return [dx, _flat(dgamma, gamma.shape), _flat(dbeta, gamma.shape)]


def _flat(result: Result, shape: tuple[int, ...]) -> Result:
    scale = result.scale
    return Result(result.value.reshape(shape), None if scale is None else scale.reshape(shape), result.limit)


def _norm_grads(
    dy: Array,
    x: Array,
    mean: Array,
    var: Array,
    squares: Array,
    gamma: Array,
    eps: float,
    over: tuple[int, ...],
    parameters: tuple[int, ...],
    *,
    through_moments: bool = True,
) -> tuple[Result, Result, Result]:
    """Return the gradients of input, scale and shift; moments are over the axes `over`, shared along `parameters`."""
    fitting(x.shape, dy, mean, var, gamma)
    inverse = 1 / np.sqrt(var + eps)
    normed = (x - mean) * inverse
    # How uncertain a normalised element is.
    doubt = np.abs(normed) * (1 + squares * inverse**2) + inverse * (np.sqrt(squares) + np.abs(x))
    scaled = dy * gamma
    dx, size = scaled, np.abs(scaled) * (2 + squares * inverse**2)
    if through_moments:
        count = prod(x.shape[axis] for axis in over)
        first = scaled.mean(axis=over, keepdims=True)
        second = (scaled * normed).mean(axis=over, keepdims=True)
        dx = scaled - first - normed * second
        length = np.sqrt(np.square(scaled).mean(axis=over, keepdims=True))
        unsure = np.abs(scaled * doubt).sum(axis=over, keepdims=True) / np.sqrt(count) / np.sqrt(count)
        size = size + length + np.abs(normed) * (length + unsure) + doubt * np.abs(second)
        size = size + np.abs(dx) * squares * inverse**2
    terms = prod(x.shape[axis] for axis in parameters)
    return (
        rounded(dx * inverse, steps=_STEPS, size=size * inverse),
        _summed(dy * normed, dy * doubt, parameters, terms),
        _summed(dy, dy, parameters, terms),
    )


def _summed(values: Array, sizes: Array, axes: tuple[int, ...], terms: int) -> Result:
    size = np.sqrt(np.square(sizes).sum(axis=axes, keepdims=True))
    return rounded(values.sum(axis=axes, keepdims=True), terms, size, steps=2)


def _layer_axes(call: Call, x: Array, first: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that are normalised, and those that all share the parameters."""
    begin = int(call.attribute("begin_norm_axis", first, -1)) % x.ndim
    shared = int(call.attribute("begin_params_axis", first + 1, -1)) % x.ndim
    return tuple(range(begin, x.ndim)), tuple(range(shared))


def _layer_norm(call: Call) -> list[Result | None]:
    x, gamma, beta = (call.given(slot) for slot in range(3))
    axes, _ = _layer_axes(call, x, 3)
    mean, var, squares = _moments(x, axes)
    eps = float(call.attribute("epsilon", 5, 1e-7))
    y = _normalised(x, mean, var, squares, gamma, beta, eps)
    return [y, rounded(mean, prod(x.shape[axis] for axis in axes), np.sqrt(squares))]


def _layer_norm_grad(call: Call) -> list[Result | None]:
    x, dy, gamma = call.given(0), call.given(1), call.given(4)
    over, shared = _layer_axes(call, x, 5)
    eps = float(call.attribute("epsilon", 7, 1e-7))
    mean, var, squares = _moments(x, over)
    dx, dgamma, dbeta = _norm_grads(dy, x, mean, var, squares, gamma, eps, over, shared)
    return [dx, _flat(dgamma, gamma.shape), _flat(dbeta, gamma.shape)]


def _rms_norm(call: Call) -> list[Result | None]:
    x, gamma = call.given(0), call.given(1)
    fitting(x.shape, gamma)
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    eps = float(call.attribute("epsilon", 2, 1e-6))
    inverse = 1 / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + eps)
    return [rounded(x * inverse * gamma, steps=_STEPS), rounded(inverse, steps=_STEPS)]


def _rms_norm_grad(call: Call) -> list[Result | None]:
    dy, x, inverse, gamma = (call.given(slot) for slot in range(4))
    fitting(x.shape, dy, inverse, gamma)
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    normed, scaled = x * inverse, dy * gamma
    second = (scaled * normed).mean(axis=axes, keepdims=True)
    length = np.sqrt(np.square(scaled * normed).mean(axis=axes, keepdims=True))
    dx = (scaled - normed * second) * inverse
    shared = tuple(range(x.ndim - gamma.ndim))
    terms = prod(x.shape[axis] for axis in shared)
    return [
        rounded(dx, steps=_STEPS, size=(np.abs(scaled) + np.abs(normed) * length) * inverse),
        _flat(_summed(dy * normed, 2 * dy * normed, shared, terms), gamma.shape),
    ]


def _group_norm(call: Call) -> list[Result | None]:
    x, groups, gamma, beta = call.given(0), int(call.attribute("num_groups", 1)), call.given(2), call.given(3)
    eps = float(call.attribute("eps epsilon", 4, 1e-5))
    if groups < 1 or x.ndim < 2 or x.shape[1] % groups:
        raise NotReplayableError("replay_no_attribute", name="num_groups")
    grouped = x.reshape(x.shape[0], groups, -1)
    moments = _moments(grouped, (2,))
    mean, var, squares = (
        np.repeat(one, x.shape[1] // groups, 1).reshape(*x.shape[:2], *[1] * (x.ndim - 2)) for one in moments
    )
    y = _normalised(x, mean, var, squares, _channels(gamma, x.ndim), _channels(beta, x.ndim), eps)
    return [y, rounded(moments[0][..., 0], grouped.shape[2], np.sqrt(moments[2][..., 0]))]


def _group_norm_grad(call: Call) -> list[Result | None]:
    dy, x, gamma, groups = call.given(0), call.given(1), call.given(4), int(call.attribute("num_groups", 5))
    mean, inverse = call.given(2), call.given(3)
    shape = (x.shape[0], groups, -1)
    wide = np.broadcast_to(_channels(gamma, x.ndim), x.shape).reshape(shape)
    mean, var = mean.reshape(*shape[:2], 1), 1 / np.square(inverse).reshape(*shape[:2], 1)
    squares = np.square(x).reshape(shape).mean(axis=2, keepdims=True)
    grouped = dy.reshape(shape), x.reshape(shape)
    dx, dgamma, dbeta = _norm_grads(*grouped, mean, var, squares, wide, 0.0, (2,), ())
    axes = _batch_axes(x)
    terms = prod(x.shape[axis] for axis in axes)
    sums = [
        _summed(one.value.reshape(x.shape), np.asarray(one.scale).reshape(x.shape), axes, terms)
        for one in (dgamma, dbeta)
    ]
    return [_flat(dx, x.shape), *(_flat(one, gamma.shape) for one in sums)]


# -- softmax and losses ------------------------------------------------------------------------------------------------


def _softmax_of(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return distance to the largest, softmax and its logarithm."""
    apart = x - x.max(axis=axes, keepdims=True)
    exp = np.exp(apart)
    total = exp.sum(axis=axes, keepdims=True)
    return apart, exp / total, apart - np.log(total)


def _softmax(call: Call) -> Result:
    x = call.given(0)
    axes = call.axes(x.ndim, "axis axes", 1, -1)
    apart, y, _ = _softmax_of(x, axes)
    # The distance is rounded before exp is taken of it.
    return approximated(y, y * (exp_growth(apart) + np.sqrt(prod(x.shape[axis] for axis in axes)) / 32))


def _log_softmax(call: Call) -> Result:
    x = call.given(0)
    apart, _, y = _softmax_of(x, call.axes(x.ndim, "axis axes", 1, -1))
    return approximated(y, exp_growth(apart))


def _softmax_grad(call: Call) -> Result:
    y, dy = call.given(0), call.given(1)
    fitting(y.shape, dy)
    axes = call.axes(y.ndim, "axis axes dim", 2, -1)
    inner = (y * dy).sum(axis=axes, keepdims=True)
    size = np.sqrt(np.square(y * dy).sum(axis=axes, keepdims=True))
    terms = prod(y.shape[axis] for axis in axes)
    return rounded(y * (dy - inner), terms, y * (np.abs(dy) + size + np.abs(inner)), steps=2)


def _log_softmax_grad(call: Call) -> Result:
    y, dy = call.given(0), call.given(1)
    fitting(y.shape, dy)
    axes = call.axes(y.ndim, "axis axes", 2, -1)
    total = dy.sum(axis=axes, keepdims=True)
    size = np.sqrt(np.square(dy).sum(axis=axes, keepdims=True))
    return approximated(dy - np.exp(y) * total, np.abs(dy) + np.exp(y) * (size + np.abs(total)) * exp_growth(y))


def _sparse_cross_entropy(call: Call) -> Result:
    x, labels = call.given(0), call.given(1).astype(np.int64)
    if x.ndim != 2 or labels.shape != x.shape[:1] or ((labels < 0) | (labels >= x.shape[1])).any():
        raise NotReplayableError("replay_variant", name="labels outside of the classes")
    apart, y, log = _softmax_of(x, (1,))
    rows = np.arange(len(x))
    size = exp_growth(apart)
    if not call.attribute("is_grad", default=False):
        return approximated(np.asarray(-log[rows, labels].mean()), np.asarray(size[rows, labels].mean()))
    sens = float(call.attribute("sens", default=1.0))
    one_hot = np.zeros_like(x)
    one_hot[rows, labels] = 1
    return approximated(sens * (y - one_hot) / len(x), abs(sens) * (y * size + one_hot) / len(x))


def _cross_entropy(call: Call) -> list[Result | None]:
    x, labels = call.given(0), call.given(1)
    fitting(x.shape, labels)
    apart, y, log = _softmax_of(x, (1,))
    size = (np.abs(labels) * exp_growth(apart)).sum(axis=1)
    gradient = approximated(y - labels, y * exp_growth(apart) + np.abs(labels))
    return [approximated(-(labels * log).sum(axis=1), size), gradient]


def _mean_or_sum(call: Call, losses: Array, sizes: Array, slot: int) -> Result:
    """Reduce losses as an enumeration (0 sum, 1 mean, 2 none) or a word says; they are approximated."""
    how = str(call.attribute("reduction", slot, "mean")).lower()
    if how in ("none", "2"):
        return approximated(losses, sizes)
    if how not in ("mean", "1", "sum", "0"):
        raise NotReplayableError("replay_no_attribute", name="reduction")
    count = losses.size if how in ("mean", "1") else 1
    return approximated(np.asarray(losses.sum() / count), np.asarray(sizes.sum() / count))


def _smooth_l1(call: Call) -> Result:
    x, target, beta = call.given(0), call.given(1), float(call.attribute("beta sigma", 2, 1.0))
    fitting(x.shape, target)
    far = np.abs(x - target)
    loss = np.where(far < beta, 0.5 * far**2 / beta, far - 0.5 * beta)
    return _mean_or_sum(call, loss, np.maximum(np.abs(x), np.abs(target)) * np.minimum(far / beta, 1) + beta / 64, 3)


def _smooth_l1_grad(call: Call) -> Result:
    x, target, dy = (call.given(slot) for slot in range(3))
    beta, how = float(call.attribute("beta sigma", 3, 1.0)), str(call.attribute("reduction", 4, "none")).lower()
    if how not in ("none", "2"):
        raise NotReplayableError("replay_variant", name=f"reduction {how}")
    fitting(x.shape, target, dy)
    slope = np.clip((x - target) / beta, -1, 1)
    return rounded(slope * dy, steps=2, size=np.abs(dy) * np.maximum(np.abs(x), np.abs(target)) / beta)


def _bce_with_logits(call: Call) -> Result:
    x, target = call.given(0), call.given(1)
    weight = call.given(2) if call.has(2) and call.given(2).dtype.kind == "f" else np.ones(())
    positive = call.given(3) if call.has(3) and call.given(3).dtype.kind == "f" else np.ones(())
    fitting(x.shape, target, weight, positive)
    factor = 1 + (positive - 1) * target
    loss = weight * ((1 - target) * x + factor * np.logaddexp(-x, 0))
    return _mean_or_sum(call, loss, np.abs(weight) * ((1 + np.abs(x)) * (1 + np.abs(factor))), 4)


def _nll(call: Call) -> list[Result | None]:
    log, labels, weight = call.given(0), call.given(1).astype(np.int64), call.given(2)
    ignored = int(call.attribute("ignore_index", 4, -100))
    if log.ndim != 2 or ((labels < 0) | (labels >= log.shape[1])).any() or (labels == ignored).any():
        raise NotReplayableError("replay_variant", name="labels outside of the classes")
    own = weight[labels]
    losses = -log[np.arange(len(log)), labels] * own
    how = str(call.attribute("reduction", 3, "mean")).lower()
    if how in ("none", "2"):
        return [rounded(losses)]
    total, size = losses.sum(), np.sqrt(np.square(losses).sum())
    divisor = own.sum() if how in ("mean", "1") else 1.0
    return [rounded(np.asarray(total / divisor), len(log), np.asarray(size / divisor)), rounded(own.sum(), len(log))]


def _dropout(call: Call) -> Result:
    if float(call.attribute("keep_prob", default=0.0)) == 1.0:
        return exact(call.given(0))
    raise NotReplayableError("replay_random")


DEFINITIONS: Mapping[str, Definition] = {
    **dict.fromkeys(("BatchNorm", "FusedBatchNorm", "BNInfer"), _batch_norm),
    "BatchNormGrad": _batch_norm_grad,
    "BCEWithLogitsLoss": _bce_with_logits,
    "Dropout": _dropout,
    "GroupNorm": _group_norm,
    "GroupNormGrad": _group_norm_grad,
    "LayerNorm": _layer_norm,
    "LayerNormGrad": _layer_norm_grad,
    **dict.fromkeys(("LogSoftmax", "LogSoftmaxV2"), _log_softmax),
    "LogSoftmaxGrad": _log_softmax_grad,
    "NLLLoss": _nll,
    "RmsNorm": _rms_norm,
    "RmsNormGrad": _rms_norm_grad,
    "SmoothL1Loss": _smooth_l1,
    "SmoothL1LossGrad": _smooth_l1_grad,
    **dict.fromkeys(("Softmax", "SoftmaxV2"), _softmax),
    **dict.fromkeys(("SoftmaxGrad", "SoftmaxBackward"), _softmax_grad),
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
}

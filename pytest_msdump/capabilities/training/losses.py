"""What a cross entropy does with its rows, found from scores and their gradient alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.training.optimizer_rules import Array
from pytest_msdump.core.text import Message

# What rounding may leave of a gradient, beside its largest element, and of numbers found from many.
_LEFT_OPEN, _SAME = 1e-3, 1e-3
_FEWEST_CLASSES = 3


class CrossEntropy(NamedTuple):
    """By what the rows' gradients are divided, how much labels are smoothed, each row's target; −1 for no row."""

    divisor: float
    smoothing: float
    targets: Array


def cross_entropy_of(scores: Array, gradient: Array) -> CrossEntropy | None:
    """Return the cross entropy that has this gradient, both rows × classes; ``None`` where none has.

    The gradient of a row is (softmax − target) / divisor, with smoothing / classes in each place of the target.
    """
    classes = scores.shape[1]
    counted = np.abs(gradient).max(axis=1) > 0
    if classes < _FEWEST_CLASSES or counted.sum() < _FEWEST_CLASSES:
        return None
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares, given = (raised / raised.sum(axis=1, keepdims=True))[counted], gradient[counted]
    targets = given.argmin(axis=1)
    others = np.arange(classes) != targets[:, None]
    columns = np.stack([given[others], np.ones(others.sum())], axis=1)
    (divisor, base), *_ = np.linalg.lstsq(columns, shares[others], rcond=None)
    smoothing = base * classes
    wanted = np.where(others, base, 1 - smoothing + base)
    if not (divisor > 0 and np.abs(shares - wanted - divisor * given).max() <= _LEFT_OPEN):
        return None
    return CrossEntropy(float(divisor), float(smoothing), np.where(counted, _spread(targets, counted), -1))


def _spread(targets: Array, counted: Array) -> Array:
    found = np.full(counted.shape, -1.0)
    found[counted] = targets
    return found


def difference(left: CrossEntropy, right: CrossEntropy) -> Message | None:
    """Return the one thing in which two losses differ."""
    found: list[Message] = []
    if abs(left.smoothing - right.smoothing) > _SAME:
        numbers = [round(abs(one), 4) for one in (left.smoothing, right.smoothing)]
        found.append(Message("loss_smoothing", dict(zip(("left", "right"), numbers, strict=True))))
    of_left, of_right = (int((one.targets < 0).sum()) for one in (left, right))
    if ((left.targets < 0) != (right.targets < 0)).any():
        found.append(Message("loss_ignores", {"left": of_left, "right": of_right, "n": len(left.targets)}))
    both = (left.targets >= 0) & (right.targets >= 0)
    if apart := int((left.targets != right.targets)[both].sum()):
        found.append(Message("loss_targets", {"n": apart, "of": len(left.targets)}))
    is_mean = all(abs(one.divisor / (one.targets >= 0).sum() - 1) < _SAME for one in (left, right))
    if not is_mean and abs(left.divisor / right.divisor - 1) > _SAME:
        found.append(Message("loss_divisor", {"left": left.divisor, "right": right.divisor}))
    return found[0] if len(found) == 1 else None

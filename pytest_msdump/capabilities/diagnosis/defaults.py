"""Drift by a default that PyTorch and MindSpore do not share: names choose the row, values have to show it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from math import erf, sqrt
from typing import Any

import numpy as np

from pytest_msdump.capabilities.diagnosis.claim import Array, Claim, FactorClaim, Sides, Slack, Trial, doubles
from pytest_msdump.capabilities.diagnosis.kinds import DEFAULTS
from pytest_msdump.capabilities.diagnosis.pointwise import PointwiseClaim
from pytest_msdump.core.model.record import Diagnosis
from pytest_msdump.core.text import Message

# GELU is least here: below it, it falls again.
_LEAST_OF_GELU = -0.751791524693564
# So near to 1 are the sums of a softmax, also in float16.
_SUM_SLACK = 0.01


def of_defaults(sides: Sides, operator: str) -> Iterator[Claim]:
    """Yield the claims that fit an operator; `operator` holds its types and names on both sides."""
    for code, claim_of in _CLAIMS.items():
        pattern, page = DEFAULTS[code]
        if re.search(pattern, operator, re.IGNORECASE):
            yield from filter(None, [claim_of(operator, ("other_default", sides, Message(code, {"page": page}), {}))])


def softmax_axis(sides: Sides, operator: str) -> Diagnosis | None:
    """Diagnose a left that sums to 1 along its last axis, where the right does along another."""
    pattern, page = DEFAULTS["default_softmax"]
    if sides.whole is None or not re.search(pattern, operator, re.IGNORECASE):
        return None
    left, right = map(doubles, sides.whole)
    if max(left.max(), right.max()) <= 0:
        left, right = np.exp(left), np.exp(right)
    axes = [
        [axis for axis, size in enumerate(side.shape) if size > 1 and np.all(abs(side.sum(axis) - 1) <= _SUM_SLACK)]
        for side in (left, right)
    ]
    if axes[0] != [left.ndim - 1] or len(axes[1]) != 1 or axes[0] == axes[1]:
        return None
    message = Message("default_softmax", {"left": axes[0][0], "right": axes[1][0], "page": page})
    return Diagnosis("other_default", "high" if sides.size >= 16 else "medium", message)


# The fields that all claims begin with.
_Head = tuple[str, Sides, Message, dict[str, Any]]


class _GeluClaim(PointwiseClaim):
    """GELU's output is known and not its input: of a negative output there are two."""

    def trial(self, start: int, stop: int) -> Trial:
        """Return a block with the right by the other formula, the nearer of two."""
        left, right = self.sides.read(start, stop)
        claims = [right + np.interp(right, *_by_tanh(end)) for end in (-12.0, 12.0)]
        nearer = np.abs(left - claims[0]) < np.abs(left - claims[1])
        return Trial(left, np.where((right < 0) & nearer, *claims), right)


@cache
def _by_tanh(end: float) -> tuple[Array, Array]:
    """Return GELU by erf and what tanh adds to it, from the least to `end`: denser near the least, where it is flat."""
    x = _LEAST_OF_GELU + (end - _LEAST_OF_GELU) * np.linspace(0, 1, 8192) ** 2
    exact = 0.5 * x * (1 + np.array([erf(one / sqrt(2)) for one in x]))
    return exact, 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) - exact


def _epsilon(_operator: str, head: _Head) -> Claim | None:
    """Return the claim for rows with the gamma and beta of a new layer: their mean square tells their variance."""
    whole = head[1].whole
    if whole is None:
        return None
    share = np.minimum(np.mean(np.square(doubles(whole[1])), axis=-1, keepdims=True), 1 - 1e-6)
    variance = 1e-5 * share / (1 - share)
    factors = np.sqrt((variance + 1e-5) / (variance + 1e-7))
    factors = np.broadcast_to(factors, head[1].shape).reshape(-1)
    # An epsilon of 1e-8 would leave 0.9 % open.
    return FactorClaim(*head, factors, own_agreeing=head[1].rounding, left_open=0.004)


# Other slopes and momenta leave more open.
_exactly = partial(PointwiseClaim, left_open=0.01)

_CLAIMS: dict[str, Callable[[str, _Head], Claim | None]] = {
    "default_slope": lambda _, head: _exactly(*head, lambda right: np.where(right < 0, 20 * right, right)),
    # The formulas differ by 0.0005 at most.
    "default_gelu": lambda _, head: _GeluClaim(*head, np.positive, own_agreeing=Slack(1e-5, 1e-4)),
    "default_epsilon": _epsilon,
    # After one step: a mean begins at 0, a variance at 1.
    "default_momentum": lambda name, head: _exactly(*head, lambda right: 9 * right - 8 * ("_var" in name)),
}

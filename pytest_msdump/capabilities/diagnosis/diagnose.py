"""What the drift of a failing tensor looks like: scaled, transposed, one channel wrong; with evidence and confidence.

Every claim is first compared with a sample, then with all elements, and only the latter can be sure. A wrong diagnosis
sends people the wrong way, so a doubtful one says so or is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from math import erf, sqrt
from typing import Any

import numpy as np

from pytest_msdump.capabilities.diagnosis.attention import of_turns
from pytest_msdump.capabilities.diagnosis.claim import (
    Array,
    Claim,
    FactorClaim,
    Sides,
    Slack,
    Trial,
    confidence_of,
    doubles,
    fit,
    is_beyond_chance,
)
from pytest_msdump.capabilities.diagnosis.moved import of_neighbours, of_other_orders, of_padding
from pytest_msdump.capabilities.diagnosis.orders import of_joined_heads, of_slices
from pytest_msdump.capabilities.diagnosis.parts import one_part
from pytest_msdump.capabilities.diagnosis.pointwise import PointwiseClaim, of_mapped_values, of_rounding
from pytest_msdump.capabilities.diagnosis.text import CONFIDENCES, DEFAULTS, DIAGNOSES
from pytest_msdump.capabilities.diagnosis.values import constant, of_border, one_slice, permuted, unrelated
from pytest_msdump.core.compare.align import OpenedPair
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.metrics.dominated import Bounds, others_of
from pytest_msdump.core.model.comparison import Nonfinite
from pytest_msdump.core.model.record import Diagnosis, Record
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.text import Message, Parameter

_FEWEST_ELEMENTS = 4
_QUICK_ELEMENTS = 2048
# If a smaller share of the pairs is finite, NaN and Inf are all there is to say.
_FINITE_SHARE = 0.5
# Of two explanations one is better if it leaves less than this share of what the other leaves.
_CLEARLY_BETTER = 0.25
# Below this share of the drift both leave nothing.
_NOTHING_LEFT = 1e-4


def diagnose(left: TensorView, right: TensorView, *, operator: str = "") -> tuple[Diagnosis, ...]:
    """Return what the drift between two tensors of one logical shape looks like, the surest first."""
    kinds = {DTYPES[view.dtype].kind for view in (left, right)}
    if not kinds <= {"float", "integer", "bool"} or left.shape != right.shape or left.size < _FEWEST_ELEMENTS:
        return ()
    sides = Sides(left, right)
    if np.array_equal(*sides.sample, equal_nan=True) and len(sides.sample_ranges) == 1:
        return ()
    with np.errstate(all="ignore"):
        found = [*_supported(sides, operator)]
        found += filter(
            None, (one_slice(sides), one_part(sides, operator), constant(sides), softmax_axis(sides, operator))
        )
        if not any(entry.confidence == "high" for entry in found if entry.id != "one_part"):
            found += filter(None, [permuted(sides)])
        if not found:
            found += filter(None, [unrelated(sides)])
    return _without_covered(found)


_FAMILIES: tuple[Callable[[Sides], Iterator[Claim]], ...] = (
    of_mapped_values,
    of_rounding,
    of_other_orders,
    of_neighbours,
    of_padding,
    of_border,
    of_slices,
    of_turns,
)


def _supported(sides: Sides, operator: str) -> Iterator[Diagnosis]:
    """Yield the claims that all elements support."""
    sampled = sum(stop - start for start, stop in sides.sample_ranges)
    by_name = of_defaults(sides, operator), of_joined_heads(sides, operator)
    for claim in chain.from_iterable((*(family(sides) for family in _FAMILIES), *by_name)):
        if not _is_possible(claim, sides):
            continue
        found = fit(claim, sides.sample_ranges)
        confidence = confidence_of(found, elements=sampled)
        if confidence is not None and sampled < sides.size:
            found = fit(claim, sides.ranges())
            confidence = confidence_of(found, elements=sides.size)
        if confidence is not None and is_beyond_chance(_sample_of(claim, sides), claim.rounding):
            confidence = min(confidence, claim.most, key=CONFIDENCES.index)
            yield Diagnosis(claim.id, confidence, claim.evidence(found), claim.details, found.unexplained)


def _sample_of(claim: Claim, sides: Sides) -> Trial:
    trials = [claim.trial(start, stop) for start, stop in sides.sample_ranges]
    return Trial(*(np.concatenate(parts) for parts in zip(*trials, strict=True)))


def _is_possible(claim: Claim, sides: Sides) -> bool:
    """Whether a short range does not contradict the claim."""
    middle = sides.sample_ranges[len(sides.sample_ranges) // 2]
    start = max(middle[0], (middle[0] + middle[1] - _QUICK_ELEMENTS) // 2)
    quick = fit(claim, [(start, min(start + _QUICK_ELEMENTS, middle[1]))])
    return quick.active < 64 or quick.unexplained < 0.6 or quick.explained_share >= 0.75


def _without_covered(found: list[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Keep the best of each kind, leave out what a more specific one covers, and let no two be sure."""
    best: dict[str, Diagnosis] = {}
    for entry in found:
        known = best.get(entry.id)
        if known is None or (_rank(entry), -entry.unexplained) > (_rank(known), -known.unexplained):
            best[entry.id] = entry
    found = list(best.values())
    covered = {
        general
        for entry in found
        for general in DIAGNOSES[entry.id].within
        for other in found
        if other.id == general and _rank(entry) >= _rank(other)
    }
    found = sorted(
        (entry for entry in found if entry.id not in covered), key=lambda entry: (-_rank(entry), entry.unexplained)
    )
    sure = [entry for entry in found if entry.confidence == "high"]
    if len(sure) < 2:
        return tuple(found)
    first, second = sure[0].unexplained, sure[1].unexplained
    if second > _NOTHING_LEFT and first <= _CLEARLY_BETTER * second:
        return (sure[0], *(entry for entry in found if entry not in sure))
    return tuple(replace(entry, confidence="medium") if entry in sure else entry for entry in found)


def _rank(entry: Diagnosis) -> int:
    return CONFIDENCES.index(entry.confidence)


def with_diagnosis(opened: OpenedPair, record: Record) -> Record:
    """Say what the drift of a failing pair looks like, the surest first; details are plain JSON values."""
    measured = record.comparison
    if measured is None:
        return record
    origin = nonfinite_origin(measured.nonfinite, elements=measured.elements)
    found = [] if origin is None else [origin]
    if measured.elements and measured.finite >= _FINITE_SHARE * measured.elements:
        # The numbers stand; a file that went away since then only costs the hint.
        with suppress(MsdumpError):
            views = opened.seen
            apart = [one.above for one in measured.dominated if one.measurements]
            keys = [ref.key.op for ref in (opened.pair.left, opened.pair.right)]
            operator = " ".join(f"{key.op_type or ''} {key.label}" for key in keys)
            found += diagnose(*(others_of(*views, Bounds(*apart[-1])) if apart else views), operator=operator)
    return replace(record, diagnosis=tuple(replace(one, details=_plain(one.details)) for one in found))


def _plain(value: Any) -> Any:
    """JSON has no tuples; NumPy's numbers become Python's."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.item() if hasattr(value, "item") else value


def nonfinite_origin(counts: Nonfinite, *, elements: int) -> Diagnosis | None:
    """Diagnose NaN and Inf that only one side has; ``None`` if both have the same. `elements` were compared."""
    if not counts.mismatch or counts.first_mismatch is None:
        return None
    names = [("NaN", "left", counts.nan_left), ("Inf", "left", counts.inf_left)]
    names += [("NaN", "right", counts.nan_right), ("Inf", "right", counts.inf_right)]
    parts = tuple(
        Message("count_on_side", {"n": count, "kind": name, "side": side}) for name, side, count in names if count
    )
    parameters: dict[str, Parameter] = {"parts": parts, "elements": elements, "place": counts.first_mismatch}
    details = {"first": list(counts.first_mismatch), "mismatches": counts.mismatch}
    return Diagnosis("nonfinite", "high", Message("nonfinite_on_one_side", parameters), details)


# Drift by a default that PyTorch and MindSpore do not share: names choose the row, values have to show it.

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

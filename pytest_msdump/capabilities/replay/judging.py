"""Judges what the left made of its own inputs by what a reference makes of them, of whichever framework it is."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.dtypes.decode import rounded_to
from pytest_msdump.core.facts.dtypes import DTYPES, EPSILON
from pytest_msdump.core.facts.metrics import DOMINATING_BINADES, DOMINATING_FROM, DOMINATING_GAP, DOMINATING_ONE_IN
from pytest_msdump.core.facts.profiles import FLIPS_ALLOWED, FLIPS_SHARE_LIMIT, FLIPS_USABLE
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.text import Message

Array = npt.NDArray[Any]

_BLOCK = 2**15
_HALVES = ("float16", "bfloat16")
# A reference that is as far off computes in 16 bits inside, whatever it stores.
_HALF_INSIDE = 2.0**-12
# Near the largest number of a type, one sound run overflows and another does not.
_NEARLY = 0.99
# Sums in float32 leave this of the largest element where terms cancel.
_CANCELLED = 2.0**-16


def not_replayable(code: str, **parameters: Any) -> Local:
    """Return that a tensor was not judged, and why: `code` is the end of a message's id."""
    return Local("not_replayable", why=Message(f"local_{code}", parameters))


def damaged(code: str, **parameters: Any) -> Local:
    """Return that a tensor of the left is none that its operator can have made, and why."""
    return Local("error", why=Message(f"local_{code}", parameters))


def judge(left: Array, dtype: str, exact: Array, own: Array, *, limit: float, half: float = inf) -> Local:
    """Judge a tensor by what the reference made of the same inputs in float64, and in its own precision.

    `limit` is of the score: the left's error over that of `own`, the larger of relative Euclidean distance and largest
    error; `half` is its limit where the reference's error is that of 16 bits in a tensor of 32, as of a GRU under
    autocast. 16-bit floats have to be right in size first, element by element or slice by slice; then the share of
    elements that are not correctly rounded counts, if the reference's own run rounds correctly.

    >>> exact = np.array([1.0, 2.0, 3.0]) / 3
    >>> judge(exact.astype("f4"), "float32", exact, exact.astype("f4"), limit=8.0).outcome
    'pass'
    >>> judge((exact * 1.001).astype("f4"), "float32", exact, exact.astype("f4"), limit=8.0).outcome
    'fail'
    """
    if (left.dtype.kind == "c") != (exact.dtype.kind == "c"):
        return damaged("kind", dtype=dtype, other=exact.dtype.name)
    if exact.dtype.kind == "c":
        dtype = DTYPES[dtype].component or dtype
        left, exact, own = (np.stack([one.real, one.imag], -1) for one in (left, exact, own))
    if DTYPES[dtype].kind != "float" or exact.dtype.kind != "f":
        # Whole numbers: the same inputs give the same ones. At a tie of what they are made of, either precision's.
        differing = int(np.count_nonzero((left != exact) & (left != own)))
        return Local("fail" if differing else "pass", "differing", float(differing), 0.0)
    if dtype not in EPSILON:
        return not_replayable("dtype", dtype=dtype)
    if not exact.size:
        return not_replayable("empty")
    # What is stored in more than the reference computes in has to be as good as the reference.
    dtype = "float32" if dtype == "float64" else dtype
    own = rounded_to(own, dtype) if dtype in _HALVES else own
    with np.errstate(all="ignore"):
        return _judged(left, dtype, exact, own, limit, half)


def _judged(left: Array, dtype: str, exact: Array, own: Array, limit: float, half: float) -> Local:
    errors = _errors(exact, left, own)
    if errors is None:
        # NaN or infinite in neither of the reference's runs, or only in these.
        wrong = ~(_alike(left, exact) | _alike(left, own))
        nearly_largest = _NEARLY * (DTYPES[dtype].maximum or inf)
        overflowing = np.isinf(left) & (np.abs(exact) > nearly_largest) & (np.sign(left) == np.sign(exact))
        foreign = int(np.count_nonzero(wrong & ~overflowing))
        if foreign:
            return Local("fail", "nonfinite", float(foreign), 0.0)
        both = np.isfinite(left) & np.isfinite(exact)
        if not both.any():
            return not_replayable("nonfinite")
        if not both.all() or not np.isfinite(own).all():
            # Where only the reference overflowed, the left may be off by a rounding.
            left, exact, own = left[both], exact[both], own[both]
            return _judged(left, dtype, exact, np.where(np.isfinite(own), own, exact), limit, half)
        scale = float(np.abs(exact).max())
        errors = _errors(exact / scale, left / scale, own / scale) if scale else _from_nothing(left, own)
    others = _beside_a_mask(exact)
    if others is not None:
        beside = _judged(left[others], dtype, exact[others], own[others], limit, half)
        if beside.outcome == "fail":
            return beside
    unit = rounding_unit(dtype)
    # The reference may be exact by luck, or by what it does; one rounding of the left is no mistake then.
    ours, theirs = errors or ((inf, inf), (0.0, 0.0))
    score = max(map(_ratio, ours, theirs, (unit / 2, unit / 2)))
    if dtype not in _HALVES and half < limit and theirs[0] > _HALF_INSIDE:
        limit, score = half, max(score, _worst_slice(left - exact, own - exact, exact, unit / 2))
    if score > limit or dtype not in _HALVES:
        return Local("pass" if score <= limit else "fail", "score", score, limit)
    rounded, allowed = rounded_to(exact, dtype), max(FLIPS_ALLOWED, int(FLIPS_SHARE_LIMIT * exact.size))
    flips, own_flips = int(np.count_nonzero(left != rounded)), int(np.count_nonzero(own != rounded))
    if own_flips > FLIPS_USABLE * allowed:
        score = max(score, _worst_slice(left - exact, own - exact, exact, unit / 2))
        return Local("pass" if score <= limit else "fail", "score", score, limit)
    # In roundings of the element's own and the most that the reference adds to these.
    sizes = unit * np.abs(exact)
    added = float(np.max(np.abs(own - exact) - sizes))
    room = sizes + max(added, _CANCELLED * float(np.abs(exact).max()))
    farthest = float(np.max(np.where(left == exact, 0.0, np.abs(left - exact) / room)))
    if farthest > limit:
        return Local("fail", "element", farthest, limit)
    allowed = max(allowed, 2 * own_flips)
    share = max(FLIPS_SHARE_LIMIT, allowed / exact.size)
    return Local("pass" if flips <= allowed else "fail", "flips", flips / exact.size, share)


def _ratio(error: float, other: float, floor: float) -> float:
    return error / max(other, floor) if error else 0.0


def _errors(exact: Array, *others: Array) -> tuple[tuple[float, float], ...] | None:
    """Return relative Euclidean distance and largest error of each; ``None`` where not all is finite, or exact is 0."""
    flat, norm, peak = exact.reshape(-1), 0.0, 0.0
    found = [(0.0, 0.0)] * len(others)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64, copy=False)
        norm, peak = norm + float(block @ block), max(peak, float(block.max()), -float(block.min()))
        for number, other in enumerate(others):
            apart = other.reshape(-1)[start : start + _BLOCK] - block
            squares, largest = found[number]
            found[number] = squares + float(apart @ apart), max(largest, float(apart.max()), -float(apart.min()))
    if not 0.0 < norm < inf or not all(squares < inf for squares, _ in found):
        return None
    return tuple((sqrt(squares / norm), largest / peak) for squares, largest in found)


def _from_nothing(left: Array, own: Array) -> tuple[tuple[float, float], ...]:
    """Return both errors where all is 0 in exact arithmetic: what rounding leaves in the reference is the measure."""
    if not own.any():
        apart = inf if left.any() else 0.0
        return (apart, apart), (0.0, 0.0)
    return _errors(own, left + own, np.zeros_like(own)) or ((inf, inf), (1.0, 1.0))


def _alike(one: Array, other: Array) -> Array:
    """Return where both are finite, or the same of NaN and the infinities."""
    return np.asarray((np.isfinite(one) & np.isfinite(other)) | (one == other) | (np.isnan(one) & np.isnan(other)))


def _beside_a_mask(exact: Array) -> Array | None:
    """Return where a tensor is beside the elements that dominate it, as those of a mask do; ``None`` without any."""
    sizes = np.abs(exact)
    largest = float(sizes.max())
    if largest < 2.0**DOMINATING_FROM:
        return None
    above = sizes >= max(2.0**DOMINATING_FROM, largest / 2.0**DOMINATING_BINADES)
    count = int(np.count_nonzero(above))
    if not exact.size <= DOMINATING_ONE_IN * count or count == exact.size:
        return None
    most = float(sizes[~above].max())
    return ~above if 0 < most <= float(sizes[above].min()) / 2.0**DOMINATING_GAP else None


def _worst_slice(left: Array, own: Array, exact: Array, floor: float) -> float:
    """Return the largest ratio of the left's error to the reference's in one index of an axis, as in a dead channel."""
    worst, usual = 0.0, float(np.mean(np.square(own)))
    for axis in range(exact.ndim):
        count = exact.size // exact.shape[axis]
        around = tuple(one for one in range(exact.ndim) if one != axis)
        ours, theirs, sizes = (np.mean(np.square(one), axis=around) for one in (left, own, exact))
        allowed = np.maximum(theirs + usual / count, floor**2 * sizes)
        worst = max(worst, float(np.sqrt(np.max(np.where(ours > 0, ours / allowed, 0.0)))))
    return worst

"""How far two tables of logits are apart, row by row: one row per token, its vocabulary along the last axis.

In float64, a few rows at a time. The right side is the reference: KL is of its softmax p against the left's q, in nats.

References
----------
Kullback and Leibler 1951, "On Information and Sufficiency": sum of p · log(p / q). MaxText's logit checker and
llama.cpp's perplexity tool print the same number per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from math import inf, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.generation.part import part_of
from pytest_msdump.core.compare.align import OpenedPair
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.dtypes import rounding_unit
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.model.comparison import Comparison, Limits, Measurement
from pytest_msdump.core.model.tensor import Pair, TensorView
from pytest_msdump.core.text import Message

Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

KEY = "logits"
MEAN = "softmax_kl"
_OF_SOFTMAX = (MEAN, "p99_softmax_kl", "max_softmax_kl", "log_probability_error")
_LARGEST_SHARE = 5
_QUANTILE = 0.99
# Rows are read in blocks of so many elements: 1 MiB of float64, or one row.
_BLOCK_ELEMENTS = 2**17


class TokenDistances(NamedTuple):
    """One value for each row of logits.

    `kl` is in nats; `left` and `right` are the ids of the largest values, `overlap` the share of the five best ids that
    both sides have. `tokens` are the reference's, `left_log` and `right_log` their log-probabilities on both sides.
    `margin` is how far the reference's values of `left` and `right` are apart, `error` the larger error of these two,
    `rms` that of all values of the row, and `unit` what a unit of the last place is at the reference's value.
    """

    kl: Doubles
    left: Indices
    right: Indices
    overlap: Doubles
    tokens: Indices
    left_log: Doubles
    right_log: Doubles
    margin: Doubles
    error: Doubles
    rms: Doubles
    unit: Doubles


@dataclass(slots=True)
class OfTokens(Measurement):
    """The mean KL, and what it is the mean of: the distances of each token, and the shape of the tokens."""

    tokens: TokenDistances | None = None
    shape: tuple[int, ...] = ()


def with_softmax(
    opened: OpenedPair, measured: Comparison, limits: Limits, _excuse: Callable[..., Message | None]
) -> Comparison:
    """Add what limits on logits ask for, or a rule that calls a tensor logits."""
    names = [name for name, fact in METRICS.items() if fact.of == KEY]
    if KEY not in limits.marks and limits.by_metric.keys().isdisjoint(names):
        return measured
    left, right = opened.seen
    kinds = {DTYPES[view.dtype].kind for view in (left, right) if view.dtype in DTYPES}
    why = _refused(left, kinds, is_part=left is not opened.aligned.left)
    if why is not None:
        found = {name: Measurement(name, undefined=why) for name in names}
    else:
        found = _measurements(token_distances(left, right, reference_tokens(opened.pair, left.shape)), left.shape[:-1])
    return replace(measured, measurements={**measured.measurements, **found})


def _refused(view: TensorView, kinds: set[str], *, is_part: bool) -> Message | None:
    if is_part:
        return Message("logits_in_part")
    if not view.shape or not view.size or kinds != {"float"}:
        return Message("no_logits")
    return None


def reference_tokens(pair: Pair, shape: tuple[int, ...]) -> Indices | None:
    """Return the ids that the reference chose, one for each row of logits; ``None`` where no rule says which."""
    chosen = part_of(pair).chosen
    if chosen is None:
        return None
    with suppress(MsdumpError, OSError), closing(open_view(chosen)) as view:
        if view.size == prod(shape[:-1]) and DTYPES[view.dtype].kind == "integer":
            found = np.asarray(view.read(0, view.size)).astype(np.int64)
            return found if found.min() >= 0 and found.max() < shape[-1] else None
    return None


def _measurements(found: TokenDistances, rows: tuple[int, ...]) -> dict[str, Measurement]:
    agreement = {
        "top1_agreement": Measurement("top1_agreement", float((found.left == found.right).mean())),
        "top5_overlap": Measurement("top5_overlap", float(found.overlap.mean())),
    }
    without = np.isnan(found.kl)
    first = int((without if without.any() else found.kl).argmax())
    place = _place(first, rows)
    if without.any():
        why = Message("no_softmax", {"place": place})
        return {name: Measurement(name, undefined=why) for name in _OF_SOFTMAX} | agreement
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.left_log - found.right_log)
        quantile = float(np.quantile(found.kl, _QUANTILE))
    # Neither side can say a token that both have masked.
    apart[np.isneginf(found.left_log) & np.isneginf(found.right_log)] = 0.0
    return {
        MEAN: OfTokens(MEAN, float(found.kl.mean()), tokens=found, shape=rows),
        # Between two infinite ones numpy finds none.
        "p99_softmax_kl": Measurement("p99_softmax_kl", inf if np.isnan(quantile) else quantile),
        "max_softmax_kl": Measurement("max_softmax_kl", float(found.kl.max()), where=place),
        "log_probability_error": Measurement(
            "log_probability_error", float(apart.mean()), where=_place(int(apart.argmax()), rows)
        ),
        **agreement,
    }


def _place(row: int, rows: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(one) for one in np.unravel_index(row, rows)) if rows else ()


def token_distances(left: TensorView, right: TensorView, tokens: Indices | None = None) -> TokenDistances:
    """Return the distances of each row of two tensors of one shape; a row with NaN or +Inf has a KL of NaN.

    `tokens` are the ids that the reference chose; without them it is taken to choose the largest. Memory is that of a
    few rows: the whole tensors are never there at once.
    """
    parts = []
    start, unit = 0, 2 * rounding_unit(left.dtype, right.dtype)
    for one, other in _blocks(left, right):
        q, p = map(_log_softmax, (one, other))
        best = one.argmax(-1), other.argmax(-1)
        said = best[1] if tokens is None else tokens[start : start + len(one)]
        rows = np.arange(len(one))
        with np.errstate(invalid="ignore", over="ignore"):
            errors = [np.abs(one[rows, ids] - other[rows, ids]) for ids in best]
            margin = np.abs(other[rows, best[1]] - other[rows, best[0]])
            squares = (one - other) ** 2
        squares[~np.isfinite(squares)] = 0.0
        spread = np.sqrt(squares.mean(-1))
        units = unit * np.abs(other[rows, best[1]])
        logs = q[rows, said], p[rows, said]
        parts.append((_kl(q, p), *best, _overlap(one, other), said, *logs, margin, np.maximum(*errors), spread, units))
        start += len(one)
    return TokenDistances(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _blocks(left: TensorView, right: TensorView) -> Iterator[tuple[Doubles, Doubles]]:
    width = left.shape[-1]
    rows = prod(left.shape[:-1])
    step = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        yield tuple(  # type: ignore[misc]
            to_double(view.read(start * width, stop * width)).reshape(stop - start, width) for view in (left, right)
        )


def kl_of_rows(left: Doubles, right: Doubles) -> Doubles:
    """Return sum of p · log(p / q) of each row, with p the softmax of `right` and q that of `left`.

    Where p is 0, as at a masked id, the term is 0; where q alone is 0 it is infinite. NaN where a row has no softmax.

    Examples
    --------
    >>> kl_of_rows(np.log([[0.5, 0.5]]), np.log([[0.75, 0.25]])).round(6)
    array([0.130812])
    """
    return _kl(_log_softmax(left), _log_softmax(right))


def _kl(q: Doubles, p: Doubles) -> Doubles:
    """Return the KL of each row of log-probabilities."""
    weights = np.exp(p)
    with np.errstate(invalid="ignore"):
        terms = weights * (p - q)
    terms[weights == 0] = 0.0
    found = terms.sum(-1)
    # Below 0 is what rounding leaves of 0.
    return np.where(found < 0, 0.0, found)


def _log_softmax(rows: Doubles) -> Doubles:
    """Return log-probabilities; a row with NaN or +Inf, or with nothing but -Inf, is all NaN."""
    with np.errstate(invalid="ignore"):
        # The largest first: the logarithm of the sum would be rounded at its size.
        shifted = rows - rows.max(-1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def _overlap(left: Doubles, right: Doubles) -> Doubles:
    """Return the share of the five best ids that both sides have; of equal values the lowest ids count."""
    count = min(_LARGEST_SHARE, left.shape[-1])
    ours, theirs = (_largest(rows, count) for rows in (left, right))
    return np.asarray((ours & theirs).sum(-1) / count)


def _largest(rows: Doubles, count: int) -> npt.NDArray[np.bool_]:
    """Mark the `count` largest of each row."""
    rows = np.where(np.isnan(rows), -np.inf, rows)
    least = np.partition(rows, rows.shape[-1] - count, axis=-1)[:, rows.shape[-1] - count, None]
    above, equal = rows > least, rows == least
    wanted = count - above.sum(-1, keepdims=True)
    return np.asarray(above | (equal & (np.cumsum(equal, axis=-1) <= wanted)))

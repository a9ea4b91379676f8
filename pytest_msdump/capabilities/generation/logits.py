"""How far two tables of logits are apart, row by row: one row per token, its vocabulary along the last axis.

In float64, a few rows at a time. The right side is the reference: KL is of its softmax p against the left's q, in nats.

References
----------
Kullback and Leibler 1951, "On Information and Sufficiency": sum of p · log(p / q). MaxText's logit checker and
llama.cpp's perplexity tool print the same number per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.compare.align import OpenedPair
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.model.comparison import Comparison, Limits, Measurement
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.text import Message

Doubles = npt.NDArray[np.float64]

KEY = "logits"
_LARGEST_SHARE = 5
# Rows are read in blocks of so many elements: 1 MiB of float64, or one row.
_BLOCK_ELEMENTS = 2**17


class TokenDistances(NamedTuple):
    """One number for each row: KL in nats, whether both choose the same id, the share of the five best they share."""

    kl: Doubles
    same: npt.NDArray[np.bool_]
    overlap: Doubles


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
        found = _measurements(token_distances(left, right), left.shape[:-1])
    return replace(measured, measurements={**measured.measurements, **found})


def _refused(view: TensorView, kinds: set[str], *, is_part: bool) -> Message | None:
    if is_part:
        return Message("logits_in_part")
    if not view.shape or not view.size or kinds != {"float"}:
        return Message("no_logits")
    return None


def _measurements(found: TokenDistances, rows: tuple[int, ...]) -> dict[str, Measurement]:
    agreement = {
        "top1_agreement": Measurement("top1_agreement", float(found.same.mean())),
        "top5_overlap": Measurement("top5_overlap", float(found.overlap.mean())),
    }
    without = np.isnan(found.kl)
    first = int((without if without.any() else found.kl).argmax())
    place = tuple(int(one) for one in np.unravel_index(first, rows)) if rows else ()
    if without.any():
        why = Message("no_softmax", {"place": place})
        return {name: Measurement(name, undefined=why) for name in ("softmax_kl", "max_softmax_kl")} | agreement
    return {
        "softmax_kl": Measurement("softmax_kl", float(found.kl.mean())),
        "max_softmax_kl": Measurement("max_softmax_kl", float(found.kl.max()), where=place),
        **agreement,
    }


def token_distances(left: TensorView, right: TensorView) -> TokenDistances:
    """Return the distance of each row of two tensors of one shape; a row with NaN or +Inf has a KL of NaN.

    Memory is that of a few rows: the whole tensors are never there at once.
    """
    parts = [
        (kl_of_rows(one, other), one.argmax(-1) == other.argmax(-1), _overlap(one, other))
        for one, other in _blocks(left, right)
    ]
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
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        q, p = (row - _log_sum(row) for row in (left, right))
        terms = np.exp(p) * (p - q)
    terms[np.isneginf(p)] = 0.0
    found = terms.sum(-1)
    # Below 0 is what rounding leaves of 0.
    found = np.where(found < 0, 0.0, found)
    found[~(np.isfinite(_log_sum(left)) & np.isfinite(_log_sum(right)))[:, 0]] = np.nan
    return found


def _log_sum(rows: Doubles) -> Doubles:
    largest = rows.max(-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(largest + np.log(np.exp(rows - largest).sum(-1, keepdims=True)))


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

"""Which layers of two sides belong together, where both ran in a known order.

Every way in which layers may be paired without crossing has a weight: the product of what speaks for each of its pairs.
The share of all ways that hold a pair says how sure the pair is. So what two candidates fit equally well is not paired,
and a layer that one side lacks leaves open only what it leaves in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# What two neighbours of one side weigh more when they are neighbours on the other as well.
_NEIGHBOURS = 3.0
# Of longer sequences only pairs near the diagonal are weighed: so many layers to each side of it.
_BAND = 1500
# Sums are divided by themselves when they are larger.
_LARGE = 1e100

Weights = np.ndarray[Any, np.dtype[np.float64]]
_Numbers = np.ndarray[Any, np.dtype[np.intp]]


def sure_pairs(
    rows: Sequence[int], columns: Sequence[int], weights: Weights, least: float
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of which the share is at least this.

    Parameters
    ----------
    rows, columns : sequences of int
        Of each side's layers in order, which row or column of `weights` is theirs.
    weights : array
        What speaks for a pair of such layers, against both having no partner; 0 excludes it.
    """
    ours, theirs = (np.asarray(side, dtype=np.intp) for side in (rows, columns))
    count, width = len(ours), len(theirs)
    if not count or not width:
        return
    bands = _bands(count, width)
    before = [*_ending(ours, theirs, weights, bands)]
    whole = before[-1][1]
    flipped = [(width - stop, width - start) for start, stop in reversed(bands)]
    behind = _ending(ours[::-1], theirs[::-1], weights, flipped)
    found: list[tuple[int, int]] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        own_weights = np.log(weights)
        for row, (ending, _) in zip(reversed(range(count)), behind, strict=True):
            start, stop = bands[row]
            # Both hold the pair itself.
            share = before[row][0] + ending[::-1] - own_weights[ours[row], theirs[start:stop]] - whole
            share[np.isnan(share)] = -np.inf
            best = int(share.argmax())
            if share[best] >= np.log(least):
                found.append((row, start + best))
    yield from reversed(found)


def _bands(count: int, width: int) -> list[tuple[int, int]]:
    reach = max(_BAND, abs(count - width) // 4)
    return [(max(0, row * width // count - reach), min(width, row * width // count + reach)) for row in range(count)]


def _ending(
    ours: _Numbers, theirs: _Numbers, weights: Weights, bands: Sequence[tuple[int, int]]
) -> Iterator[tuple[Weights, float]]:
    """Yield by row the logarithms of the weight of all ways that end with each pair, and of all ways so far."""
    width = len(theirs)
    ways, last, scale = np.ones(width + 1), np.zeros(width + 1), 0.0
    for row, (start, stop) in enumerate(bands):
        ending = weights[ours[row], theirs[start:stop]] * (ways[start:stop] + (_NEIGHBOURS - 1) * last[start:stop])
        ways[start + 1 : stop + 1] += np.cumsum(ending)
        ways[stop + 1 :] = ways[stop]
        last[:] = 0
        last[start + 1 : stop + 1] = ending
        with np.errstate(divide="ignore"):
            yield np.log(ending) + scale, float(np.log(ways[-1])) + scale
        if ways[-1] > _LARGE:
            scale += float(np.log(ways[-1]))
            last /= ways[-1]
            ways /= ways[-1]

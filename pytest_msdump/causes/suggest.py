"""What a tensor's values are like, wherever they stand: for finding the same tensor under another name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.model.tensor import TensorView

__all__ = [
    "Alone",
    "Fingerprint",
    "Fit",
    "Suggestion",
    "disagreement",
    "distances",
    "fingerprint",
    "is_named_after",
    "suggest",
]

Array = npt.NDArray[np.float64]

_BLOCK = 1 << 17
_BINS = 2048
_QUANTILES = np.linspace(0.0, 1.0, 33)

# With fewer elements, or fewer different quantiles, two tensors hold the same values by chance.
_FEWEST_ELEMENTS = 8
_FEWEST_QUANTILES = 3


@dataclass(frozen=True)
class Fingerprint:
    """What does not depend on where the values stand.

    Parameters
    ----------
    size : int
        Number of elements.
    finite : int
        Number of those that are neither NaN nor infinite.
    scale : float
        Root of the mean square of the finite ones, or their greatest modulus where squares leave float64.
    values : array
        Mean, mean modulus, share of zeros times `scale`, then quantiles from the least to the greatest value.
    """

    size: int
    finite: int
    scale: float
    values: Array

    @property
    def is_telling(self) -> bool:
        """Whether two tensors that hold such values are hardly two different ones."""
        # Halves, since the width of the range may be beyond float64.
        quantiles = self.values[3:] / 2.0
        # One value may be told as its own and as the edge of its bin.
        steps = np.diff(quantiles) > 2.0 / _BINS * (quantiles[-1] - quantiles[0])
        return self.finite >= _FEWEST_ELEMENTS and 1 + int(np.count_nonzero(steps)) >= _FEWEST_QUANTILES


def fingerprint(view: TensorView) -> Fingerprint:
    """Read a tensor twice, block by block, and return what its values are like; of complex ones their moduli.

    Raises
    ------
    TensorFileError
        A file turned out unreadable on the way.
    """
    finite, zeros, total, modulus, low, high = 0, 0, 0.0, 0.0, np.inf, -np.inf
    for block in _finite_blocks(view):
        finite += block.size
        zeros += block.size - int(np.count_nonzero(block))
        total += float(np.sum(block / view.size))
        modulus += float(np.sum(np.abs(block) / view.size))
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    if not finite:
        return Fingerprint(view.size, 0, 0.0, np.zeros(3 + _QUANTILES.size))
    share, greatest = view.size / finite, max(abs(low), abs(high))
    squares, counts = 0.0, np.zeros(_BINS)
    # Halves, since the width of the range may be beyond float64.
    edges = 2.0 * np.linspace(low / 2.0, high / 2.0, _BINS + 1)
    for block in _finite_blocks(view):
        squares += float(np.sum(np.square(block / greatest))) if greatest else 0.0
        places = np.searchsorted(edges, block, side="right") - 1
        counts += np.bincount(np.clip(places, 0, _BINS - 1), minlength=_BINS)
    scale = greatest * float(np.sqrt(squares / finite))
    facts = [total * share, modulus * share, scale * (zeros / finite)]
    return Fingerprint(view.size, finite, scale, np.array([*facts, *_quantiles(edges, counts, low, high)]))


def _quantiles(edges: Array, counts: Array, low: float, high: float) -> Array:
    """Quantiles to a bin's width."""
    reached = np.cumsum(counts) / counts.sum()
    inner = edges[np.minimum(np.searchsorted(reached, _QUANTILES[1:-1] - 1e-12), _BINS - 1)]
    return np.array([low, *inner, high])


def _finite_blocks(view: TensorView) -> Iterator[Array]:
    for block in view.blocks(_BLOCK):
        values = _real(block)
        values = values[np.isfinite(values)]
        if values.size:
            yield values


def _real(block: npt.NDArray[np.generic]) -> Array:
    values = to_double(block)
    return np.abs(values) if np.iscomplexobj(values) else values


def distances(one: Fingerprint, others: list[Fingerprint]) -> Array:
    """Return how unlike each of `others` is, in units of the scale: 0 is the same, infinite another size.

    Parameters
    ----------
    one : Fingerprint
        Whose like is looked for.
    others : list of Fingerprint
        The other side's.

    Returns
    -------
    array, shape ``(len(others),)``
        The largest difference of any fact, over the larger scale.
    """
    if not others:
        return np.zeros(0)
    scale = np.array([max(one.scale, other.scale) for other in others])
    # Of quantiles those of the inside: the extremes are single elements, which any drift may move.
    theirs = np.stack([np.delete(other.values, (3, -1)) for other in others])
    ours = np.delete(one.values, (3, -1))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        apart = np.abs(theirs / scale[:, None] - ours / scale[:, None]).max(axis=1)
    apart[scale == 0] = 0.0
    apart[[(one.size, one.finite == 0) != (other.size, other.finite == 0) for other in others]] = np.inf
    apart[np.isnan(apart)] = np.inf
    return np.asarray(apart, dtype=np.float64)


def disagreement(left: TensorView, right: TensorView) -> float:
    """Return how far two tensors of one shape are apart, element by element.

    Returns
    -------
    float
        The norm of the difference over the norm of the right side; 0 where they are equal. Infinite when the right is
        0 where the left is not, or when more than one element in a thousand is NaN or infinite on one side only.
    """
    scale = max((float(np.abs(block).max()) for block in _finite_blocks(right)), default=0.0)
    # Squares of what is at most 1 stay within float64, whatever the values are.
    scale = scale or 1.0
    apart, norm, odd = 0.0, 0.0, 0
    for ours, theirs in zip(left.blocks(_BLOCK), right.blocks(_BLOCK), strict=True):
        one, other = to_double(ours), to_double(theirs)
        both = np.isfinite(one) & np.isfinite(other)
        odd += int(np.count_nonzero(np.isfinite(one) != np.isfinite(other)))
        with np.errstate(over="ignore", under="ignore"):
            apart += float(np.sum(np.square(np.abs(one[both] / scale - other[both] / scale))))
        norm += float(np.sum(np.square(np.abs(other[both] / scale))))
    if odd * 1000 > right.size or (norm == 0.0 and apart > 0.0):
        return float("inf")
    return float(np.sqrt(apart / norm)) if norm else 0.0


# -- Who may be whose partner ----------------------------------------------------------------------------------------


# Another tensor may be the partner as long as it does not fit so many times worse.
_CLEARLY_WORSE = 10.0
# What rounding alone does; below it nothing fits better than something else.
_ROUNDING = 1e-6
# So many clear pairs in the same order on both sides say that the sides ran in one order.
_FEWEST_ANCHORS = 2


@dataclass(frozen=True)
class Alone:
    """A tensor without a partner.

    Parameters
    ----------
    name : str
        Its operator's name.
    place : int
        Where it is among the tensors of its side.
    is_ordered : bool
        Whether that is its place in execution order.
    is_telling : bool
        Whether a tensor with the same values is hardly another one.
    """

    name: str
    place: int
    is_ordered: bool = True
    is_telling: bool = True


@dataclass(frozen=True)
class Fit:
    """A left and a right tensor that may be partners.

    `apart` is the relative difference of their values, ``None`` where that says nothing and only names may decide.
    What is not close may be another tensor that is like it.
    """

    left: int
    right: int
    apart: float | None
    is_close: bool = True


@dataclass(frozen=True)
class Suggestion:
    """Partners of one right tensor: the one that is clear, or those that may be.

    `how` is ``"values"``, ``"names"`` (of tensors whose values fit), ``"order"`` (of such) or ``"names alone"``.
    """

    right: int
    fits: tuple[Fit, ...]
    how: str
    is_clear: bool = True


def suggest(
    left: Sequence[Alone], right: Sequence[Alone], fits: Iterable[Fit], *, met: Sequence[tuple[int, int]] = ()
) -> list[Suggestion]:
    """Tell partners of right tensors.

    Parameters
    ----------
    left, right : sequence of Alone
        Tensors without a partner.
    fits : iterable of Fit
        Who may meet whom; those with `apart` agree in values.
    met : sequence of (int, int)
        Places of pairs that exist.

    Returns
    -------
    list of Suggestion
        In the order of `right`; of no tensor with nothing that fits. No left tensor is the clear partner of two.
    """
    fits = list(fits)
    by_values = _best([fit for fit in fits if fit.apart is not None])
    found: dict[int, Suggestion] = {}
    groups = _groups(by_values)
    for group in groups:
        clear = group[0] if len(group) == 1 else None
        if clear and clear.is_close and left[clear.left].is_telling and right[clear.right].is_telling:
            found[clear.right] = Suggestion(clear.right, (clear,), "values")
    anchors = [*met, *((left[s.fits[0].left].place, right[s.right].place) for s in found.values())]
    order = _Order(left, right, anchors)
    for group in groups:
        if group[0].right not in found:
            found.update(_decided(group, left, right, order))
    spoken_for = {fit.left for one in found.values() if one.is_clear for fit in one.fits}
    rest = [fit for fit in fits if fit.apart is None and fit.left not in spoken_for and fit.right not in found]
    for fit in _named(rest, left, right):
        if not order.is_crossed(fit):
            found[fit.right] = Suggestion(fit.right, (fit,), "names alone")
    found |= _only_alike([fit for fit in rest if fit.right not in found], left, right, found)
    return [found[number] for number in sorted(found)]


def _best(fits: Sequence[Fit]) -> list[Fit]:
    """Leave out fits that are clearly worse than another one of the same tensor."""
    least: dict[tuple[str, int], float] = {}
    for fit in fits:
        for key in (("left", fit.left), ("right", fit.right)):
            least[key] = min(least.get(key, float("inf")), _apart(fit))
    return [
        fit for fit in fits if _apart(fit) <= _CLEARLY_WORSE * min(least["left", fit.left], least["right", fit.right])
    ]


def _apart(fit: Fit) -> float:
    return max(fit.apart or 0.0, _ROUNDING)


def _groups(fits: Sequence[Fit]) -> list[list[Fit]]:
    """Fits that have a tensor in common, directly or through others."""
    group_of: dict[tuple[str, int], int] = {}
    groups: dict[int, list[Fit]] = {}
    for number, fit in enumerate(fits):
        keys = (("left", fit.left), ("right", fit.right))
        joined = sorted({group_of[key] for key in keys if key in group_of})
        merged = [*(one for known in joined for one in groups.pop(known)), fit]
        groups[number] = merged
        for one in merged:
            group_of["left", one.left] = group_of["right", one.right] = number
    return [groups[number] for number in sorted(groups)]


def _decided(
    group: Sequence[Fit], left: Sequence[Alone], right: Sequence[Alone], order: _Order
) -> dict[int, Suggestion]:
    """Let names choose among tensors with the same values, then order; what is left is ambiguous."""
    found = {fit.right: Suggestion(fit.right, (fit,), "names") for fit in _named(group, left, right)}
    taken = {one.fits[0].left for one in found.values()}
    rest = [fit for fit in group if fit.right not in found and fit.left not in taken]
    telling = all(fit.is_close and left[fit.left].is_telling and right[fit.right].is_telling for fit in rest)
    for fit in order.aligned(rest) if telling else ():
        found[fit.right] = Suggestion(fit.right, (fit,), "order")
    open_fits: dict[int, list[Fit]] = defaultdict(list)
    for fit in rest:
        if fit.right not in found:
            open_fits[fit.right].append(fit)
    for number, several in open_fits.items():
        best_first = tuple(sorted(several, key=lambda fit: (_apart(fit), fit.left)))
        found[number] = Suggestion(number, best_first, "values", is_clear=False)
    return found


def _named(fits: Sequence[Fit], left: Sequence[Alone], right: Sequence[Alone]) -> list[Fit]:
    """Fits whose names belong together, and to nobody else of these."""
    alike = [fit for fit in fits if is_named_after(left[fit.left].name, right[fit.right].name)]
    lefts, rights = _counted(fit.left for fit in alike), _counted(fit.right for fit in alike)
    return [fit for fit in alike if lefts[fit.left] == rights[fit.right] == 1]


def _only_alike(
    fits: Sequence[Fit], left: Sequence[Alone], right: Sequence[Alone], found: Mapping[int, Suggestion]
) -> dict[int, Suggestion]:
    """Right tensors that several left ones are named after."""
    taken = {fit.left for one in found.values() for fit in one.fits}
    several: dict[int, list[Fit]] = defaultdict(list)
    for fit in fits:
        if fit.left not in taken and is_named_after(left[fit.left].name, right[fit.right].name):
            several[fit.right].append(fit)
    return {number: Suggestion(number, tuple(some), "names alone", is_clear=False) for number, some in several.items()}


def _counted(numbers: Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for number in numbers:
        counts[number] += 1
    return counts


def is_named_after(one: str, other: str) -> bool:
    """Whether all words of the shorter name stand in the longer one.

    Examples
    --------
    >>> is_named_after("Default/conv1-Conv2d/BiasAdd-op0", "conv1"), is_named_after("conv1", "conv2")
    (True, False)
    """
    words = [frozenset(re.findall(r"[^\W_]+", name.lower())) for name in (one, other)]
    few, many = sorted(words, key=len)
    return any(len(word) > 1 for word in few) and few <= many


class _Order:
    """The order of both sides, as far as it is the same."""

    def __init__(self, left: Sequence[Alone], right: Sequence[Alone], anchors: Sequence[tuple[int, int]]) -> None:
        self._left, self._right = left, right
        self._anchors = sorted(anchors)
        theirs = [place for _, place in self._anchors]
        self._holds = len(theirs) >= _FEWEST_ANCHORS and theirs == sorted(theirs)

    def is_crossed(self, fit: Fit) -> bool:
        """Whether both sides ran in one order, and this fit would not be in it."""
        ours, theirs = self._left[fit.left], self._right[fit.right]
        if not (self._holds and ours.is_ordered and theirs.is_ordered):
            return False
        return any((ours.place - a) * (theirs.place - b) < 0 for a, b in self._anchors)

    def aligned(self, fits: Sequence[Fit]) -> list[Fit]:
        """One partner for each, in order, where every tensor would do for every other one; else none."""
        fits = [fit for fit in fits if not self.is_crossed(fit)]
        lefts, rights = sorted({fit.left for fit in fits}), sorted({fit.right for fit in fits})
        ordered = [*(self._left[number].is_ordered for number in lefts)]
        ordered += [self._right[number].is_ordered for number in rights]
        known = {(fit.left, fit.right): fit for fit in fits}
        if not (self._holds and all(ordered) and len(lefts) == len(rights)):
            return []
        if len(known) != len(lefts) * len(rights):
            return []
        lefts.sort(key=lambda number: self._left[number].place)
        rights.sort(key=lambda number: self._right[number].place)
        return [known[pair] for pair in zip(lefts, rights, strict=True)]

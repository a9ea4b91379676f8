"""Who may be whose partner: by values first, by names and order where values leave a choice. Pure; reads nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Alone", "Fit", "Suggestion", "is_named_after", "suggest"]

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

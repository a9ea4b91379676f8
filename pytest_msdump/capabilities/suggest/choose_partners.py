"""Which of the tensors whose values fit is the partner: names choose, then order; the rest is ambiguous."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_msdump.core.text import ENGLISH, Phrases

# Another tensor may be the partner unless it fits so many times worse.
_CLEARLY_WORSE = 10.0
# What rounding alone does; below it no tensor fits better than another.
_ROUNDING = 1e-6
# So many clear pairs in the same order on both sides show that the sides ran in one order.
_FEWEST_ANCHORS = 2


@dataclass(frozen=True)
class Unpaired:
    """A tensor without a partner: its operator's name, its place in its side, and whether that is execution order."""

    name: str
    place: int
    is_ordered: bool = True
    is_distinctive: bool = True
    own_name: str = ""


@dataclass(frozen=True)
class Fit:
    """A left and a right tensor, by number, that may be partners."""

    left: int
    right: int
    apart: float | None
    is_close: bool = True

    @property
    def distance(self) -> float:
        """The difference, where rounding counts as none."""
        return max(self.apart or 0.0, _ROUNDING)


@dataclass(frozen=True)
class Suggestion:
    """The clear partner of one right tensor, or all that may be it."""

    right: int
    fits: tuple[Fit, ...]
    how: str
    is_clear: bool = True


def suggest(
    left: Sequence[Unpaired], right: Sequence[Unpaired], fits: Iterable[Fit], *, anchors: Sequence[tuple[int, int]] = ()
) -> list[Suggestion]:
    """Return partners of right tensors, in their order, no left one for two; `anchors` are places of known pairs."""
    fits = list(fits)
    groups = _connected(_best([fit for fit in fits if fit.apart is not None]))
    found: dict[int, Suggestion] = {}
    for group in groups:
        if len(group) == 1 and _is_sure(group[0], left, right):
            found[group[0].right] = Suggestion(group[0].right, (group[0],), "values")
    clear = [(left[one.fits[0].left].place, right[one.right].place) for one in found.values()]
    order = _Order(left, right, [*anchors, *clear])
    for group in groups:
        if group[0].right not in found:
            found.update(_decide(group, left, right, order))
    spoken_for = {fit.left for one in found.values() if one.is_clear for fit in one.fits}
    rest = [fit for fit in fits if fit.apart is None and fit.left not in spoken_for and fit.right not in found]
    for fit in _named(rest, left, right):
        if not order.is_crossed(fit):
            found[fit.right] = Suggestion(fit.right, (fit,), "names alone")
    found |= _named_alike([fit for fit in rest if fit.right not in found], left, right, found)
    return [found[number] for number in sorted(found)]


def _is_sure(fit: Fit, left: Sequence[Unpaired], right: Sequence[Unpaired]) -> bool:
    return fit.is_close and left[fit.left].is_distinctive and right[fit.right].is_distinctive


def _best(fits: Sequence[Fit]) -> list[Fit]:
    """Leave out fits that are clearly worse than another one of the same tensor."""
    least: dict[tuple[str, int], float] = {}
    for fit in fits:
        for key in (("left", fit.left), ("right", fit.right)):
            least[key] = min(least.get(key, fit.distance), fit.distance)
    return [
        fit for fit in fits if fit.distance <= _CLEARLY_WORSE * min(least["left", fit.left], least["right", fit.right])
    ]


def _connected(fits: Sequence[Fit]) -> list[list[Fit]]:
    """Group fits that have a tensor in common, directly or through others."""
    group_of: dict[tuple[str, int], int] = {}
    groups: dict[int, list[Fit]] = {}
    for number, fit in enumerate(fits):
        keys = (("left", fit.left), ("right", fit.right))
        joined = sorted({group_of[key] for key in keys if key in group_of})
        groups[number] = [*(one for known in joined for one in groups.pop(known)), fit]
        for one in groups[number]:
            group_of["left", one.left] = group_of["right", one.right] = number
    return [groups[number] for number in sorted(groups)]


def _decide(
    group: Sequence[Fit], left: Sequence[Unpaired], right: Sequence[Unpaired], order: _Order
) -> dict[int, Suggestion]:
    """Let names choose among tensors with the same values, then order; the rest is ambiguous."""
    found = {fit.right: Suggestion(fit.right, (fit,), "names") for fit in _named(group, left, right)}
    taken = {one.fits[0].left for one in found.values()}
    rest = [fit for fit in group if fit.right not in found and fit.left not in taken]
    for fit in order.aligned(rest) if all(_is_sure(fit, left, right) for fit in rest) else ():
        found[fit.right] = Suggestion(fit.right, (fit,), "order")
    several: dict[int, list[Fit]] = defaultdict(list)
    for fit in rest:
        if fit.right not in found:
            several[fit.right].append(fit)
    for number, some in several.items():
        best_first = tuple(sorted(some, key=lambda fit: (fit.distance, fit.left)))
        found[number] = Suggestion(number, best_first, "values", is_clear=False)
    return found


def _named(fits: Sequence[Fit], left: Sequence[Unpaired], right: Sequence[Unpaired]) -> list[Fit]:
    """Return the fits whose names belong together, and to no other one of these."""
    alike = [fit for fit in fits if is_named_after(left[fit.left].name, right[fit.right].name)]
    lefts, rights = Counter(fit.left for fit in alike), Counter(fit.right for fit in alike)
    return [fit for fit in alike if lefts[fit.left] == rights[fit.right] == 1]


def _named_alike(
    fits: Sequence[Fit], left: Sequence[Unpaired], right: Sequence[Unpaired], found: Mapping[int, Suggestion]
) -> dict[int, Suggestion]:
    """Return the right tensors that several left ones are named after."""
    taken = {fit.left for one in found.values() for fit in one.fits}
    several: dict[int, list[Fit]] = defaultdict(list)
    for fit in fits:
        if fit.left not in taken and is_named_after(left[fit.left].name, right[fit.right].name):
            several[fit.right].append(fit)
    return {number: Suggestion(number, tuple(some), "names alone", is_clear=False) for number, some in several.items()}


def is_named_after(one: str, other: str) -> bool:
    """Whether all words of the shorter name are in the longer one.

    >>> is_named_after("Default/conv1-Conv2d/BiasAdd-op0", "conv1"), is_named_after("conv1", "conv2")
    (True, False)
    """
    few, many = sorted((frozenset(re.findall(r"[^\W_]+", name.lower())) for name in (one, other)), key=len)
    return any(len(word) > 1 for word in few) and few <= many


class _Order:
    """The order of both sides, as far as it is the same."""

    def __init__(self, left: Sequence[Unpaired], right: Sequence[Unpaired], anchors: Sequence[tuple[int, int]]) -> None:
        self._left, self._right = left, right
        self._anchors = sorted(anchors)
        theirs = [place for _, place in self._anchors]
        self._holds = len(theirs) >= _FEWEST_ANCHORS and theirs == sorted(theirs)

    def is_crossed(self, fit: Fit) -> bool:
        """Whether both sides ran in one order, and this fit would break it."""
        ours, theirs = self._left[fit.left], self._right[fit.right]
        if not (self._holds and ours.is_ordered and theirs.is_ordered):
            return False
        return any((ours.place - a) * (theirs.place - b) < 0 for a, b in self._anchors)

    def aligned(self, fits: Sequence[Fit]) -> list[Fit]:
        """Return one partner for each, in order, if every tensor would do for every other one; else none."""
        known = {(fit.left, fit.right): fit for fit in fits if not self.is_crossed(fit)}
        lefts = sorted({left for left, _ in known}, key=lambda number: (self._left[number].place, number))
        rights = sorted({right for _, right in known}, key=lambda number: (self._right[number].place, number))
        is_ordered = all(self._left[number].is_ordered for number in lefts) and all(
            self._right[number].is_ordered for number in rights
        )
        if not (self._holds and is_ordered and len(lefts) == len(rights) and len(known) == len(lefts) * len(rights)):
            return []
        return [known[pair] for pair in zip(lefts, rights, strict=True)]


def fit_text(apart: float, shape: str, by: str = "", say: Phrases = ENGLISH) -> str:
    """Return what speaks for a pair of tensors.

    `apart` is how far their values are apart, over the norm of the right; `shape` is ``"same"``, ``"transposed"`` or
    ``"reshaped"``; `by` says what else than the values decided: ``"names"`` or ``"order"`` among those that fit, and
    ``"names alone"``, ``"place"``, ``"structure"``, ``"replay"`` or ``"against"`` whatever the values are.

    >>> fit_text(2.1e-8, "transposed"), fit_text(0, "same", "order")[:30]
    ('values agree to 2e-08, axes of the right in another order', 'values are equal, same shape; ')
    """
    shape = say(f"shape_{shape}")
    if by == "names alone":
        return say("fits_by_name", shape=shape, apart=f"{apart:.2g}")
    if by in ("structure", "replay", "place", "against"):
        return say(f"fits_by_{by}", shape=shape, apart=f"{apart:.2g}")
    text = say("fits_equal", shape=shape) if apart == 0 else say("fits", shape=shape, apart=f"{apart:.0e}")
    return say.joined([text, say(f"decided_{by}")], "between_clauses") if by in ("names", "order") else text

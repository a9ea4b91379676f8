"""Names that look alike, found without comparing every name with every other."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable

__all__ = ["NearestNames"]

_RETURNED = 3

# The bounds of the work for one name: names looked at, names measured letter by letter, names of a side small enough
# to be looked through when no part of the name is known.
_GATHERED = 60
_MEASURED = 8
_LOOKED_THROUGH = 200

_ALIKE = 0.45


class NearestNames:
    """A search for names like a given one.

    Two names are alike when the rarer parts of the shorter are in the longer (``conv1`` in
    ``Default/conv1-Conv2d/BiasAdd-op0``), or when their letters are nearly the same.

    Parameters
    ----------
    names : iterable of str
        What may be found.
    preferred : collection of str
        Names to return before others: those that have no partner yet.
    """

    def __init__(self, names: Iterable[str], *, preferred: Collection[str] = ()) -> None:
        self._names = list(dict.fromkeys(names))
        self._preferred = preferred
        self._parts = [_parts(name) for name in self._names]
        self._holders: dict[str, list[int]] = defaultdict(list)
        for number, parts in enumerate(self._parts):
            for part in parts:
                self._holders[part].append(number)
        scale = 1 + len(self._names)
        self._weights = {part: math.log(1 + scale / (1 + len(held))) for part, held in self._holders.items()}
        self._unknown_weight = math.log(1 + scale)
        self._totals = [self._weigh(parts) for parts in self._parts]

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return up to three names, preferred ones first, then the most similar.

        Parameters
        ----------
        name : str
            What is looked for.

        Returns
        -------
        tuple of str
            Empty when nothing is alike.
        """
        # Nobody looks for similar names where all tensors have partners.
        from difflib import get_close_matches

        parts = _parts(name)
        gathered = self._gather(parts)
        if not gathered and len(self._names) <= _LOOKED_THROUGH:
            return tuple(get_close_matches(name, self._names, n=_RETURNED))
        total = self._weigh(parts)
        shares = [(self._weigh(parts & self._parts[n]) / min(total, self._totals[n]), n) for n in gathered]
        shares.sort(key=lambda pair: (-pair[0], self._names[pair[1]] not in self._preferred, pair[1]))
        scored = [(self._likeness(name, number, share), number) for share, number in shares[:_MEASURED]]
        alike = [(self._names[number] not in self._preferred, -score, number) for score, number in scored]
        return tuple(self._names[number] for _, score, number in sorted(alike)[:_RETURNED] if -score >= _ALIKE)

    def _gather(self, parts: Collection[str]) -> list[int]:
        """Return names that share a part, by the rarest parts first."""
        gathered: dict[int, None] = {}
        holders = [self._holders[part] for part in parts if part in self._holders]
        for numbers in sorted(holders, key=len):
            gathered.update(dict.fromkeys(numbers[: _GATHERED - len(gathered)]))
            if len(gathered) >= _GATHERED:
                break
        return list(gathered)

    def _weigh(self, parts: Iterable[str]) -> float:
        return math.fsum(self._weights.get(part, self._unknown_weight) for part in parts)

    def _likeness(self, name: str, number: int, share: float) -> float:
        from difflib import SequenceMatcher

        ratio = SequenceMatcher(None, name.lower(), self._names[number].lower()).ratio()
        return max(0.6 * share + 0.4 * ratio, ratio if ratio >= 0.6 else 0.0)


def _parts(name: str) -> frozenset[str]:
    """Split ``conv1-Conv2d`` into conv1, conv, 1, conv2d, 2 and d."""
    words = re.findall(r"[^\W_]+", name.lower())
    return frozenset(words).union(*(re.findall(r"\d+|[^\W\d_]+", word) for word in words))

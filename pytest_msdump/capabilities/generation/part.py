"""What the stage ``ruled`` finds out about a pair, and how a token is named in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from pytest_msdump.core.model.tensor import Pair, TensorRef
from pytest_msdump.core.text import Message, Parameter

NAME = "generation"


class SetAside(NamedTuple):
    """Tokens behind near ties in `routers`, each named by its values: their numbers among all of this shape.

    Of all tokens and routers there may be too many.
    """

    shape: tuple[int, ...]
    rows: tuple[int, ...]
    routers: tuple[str, ...]
    is_many: bool = False

    # Hides the method of tuples.
    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of all tokens."""
        return prod(self.shape)

    @property
    def values(self) -> str:
        """The names of the routers' values, of many the first and the last."""
        first, *_, last = (*self.routers, self.routers[-1])
        between = ", …, " if len(self.routers) > 2 else ", "
        return first if len(self.routers) == 1 else f"{first}{between}{last}"

    @property
    def said(self) -> dict[str, Parameter]:
        """What is said of them."""
        return {"n": len(self.rows), "elements": self.count, "values": self.values}

    def with_more(self, other: SetAside) -> SetAside:
        """Return these tokens, and those behind a later router, of the same shape."""
        return SetAside(self.shape, tuple(sorted({*self.rows, *other.rows})), (*self.routers, *other.routers))


class Part(NamedTuple):
    """What is known of a pair.

    `values` are what it was chosen from, or why these are not known, and `aside` the tokens set aside. `chosen` are the
    ids that the reference chose from it.
    """

    values: Pair | Message | None = None
    aside: SetAside | None = None
    chosen: TensorRef | None = None


def part_of(pair: Pair) -> Part:
    """Return what the stage ``ruled`` found out about a pair."""
    part = pair.parts.get(NAME)
    return part if isinstance(part, Part) else Part()


def runs_without(rows: Iterable[int], count: int) -> tuple[tuple[int, int], ...]:
    """Return first and number of each run of the tokens that are left.

    >>> runs_without([2, 3], 6)
    ((0, 2), (4, 2))
    """
    ends = [-1, *sorted(rows), count]
    return tuple((one + 1, other - one - 1) for one, other in pairwise(ends) if other - one > 1)


# By how many axes there are.
_AXES = {1: ("token",), 2: ("sequence", "token")}


def token_at(place: tuple[int, ...], *, names: tuple[str, ...] | None = None, lengths: Sequence[int] = ()) -> Message:
    """Return sequence and token of an index; of other axes than these, the index.

    Sequences of these `lengths` that are joined are told apart.

    >>> [one.entry["parameters"] for one in token_at((4,), lengths=(3, 2)).parameters["parts"]]
    [{'n': 1}, {'n': 1}]
    """
    if len(place) == 1 and place[0] < sum(lengths):
        sequence, number = 0, place[0]
        while number >= lengths[sequence]:
            sequence, number = sequence + 1, number - lengths[sequence]
        place = (sequence, number)
    names = _AXES.get(len(place)) if names is None else names
    if names is None or len(names) != len(place):
        return Message("of_place", {"place": place})
    parts: tuple[Parameter, ...] = tuple(
        Message(f"of_{name}", {"n": number}) for name, number in zip(names, place, strict=True)
    )
    return Message("of_places", {"parts": parts})

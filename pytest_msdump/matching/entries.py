"""What a person wrote about one pair: an entry of ``[[msdump.map]]``."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_msdump.text import Message

__all__ = ["Lost", "MapEntry"]


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One pair that no rule would find.

    Parameters
    ----------
    left, right : str
        Addresses, with or without ``:io:slot``.
    reshape : bool
        Same values in C order, other shape.
    transpose : tuple of int, optional
        Axes of the right side, to meet the left; the sides' axis orders (``left_format``) then do not apply.
    rank, net, graph, iteration
        Restrict the entry to one value, as the left side counts it; ``None`` = wherever both sides have the tensor.
    label : str
        What messages and `Pair.by` call the entry, e.g. ``"msdump.toml [[msdump.map]] #3"``.
    """

    left: str
    right: str
    reshape: bool = False
    transpose: tuple[int, ...] | None = None
    rank: int | None = None
    net: str | None = None
    graph: int | None = None
    iteration: int | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """An entry's pair that could not be made: why, and on which sides a similar name may help."""

    entry: MapEntry
    why: Message
    absent: tuple[str, ...] = ()

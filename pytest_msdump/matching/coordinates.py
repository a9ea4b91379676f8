"""Which left coordinate meets which right one, when they are not the same: ``iteration = "9->0"``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.model.tensor import COORDINATES, Coordinates

if TYPE_CHECKING:
    from pytest_msdump.matching.addresses import MapEntry
    from pytest_msdump.matching.selection import Selection
    from pytest_msdump.model.dump import Dump

__all__ = [
    "Align",
    "Key",
    "Meeting",
    "Wanted",
    "known",
    "meeting_of",
    "meets",
    "parse_align",
    "raw_key",
    "wanted_by_entry",
    "wanted_by_selection",
    "without_occurrence",
]

_EXAMPLES = {"iteration": "9->0, 10->1", "rank": "4->0", "graph": "1->0", "net": "LeNetA->LeNetB"}
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Align:
    """Arrows ``(left value, right value)`` for each coordinate that can be aligned.

    Notes
    -----
    A left value that an arrow names meets the arrow's right value and no other. A left value that no arrow names meets
    the same value, even where an arrow of another value ends there too: with ``9->0`` both iterations 0 and 9 of the
    left meet iteration 0 of the right. Occurrences are counted, not numbered by the run, and cannot be aligned.
    """

    iteration: tuple[tuple[int, int], ...] = ()
    rank: tuple[tuple[int, int], ...] = ()
    graph: tuple[tuple[int, int], ...] = ()
    net: tuple[tuple[str, str], ...] = ()

    def updated(self, other: Align) -> Align:
        """Return these arrows, and `other`'s in place of them for each coordinate that it has arrows for."""
        return Align(
            other.iteration or self.iteration, other.rank or self.rank, other.graph or self.graph, other.net or self.net
        )


def parse_align(mapping: Mapping[str, str], *, where: str) -> Align:
    """Read the arrows of an `align` table.

    Parameters
    ----------
    mapping : mapping of str to str
        Coordinate to arrows, e.g. ``{"iteration": "9->0, 10->1"}``; arrows are parted by ``,`` or ``|``.
    where : str
        What messages call the place, e.g. ``"msdump.toml: align"``.

    Returns
    -------
    Align
        The arrows, in the order written.

    Raises
    ------
    UnknownNameError
        A key that is not a coordinate one can align.
    ConfigError
        Arrows that cannot be read, or two arrows from one left value.
    """
    numbers: dict[str, tuple[tuple[int, int], ...]] = {}
    nets: tuple[tuple[str, str], ...] = ()
    for coordinate, text in mapping.items():
        if coordinate not in _EXAMPLES:
            raise UnknownNameError(f"{where}: '{coordinate}' cannot be aligned; {nearest(coordinate, _EXAMPLES)}")
        arrows = _arrows(coordinate, text, where=where)
        if coordinate == "net":
            nets = arrows
        else:
            numbers[coordinate] = tuple((int(left), int(right)) for left, right in arrows)
            _refuse_repeats(coordinate, [left for left, _ in numbers[coordinate]], where=where)
    _refuse_repeats("net", [left for left, _ in nets], where=where)
    return Align(net=nets, **numbers)


def _arrows(coordinate: str, text: object, *, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(text, str):
        raise _unreadable(coordinate, text, where=where)
    arrows = []
    for part in re.split(r"[,|]", text):
        left, arrow, right = (piece.strip() for piece in part.partition("->"))
        numbers_asked = coordinate != "net"
        readable = bool(arrow and left and right)
        if not readable or (numbers_asked and not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right))):
            raise _unreadable(coordinate, text, where=where)
        arrows.append((left, right))
    return tuple(arrows)


def _unreadable(coordinate: str, text: object, *, where: str) -> ConfigError:
    return ConfigError(
        f"{where}: {coordinate} = {text!r} is not 'left->right'; write for example "
        f'{coordinate} = "{_EXAMPLES[coordinate]}"'
    )


def _refuse_repeats(coordinate: str, lefts: Sequence[int | str], *, where: str) -> None:
    seen = set()
    for value in lefts:
        if value in seen:
            raise ConfigError(
                f"{where}: {coordinate} {value} of the left side has two arrows; a left value meets one right value"
            )
        seen.add(value)


# -- Coordinates -----------------------------------------------------------------------------------------------------


# One value for each of COORDINATES, in their order; None meets any value.
Key = tuple[int | str | None, ...]

# For each of COORDINATES the left values asked for; None = all.
Wanted = tuple[frozenset[int | str] | None, ...]

# One value on each side says nothing about who belongs to whom: a card's number, the name a net was given, the step
# that was dumped. Occurrences are counted by us, so 1 is not 0 even when each side has only the one.
_LABELS = frozenset({"rank", "net", "graph", "iteration"})


def raw_key(at: Coordinates) -> Key:
    """Return the coordinates in the order of COORDINATES."""
    return (at.rank, at.net, at.graph, at.iteration, at.occurrence)


def meets(one: Key, other: Key) -> bool:
    """Whether two places are the same as far as both sides tell."""
    return one == other or all(a == b or a is None or b is None for a, b in zip(one, other, strict=True))


def known(key: Key) -> tuple[bool, ...]:
    """Return which coordinates a place has."""
    rank, net, graph, iteration, occurrence = key
    # Spelled out: this runs several times for each operator of a dump.
    return (rank is not None, net is not None, graph is not None, iteration is not None, occurrence is not None)


def without_occurrence(key: Key) -> Key:
    """Return a place with every repeat inside its iteration."""
    return (*key[:-1], None)


@dataclass(frozen=True, slots=True)
class Meeting:
    """How places of two dumps are compared.

    Parameters
    ----------
    arrows : tuple of mapping
        For each of COORDINATES, left value to right value where an arrow says so.
    labels : tuple of str or int, optional
        For each of COORDINATES the left side's value where it is but a label; ``None`` where the coordinate counts.
    notes : tuple of str
        Sentences for the header on what meets although its numbers differ.
    """

    arrows: tuple[Mapping[int | str, int | str], ...]
    labels: Key
    notes: tuple[str, ...] = ()

    def left_key(self, at: Key) -> Key:
        """Return a left place as the right side would write it."""
        return tuple(
            None if label is not None or value is None else arrows.get(value, value)
            for value, label, arrows in zip(at, self.labels, self.arrows, strict=True)
        )

    def right_key(self, at: Key) -> Key:
        """Return a right place without what is but a label."""
        return tuple(None if label is not None else value for value, label in zip(at, self.labels, strict=True))

    def wants_left(self, at: Key, wanted: Wanted) -> bool:
        """Whether a left place is asked for."""
        return all(asked is None or value is None or value in asked for value, asked in zip(at, wanted, strict=True))

    def wants_right(self, at: Key, wanted: Wanted) -> bool:
        """Whether a right place could meet a left place that is asked for."""
        for value, asked, label, arrows in zip(at, wanted, self.labels, self.arrows, strict=True):
            if asked is None or value is None:
                continue
            if label is not None and label not in asked:
                return False
            if label is None and value not in {arrows.get(one, one) for one in asked}:
                return False
        return True


def meeting_of(left: Dump, right: Dump, align: Align) -> Meeting:
    """Work out how the places of two dumps are compared."""
    arrows: list[Mapping[int | str, int | str]] = []
    labels: list[int | str | None] = []
    notes: tuple[str, ...] = ()
    lefts, rights = _places(left), _places(right)
    for position, name in enumerate(COORDINATES):
        pairs: Iterable[tuple[int | str, int | str]] = getattr(align, name, ())
        arrows.append(dict(pairs))
        ours, theirs = _values(lefts, position), _values(rights, position)
        is_label = name in _LABELS and not arrows[-1] and len(ours) == len(theirs) == 1
        labels.append(next(iter(ours)) if is_label else None)
        if is_label and name == "iteration" and ours != theirs:
            notes = (f"iteration {next(iter(ours))} of the left meets iteration {next(iter(theirs))} of the right",)
    return Meeting(tuple(arrows), tuple(labels), notes)


def wanted_by_selection(selection: Selection) -> Wanted:
    """Return the left values that a selection asks for."""
    return tuple(_asked(getattr(selection, name, None)) for name in COORDINATES)


def wanted_by_entry(entry: MapEntry) -> Wanted:
    """Return the left values that a map entry is restricted to."""
    values = (getattr(entry, name, None) for name in COORDINATES)
    return tuple(None if value is None else frozenset({value}) for value in values)


def _asked(values: frozenset[int] | None) -> frozenset[int | str] | None:
    return None if values is None else frozenset(values)


def _places(dump: Dump) -> set[Key]:
    # By identity first: a dump has very many tensors, most of which share their coordinates.
    places = [ref.key.op.at for ref in dump.refs]
    return {raw_key(at) for at in dict(zip(map(id, places), places, strict=True)).values()}


def _values(places: Iterable[Key], position: int) -> set[int | str]:
    return {value for key in places if (value := key[position]) is not None}

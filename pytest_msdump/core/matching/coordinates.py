"""Coordinates of operators, and how those of two dumps are compared when they differ: ``iteration = "9->0"``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import and_
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.matching.selection import MapEntry, Selection
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates

_EXAMPLES = {"iteration": "9->0, 10->1", "rank": "4->0", "graph": "1->0", "net": "LeNetA->LeNetB"}
_NUMBER = re.compile(r"[0-9]{1,18}")


class Align(NamedTuple):
    """Arrows ``(left value, right value)`` for each coordinate that can be aligned."""

    iteration: tuple[tuple[int, int], ...] = ()
    rank: tuple[tuple[int, int], ...] = ()
    graph: tuple[tuple[int, int], ...] = ()
    net: tuple[tuple[str, str], ...] = ()

    def updated(self, other: Align) -> Align:
        """Return these arrows, with `other`'s instead for each coordinate that it has arrows for."""
        return Align(
            other.iteration or self.iteration, other.rank or self.rank, other.graph or self.graph, other.net or self.net
        )


def parse_align(mapping: Mapping[str, str], *, where: str) -> Align:
    """Read an `align` table, e.g. ``{"iteration": "9->0, 10->1"}``; ``,`` or ``|`` separates arrows."""
    arrows: dict[str, Any] = {}
    for coordinate, text in mapping.items():
        if coordinate not in _EXAMPLES:
            raise UnknownNameError(f"{where}: '{coordinate}' cannot be aligned; {nearest(coordinate, _EXAMPLES)}")
        arrows[coordinate] = _arrows(coordinate, text, where=where)
        for value, count in Counter(left for left, _ in arrows[coordinate]).items():
            if count > 1:
                raise ConfigError(
                    f"{where}: {coordinate} {value} of the left side has two arrows; a left value meets one right value"
                )
    return Align(**arrows)


def _arrows(coordinate: str, text: object, *, where: str) -> tuple[tuple[int | str, int | str], ...]:
    arrows: list[tuple[int | str, int | str]] = []
    for part in re.split(r"[,|]", text) if isinstance(text, str) else [""]:
        left, _, right = (piece.strip() for piece in part.partition("->"))
        if coordinate == "net" and left and right:
            arrows.append((left, right))
        elif coordinate != "net" and _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
            arrows.append((int(left), int(right)))
        else:
            raise ConfigError(
                f"{where}: {coordinate} = {text!r} is not 'left->right'; write for example "
                f'{coordinate} = "{_EXAMPLES[coordinate]}"'
            )
    return tuple(arrows)


# One value for each of COORDINATES, in their order; None agrees with any value.
Place = tuple[int | str | None, ...]

# For each of COORDINATES the left values asked for; None = all.
Wanted = tuple[frozenset[int | str] | None, ...]

# For each coordinate whether a place has it.
_Pattern = tuple[bool, ...]

# One value on each side does not distinguish partners: a card's number, the name of a net, the step that was dumped.
# Occurrences are counted by us, so 1 is not 0 even when each side has only the one.
_LABELS = frozenset({"rank", "net", "graph", "iteration"})


def place_of(at: Coordinates) -> Place:
    """Return the coordinates in the order of COORDINATES."""
    return (at.rank, at.net, at.graph, at.iteration, at.occurrence)


def compatible(one: Place, other: Place) -> bool:
    """Whether two places agree in every coordinate that both have."""
    return one == other or all(a == b or a is None or b is None for a, b in zip(one, other, strict=True))


def without_occurrence(place: Place) -> Place:
    """Return a place with every repeat inside its iteration."""
    return (*place[:-1], None)


class PlaceIndex:
    """Finds among many places those that are compatible with a given one, without looking at each."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._by_pattern: defaultdict[_Pattern, list[Place]] = defaultdict(list)
        for place in dict.fromkeys(places):
            self._by_pattern[_pattern(place)].append(place)
        self._by_common: dict[tuple[_Pattern, _Pattern], Mapping[Place, Sequence[Place]]] = {}
        self._found: dict[Place, Sequence[Place]] = {}

    def compatible(self, place: Place) -> Sequence[Place]:
        """Return the indexed places that are compatible with this one."""
        found = self._found.get(place)
        if found is None:
            found = self._found[place] = self._search(place)
        return found

    def _search(self, place: Place) -> Sequence[Place]:
        found: list[Place] = []
        mine = _pattern(place)
        for theirs, places in self._by_pattern.items():
            common = tuple(map(and_, mine, theirs))
            if (theirs, common) not in self._by_common:
                groups: defaultdict[Place, list[Place]] = defaultdict(list)
                for other in places:
                    groups[_restricted(other, common)].append(other)
                self._by_common[theirs, common] = groups
            found += self._by_common[theirs, common].get(_restricted(place, common), ())
        return found


def _pattern(place: Place) -> _Pattern:
    return tuple([value is not None for value in place])


def _restricted(place: Place, kept: _Pattern) -> Place:
    return tuple([value if is_kept else None for value, is_kept in zip(place, kept, strict=True)])


class CommonCoordinates(NamedTuple):
    """The coordinates in which places of two dumps are compared."""

    arrows: tuple[Mapping[int | str, int | str], ...]
    labels: Place
    notes: tuple[str, ...] = ()

    def of_left(self, place: Place) -> Place:
        """Return a left place as the right side would write it, without labels."""
        return tuple(
            None if label is not None or value is None else arrows.get(value, value)
            for value, label, arrows in zip(place, self.labels, self.arrows, strict=True)
        )

    def of_right(self, place: Place) -> Place:
        """Return a right place without labels."""
        return tuple(None if label is not None else value for value, label in zip(place, self.labels, strict=True))

    def wants_left(self, place: Place, wanted: Wanted) -> bool:
        """Whether a left place is asked for."""
        return all(asked is None or value is None or value in asked for value, asked in zip(place, wanted, strict=True))

    def wants_right(self, place: Place, wanted: Wanted) -> bool:
        """Whether a right place is compatible with a left place that is asked for."""
        for value, asked, label, arrows in zip(place, wanted, self.labels, self.arrows, strict=True):
            if asked is None or value is None:
                continue
            if label is not None and label not in asked:
                return False
            if label is None and value not in {arrows.get(one, one) for one in asked}:
                return False
        return True


def common_coordinates(left: Dump, right: Dump, align: Align) -> CommonCoordinates:
    """Work out the coordinates in which places of two dumps are compared."""
    all_arrows: list[Mapping[int | str, int | str]] = []
    labels: list[int | str | None] = []
    notes: tuple[str, ...] = ()
    places = [{place_of(at) for at in {ref.key.op.at for ref in dump.refs}} for dump in (left, right)]
    for position, name in enumerate(COORDINATES):
        arrows: Mapping[int | str, int | str] = dict(getattr(align, name, ()))
        ours, theirs = ({place[position] for place in side} - {None} for side in places)
        label = None
        if name in _LABELS and not arrows and len(ours) == len(theirs) == 1:
            label, other = *ours, *theirs
            if name == "iteration" and label != other:
                notes = (f"iteration {label} of the left meets iteration {other} of the right",)
        all_arrows.append(arrows)
        labels.append(label)
    return CommonCoordinates(tuple(all_arrows), tuple(labels), notes)


def wanted_by_selection(selection: Selection) -> Wanted:
    """Return the left values that a selection asks for."""
    values = (getattr(selection, name, None) for name in COORDINATES)
    return tuple(None if asked is None else frozenset(asked) for asked in values)


def wanted_by_entry(entry: MapEntry) -> Wanted:
    """Return the left values that a map entry is restricted to."""
    values = (getattr(entry, name, None) for name in COORDINATES)
    return tuple(None if value is None else frozenset({value}) for value in values)

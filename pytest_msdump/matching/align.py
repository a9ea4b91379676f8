"""Which left coordinate meets which right one, when they are not the same: ``iteration = "9->0"``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest

__all__ = ["Align", "parse_align"]

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

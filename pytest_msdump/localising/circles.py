"""Operators that feed one another, as groups, producers before consumers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["components"]


def components(above: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph (Tarjan's algorithm with a stack of its own).

    Parameters
    ----------
    above : sequence of sequence of int
        By operator: those that feed it.

    Yields
    ------
    list of int
        Ascending. Whatever feeds a component comes before it.

    References
    ----------
    R. Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1 (1972).

    Examples
    --------
    >>> list(components([[1], [2], [1], [0]]))
    [[1, 2], [0], [3]]
    """
    found: list[int] = [0] * len(above)
    low: list[int] = [0] * len(above)
    open_: list[int] = []
    is_open = [False] * len(above)
    count = 0
    for start in range(len(above)):
        if found[start]:
            continue
        path = [(start, 0)]
        while path:
            member, position = path.pop()
            if not found[member]:
                count += 1
                found[member] = low[member] = count
                open_.append(member)
                is_open[member] = True
            elif position:
                low[member] = min(low[member], low[above[member][position - 1]])
            position = _next(above[member], position, member, found, low, is_open)
            if position < len(above[member]):
                path += [(member, position + 1), (above[member][position], 0)]
            elif low[member] == found[member]:
                yield _closed(member, open_, is_open)


def _next(
    producers: Sequence[int], position: int, member: int, found: list[int], low: list[int], is_open: list[bool]
) -> int:
    """The position of the next producer that nobody has seen; those that are seen and open pull `member` up."""
    while position < len(producers) and found[producers[position]]:
        if is_open[producers[position]]:
            low[member] = min(low[member], found[producers[position]])
        position += 1
    return position


def _closed(member: int, open_: list[int], is_open: list[bool]) -> list[int]:
    start = len(open_) - 1
    while open_[start] != member:
        start -= 1
    circle = open_[start:]
    del open_[start:]
    for one in circle:
        is_open[one] = False
    return sorted(circle)

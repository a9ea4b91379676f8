"""Operators that feed one another in a circle: loops of control flow, or a damaged file."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_msdump.model.graph import Operator

__all__ = ["operators_in_circles"]


def operators_in_circles(operators: Sequence[Operator]) -> tuple[str, ...]:
    """Name the operators that no order of execution can place, without those that only follow them.

    Parameters
    ----------
    operators : sequence of Operator
        Any number, each name once; linear in operators and edges, and not recursive.

    Returns
    -------
    tuple of str
        In the order given: all that lie on a circle, or between two circles.
    """
    if _is_in_order(operators):
        return ()
    fed_by = {operator.name: {edge.producer for edge in operator.inputs if edge is not None} for operator in operators}
    known = {name: {producer for producer in producers if producer in fed_by} for name, producers in fed_by.items()}
    feeds: dict[str, set[str]] = {name: set() for name in known}
    for name, producers in known.items():
        for producer in producers:
            feeds[producer].add(name)
    # What is left after peeling from the front has a circle before it; from the back, one behind it.
    left = _peeled(known, feeds) & _peeled(feeds, known)
    return tuple(operator.name for operator in operators if operator.name in left)


def _is_in_order(operators: Sequence[Operator]) -> bool:
    """Whether every operator comes behind all that feed it, as compilers write them: then there is no circle."""
    waiting = {operator.name for operator in operators}
    for operator in operators:
        for edge in operator.inputs:
            if edge is not None and edge.producer in waiting:
                return False
        waiting.discard(operator.name)
    return True


def _peeled(needs: dict[str, set[str]], gives: dict[str, set[str]]) -> set[str]:
    """Take away, again and again, what needs nothing that is left."""
    waiting = {name: len(needed) for name, needed in needs.items()}
    ready = [name for name, count in waiting.items() if not count]
    while ready:
        name = ready.pop()
        del waiting[name]
        for other in gives[name]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return set(waiting)

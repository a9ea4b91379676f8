"""Roles where no graph tells who feeds whom: all that is left is who ran first."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from pytest_msdump.localising.frontier import MOST_LISTED, Node, Role

__all__ = ["by_order"]

Op = TypeVar("Op", bound=Hashable)


def by_order(nodes: Mapping[Op, Node[Op]]) -> dict[Op, Role[Op]]:
    """Tell the first failing operator from those that follow it.

    Parameters
    ----------
    nodes : mapping
        Operators in execution order. Of `feeds` only the operators' own inputs count, where these were compared.

    Returns
    -------
    dict
        Of every failing operator. The first one is the cause unless something before it was not seen; the others are
        unknown, as long as their own inputs do not tell.

    Examples
    --------
    >>> roles = by_order({"conv": Node("passes"), "add": Node("fails"), "relu": Node("fails")})
    >>> [(op, role.name) for op, role in roles.items()]
    [('add', 'cause'), ('relu', 'unknown')]
    """
    roles: dict[Op, Role[Op]] = {}
    unseen: list[Op] = []
    within: list[Op] = []
    for op, node in nodes.items():
        if node.standing == "unseen":
            unseen.append(op)
        elif node.standing == "within":
            within.append(op)
        elif node.standing == "passes":
            # Whatever runs between two compared operators is nearest to the later one.
            within.clear()
        elif node.standing == "fails":
            roles[op] = _by_inputs(node) or _by_place(not roles, unseen, within)
            within.clear()
    return roles


def _by_inputs(node: Node[Op]) -> Role[Op] | None:
    standings = {feed.standing for feed in node.feeds or ()}
    if "fails" in standings:
        return Role("inherited")
    return Role("cause") if standings == {"passes"} else None


def _by_place(is_first: bool, unseen: list[Op], within: list[Op]) -> Role[Op]:
    if not is_first:
        return Role("unknown", why="order")
    if unseen:
        return Role("unknown", suspects=tuple(unseen[-MOST_LISTED:]), why="unseen")
    return Role("cause", suspects=tuple(within[-MOST_LISTED:]))

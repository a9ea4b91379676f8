"""Roles of failing operators, from the status of every operator and the edges between them. See ``localising.md``.

Operators may be any hashable values. Nothing here recurses, so a network may be as deep as it likes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["MOST_LISTED", "Feed", "Node", "Role", "components", "roles_by_graph", "roles_by_order"]

MOST_LISTED = 8

Op = TypeVar("Op", bound=Hashable)

# Not compared, and not the end of a path: the search goes on to what feeds them.
_WALKED = ("part", "forwards")


@dataclass(frozen=True, slots=True)
class Feed(Generic[Op]):
    """One input: the operator that produces it, and the status of this very tensor.

    `status` is ``"passes"``, ``"fails"``, or ``None`` if it was not compared. `producer` is ``None`` if unknown.
    """

    producer: Op | None
    status: str | None = None


@dataclass(frozen=True, slots=True)
class Node(Generic[Op]):
    """One operator.

    `status` is ``"fails"`` or ``"passes"`` if it was compared. Otherwise: ``"part"``, the other side has it as part of
    the operator that follows; ``"forwards"``, it hands its input on; ``"given"``, a weight or an input of the network;
    ``"unseen"``, nothing is known of it, so it may be the cause. `feeds` is ``None`` if its inputs are unknown.
    """

    status: str
    feeds: Sequence[Feed[Op]] | None = ()


@dataclass(frozen=True, slots=True)
class Role(Generic[Op]):
    """The role of a failing operator.

    Parameters
    ----------
    name : str
        ``"cause"``, ``"inherited"`` or ``"unknown"``.
    causes : tuple
        Where an inherited failure begins: causes and unknown failures, the first eight in the order of the nodes.
    suspects : tuple
        Operators that were not compared, one of which may be the cause.
    given : tuple
        Weights and inputs of the network that feed it and were not compared.
    why : str
        Why it is unknown: ``"unseen"`` (some of `suspects`), ``"shared"`` (`suspects` feed several that fail),
        ``"circle"`` (it and `suspects` feed one another), ``"order"``, ``"feeds"`` (its inputs are unknown), or a code
        of the caller's.
    """

    name: str
    causes: tuple[Op, ...] = ()
    suspects: tuple[Op, ...] = ()
    given: tuple[Op, ...] = ()
    why: str = ""


def roles_by_graph(nodes: Mapping[Op, Node[Op]]) -> dict[Op, Role[Op]]:
    """Return the role of every failing operator: a cause if everything that feeds it passes, else inherited or unknown.

    `nodes` are in execution order; a producer that is not among them counts as unseen. Operators that were not compared
    are walked through, up to the nearest that were. An operator below a failing one is inherited though it may be wrong
    as well: only its own inputs, compared and passing, can tell.

    Examples
    --------
    >>> nodes = {"conv": Node("passes"), "add": Node("fails", [Feed("conv")]), "relu": Node("fails", [Feed("add")])}
    >>> [(op, role.name, role.causes) for op, role in roles_by_graph(nodes).items()]
    [('add', 'cause', ()), ('relu', 'inherited', ('add',))]
    """
    return _Frontier(nodes).roles()


def roles_by_order(nodes: Mapping[Op, Node[Op]]) -> dict[Op, Role[Op]]:
    """Return the role of every failing operator where only their order is known.

    The first to fail is the cause unless an operator before it was not seen; later ones are unknown. An operator's own
    inputs, where they were compared, decide before its place does.

    Examples
    --------
    >>> roles = roles_by_order({"conv": Node("passes"), "add": Node("fails"), "relu": Node("fails")})
    >>> [(op, role.name) for op, role in roles.items()]
    [('add', 'cause'), ('relu', 'unknown')]
    """
    roles: dict[Op, Role[Op]] = {}
    unseen: list[Op] = []
    parts: list[Op] = []
    for op, node in nodes.items():
        inputs = {feed.status for feed in node.feeds or ()}
        if node.status == "unseen":
            unseen.append(op)
        elif node.status == "part":
            parts.append(op)
        elif node.status == "passes":
            # An operator between two compared ones is part of the later one.
            parts.clear()
        elif node.status == "fails":
            if "fails" in inputs:
                role: Role[Op] = Role("inherited")
            elif inputs == {"passes"}:
                role = Role("cause")
            elif roles:
                role = Role("unknown", why="order")
            elif unseen:
                role = Role("unknown", suspects=tuple(unseen[-MOST_LISTED:]), why="unseen")
            else:
                role = Role("cause", suspects=tuple(parts[-MOST_LISTED:]))
            roles[op] = role
            parts.clear()
    return roles


@dataclass(slots=True)
class _Above:
    """What lies above an operator, up to the nearest that were compared, by number."""

    roots: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    fails: bool = False
    # Failures that begin below; whether there are two is all that matters.
    heads: set[int] = field(default_factory=set)
    shared: tuple[int, ...] = ()


class _Frontier(Generic[Op]):
    """Operators by number, so that "the first eight" means the first in execution order."""

    def __init__(self, nodes: Mapping[Op, Node[Op]]) -> None:
        producers = (feed.producer for node in nodes.values() for feed in node.feeds or ())
        unseen: dict[Op, Node[Op]] = {
            one: Node("unseen", None) for one in producers if one is not None and one not in nodes
        }
        known = {**nodes, **unseen}
        self._names = list(known)
        self._nodes = list(known.values())
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._producers = [list(dict.fromkeys(self._followed(node))) for node in self._nodes]
        self._above = [_Above() for _ in self._nodes]
        self._roles: dict[int, Role[Op]] = {}

    def roles(self) -> dict[Op, Role[Op]]:
        """Go from producers to consumers, then back to count what several share, then down again."""
        circles = list(components(self._producers))
        for circle in circles:
            self._judge(circle)
        for circle in reversed(circles):
            self._count_heads(circle)
        for circle in circles:
            self._doubt_shared(circle)
        return {self._names[number]: self._roles[number] for number in sorted(self._roles)}

    def _followed(self, node: Node[Op]) -> Iterator[int]:
        """Yield the producers that a failure may have come through."""
        if node.status not in ("passes", "given"):
            for feed in node.feeds or ():
                if feed.status != "passes" and feed.producer is not None:
                    number = self._numbers[feed.producer]
                    if self._nodes[number].status != "passes":
                        yield number

    def _judge(self, circle: Sequence[int]) -> None:
        """Gather what lies above operators that feed one another (usually one alone), and give their roles."""
        outside = [self._above[number] for member in circle for number in self._producers[member]]
        above = _Above(
            roots=_first(number for one in outside for number in one.roots),
            parts=_last(number for one in outside for number in one.parts),
            unseen=_first(number for one in outside for number in one.unseen),
            given=_first(number for one in outside for number in one.given),
            fails=any(one.fails for one in outside),
        )
        for member in circle:
            self._add_evidence(above, member)
        for member in circle:
            node = self._nodes[member]
            if node.status == "part":
                above.parts = _last((*above.parts, member))
            elif node.status == "given":
                above.given = _first((*above.given, member))
            if node.status == "unseen" or (node.status in _WALKED and node.feeds is None):
                above.unseen = _first((*above.unseen, member))
        failing = [member for member in circle if self._nodes[member].status == "fails"]
        if failing:
            is_known = all(self._nodes[member].feeds is not None for member in circle)
            self._give_roles(failing, above, is_known=is_known)
            above = _Above(roots=above.roots if above.fails else _first(failing), parts=above.parts, fails=True)
        for member in circle:
            self._above[member] = above

    def _add_evidence(self, above: _Above, member: int) -> None:
        """Let an input that fails show that its producer does, even if the producer was not compared."""
        for feed in self._nodes[member].feeds or ():
            if feed.status != "fails":
                continue
            number = None if feed.producer is None else self._numbers[feed.producer]
            status = "" if number is None else self._nodes[number].status
            # A producer that fails is followed anyway, unless this very operator feeds it.
            above.fails |= status != "fails"
            if number is not None and status == "passes":
                above.unseen = _first((*above.unseen, number))

    def _give_roles(self, failing: Sequence[int], above: _Above, *, is_known: bool) -> None:
        name, why, suspects = "unknown", "unseen", above.unseen
        if above.fails:
            name, suspects = "inherited", () if above.roots else (above.unseen or above.parts)
        elif len(failing) > 1:
            why, suspects = "circle", tuple(failing[:MOST_LISTED])
        elif not above.unseen and not is_known:
            why = "feeds"
        elif not above.unseen:
            name, suspects = "cause", above.parts
        for member in failing:
            self._roles[member] = Role(
                name,
                causes=self._named(above.roots),
                suspects=self._named(number for number in suspects if number != member),
                given=() if name == "inherited" else self._named(above.given),
                why=why if name == "unknown" else "",
            )

    def _count_heads(self, circle: Sequence[int]) -> None:
        """Pass up to operators that were not compared which failures begin below them, at most two each."""
        heads = {member for member in circle if member in self._roles and self._roles[member].name != "inherited"}
        for member in circle:
            heads |= self._above[member].heads
        two = sorted(heads)[:2]
        for member in circle:
            for number in self._producers[member]:
                if self._nodes[number].status != "fails" and len(self._above[number].heads) < 2:
                    self._above[number].heads.update(two)
            if self._nodes[member].status != "fails":
                self._above[member].heads.update(two)

    def _doubt_shared(self, circle: Sequence[int]) -> None:
        """Take back a cause that has a part above it in common with another failure."""
        shared: tuple[int, ...] = ()
        for member in circle:
            for number in self._producers[member]:
                if self._nodes[number].status != "fails":
                    shared = _first((*shared, *self._above[number].shared))
            if self._nodes[member].status == "part" and len(self._above[member].heads) > 1:
                shared = _first((*shared, member))
        for member in circle:
            self._above[member].shared = shared
            role = self._roles.get(member)
            if shared and role is not None and role.name == "cause":
                self._roles[member] = Role("unknown", suspects=self._named(shared), given=role.given, why="shared")

    def _named(self, numbers: Iterable[int]) -> tuple[Op, ...]:
        return tuple(self._names[number] for number in numbers)


def _first(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers))[:MOST_LISTED])


def _last(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers))[-MOST_LISTED:])


def components(producers: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph, each ascending, after all that feed it.

    References
    ----------
    R. Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1 (1972).

    Examples
    --------
    >>> list(components([[1], [2], [1], [0]]))
    [[1, 2], [0], [3]]
    """
    reached: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: dict[int, None] = {}
    for start in range(len(producers)):
        path = [] if start in reached else [(start, iter(producers[start]))]
        while path:
            member, rest = path[-1]
            if member not in reached:
                reached[member] = low[member] = len(reached)
                open_[member] = None
            for producer in rest:
                if producer not in reached:
                    path.append((producer, iter(producers[producer])))
                    break
                if producer in open_:
                    low[member] = min(low[member], reached[producer])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[member])
                if low[member] == reached[member]:
                    circle = [open_.popitem()[0]]
                    while circle[-1] != member:
                        circle.append(open_.popitem()[0])
                    yield sorted(circle)

"""The frontier of causes: operators that fail although everything that feeds them passes. Linear, not recursive."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["MOST_LISTED", "Feed", "Node", "Role", "by_order", "components", "frontier"]


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


# -- The frontier of causes ------------------------------------------------------------------------------------------


MOST_LISTED = 8

Op = TypeVar("Op", bound=Hashable)

# Not compared, and not the end of a path: what feeds them is looked at as well.
_WALKED = ("within", "clear")


@dataclass(frozen=True, slots=True)
class Feed(Generic[Op]):
    """What feeds an input: an operator, and what is known of this very tensor.

    `standing` is ``"passes"``, ``"fails"``, or ``None`` where nobody compared it. `producer` is ``None`` where no graph
    tells it.
    """

    producer: Op | None
    standing: str | None = None


@dataclass(frozen=True, slots=True)
class Node(Generic[Op]):
    """One operator.

    Parameters
    ----------
    standing : str
        ``"fails"`` or ``"passes"`` of one that was compared. Of others: ``"within"``, the other side has it as part of
        the operator that follows; ``"clear"``, it hands its input on; ``"given"``, a weight or an input of the network;
        ``"unseen"``, nothing is known of it, so that it may be what started everything.
    feeds : sequence of Feed, optional
        By input; ``None`` where nobody knows what feeds it.
    """

    standing: str
    feeds: Sequence[Feed[Op]] | None = ()


@dataclass(frozen=True, slots=True)
class Role(Generic[Op]):
    """What a failing operator is.

    Parameters
    ----------
    name : str
        ``"cause"``, ``"inherited"`` or ``"unknown"``.
    causes : tuple
        Of an inherited failure: what it goes back to, the first eight in the order given; causes, and failures of
        which nobody knows whether they are.
    suspects : tuple
        Operators that were not compared, one of which may have started it.
    given : tuple
        Weights and inputs of the network that feed it and were not compared.
    why : str
        Why it is unknown: ``"unseen"`` (some of `suspects`), ``"shared"`` (`suspects` feed several that fail),
        ``"circle"`` (`suspects` and it feed one another and all fail), ``"order"``, ``"feeds"`` (nobody knows what
        feeds it), or what the caller finds.
    """

    name: str
    causes: tuple[Op, ...] = ()
    suspects: tuple[Op, ...] = ()
    given: tuple[Op, ...] = ()
    why: str = ""


@dataclass(slots=True)
class _Trace(Generic[Op]):
    """What lies above an operator, up to the nearest that were compared."""

    roots: tuple[int, ...] = ()
    within: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    fails: bool = False
    is_known: bool = True
    heads: set[int] = field(default_factory=set)
    shared: tuple[int, ...] = ()


def frontier(nodes: Mapping[Op, Node[Op]]) -> dict[Op, Role[Op]]:
    """Find out which failing operators are causes, and which inherit.

    Parameters
    ----------
    nodes : mapping
        Operators in execution order. One that is named as a producer and is not among them was not seen.

    Returns
    -------
    dict
        The role of every failing operator, in the order given.

    Notes
    -----
    A failing operator below a failing one is inherited, though it may be faulty as well: nothing but its own inputs,
    compared and passing, could tell. Operators that were not compared are walked through, up to those that were.

    Examples
    --------
    >>> nodes = {"conv": Node("passes"), "add": Node("fails", [Feed("conv")]), "relu": Node("fails", [Feed("add")])}
    >>> [(op, role.name, role.causes) for op, role in frontier(nodes).items()]
    [('add', 'cause', ()), ('relu', 'inherited', ('add',))]
    """
    return _Frontier(nodes).roles()


class _Frontier(Generic[Op]):
    """Numbers in the place of operators, so that the first eight of many are found by comparing."""

    def __init__(self, nodes: Mapping[Op, Node[Op]]) -> None:
        self._names = list(nodes)
        self._nodes = list(nodes.values())
        numbers = {name: number for number, name in enumerate(self._names)}
        for node in list(self._nodes):
            for feed in node.feeds or ():
                if feed.producer is not None and feed.producer not in numbers:
                    numbers[feed.producer] = len(self._names)
                    self._names.append(feed.producer)
                    self._nodes.append(Node("unseen", None))
        self._numbers = numbers
        self._above = [list(dict.fromkeys(self._followed(node))) for node in self._nodes]
        self._traces: list[_Trace[Op]] = [_Trace() for _ in self._nodes]
        self._found: dict[int, Role[Op]] = {}

    def roles(self) -> dict[Op, Role[Op]]:
        """From producers to consumers, then back for what several share, then down again."""
        circles = list(components(self._above))
        for circle in circles:
            self._trace(circle)
        for circle in reversed(circles):
            self._count_heads(circle)
        for circle in circles:
            self._find_shared(circle)
        return {self._names[number]: self._found[number] for number in sorted(self._found)}

    def _followed(self, node: Node[Op]) -> Iterator[int]:
        """Producers that a failure may come through; of what passes nothing comes."""
        if node.standing not in ("passes", "given"):
            for feed in node.feeds or ():
                if feed.standing != "passes" and feed.producer is not None:
                    number = self._numbers[feed.producer]
                    if self._nodes[number].standing != "passes":
                        yield number

    def _trace(self, circle: Sequence[int]) -> None:
        """Gather what lies above operators that feed one another, usually one alone."""
        members = set(circle)
        outside = [self._traces[number] for member in circle for number in self._above[member] if number not in members]
        above: _Trace[Op] = _Trace(
            roots=_first(number for trace in outside for number in trace.roots),
            within=_last(number for trace in outside for number in trace.within),
            unseen=_first(number for trace in outside for number in trace.unseen),
            given=_first(number for trace in outside for number in trace.given),
            fails=any(trace.fails for trace in outside),
            is_known=all(self._nodes[member].feeds is not None for member in circle),
        )
        for member in circle:
            self._add_evidence(above, member)
        failing = [member for member in circle if self._nodes[member].standing == "fails"]
        for member in circle:
            standing = self._nodes[member].standing
            if standing == "within":
                above.within = _last((*above.within, member))
            elif standing == "given":
                above.given = _first((*above.given, member))
            if standing == "unseen" or (standing in _WALKED and self._nodes[member].feeds is None):
                above.unseen = _first((*above.unseen, member))
        if failing:
            above = self._judged(failing, above)
        for member in circle:
            self._traces[member] = above

    def _add_evidence(self, above: _Trace[Op], member: int) -> None:
        """An input that fails says that what feeds it does, even where that was not compared."""
        for feed in self._nodes[member].feeds or ():
            if feed.standing != "fails":
                continue
            number = None if feed.producer is None else self._numbers[feed.producer]
            standing = "" if number is None else self._nodes[number].standing
            # A producer that fails is followed anyway, unless it is fed by this very operator.
            above.fails |= standing != "fails"
            if number is not None and standing == "passes":
                above.unseen = _first((*above.unseen, number))

    def _judged(self, failing: Sequence[int], above: _Trace[Op]) -> _Trace[Op]:
        """Give failing operators their role; return what they are to those that follow."""
        suspects, why = above.unseen, "unseen"
        if above.fails:
            name = "inherited"
            suspects = () if above.roots else (above.unseen or above.within)
        elif len(failing) > 1:
            name, why, suspects = "unknown", "circle", tuple(failing[:MOST_LISTED])
        elif above.unseen:
            name = "unknown"
        elif not above.is_known:
            name, why = "unknown", "feeds"
        else:
            name, suspects = "cause", above.within
        for member in failing:
            self._found[member] = Role(
                name,
                causes=self._named(above.roots),
                suspects=self._named(number for number in suspects if number != member),
                given=() if name == "inherited" else self._named(above.given),
                why=why if name == "unknown" else "",
            )
        roots = above.roots if above.fails else _first(failing)
        return _Trace(roots=roots, within=above.within, fails=True)

    def _count_heads(self, circle: Sequence[int]) -> None:
        """Tell uncompared operators which failures begin below them; more than one or two need not be told."""
        heads = {member for member in circle if member in self._found and self._found[member].name != "inherited"}
        for member in circle:
            heads |= self._traces[member].heads
        two = sorted(heads)[:2]
        for member in circle:
            for number in self._above[member]:
                if self._nodes[number].standing != "fails" and len(self._traces[number].heads) < 2:
                    self._traces[number].heads.update(two)
            if self._nodes[member].standing != "fails":
                self._traces[member].heads.update(two)

    def _find_shared(self, circle: Sequence[int]) -> None:
        """A cause that has an uncompared operator above it in common with another may not be one."""
        shared: tuple[int, ...] = ()
        for member in circle:
            for number in self._above[member]:
                if self._nodes[number].standing != "fails":
                    shared = _first((*shared, *self._traces[number].shared))
            if self._nodes[member].standing == "within" and len(self._traces[member].heads) > 1:
                shared = _first((*shared, member))
        for member in circle:
            self._traces[member].shared = shared
            role = self._found.get(member)
            if shared and role is not None and role.name == "cause":
                self._found[member] = Role("unknown", suspects=self._named(shared), given=role.given, why="shared")

    def _named(self, numbers: Iterable[int]) -> tuple[Op, ...]:
        return tuple(self._names[number] for number in numbers)


def _first(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers))[:MOST_LISTED])


def _last(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers))[-MOST_LISTED:])


# -- Roles where no graph tells who feeds whom -----------------------------------------------------------------------


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

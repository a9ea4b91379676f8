"""Operators as causes are looked for: what became of each one, and what feeds it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Op = TypeVar("Op", bound=Hashable)


class Drift(NamedTuple):
    """The error of a tensor relative to its size, its limit (``None`` if unknown), and what rounding explains of it.

    `fails_otherwise` says that the tensor is within this limit and fails by one of another metric. `base` is what
    rounding alone does to the tensor, where a limits file knows.
    """

    error: float
    limit: float | None = None
    noise: float = 0.0
    fails_otherwise: bool = False
    base: float | None = None

    @property
    def share(self) -> float | None:
        """The error over its limit."""
        return None if self.limit is None else self.error / self.limit

    @property
    def score(self) -> float | None:
        """The error over what rounding alone does."""
        return None if not self.base else self.error / self.base


@dataclass(frozen=True, slots=True)
class Feed(Generic[Op]):
    """One input: the operator that produces it, and the status of this very tensor.

    `status` is ``"passes"``, ``"fails"``, or ``None`` if it was not compared. `producer` is ``None`` if unknown.
    `drift` is how far this tensor is apart, ``None`` if unknown. `is_inside` says that the operator is a module, and
    that the producer ran inside of it.
    """

    producer: Op | None
    status: str | None = None
    drift: Drift | None = None
    is_inside: bool = False


@dataclass(frozen=True, slots=True)
class NetworkNode(Generic[Op]):
    """One operator.

    `status` is ``"fails"`` or ``"passes"`` if it was compared. Otherwise: ``"part"``, the other side has it as part of
    the operator that follows; ``"forwards"``, it hands its input on; ``"given"``, a weight or an input of the network;
    ``"unseen"``, nothing is known of it, so it may be the cause. `feeds` is ``None`` if its inputs are unknown.
    `drift` is the largest of its outputs, ``None`` if unknown.
    """

    status: str
    feeds: Sequence[Feed[Op]] | None = ()
    drift: Drift | None = None

    @property
    def is_compared(self) -> bool:
        """Whether it has a verdict."""
        return self.status in ("fails", "passes")


def numbered(nodes: Mapping[Op, NetworkNode[Op]]) -> dict[Op, NetworkNode[Op]]:
    """Return the operators with those that feed them and are not among them, of which nothing is known."""
    producers = (feed.producer for node in nodes.values() for feed in node.feeds or ())
    unseen: dict[Op, NetworkNode[Op]] = {
        one: NetworkNode("unseen", None) for one in producers if one is not None and one not in nodes
    }
    return {**nodes, **unseen}


def components(producers: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph, each ascending, after all that feed it.

    References
    ----------
    R. Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1 (1972).

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

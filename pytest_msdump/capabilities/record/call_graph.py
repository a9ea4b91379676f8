"""Which recorded call fed which, where frameworks pass tensors from layer to layer as the same objects."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pytest_msdump.core.model.dump import Edge, Operator

# What is behind such an edge is not known.
UNKNOWN = Edge("", 0)


class EndedCall(NamedTuple):
    """A call that has begun: when, the recorded module around it, and the sources of each tensor that it was given."""

    began: int
    inside: str
    given: Sequence[tuple[Edge, ...]]


class _Seen(NamedTuple):
    """A tensor that a call was given or gave back, and since when."""

    tensor: weakref.ref[Any]
    edges: tuple[Edge, ...]
    since: int


def ended(
    call: EndedCall, name: str, op_type: str, own: Sequence[Edge], sources: Iterable[Edge], *, returns_inner: bool
) -> Operator:
    """Return a call that has ended as the graph has it; `sources` are those of what it gives back as `own`."""
    first = [(*edges, None)[0] for edges in call.given]
    rest = (edge for edges in call.given for edge in edges[1:])
    further = dict.fromkeys(edge for edge in (*rest, *sources) if edge not in first and edge not in own)
    occurrence = own[0].occurrence or 0
    return Operator(
        name,
        op_type,
        inputs=(*first, *further),
        occurrence=occurrence,
        inside=call.inside,
        returns_inner=returns_inner,
    )


class IdentityGraph:
    """Knows tensors again that calls have given back; `add` gets each call of the graph when it ends."""

    def __init__(self, add: Callable[[Operator], None]) -> None:
        self._add = add
        self._seen: dict[int, _Seen] = {}
        self._times: Counter[str] = Counter()
        self._now = 0

    def begin(self) -> None:
        """Begin an iteration."""
        self._seen.clear()
        self._times.clear()

    def called(self, given: Sequence[Any], inside: str) -> EndedCall:
        """Note that a layer is called with these tensors."""
        if not self._times:
            for tensor in given:
                self._see(tensor, ())
        self._now += 1
        return EndedCall(self._now, inside, [self._edges_of(tensor) for tensor in given])

    def came_back(self, call: EndedCall, name: str, op_type: str, tensors: Sequence[Any]) -> None:
        """Add a call to the graph. A tensor that a call inside of this one gave back stays that one's."""
        if not tensors:
            return
        occurrence = self._times[name]
        self._times[name] += 1
        own = [Edge(name, slot, occurrence=occurrence) for slot in range(len(tensors))]
        sources: dict[Edge, None] = {}
        returns_inner = True
        for tensor, edge in zip(tensors, own, strict=True):
            known = self._seen.get(id(tensor))
            if known is not None and known.tensor() is tensor and known.since >= call.began:
                sources |= dict.fromkeys(known.edges)
            else:
                returns_inner = False
                self._see(tensor, (edge,))
        self._add(ended(call, name, op_type, own, sources, returns_inner=returns_inner))

    def _see(self, tensor: Any, edges: tuple[Edge, ...]) -> None:
        self._seen[id(tensor)] = _Seen(weakref.ref(tensor), edges, self._now)

    def _edges_of(self, tensor: Any) -> tuple[Edge, ...]:
        known = self._seen.get(id(tensor))
        return known.edges if known is not None and known.tensor() is tensor else (UNKNOWN,)

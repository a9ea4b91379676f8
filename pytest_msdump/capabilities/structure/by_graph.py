"""Pairing by the edges of the graph: layers of any names that compute the same, behind and before the same others.

Where names say nothing (Keras' `conv2d_3`, mindcv's `features.4` that is torchvision's `features.2.conv`), recorded
graphs may: a layer is known by its kind, its shape, and the chain of layers that leads to it, or the layers that it
leads to. Only what one layer of each side has in common counts, and two ways of looking that disagree count as none. So
around a layer that one side lacks, and among equal blocks of which one is missing, nothing pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from pytest_msdump.capabilities.structure.candidates import Candidates
from pytest_msdump.capabilities.structure.scopes import ScopeRun
from pytest_msdump.core.matching.kinds import kind_of
from pytest_msdump.core.matching.leaving import Leaving
from pytest_msdump.core.matching.pairing_state import PairingRequest, PairingState
from pytest_msdump.core.matching.sides import Side
from pytest_msdump.core.text import Message, say

# Layers that one side may have where the other computes the same outside of any layer, or nothing.
_THROUGH = frozenset({"passing", "add"})
# No network is larger; a manifest may say anything. A sum of more layers is known by the latest of them.
_MOST_FEEDS = 64
_MOST_INSIDE = 5_000_000

# Short names, the same for what is equal on both sides.
_Names = defaultdict[Hashable, int]


def pair_by_graph(state: PairingState, request: PairingRequest, runs: Iterable[tuple[ScopeRun, ScopeRun]]) -> None:
    """Pair recorded layers that nothing else can be meant by, as both sides' recorded graphs have them."""
    found, by = Candidates(state, request), say(Message("same_graph"))
    for ours, theirs in runs:
        # Nodes of an exported model may be parts of layers, or several.
        if all(run.style == "modules" and run.graph is not None and run.graph.is_recorded for run in (ours, theirs)):
            pairs = [(state.left.op_of[pair.left], state.right.op_of[pair.right]) for pair in state.pairs]
            flows = _PairedFlow(state.left, ours, request), _PairedFlow(state.right, theirs, request)
            for one, other in _meetings(*flows, pairs):
                name = state.left.ops[one].key.label
                leaving = Leaving(state.left.outputs(one)), Leaving(state.right.outputs(other))
                # A graph distinguishes namesakes.
                found.take(*leaving, by, name=name, among_namesakes=True)
    found.add()


@dataclass(slots=True)
class _Layer:
    """A layer without others inside: what it is (`sort`), and which layers feed it and take from it, by number."""

    op: int
    sort: Hashable
    feeds: frozenset[int]
    takers: list[int] = field(default_factory=list)


class _Container(NamedTuple):
    """A module with others inside: the layers `inside` of its call, and those of them that `made` its output."""

    op: int
    inside: frozenset[int]
    made: frozenset[int]


class _PairedFlow:
    """The layers of one side in execution order, each with what feeds it; what passes its input on is left out."""

    def __init__(self, side: Side, run: ScopeRun, request: PairingRequest) -> None:
        self.layers: list[_Layer] = []
        self.containers: list[_Container] = []
        self.has_gaps = False
        calls = run.graph.operators if run.graph else ()
        dumped = {(side.ops[op].key.label, side.ops[op].key.at.occurrence or 0): op for op in run.numbers}
        outer = {call.inside for call in calls}
        room = _MOST_INSIDE
        # By call, the layers that its output comes from; by module, the layers inside of its call that goes on.
        sources: dict[tuple[str, int], frozenset[int]] = {}
        inside: defaultdict[str, set[int]] = defaultdict(set)
        for call in calls:
            feeds: set[int] = set()
            for edge in call.inputs:
                if edge is not None and not edge.is_parameter:
                    known = sources.get((edge.producer, edge.occurrence or 0))
                    self.has_gaps |= known is None
                    # Behind an operation that was not followed, the layer that ran last is the likeliest.
                    feeds |= known if known is not None else {len(self.layers) - 1} - {-1}
            op = dumped.get((call.name, call.occurrence))
            own = inside.pop(call.name, set())
            if own and feeds.isdisjoint(own):
                # It made its output itself, as a residual sum: of what, was not followed.
                self.has_gaps = True
                feeds.add(max(own))
            sources[call.name, call.occurrence] = frozenset(sorted(feeds)[-_MOST_FEEDS:])
            kind = kind_of(call.op_type) or call.op_type.lower()
            room -= len(own)
            if call.name in outer and op is not None and room > 0:
                self.containers.append(_Container(op, frozenset(own), frozenset(feeds & own)))
            elif call.name not in outer and op is not None and kind not in _THROUGH:
                own = {len(self.layers)}
                sources[call.name, call.occurrence] = frozenset(own)
                shapes = [request.shape_of(side.refs[ref]) for ref in side.outputs(op).values()]
                self.layers.append(_Layer(op, (kind, *map(_long, shapes)), frozenset(sorted(feeds)[-_MOST_FEEDS:])))
            inside[call.inside] |= own
        self._link()

    def _link(self) -> None:
        for number, layer in enumerate(self.layers):
            for feed in layer.feeds:
                self.layers[feed].takers.append(number)

    def only_latest(self) -> None:
        """Let each layer be fed by that of its feeds which ran last: where gaps are, no more is known of them."""
        for layer in self.layers:
            layer.feeds, layer.takers = frozenset(sorted(layer.feeds)[-1:]), []
        self._link()

    def upwards(self, known: Mapping[int, int], names: _Names) -> list[Hashable]:
        """Name each layer by the chain that leads to it, from a `known` one or from the beginning."""
        found: list[Hashable] = []
        for layer in self.layers:
            # A missing residual connection leaves the rest of the network as it is.
            before = found[max(layer.feeds)] if layer.feeds else None
            found.append(names[known[layer.op]] if layer.op in known else names[layer.sort, before])
        return found

    def downwards(self, known: Mapping[int, int], names: _Names) -> list[Hashable]:
        """Name each layer by all that it leads to, as far as `known` ones or the end."""
        found: dict[int, int] = {}
        for number in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[number]
            behind = tuple(sorted(found[taker] for taker in layer.takers))
            found[number] = names[known[layer.op]] if layer.op in known else names[layer.sort, behind]
        return [found[number] for number in range(len(self.layers))]

    def sorts(self, numbers: Iterable[int]) -> list[str]:
        """Return what layers are, in any order."""
        return sorted(repr(self.layers[number].sort) for number in numbers)


class _Named:
    """The names of one side's layers, and how often it has each."""

    def __init__(self, names: Sequence[Hashable]) -> None:
        self.names = names
        self.times = Counter(names)


def _meetings(left: _PairedFlow, right: _PairedFlow, pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield operators that belong together, by number; `pairs` are those that are known."""
    lefts = {layer.op: number for number, layer in enumerate(left.layers)}
    rights = {layer.op: number for number, layer in enumerate(right.layers)}
    joined = {lefts[one]: rights[other] for one, other in pairs if one in lefts and other in rights}
    taken = frozenset(joined.values())
    agreed = _agreed(left, right, joined).items()
    new = {one: other for one, other in agreed if one not in joined and other not in taken}
    yield from ((left.layers[one].op, right.layers[other].op) for one, other in new.items())
    yield from _containers(left, right, joined | new)


def _agreed(left: _PairedFlow, right: _PairedFlow, joined: Mapping[int, int]) -> dict[int, int]:
    """Return right layers by left ones where what leads to them, or what they lead to, is only theirs."""
    is_followed = not (left.has_gaps or right.has_gaps)
    if not is_followed:
        left.only_latest()
        right.only_latest()
    names: _Names = defaultdict(count().__next__)
    known = (
        {left.layers[one].op: -1 - one for one in joined},
        {right.layers[other].op: -1 - one for one, other in joined.items()},
    )
    up, down = (
        [_Named(named(flow, seen, names)) for flow, seen in zip((left, right), known, strict=True)]
        for named in (_PairedFlow.upwards, _PairedFlow.downwards)
    )
    both = [list(zip(one.names, other.names, strict=True)) for one, other in zip(up, down, strict=True)]
    by_both = {one: other for one, other in _unique(*both) if _agree(up, one, other) and _agree(down, one, other)}
    by_up = {one: other for one, other in _unique(up[0].names, up[1].names) if _agree(down, one, other)}
    by_down = {one: other for one, other in _unique(down[0].names, down[1].names) if _agree(up, one, other)}
    # Where what a pair leads to is doubtful, so is the pair.
    below = {one for one, _ in _unique(down[0].names, down[1].names) if one not in by_down}
    for number in range(len(left.layers) - 1, -1, -1):
        if number not in joined and not below.isdisjoint(left.layers[number].takers):
            below.add(number)
    led_to = dict.fromkeys(joined.items(), True)

    def is_led_to(one: int, other: int) -> bool:
        """Whether all on the way to two layers that one chain leads to may be pairs, by what they lead to."""
        way, pair = [], (one, other)
        while pair not in led_to:
            way.append(pair)
            feeds = left.layers[pair[0]].feeds, right.layers[pair[1]].feeds
            if not all(feeds):
                led_to[pair] = True
            elif _agree(down, max(feeds[0]), max(feeds[1])):
                pair = max(feeds[0]), max(feeds[1])
            else:
                led_to[pair] = False
        led_to.update(dict.fromkeys(way, led_to[pair]))
        return led_to[pair]

    def is_beside(numbers: str, one: int, other: int) -> bool:
        """Whether neighbours are alike: a normalisation may be folded into a layer, or a layer left out."""
        return left.sorts(getattr(left.layers[one], numbers)) == right.sorts(getattr(right.layers[other], numbers))

    return {
        **{one: other for one, other in by_both.items() if one not in below and is_led_to(one, other)},
        **{one: other for one, other in by_up.items() if is_led_to(one, other) and is_beside("takers", one, other)},
        **{
            one: other
            for one, other in by_down.items()
            if is_followed and one not in below and is_beside("feeds", one, other)
        },
    }


def _unique(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield the places of what is there once on each side."""
    places = [_places(each) for each in (ours, theirs)]
    for what, found in places[0].items():
        if len(found) == len(others := places[1].get(what, [])) == 1:
            yield found[0], others[0]


def _agree(names: Sequence[_Named], one: int, other: int) -> bool:
    """Whether two layers have one name that is as frequent on both sides, or names that only their own side has."""
    ours, theirs = names[0].names[one], names[1].names[other]
    times = [[side.times[name] for side in names] for name in (ours, theirs)]
    return times[0][0] == times[0][1] if ours == theirs else times[0][1] == times[1][0] == 0


def _places(values: Iterable[Hashable]) -> dict[Hashable, list[int]]:
    found: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        found[value].append(place)
    return found


def _containers(left: _PairedFlow, right: _PairedFlow, joined: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield modules that contain the same layers, of which the same make their output, from the inside outwards."""
    alike: tuple[defaultdict[Hashable, list[int]], ...] = (defaultdict(list), defaultdict(list))
    partners = {other: other for other in joined.values()}
    for flow, partner_of, found in ((left, joined, alike[0]), (right, partners, alike[1])):
        for one in flow.containers:
            if one.made and all(number in partner_of for number in one.made):
                inside = frozenset(partner_of[number] for number in one.inside if number in partner_of)
                found[inside, frozenset(partner_of[number] for number in one.made)].append(one.op)
    for what, ours in alike[0].items():
        if len(ours) == len(theirs := alike[1].get(what, [])):
            yield from zip(ours, theirs, strict=True)


def _long(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the lengths of a shape, whatever the order of its axes; without those of 1."""
    return None if shape is None else tuple(sorted(length for length in shape if length != 1))

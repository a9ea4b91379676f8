"""Why a tensor has no partner."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from pytest_msdump.matching.coordinates import Key, meets
from pytest_msdump.matching.not_dumped import NOT_DUMPED, Absence
from pytest_msdump.matching.pairing_state import Ledger
from pytest_msdump.matching.sides import Operator, Port, Side
from pytest_msdump.model.pairing import Unmatched
from pytest_msdump.model.tensor import COORDINATES, OpKey, TensorRef
from pytest_msdump.text import Message, Parameter

__all__ = ["Explainer", "NearestNames", "elsewhere", "listed", "place_text", "slots_listed", "typed_name"]

_RETURNED = 3

# The bounds of the work for one name: names looked at, names measured letter by letter, names of a side small enough
# to be looked through when no part of the name is known.
_GATHERED = 60
_MEASURED = 8
_LOOKED_THROUGH = 200

_ALIKE = 0.45


class NearestNames:
    """A search for names like a given one.

    Two names are alike when the rarer parts of the shorter are in the longer (``conv1`` in
    ``Default/conv1-Conv2d/BiasAdd-op0``), or when their letters are nearly the same.

    Parameters
    ----------
    names : iterable of str
        What may be found.
    preferred : collection of str
        Names to return before others: those that have no partner yet.
    """

    def __init__(self, names: Iterable[str], *, preferred: Collection[str] = ()) -> None:
        self._names = list(dict.fromkeys(names))
        self._preferred = preferred
        self._parts = [_parts(name) for name in self._names]
        self._holders: dict[str, list[int]] = defaultdict(list)
        for number, parts in enumerate(self._parts):
            for part in parts:
                self._holders[part].append(number)
        scale = 1 + len(self._names)
        self._weights = {part: math.log(1 + scale / (1 + len(held))) for part, held in self._holders.items()}
        self._unknown_weight = math.log(1 + scale)
        self._totals = [self._weigh(parts) for parts in self._parts]

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return up to three names, preferred ones first, then the most similar.

        Parameters
        ----------
        name : str
            What is looked for.

        Returns
        -------
        tuple of str
            Empty when nothing is alike.
        """
        # Nobody looks for similar names where all tensors have partners.
        from difflib import get_close_matches

        parts = _parts(name)
        gathered = self._gather(parts)
        if not gathered and len(self._names) <= _LOOKED_THROUGH:
            return tuple(get_close_matches(name, self._names, n=_RETURNED))
        total = self._weigh(parts)
        shares = [(self._weigh(parts & self._parts[n]) / min(total, self._totals[n]), n) for n in gathered]
        shares.sort(key=lambda pair: (-pair[0], self._names[pair[1]] not in self._preferred, pair[1]))
        scored = [(self._likeness(name, number, share), number) for share, number in shares[:_MEASURED]]
        alike = [(self._names[number] not in self._preferred, -score, number) for score, number in scored]
        return tuple(self._names[number] for _, score, number in sorted(alike)[:_RETURNED] if -score >= _ALIKE)

    def _gather(self, parts: Collection[str]) -> list[int]:
        """Return names that share a part, by the rarest parts first."""
        gathered: dict[int, None] = {}
        holders = [self._holders[part] for part in parts if part in self._holders]
        for numbers in sorted(holders, key=len):
            gathered.update(dict.fromkeys(numbers[: _GATHERED - len(gathered)]))
            if len(gathered) >= _GATHERED:
                break
        return list(gathered)

    def _weigh(self, parts: Iterable[str]) -> float:
        return math.fsum(self._weights.get(part, self._unknown_weight) for part in parts)

    def _likeness(self, name: str, number: int, share: float) -> float:
        from difflib import SequenceMatcher

        ratio = SequenceMatcher(None, name.lower(), self._names[number].lower()).ratio()
        return max(0.6 * share + 0.4 * ratio, ratio if ratio >= 0.6 else 0.0)


def _parts(name: str) -> frozenset[str]:
    """Split ``conv1-Conv2d`` into conv1, conv, 1, conv2d, 2 and d."""
    words = re.findall(r"[^\W_]+", name.lower())
    return frozenset(words).union(*(re.findall(r"\d+|[^\W\d_]+", word) for word in words))


# -- Why a tensor has no partner -------------------------------------------------------------------------------------


# Lists in sentences and the search for similar names are bounded: a wrong directory leaves every tensor alone.
_MOST_LISTED = 3
_MOST_SEARCHED = 1000

# Coordinates before this one tell which graph of which rank it is.
_ITERATION = COORDINATES.index("iteration")


def listed(words: Iterable[Parameter]) -> Parameter:
    """Return a list for a message, each word once, at most three of them."""
    distinct = tuple(dict.fromkeys(words))
    more = len(distinct) - _MOST_LISTED
    if more <= 0:
        return distinct
    return Message("names_and_more", {"names": distinct[:_MOST_LISTED], "n": more})


def typed_name(key: OpKey) -> str:
    """Return ``TYPE.OP``, or the operator's name when its type is unknown."""
    return f"{key.op_type}.{key.label}" if key.op_type else key.label


def place_text(at: Key) -> str:
    """Return a place in words, e.g. ``"rank 1, iteration 0"``; empty when nothing is known."""
    return ", ".join(f"{name} {value}" for name, value in zip(COORDINATES, at, strict=True) if value is not None)


def slots_listed(ports: Iterable[Port]) -> Parameter:
    """Return ``"output:0", "output:1"`` for a message, or that there are no tensors."""
    return listed(f"{io}:{slot}" for io, slot in ports) or Message("no_tensors")


def elsewhere(op: Operator, others: Sequence[Operator], *, side: str) -> Message:
    """Say at which places the other side has an operator, when it is nowhere where this one could meet it.

    Parameters
    ----------
    op : Operator
        Whose partner is looked for.
    others : sequence of Operator
        Its namesakes on the other side; none of them meets it.
    side : str
        The other side.

    Returns
    -------
    Message
        It names the coordinates that differ.
    """
    differing = [
        position
        for position, wanted in enumerate(op.meeting)
        if wanted is not None
        and all(other.meeting[position] is not None and other.meeting[position] != wanted for other in others)
    ]
    if not differing:
        places = listed(f"({place_text(other.at)})" for other in others)
        return Message("only_at", {"side": side, "places": places, "place": place_text(op.at)})
    theirs = tuple(_coordinate(p, listed(_value(other, p) for other in others)) for p in differing)
    ours = tuple(_coordinate(p, _value(op, p)) for p in differing)
    # Occurrences cannot be aligned, so that hint would lead nowhere.
    code = "other_occurrence" if [COORDINATES[p] for p in differing] == ["occurrence"] else "elsewhere"
    return Message(code, {"side": side, "theirs": theirs, "ours": ours})


def _coordinate(position: int, value: Parameter) -> Message:
    return Message("coordinate", {"name": COORDINATES[position], "value": value})


def _value(op: Operator, position: int) -> Parameter:
    at, meeting = op.at[position], op.meeting[position]
    return at if at == meeting else Message("aligned_with", {"value": at, "other": meeting})


class Explainer:
    """Gives each tensor without a partner its reason and its candidates.

    Parameters
    ----------
    ledger : Ledger
        When all ways of pairing are done.
    absences : mapping, optional
        By side, what its run says of tensors that it does not have.
    because : mapping, optional
        Reasons of what was asked for in vain, each with the one that says more.
    """

    def __init__(
        self,
        ledger: Ledger,
        absences: Mapping[str, Absence] | None = None,
        because: Mapping[Message, Message] | None = None,
    ) -> None:
        self._ledger = ledger
        self._absences = absences or {}
        self._because = because or {}
        self._searches = {side.name: _Search(side, ledger) for side in (ledger.left, ledger.right)}

    @cached_property
    def _partner_of(self) -> dict[tuple[str, int], tuple[str, str]]:
        """The address of the first partner of each tensor, and how they were paired."""
        found: dict[tuple[str, int], tuple[str, str]] = {}
        for made in self._ledger.made:
            left, right = self._ledger.left.refs[made.left], self._ledger.right.refs[made.right]
            found.setdefault(("left", made.left), (right.key.address, made.how))
            found.setdefault(("right", made.right), (left.key.address, made.how))
        return found

    def unmatched(self, side: Side, wanted: Callable[[TensorRef], bool]) -> Iterator[Unmatched]:
        """Yield the selected tensors of one side that have no partner.

        Parameters
        ----------
        side : Side
            One of the ledger's two.
        wanted : callable
            Whether a tensor is to be listed.

        Yields
        ------
        Unmatched
            In the order of the side's tensors.
        """
        for position in self._ledger.alone(side):
            ref = side.refs[position]
            if wanted(ref):
                reason, candidates = self._reason(side, position)
                yield Unmatched(side.name, ref, reason, candidates)

    def nearest(self, side: Side, name: str) -> tuple[str, ...]:
        """Return addresses of one side's operators whose names are like this one."""
        return self._searches[side.name].addresses(name, ("output", 0))

    def _reason(self, side: Side, position: int) -> tuple[Message, tuple[str, ...]]:
        number = side.op_of[position]
        other = self._ledger.right if side.name == "left" else self._ledger.left
        if side.is_double(position):
            return Message("same_address"), ()
        if held := self._ledger.held.get((side.name, position)):
            return _said_in_full(held, self._because), ()
        key = side.refs[position].key
        port = (key.io, key.slot)
        if doubt := self._ledger.ambiguous.get((side.name, number)):
            return doubt[0], _addresses(other, doubt[1], port, typed=True)
        namesakes = other.namesakes(side.ops[number].key)
        op = side.ops[number]
        absence = self._not_dumped(op, side.refs[position], other, namesakes)
        if absence is not None and absence.code in NOT_DUMPED:
            return absence, ()
        if not namesakes:
            return absence or self._unknown(other), self._searches[other.name].addresses(key.op.label, port)
        return self._namesakes(op, port, other, namesakes)

    def _not_dumped(self, op: Operator, ref: TensorRef, other: Side, namesakes: Sequence[int]) -> Message | None:
        """Return why the other side's run has no such tensor; ``None`` where it has it or nothing tells."""
        absence = self._absences.get(other.name)
        port = (ref.key.io, ref.key.slot)
        here = [number for number in namesakes if meets(other.ops[number].meeting, op.meeting)]
        if absence is None or any(port in other.ops[number].tensors for number in here):
            return None
        graph = op.meeting[:_ITERATION]
        is_known = any(meets(graph, other.ops[number].meeting[:_ITERATION]) for number in namesakes)
        return absence.of_tensor(ref, op.meeting, is_known=is_known)

    @staticmethod
    def _unknown(other: Side) -> Message:
        return Message("no_operator_of_that_name" if other.refs else "side_is_empty", {"side": other.name})

    def _namesakes(
        self, op: Operator, port: Port, other: Side, namesakes: Sequence[int]
    ) -> tuple[Message, tuple[str, ...]]:
        here = [number for number in namesakes if meets(other.ops[number].meeting, op.meeting)]
        kept = [number for number in here if other.ops[number].kept]
        if here and not kept:
            places = listed(f"({place_text(other.ops[number].at)})" for number in here)
            said = {"side": other.name, "places": places}
            return Message("only_at_unselected", said), _addresses(other, here, port)
        here = kept
        if not here:
            why = elsewhere(op, [other.ops[number] for number in namesakes], side=other.name)
            return why, _addresses(other, namesakes, port)
        holders = [number for number in here if port in other.ops[number].tensors]
        if not holders:
            ports = [found for number in here for found in other.ops[number].tensors]
            name = other.ops[here[0]].key.label
            has = {"slot": f"{port[0]}:{port[1]}", "slots": slots_listed(ports)}
            candidates = tuple(f"{name}:{io}:{slot}" for io, slot in ports[:_MOST_LISTED])
            return Message("no_such_slot", {"name": name, "side": other.name, **has}), candidates
        return self._taken(other, holders, port), _addresses(other, holders, port)

    def _taken(self, other: Side, holders: Sequence[int], port: Port) -> Message:
        ref = other.ops[holders[0]].tensors[port]
        said: dict[str, Parameter] = {"name": other.refs[ref].key.address, "side": other.name}
        if partner := self._partner_of.get((other.name, ref)):
            return Message("paired_with_other", {**said, "partner": partner[0], "how": partner[1]})
        if held := self._ledger.held.get((other.name, ref)):
            return Message("kept_for_entry", {**said, "why": held})
        return Message("name_is_ambiguous", said)


def _said_in_full(why: Message, because: Mapping[Message, Message]) -> Message:
    """Put what more there is to say in place of a reason, also where another reason goes back to it."""
    if why in because:
        return because[why]
    before = why.parameters.get("why")
    if not because or not isinstance(before, Message):
        return why
    return Message(why.code, {**why.parameters, "why": _said_in_full(before, because)})


def _addresses(side: Side, ops: Iterable[int], port: Port, *, typed: bool = False) -> tuple[str, ...]:
    names = dict.fromkeys(typed_name(side.ops[number].key) if typed else side.ops[number].key.label for number in ops)
    return tuple(f"{name}:{port[0]}:{port[1]}" for name in list(names)[:_MOST_LISTED])


class _Search:
    """Similar names on one side, those without a partner first, for a bounded number of names."""

    def __init__(self, side: Side, ledger: Ledger) -> None:
        self._side = side
        self._ledger = ledger
        self._names: NearestNames | None = None
        self._ops: dict[str, int] = {}
        self._found: dict[str, tuple[str, ...]] = {}

    def addresses(self, name: str, port: Port) -> tuple[str, ...]:
        if name not in self._found and len(self._found) >= _MOST_SEARCHED:
            return ()
        if self._names is None:
            self._names = self._indexed()
        if name not in self._found:
            self._found[name] = self._names.nearest(name)
        return tuple(self._address(label, port) for label in self._found[name])

    def _indexed(self) -> NearestNames:
        free = set()
        for number, op in enumerate(self._side.ops):
            ports = self._side.selected(op)
            if not op.kept or not ports:
                continue
            self._ops.setdefault(op.key.label, number)
            # A weight is called after its layer, and is hardly ever what a layer's output is to be compared with.
            is_weight = op.key.op_type == "Parameter"
            if not is_weight and not any(self._ledger.is_paired(self._side.name, ref) for ref in ports.values()):
                free.add(op.key.label)
        return NearestNames(self._ops, preferred=free)

    def _address(self, label: str, port: Port) -> str:
        ports = self._side.selected(self._side.ops[self._ops[label]])
        io, slot = port if port in ports else next(iter(ports))
        return f"{label}:{io}:{slot}"

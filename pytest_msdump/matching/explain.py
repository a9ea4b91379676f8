"""Why a tensor has no partner, as sentences for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from pytest_msdump.matching.candidates import NearestNames
from pytest_msdump.matching.ledger import Ledger
from pytest_msdump.matching.meeting import Key, meets
from pytest_msdump.matching.not_dumped import NOT_DUMPED, Absence
from pytest_msdump.matching.sides import Operator, Port, Side
from pytest_msdump.model.pairing import Unmatched
from pytest_msdump.model.tensor import COORDINATES, OpKey, TensorRef

__all__ = ["Explainer", "elsewhere", "listed", "place_text", "slots_text", "typed_name"]

# Lists in sentences and the search for similar names are bounded: a wrong directory leaves every tensor alone.
_MOST_LISTED = 3
_MOST_SEARCHED = 1000

# Coordinates before this one tell which graph of which rank it is.
_ITERATION = COORDINATES.index("iteration")


def listed(words: Iterable[str]) -> str:
    """Write a list, each word once, at most three of them."""
    distinct = list(dict.fromkeys(words))
    more = len(distinct) - _MOST_LISTED
    return ", ".join(distinct[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def typed_name(key: OpKey) -> str:
    """Return ``TYPE.OP``, or the operator's name when its type is unknown."""
    return f"{key.op_type}.{key.label}" if key.op_type else key.label


def place_text(at: Key) -> str:
    """Return a place in words, e.g. ``"rank 1, iteration 0"``; empty when nothing is known."""
    return ", ".join(f"{name} {value}" for name, value in zip(COORDINATES, at, strict=True) if value is not None)


def slots_text(ports: Iterable[Port]) -> str:
    """Return ``"output:0, output:1"``, or ``"no tensors"``."""
    return listed(f"{io}:{slot}" for io, slot in ports) or "no tensors"


def elsewhere(op: Operator, others: Sequence[Operator], *, side: str) -> str:
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
    str
        A sentence that names the coordinates that differ.
    """
    differing = [
        position
        for position, wanted in enumerate(op.meeting)
        if wanted is not None
        and all(other.meeting[position] is not None and other.meeting[position] != wanted for other in others)
    ]
    if not differing:
        places = listed(f"({place_text(other.at)})" for other in others)
        return f"the {side} side has it only at {places}, not at ({place_text(op.at)}); align says who meets whom"
    theirs = " and ".join(f"{COORDINATES[p]} {listed(_value(other, p) for other in others)}" for p in differing)
    ours = " and ".join(f"{COORDINATES[p]} {_value(op, p)}" for p in differing)
    # Occurrences cannot be aligned, so the hint would lead nowhere.
    hint = "" if [COORDINATES[p] for p in differing] == ["occurrence"] else "; align says who meets whom"
    return f"the {side} side has it in {theirs} only, not in {ours}{hint}"


def _value(op: Operator, position: int) -> str:
    at, meeting = op.at[position], op.meeting[position]
    return f"{at}" if at == meeting else f"{at} (aligned with {meeting})"


class Explainer:
    """Gives each tensor without a partner its reason and its candidates.

    Parameters
    ----------
    ledger : Ledger
        When all ways of pairing are done.
    absences : mapping, optional
        By side, what its run says of tensors that it does not have.
    because : mapping, optional
        Reasons of what was asked for in vain, with what more there is to say of each.
    """

    def __init__(
        self,
        ledger: Ledger,
        absences: Mapping[str, Absence] | None = None,
        because: Mapping[str, str] | None = None,
    ) -> None:
        self._ledger = ledger
        self._absences = absences or {}
        self._because = because or {}
        self._searches = {side.name: _Search(side, ledger) for side in (ledger.left, ledger.right)}

    @cached_property
    def _partner_of(self) -> dict[tuple[str, int], str]:
        """The first partner of each tensor."""
        found: dict[tuple[str, int], str] = {}
        for made in self._ledger.made:
            left, right = self._ledger.left.refs[made.left], self._ledger.right.refs[made.right]
            found.setdefault(("left", made.left), f"{right.key.address} ({made.how})")
            found.setdefault(("right", made.right), f"{left.key.address} ({made.how})")
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

    def _reason(self, side: Side, position: int) -> tuple[str, tuple[str, ...]]:
        number = side.op_of[position]
        other = self._ledger.right if side.name == "left" else self._ledger.left
        if side.is_double(position):
            return "another tensor of this side has the same address at the same place", ()
        if held := self._ledger.held.get((side.name, position)):
            more = (held.removesuffix(why) + told for why, told in self._because.items() if held.endswith(why))
            return next(more, held), ()
        key = side.refs[position].key
        port = (key.io, key.slot)
        if doubt := self._ledger.ambiguous.get((side.name, number)):
            return doubt[0], _addresses(other, doubt[1], port, typed=True)
        namesakes = other.namesakes(side.ops[number].key)
        op = side.ops[number]
        told = self._not_dumped(op, side.refs[position], other, namesakes)
        if told.startswith(NOT_DUMPED):
            return told, ()
        if not namesakes:
            return told or self._unknown(other), self._searches[other.name].addresses(key.op.label, port)
        return self._namesakes(op, port, other, namesakes)

    def _not_dumped(self, op: Operator, ref: TensorRef, other: Side, namesakes: Sequence[int]) -> str:
        """Say what the other side's run tells of its not having a tensor; empty where it has it or nothing tells."""
        absence = self._absences.get(other.name)
        port = (ref.key.io, ref.key.slot)
        here = [number for number in namesakes if meets(other.ops[number].meeting, op.meeting)]
        if absence is None or any(port in other.ops[number].tensors for number in here):
            return ""
        graph = op.meeting[:_ITERATION]
        is_known = any(meets(graph, other.ops[number].meeting[:_ITERATION]) for number in namesakes)
        return absence.of_tensor(ref, op.meeting, is_known=is_known)

    @staticmethod
    def _unknown(other: Side) -> str:
        return f"no operator of that name on the {other.name} side" if other.refs else f"the {other.name} side is empty"

    def _namesakes(
        self, op: Operator, port: Port, other: Side, namesakes: Sequence[int]
    ) -> tuple[str, tuple[str, ...]]:
        here = [number for number in namesakes if meets(other.ops[number].meeting, op.meeting)]
        kept = [number for number in here if other.ops[number].kept]
        if here and not kept:
            places = listed(f"({place_text(other.ops[number].at)})" for number in here)
            text = f"the {other.name} side has it only at {places}, which the selection leaves out"
            return text, _addresses(other, here, port)
        here = kept
        if not here:
            text = elsewhere(op, [other.ops[number] for number in namesakes], side=other.name)
            return text, _addresses(other, namesakes, port)
        holders = [number for number in here if port in other.ops[number].tensors]
        if not holders:
            ports = [found for number in here for found in other.ops[number].tensors]
            name = other.ops[here[0]].key.label
            text = f"{name} on the {other.name} side has no {port[0]}:{port[1]}; it has {slots_text(ports)}"
            return text, tuple(f"{name}:{io}:{slot}" for io, slot in ports[:_MOST_LISTED])
        return self._taken(other, holders, port), _addresses(other, holders, port)

    def _taken(self, other: Side, holders: Sequence[int], port: Port) -> str:
        ref = other.ops[holders[0]].tensors[port]
        address = other.refs[ref].key.address
        if partner := self._partner_of.get((other.name, ref)):
            return f"{address} on the {other.name} side is paired with {partner}"
        if held := self._ledger.held.get((other.name, ref)):
            return f"{address} on the {other.name} side is kept for a map entry: {held}"
        return f"{address} on the {other.name} side is left alone, since its name is ambiguous"


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

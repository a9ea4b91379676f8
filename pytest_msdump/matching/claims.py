"""The entries of a map at work: whom each of them names, and that no two name one left tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_msdump.errors import ConfigError
from pytest_msdump.matching.addresses import Address, parse_address
from pytest_msdump.matching.meeting import Wanted, wanted_by_entry
from pytest_msdump.text import Message

if TYPE_CHECKING:
    from pytest_msdump.matching.entries import MapEntry
    from pytest_msdump.matching.sides import Operator, Port, Side

__all__ = ["Claims", "Work", "overlap", "tensors_named", "work_of"]


@dataclass(slots=True)
class Work:
    """One entry while it is applied: whom it names, and what became of it.

    Parameters
    ----------
    entry : MapEntry
        As written.
    label : str
        What messages call it.
    left, right : Address
        Its addresses, read.
    wanted : tuple
        The left places it is restricted to.
    left_ops, right_ops : list of int
        The operators it names, those outside the selection as well.
    pairs : list of (int, int)
        Tensors it pairs, as positions in the sides' `refs`.
    lost : dict
        (reason, absent sides) of what could not be paired; a dict for its order.
    """

    entry: MapEntry
    label: str
    left: Address
    right: Address
    wanted: Wanted
    left_ops: list[int] = field(default_factory=list)
    right_ops: list[int] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    lost: dict[tuple[Message, tuple[str, ...]], None] = field(default_factory=dict)

    def lose(self, reason: Message, *absent: str) -> None:
        """Note once that something could not be paired, and on which sides a similar name may help."""
        self.lost.setdefault((reason, absent))


def work_of(entry: MapEntry, number: int) -> Work:
    """Read the addresses of the entry that was written as the `number`-th, counted from 1."""
    label = entry.label or f"map entry {number}"
    return Work(entry, label, parse_address(entry.left), parse_address(entry.right), wanted_by_entry(entry))


class Claims:
    """Which entry names which left tensor; two for one is an error of the suite file, whatever was dumped."""

    def __init__(self) -> None:
        self._claims: dict[object, list[tuple[str, Wanted]]] = {}

    def of_texts(self, works: Sequence[Work]) -> None:
        """Refuse two entries that spell the same left address."""
        for work in works:
            self._claim(work.left, work, work.entry.left)

    def of_tensors(self, work: Work, left: Side) -> None:
        """Refuse an entry whose left tensors another entry has, however it spells them."""
        ops = [left.ops[number] for number in work.left_ops]
        refs = [ref for ref, _ in work.pairs] or [
            ref for op in ops for ref in tensors_named(left, op, work.left).values()
        ]
        for ref in dict.fromkeys(refs):
            self._claim(ref, work, left.refs[ref].key.address)

    def _claim(self, what: object, work: Work, name: str) -> None:
        claims = self._claims.setdefault(what, [])
        for label, wanted in claims:
            if overlap(wanted, work.wanted):
                raise ConfigError(f"{label} and {work.label} both name the left tensor {name}; keep one of them")
        claims.append((work.label, work.wanted))


def overlap(one: Wanted, other: Wanted) -> bool:
    """Whether some place is asked for by both."""
    return all(a is None or b is None or a & b for a, b in zip(one, other, strict=True))


def tensors_named(side: Side, op: Operator, address: Address) -> dict[Port, int]:
    """Return the tensors of an operator that an address names, whatever inputs or outputs are selected if it says."""
    if address.port is None:
        return side.selected(op)
    return {address.port: op.tensors[address.port]} if address.port in op.tensors else {}

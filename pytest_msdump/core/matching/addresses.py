"""Addresses as people type them: ``OP``, ``OP:io:slot``, ``TYPE.OP``; and the map entries made of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_msdump.core.text import Message

# [0-9], not \d: int() would take the digits of every script.
_CALL = re.compile(r"(?P<op>.+)@(?P<occurrence>[0-9]{1,9})", re.DOTALL)
_SLOT = re.compile(r"(?P<op>.+):(?P<io>input|output):(?P<slot>[0-9]{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Address:
    """The operator `op` as written, without a slot all; `op_type` and `occurrence` are of other readings of it."""

    op_type: str | None
    op: str
    io: str | None = None
    slot: int | None = None
    occurrence: int | None = None

    @property
    def port(self) -> tuple[str, int] | None:
        """``(io, slot)``, or ``None`` when the address leaves them out."""
        return None if self.io is None or self.slot is None else (self.io, self.slot)

    @property
    def typed(self) -> Address | None:
        """The same address read as ``TYPE.OP``; ``None`` when it cannot be."""
        op_type, dot, op = self.op.partition(".")
        return replace(self, op_type=op_type, op=op) if dot and op_type and op else None

    @property
    def numbered(self) -> Address | None:
        """The same address read as ``OP@1``, an occurrence of the operator; ``None`` when it cannot be."""
        found = _CALL.fullmatch(self.op)
        return replace(self, op=found["op"], occurrence=int(found["occurrence"])) if found else None


def parse_address(text: str) -> Address:
    """Read an address from the right; a colon that no ``io:slot`` follows belongs to the name.

    Only a dump can say whether ``a.b`` is a name or the operator ``b`` of type ``a``, and ``a@1`` a name or the second
    call of ``a``: the plain name is tried first, then `Address.typed` and `Address.numbered`.

    >>> parse_address("Default/conv1-Conv2d/BiasAdd-op0:output:0").port
    ('output', 0)
    >>> parse_address("Parameter.fc1_bias").typed
    Address(op_type='Parameter', op='fc1_bias', io=None, slot=None, occurrence=None)
    """
    found = _SLOT.fullmatch(text)
    if found is None:
        return Address(None, text)
    return Address(None, found["op"], found["io"], int(found["slot"]))


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One pair that the user wrote down, by two addresses; or many, by templates (`matching.maps`)."""

    left: str
    right: str
    reshape: bool = False
    transpose: tuple[int, ...] | None = None
    rank: int | None = None
    net: str | None = None
    graph: int | None = None
    iteration: int | None = None
    occurrence: int | None = None
    label: str = ""
    rename: Callable[[str], str | None] | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """An entry's pair that could not be made: why, and on which sides a similar name may help."""

    entry: MapEntry
    why: Message
    absent: tuple[str, ...] = ()

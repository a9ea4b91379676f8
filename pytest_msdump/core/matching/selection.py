"""What is to be compared: globs on names and addresses, coordinates, inputs or outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import NamedTuple, Protocol

from pytest_msdump.core.errors import UnknownNameError, nearest
from pytest_msdump.core.model.spellings import addresses, as_filed, spellings
from pytest_msdump.core.model.tensor import Missing, OpKey, Pair, TensorKey, TensorRef
from pytest_msdump.core.text import Message

# Addresses as people type them: ``OP``, ``OP:io:slot``, ``TYPE.OP``; and the map entries made of them.

# [0-9], not \d: int() would take the digits of every script.
_CALL = re.compile(r"(?P<op>.+)@(?P<occurrence>[0-9]{1,9})", re.DOTALL)
_SLOT = re.compile(r"(?P<op>.+):(?P<io>input|output):(?P<slot>[0-9]{1,9})", re.DOTALL)


class Address(NamedTuple):
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
        return self._replace(op_type=op_type, op=op) if dot and op_type and op else None

    @property
    def numbered(self) -> Address | None:
        """The same address read as ``OP@1``, an occurrence of the operator; ``None`` when it cannot be."""
        found = _CALL.fullmatch(self.op)
        return self._replace(op=found["op"], occurrence=int(found["occurrence"])) if found else None


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


class Joined(NamedTuple):
    """That an entry is about a part of a tensor of side `whole`: the `number`-th of `names`, side by side along `axis`.

    Together they are the tensor, or its entry at `place` along the first axis.
    """

    whole: str
    names: tuple[str, ...]
    number: int = 0
    axis: int = -1
    place: int | None = None


class MapEntry(NamedTuple):
    """One pair that the user wrote down, by two addresses; or many, by templates (`matching.maps`)."""

    left: str
    right: str
    reshape: bool = False
    transpose: tuple[int, ...] | None = None
    crop: int | str | None = None
    joined: Joined | None = None
    rank: int | None = None
    net: str | None = None
    graph: int | None = None
    iteration: int | None = None
    occurrence: int | None = None
    label: str = ""
    rename: Callable[[str], str | None] | None = None


class Lost(NamedTuple):
    """An entry's pair that could not be made: why, and on which sides a similar name may help."""

    entry: MapEntry
    why: Message
    absent: tuple[str, ...] = ()


_IO = {"output": frozenset({"output"}), "input": frozenset({"input"}), "all": frozenset({"input", "output"})}


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be compared."""

    select: tuple[str, ...] = ()
    deselect: tuple[str, ...] = ()
    io: str = "output"
    iteration: frozenset[int] | None = None
    rank: frozenset[int] | None = None
    graph: frozenset[int] | None = None

    def __post_init__(self) -> None:
        if self.io not in _IO:
            raise UnknownNameError(f"io = '{self.io}' is not known; {nearest(self.io, _IO)}")

    @property
    def directions(self) -> frozenset[str]:
        """The selected ones of ``"input"`` and ``"output"``."""
        return _IO[self.io]


class TypedNames(Protocol):
    """What typed names and globs mean among some dumps: `leaving.Names`."""

    def globs(self, typed: str, /) -> Iterable[str]:
        """Yield the globs that a name or glob stands for."""


class PairFilter:
    """The globs of a selection, compiled; `names` are those that they are typed for, needed where there are any."""

    def __init__(self, selection: Selection, names: TypedNames | None) -> None:
        self._selects, self._deselects = (
            _compiled(tuple(dict.fromkeys(glob for typed in texts if names for glob in names.globs(typed))) or default)
            for texts, default in ((selection.select, ("*",)), (selection.deselect, ()))
        )
        self._is_open = not (selection.select or selection.deselect)

    def selected(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """Return the pairs of which either side is selected and neither is deselected."""
        return pairs if self._is_open else [pair for pair in pairs if self._takes(pair.left, pair.right)]

    def takes_ref(self, ref: TensorRef) -> bool:
        """Whether a tensor without a partner is selected by its own name."""
        return self._is_open or self._takes(ref)

    def takes_missing(self, missing: Missing) -> bool:
        """Whether either address of a missing pair is selected, and neither deselected."""
        names: list[str] = []
        for address in map(parse_address, (missing.left, missing.right)):
            for reading in filter(None, (address, address.typed)):
                key = TensorKey(OpKey(as_filed(reading.op), true_name=reading.op), *(address.port or ("output", 0)))
                names += addresses(key) if address.port else spellings(key.op)
        return self._selects("", names) and not self._deselects("", names)

    def _takes(self, *refs: TensorRef) -> bool:
        named = [(ref.key.op.op_type or "", addresses(ref.key)) for ref in refs]
        return any(self._selects(*each) for each in named) and not any(self._deselects(*each) for each in named)


def _compiled(globs: tuple[str, ...]) -> Callable[[str, Iterable[str]], bool]:
    """Return a test of an op type and the spellings of a name."""
    # A name may itself hold brackets: typed in full, it must find itself.
    literal = frozenset(globs)
    pattern = re.compile("|".join(map(translate, globs))) if globs else None
    typed = [(head, tail, re.compile(translate(tail))) for head, dot, tail in (g.partition(".") for g in globs) if dot]

    def test(op_type: str, names: Iterable[str]) -> bool:
        tails = [(tail, compiled) for head, tail, compiled in typed if head and head == op_type]
        return pattern is not None and any(
            name in literal
            or pattern.match(name)
            or any(name == tail or compiled.match(name) for tail, compiled in tails)
            for name in names
        )

    return test

"""What is to be compared: globs on names and addresses, coordinates, inputs or outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate

from pytest_msdump.errors import UnknownNameError, nearest
from pytest_msdump.matching.addresses import parse_address
from pytest_msdump.model.pairing import Missing, Pair
from pytest_msdump.model.tensor import TensorRef, mangle

_IO = {"output": frozenset({"output"}), "input": frozenset({"input"}), "all": frozenset({"input", "output"})}


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be compared.

    `select` and `deselect` are globs (case-sensitive, ``*`` crosses ``/``) against true name, mangled name and full
    address of either side of a pair; an empty `select` means everything. ``TYPE.`` before a glob asks for that op type
    as well. `io` is ``"output"``, ``"input"`` or ``"all"``. `iteration`, `rank` and `graph` are values of the left
    side, ``None`` for all; the right side keeps the values that these can be compared with.
    """

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


class PairFilter:
    """The globs of a selection, compiled."""

    def __init__(self, selection: Selection) -> None:
        self._selects = _compiled(selection.select or ("*",))
        self._deselects = _compiled(selection.deselect)
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
            spelled = _spellings(address.op, address.typed.op if address.typed else None)
            names += spelled
            names += [f"{name}:{address.io}:{address.slot}" for name in spelled] if address.port else []
        return self._selects("", names) and not self._deselects("", names)

    def _takes(self, *refs: TensorRef) -> bool:
        named = []
        for ref in refs:
            names = _spellings(ref.key.op.name, ref.key.op.true_name)
            names += [f"{name}:{ref.key.io}:{ref.key.slot}" for name in names]
            named.append((ref.key.op.op_type or "", names))
        return any(self._selects(*each) for each in named) and not any(self._deselects(*each) for each in named)


def _spellings(*names: str | None) -> list[str]:
    return list(dict.fromkeys(spelling for name in names if name is not None for spelling in (name, mangle(name))))


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

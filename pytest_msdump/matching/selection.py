"""Which tensors are asked for: globs on names and addresses, coordinates, inputs or outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING

from pytest_msdump.errors import UnknownNameError, nearest
from pytest_msdump.model.tensor import OpKey, TensorRef, mangle

if TYPE_CHECKING:
    from pytest_msdump.model.pairing import Missing, Pair

__all__ = ["Chooser", "Selection"]

_IO = {"output": frozenset({"output"}), "input": frozenset({"input"}), "all": frozenset({"input", "output"})}


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be compared.

    Parameters
    ----------
    select, deselect : tuple of str
        Globs (case-sensitive, ``*`` crosses ``/``) against true name, mangled name and full address of either side of
        a pair; empty `select` = everything. ``TYPE.`` before a glob, spelled out, asks for that op type as well.
    io : str
        ``"output"``, ``"input"`` or ``"all"``.
    iteration, rank, graph : frozenset of int, optional
        Values of the left side; ``None`` = all. The right side keeps the values that these can meet.

    Raises
    ------
    UnknownNameError
        When `io` is none of the three.
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


class Chooser:
    """The globs of a selection, compiled.

    Parameters
    ----------
    selection : Selection
        Its `select` and `deselect` are used.
    """

    def __init__(self, selection: Selection) -> None:
        self._wanted = _compiled(selection.select)
        self._unwanted = _compiled(selection.deselect)

    def taken(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """Return the pairs of which either side is selected and neither is deselected."""
        if self._wanted is None and self._unwanted is None:
            return pairs
        return [pair for pair in pairs if self._takes((pair.left, pair.right))]

    def takes_ref(self, ref: TensorRef) -> bool:
        """Whether a tensor without a partner is selected by its own name."""
        return self._takes((ref,))

    def takes_missing(self, missing: Missing) -> bool:
        """Whether either address of a missing pair is selected, and neither deselected."""
        texts = [spelling for text in (missing.left, missing.right) for spelling in _spellings_of_text(text)]
        wanted = self._wanted is None or self._wanted("", texts)
        return wanted and not (self._unwanted is not None and self._unwanted("", texts))

    def _takes(self, refs: tuple[TensorRef, ...]) -> bool:
        wanted = self._wanted is None or any(_asked(self._wanted, ref) for ref in refs)
        return wanted and not (self._unwanted is not None and any(_asked(self._unwanted, ref) for ref in refs))


_Test = Callable[[str, Iterable[str]], bool]


def _asked(test: _Test, ref: TensorRef) -> bool:
    key = ref.key
    names = _spellings(key.op)
    return test(key.op.op_type or "", [*names, *(f"{name}:{key.io}:{key.slot}" for name in names)])


def _spellings(op: OpKey) -> tuple[str, ...]:
    names = [op.name, mangle(op.name)]
    if op.true_name:
        names += [op.true_name, mangle(op.true_name)]
    return tuple(dict.fromkeys(names))


def _spellings_of_text(text: str) -> tuple[str, ...]:
    from pytest_msdump.matching.addresses import parse_address

    address = parse_address(text)
    names = [address.op, mangle(address.op)]
    if address.typed is not None:
        names += [address.typed.op, mangle(address.typed.op)]
    if address.port is not None:
        names += [f"{name}:{address.io}:{address.slot}" for name in names]
    return tuple(dict.fromkeys(names))


def _compiled(globs: tuple[str, ...]) -> _Test | None:
    """Return a test of (op type, spellings), or None where there is nothing to test."""
    if not globs:
        return None
    # A name may itself hold brackets: typed in full, it must find itself.
    literal = frozenset(globs)
    pattern = re.compile("|".join(translate(glob) for glob in globs))
    typed = [(head, tail, re.compile(translate(tail))) for head, dot, tail in (g.partition(".") for g in globs) if dot]

    def test(op_type: str, texts: Iterable[str]) -> bool:
        tails = [(tail, compiled) for head, tail, compiled in typed if head and head == op_type]
        return any(
            text in literal
            or pattern.match(text) is not None
            or any(text == tail or compiled.match(text) for tail, compiled in tails)
            for text in texts
        )

    return test

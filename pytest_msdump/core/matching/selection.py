"""What is to be compared: globs on names and addresses, coordinates, inputs or outputs."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_msdump.core.errors import UnknownNameError, nearest

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

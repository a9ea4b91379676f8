"""Which lines of the user's program made an operator."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SourceFrame", "SourceStack"]


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """One place in a program, as a graph file tells it.

    Parameters
    ----------
    file : str
        Path as written there.
    line : int
        Counted from 1.
    text : str
        The code of that line, without the space around it.
    last_line : int, optional
        Where a statement or a definition of several lines ends; ``None`` when it has one line, or nobody said.
    """

    file: str
    line: int
    text: str = ""
    last_line: int | None = None

    @property
    def place(self) -> str:
        """``FILE:LINE``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class SourceStack:
    """The calls that led to an operator, outermost first.

    `is_forward` marks the calls of the forward operator that a gradient belongs to.
    """

    frames: tuple[SourceFrame, ...] = ()
    is_forward: bool = False

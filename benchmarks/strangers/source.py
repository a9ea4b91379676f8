"""One left of a model with its reference, each recorded once: what pairs of folders are drawn from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from .held_out_styles import HELD_OUT_STYLES
from .styles import STYLES
from .tensors import Recording
from .truth import Meaning

__all__ = ["Source"]


class Source(ABC):
    """A left of a model, with its reference.

    Parameters
    ----------
    model, left : str
        Names.
    right : Recording
        The reference.

    Attributes
    ----------
    good : Recording
        The left without a mistake.
    meaning : Meaning
        What the tensors of both sides mean.
    styles : sequence of str
        In which its files may be named; empty where a framework names them.
    """

    styles: Sequence[str] = (*STYLES, *HELD_OUT_STYLES)

    good: Recording
    meaning: Meaning

    def __init__(self, model: str, left: str, right: Recording) -> None:
        self.model, self.left, self.right = model, left, right

    @abstractmethod
    def wrong(self, mistake: str, draw: Random) -> Recording:
        """Return a port with a mistake; raises NoPlaceError where it has no place for it."""

    def wrong_rows(self) -> list[str]:
        """Return what the tables say and the values contradict."""
        return []

    def missing_rows(self) -> list[str]:
        """Return what the values say and the tables do not."""
        return []

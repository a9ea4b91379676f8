"""What a case is: a reference, a correct port of it, and ports with mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truth import Cause, Meant, Truth

__all__ = ["Case", "Mistake", "Port", "cause_at", "causes_at", "named", "pairs_of"]


@dataclass(frozen=True)
class Mistake:
    """One mistake in one operator.

    Parameters
    ----------
    name : str
        E.g. ``"epsilon"``.
    at : str
        The module of the reference that it is in; a second call is ``NAME@1``.
    title : str
        What is wrong, in a few words.
    apply : callable
        Changes the port in place; what it is given depends on the kind of case.
    shows_in : tuple of str
        Modules that may be named in its place: what is wrong is no module's output itself, and these are the first
        behind it, or it is in each of these.
    """

    name: str
    at: str
    title: str
    apply: Callable[..., Any]
    shows_in: tuple[str, ...] = ()


@dataclass(frozen=True)
class Port:
    """A port, recorded by `record` into a folder.

    It is handed the truth about the correct port (``None`` while that one is recorded), and returns that truth in the
    names of this port, and where the mistakes are.
    """

    name: str
    title: str
    record: Callable[[Path, Truth | None], tuple[Truth | None, list[Cause]]]


@dataclass(frozen=True)
class Case:
    """A reference, and ports of it. The first port is the correct one.

    Parameters
    ----------
    name : str
        Folder of the case.
    reference : callable
        Records the reference into a folder; keywords are options of the recorder.
    ports : sequence of Port
        The first is correct.
    meant : Meant
        See `truth.make_truth`. Asked after reference and correct port were recorded.
    left_is_nhwc, right_is_nhwc : bool
        Whether images of a side have channels last.
    """

    name: str
    reference: Callable[..., None]
    ports: Sequence[Port]
    meant: Meant
    left_is_nhwc: bool = False
    right_is_nhwc: bool = False

    @property
    def suite(self) -> dict[str, str]:
        """What a suite file of this case has to say."""
        sides = {"left_format": self.left_is_nhwc, "right_format": self.right_is_nhwc}
        return {key: "NHWC" for key, is_nhwc in sides.items() if is_nhwc}


def named(mistakes: Sequence[Mistake]) -> tuple[str, str]:
    """Return the name and the title of a port with these mistakes."""
    if not mistakes:
        return "good", "a correct port"
    titles = [f"{mistake.title} at {mistake.at}" for mistake in mistakes]
    return "+".join(mistake.name for mistake in mistakes), "; ".join(titles)


def pairs_of(mistakes: Sequence[Mistake], names: Sequence[tuple[str, str]]) -> list[tuple[Mistake, Mistake]]:
    """Return two mistakes each, by name, those pairs of which both are there."""
    known = {mistake.name: mistake for mistake in mistakes}
    return [(known[one], known[other]) for one, other in names if one in known and other in known]


def causes_at(mistakes: Sequence[Mistake], truth: Truth | None) -> list[Cause]:
    """Return the causes of mistakes in modules that both sides have: the true pairs of these modules."""
    return [cause_at(mistake, truth) for mistake in mistakes] if truth else []


def cause_at(mistake: Mistake, truth: Truth) -> Cause:
    """Return the cause of a mistake in a module: every tensor that is its output."""
    places = (mistake.at, *mistake.shows_in)
    seen = [pair for pair in truth.pairs if _called(pair[1]) in places]
    if not seen:
        raise ValueError(f"{truth.case}: {mistake.name}: {mistake.at} has no true pair")
    lefts = sorted({_called(left) for left, right in seen if _called(right) == mistake.at})
    return Cause(mistake.name, lefts, [mistake.at], seen)


def _called(address: str) -> str:
    """Return the operator of an address, its occurrence kept."""
    return address.rsplit(":", 2)[0]

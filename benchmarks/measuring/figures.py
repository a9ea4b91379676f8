"""Samples of several programs taken in turn, their medians, and the limits that they are held against."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Case", "Figure", "Limit", "Sample", "in_turn"]


class Sample(NamedTuple):
    """What one run took: seconds, seconds on a processor, peak in MiB."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


@dataclass(frozen=True)
class Figure:
    """All runs of one program in one case.

    Attributes
    ----------
    base
        The program that does nothing but start: its medians are taken away where "beyond" is said. ``None`` where
        the samples were taken inside the process, around the work alone.
    only_starts
        Whether it is such a program itself.
    """

    program: str
    samples: Sequence[Sample]
    base: Figure | None = None
    only_starts: bool = False

    @property
    def seconds(self) -> float:
        """The median of the whole process's time."""
        return statistics.median(sample.seconds for sample in self.samples)

    @property
    def cpu_seconds(self) -> float:
        """The median of the whole process's time on a processor."""
        return statistics.median(sample.cpu_seconds for sample in self.samples)

    @property
    def peak_mib(self) -> float:
        """The median peak of the whole process."""
        return statistics.median(sample.peak_mib for sample in self.samples)

    @property
    def cpu_beyond(self) -> float:
        """Seconds on a processor beyond the program that does nothing."""
        return self.cpu_seconds - (self.base.cpu_seconds if self.base else 0)

    @property
    def mib_beyond(self) -> float:
        """Peak beyond the program that does nothing."""
        return self.peak_mib - (self.base.peak_mib if self.base else 0)


@dataclass(frozen=True)
class Limit:
    """One line of what was asked for: a figure that is to be at most, or at least, so much.

    Attributes
    ----------
    number
        Of its group: ``"1"`` large files, ``"2"`` other tools, ``"3"`` networks, ``"4"`` everything else.
    measured
        ``None``: it could not be measured here, and `why` says what was missing.
    """

    number: str
    text: str
    bound: float
    measured: float | None
    unit: str = "×"
    at_least: bool = False
    why: str = ""

    @property
    def kept(self) -> bool:
        """Whether it was measured, and is within."""
        if self.measured is None:
            return False
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def verdict(self) -> str:
        """``ok``, ``over``, or why nothing was measured."""
        if self.measured is None:
            return f"not measured: {self.why}"
        return ("ok" if self.kept else "over") + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True)
class Case:
    """What one case measured.

    Attributes
    ----------
    pairs
        How many pairs of elements are compared: then nanoseconds a pair are told.
    floor
        The name of the program that only reads, when one ran.
    rates
        What one more of something costs, by program or by what is counted: larger dumps are worked out from these.
    """

    name: str
    title: str
    figures: Mapping[str, Figure]
    limits: Sequence[Limit] = ()
    pairs: int | None = None
    floor: str | None = None
    notes: Sequence[str] = ()
    rates: Mapping[str, float] = field(default_factory=dict)


def in_turn(programs: Mapping[str, Callable[[], Sample]], runs: int) -> dict[str, list[Sample]]:
    """Run every program once, then every one again: what else the machine does is spread over all of them."""
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    for _ in range(runs):
        for name, program in programs.items():
            samples[name].append(program())
    return samples

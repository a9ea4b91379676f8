"""What a run says of itself: its version, its device, and what it was told to dump."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_msdump.model.kernel_lists import names_operator
from pytest_msdump.model.tensor import OpKey

__all__ = ["EVERY_ITERATION", "DumpConfiguration", "RunFacts"]

EVERY_ITERATION = "all"

_MOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class DumpConfiguration:
    """What a run was told to dump, as far as it decides which tensors there are.

    Parameters
    ----------
    source : str
        The file that says so, relative to the dump's root where it is below it.
    rank : int, optional
        Whose it is; ``None`` = every rank's.
    io : str
        ``"all"``, ``"input"`` or ``"output"``.
    iterations : str
        ``"all"``, or numbers and ranges as MindSpore writes them, ``"0|5-8"``.
    kernels : tuple of str
        Entries of the list of operators to dump; empty = every operator.
    by_script : bool
        Whether the script itself names what is dumped (`set_dump`).
    scene : str
        ``""``, ``"overflow"`` (operators that overflowed only) or ``"exception"`` (inputs of the operator that raised
        an exception only).
    sample : int, optional
        How large a sample of each tensor was saved at most; ``None`` = whole tensors.
    """

    source: str
    rank: int | None = None
    io: str = "all"
    iterations: str = EVERY_ITERATION
    kernels: tuple[str, ...] = ()
    by_script: bool = False
    scene: str = ""
    sample: int | None = None

    def selects_iteration(self, iteration: int) -> bool:
        """Whether an iteration is dumped. A part that MindSpore does not understand selects nothing, as with it."""
        if self.iterations == EVERY_ITERATION:
            return True
        return any(_is_within(iteration, part) for part in self.iterations.split("|"))

    def selects_io(self, io: str) -> bool:
        """Whether ``"input"`` or ``"output"`` tensors are dumped."""
        return self.io in ("all", io)

    def selects_operator(self, op: OpKey) -> bool | None:
        """Whether the list of operators names this one; ``None`` where its name does not tell."""
        if not self.kernels:
            return True
        is_true_name = op.true_name is not None or "/" in op.name
        answers = [
            names_operator(entry, name=op.label, op_type=op.op_type, is_true_name=is_true_name)
            for entry in self.kernels
        ]
        if True in answers:
            return True
        return None if None in answers else False

    @property
    def kernels_text(self) -> str:
        """The list of operators for a sentence, at most three of them."""
        more = len(self.kernels) - _MOST_LISTED
        return ", ".join(self.kernels[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the files beside a dump say of the run that wrote it.

    Parameters
    ----------
    version, device : str, optional
        E.g. ``"2.10.0"``, ``"CPU"``; ``None`` where ranks differ or nobody says.
    configurations : tuple of DumpConfiguration
        What it was told to dump; several where ranks have their own.
    """

    version: str | None = None
    device: str | None = None
    configurations: tuple[DumpConfiguration, ...] = ()

    def configuration(self, rank: int | None) -> DumpConfiguration | None:
        """Return what a rank was told to dump; ``None`` where that is not known."""
        own = [one for one in self.configurations if one.rank is None or one.rank == rank]
        if not own and rank is None:
            own = list(self.configurations)
        return own[0] if own and _agree(own) else None


def _agree(configurations: Iterable[DumpConfiguration]) -> bool:
    return len({_told(one) for one in configurations}) == 1


def _told(one: DumpConfiguration) -> tuple[object, ...]:
    return (one.io, one.iterations, one.kernels, one.by_script, one.scene, one.sample)


def _is_within(iteration: int, part: str) -> bool:
    first, dash, last = part.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or len(first) > 18 or len(last) > 18:
        return False
    return int(first) <= iteration <= int(last or first)

"""Which operators overflowed: by the device's own check where it left files, by the values themselves always."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_msdump.metrics.overflow import OneSide
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import OpKey, TensorRef
from pytest_msdump.pipeline.culprits import Culprit, culprits_of
from pytest_msdump.pipeline.scanning import scanned
from pytest_msdump.pipeline.watching import Watch, unwatched
from pytest_msdump.readers.opdebug_files import OverflowFile, overflow_files

__all__ = ["OperatorOverflow", "Overflows", "find_overflows"]


@dataclass(frozen=True)
class OperatorOverflow:
    """One operator that overflowed.

    Parameters
    ----------
    op : OpKey
        Who.
    order : int
        Its 0-based place among all operators of the dump.
    role : str
        ``"origin"``: its dumped inputs are finite; ``"propagated"``: an input overflows already; ``"unknown"``: its
        inputs were not dumped.
    reported : tuple of Culprit
        What the device's own check says of it.
    tensors : tuple of (TensorRef, OneSide)
        Its tensors that hold NaN, Inf, or values at their dtype's maximum.
    """

    op: OpKey
    order: int
    role: str
    reported: tuple[Culprit, ...] = ()
    tensors: tuple[tuple[TensorRef, OneSide], ...] = ()


@dataclass(frozen=True)
class Overflows:
    """All that was found in one dump: `operators` in execution order, entries without a dump, what cannot be read."""

    dump: Dump
    files: tuple[OverflowFile, ...]
    operators: tuple[OperatorOverflow, ...]
    unplaced: tuple[Culprit, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing overflowed, and everything could be looked at."""
        return not (self.operators or self.unplaced or self.unreadable)


def find_overflows(dump: Dump, *, watch: Watch = unwatched) -> Overflows:
    """Look through one dump.

    Parameters
    ----------
    dump : Dump
        Its index, in execution order.
    watch : Watch
        Is told how many operators were looked at.

    Returns
    -------
    Overflows
        An entry whose status is 0 is no overflow and is left out.
    """
    files = overflow_files(dump.root)
    reported: defaultdict[OpKey, list[Culprit]] = defaultdict(list)
    unplaced: list[Culprit] = []
    for culprit in culprits_of(dump, files):
        if culprit.refs:
            reported[culprit.refs[0].key.op].append(culprit)
        else:
            unplaced.append(culprit)
    unreadable = [(str(file.path), file.problem) for file in files if file.problem]
    operators = []
    for order, (op, refs) in enumerate(watch(list(_by_operator(dump.refs).items()), "operators")):
        seen = dict(_scanned(refs, unreadable))
        bad = {ref: side for ref, side in seen.items() if side.nan or side.inf or side.saturated}
        if bad or reported[op]:
            operators.append(
                OperatorOverflow(op, order, _role(seen, bad), tuple(reported[op]), tuple(bad.items())),
            )
    return Overflows(dump, files, tuple(operators), tuple(unplaced), tuple(unreadable))


def _by_operator(refs: Iterable[TensorRef]) -> Mapping[OpKey, Sequence[TensorRef]]:
    operators: dict[OpKey, list[TensorRef]] = {}
    for ref in refs:
        operators.setdefault(ref.key.op, []).append(ref)
    return operators


def _scanned(refs: Iterable[TensorRef], unreadable: list[tuple[str, str]]) -> Iterator[tuple[TensorRef, OneSide]]:
    for ref in refs:
        side = scanned(ref)
        if isinstance(side, str):
            unreadable.append((ref.key.address, side))
        elif side.elements:
            yield ref, side


def _role(seen: Mapping[TensorRef, OneSide], bad: Mapping[TensorRef, OneSide]) -> str:
    if any(ref.key.io == "input" for ref in bad):
        return "propagated"
    return "origin" if any(ref.key.io == "input" for ref in seen) else "unknown"

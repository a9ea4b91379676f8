"""The records of a plan's pairs, by threads that measure large ones ahead, or here and now. The same either way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_msdump.pipeline.conditions import conditions_of, entry_of
from pytest_msdump.pipeline.gathering import completed
from pytest_msdump.pipeline.planning import Plan
from pytest_msdump.scheduling.threads import Ahead, Workers

__all__ = ["Runner"]

# A thread costs a small pair more than it gains: what is done beside NumPy's loops holds the interpreter's lock.
_WORTH_A_THREAD_BYTES = 256 * 1024


class Runner:
    """Makes the records of a plan's pairs.

    Parameters
    ----------
    plan : Plan
        Whose pairs they are.
    order : sequence of int
        The numbers of pairs that will be asked for, in their order; others may be asked for as well.
    workers : Workers, optional
        Who measures ahead; without them each pair is measured when it is asked for.

    Notes
    -----
    A user's own code may think that it is alone in the process: with it, pairs are measured one by one.
    """

    def __init__(self, plan: Plan, order: Sequence[int], workers: Workers | None = None) -> None:
        self._plan = plan
        self._conditions = conditions_of(plan)
        has_code = bool(plan.extras.converters or plan.extras.algorithms)
        self._ahead = (
            None if workers is None or has_code else Ahead(workers, self._measured, order, self._is_worth_a_thread)
        )

    def record(self, number: int) -> dict[str, Any]:
        """Return the record of pair `number` as results.json holds it."""
        entry = self._measured(number) if self._ahead is None else self._ahead.take(number)
        return completed(self._plan, number, entry)

    def close(self) -> None:
        """Stop measuring ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def _measured(self, number: int) -> dict[str, Any]:
        return entry_of(self._plan.pairing.pairs[number], self._conditions)

    def _is_worth_a_thread(self, number: int) -> bool:
        """Whether the files of a pair are large. One that is not there is found missing by who measures."""
        pair = self._plan.pairing.pairs[number]
        if pair.left.is_unseen or pair.right.is_unseen:
            return False
        files = [file for ref in (pair.left, pair.right) for file in (ref.source.pieces or (ref.source.path,))]
        try:
            return sum(file.stat().st_size for file in files) >= _WORTH_A_THREAD_BYTES
        except OSError:
            return False

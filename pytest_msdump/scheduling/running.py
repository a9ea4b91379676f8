"""The records of a plan's pairs: from earlier runs, by threads ahead, or here and now. The same in any case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pytest_msdump.model.record import Record
from pytest_msdump.pipeline.conditions import compare_pairs, conditions_of
from pytest_msdump.pipeline.gathering import completed
from pytest_msdump.storage.remote import RemotePath

if TYPE_CHECKING:
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.pipeline.planning import Plan
    from pytest_msdump.scheduling.cache import Cache
    from pytest_msdump.scheduling.threads import Ahead, Workers

__all__ = ["Measured", "Runner", "is_one_by_one"]

# A thread costs a small pair more than it gains: what is done beside NumPy's loops holds the interpreter's lock.
_WORTH_A_THREAD_BYTES = 256 * 1024

# A record, its key in the cache, and whether it came from there: plain, since very many travel between processes.
Measured: TypeAlias = tuple[Record, str | None, bool]


def is_one_by_one(plan: Plan) -> bool:
    """Whether pairs are to be measured one by one, in this process and its main thread.

    Code of the user may think that it is alone in the process. A storage may have one connection for everybody, on
    which a copy of this process, or another thread, would take the bytes that somebody else has asked for.
    """
    has_code = bool(plan.extras.converters or plan.extras.algorithms)
    return has_code or any(isinstance(side.root, RemotePath) for side in (plan.left, plan.right))


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
    cache : Cache, optional
        Where records of earlier runs are.

    Attributes
    ----------
    keys : dict of int to str
        Under which key the record of a pair may be kept; pairs whose files may change unseen have none.
    reused : set of int
        The pairs whose records came from earlier runs.

    Notes
    -----
    With code of a user, and of object storage, pairs are measured one by one.
    """

    def __init__(
        self, plan: Plan, order: Sequence[int], workers: Workers | None = None, *, cache: Cache | None = None
    ) -> None:
        self._plan = plan
        self._cache = cache
        self._conditions = conditions_of(plan)
        self.keys: dict[int, str] = {}
        self.reused: set[int] = set()
        self._ahead: Ahead[Measured] | None = None
        if workers is not None and not is_one_by_one(plan):
            from pytest_msdump.scheduling.threads import Ahead

            self._ahead = Ahead(workers, self.measured, order, self._is_worth_a_thread)

    def record(self, number: int) -> Record:
        """Return the record of pair `number`."""
        return self.taken(number, self.measured(number) if self._ahead is None else self._ahead.take(number))

    def taken(self, number: int, measured: Measured) -> Record:
        """Return the record of pair `number` that was measured anywhere."""
        record, key, is_reused = measured
        if key is not None:
            self.keys[number] = key
        if is_reused:
            self.reused.add(number)
        return completed(self._plan, number, record)

    def close(self) -> None:
        """Stop measuring ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def measured(self, number: int) -> Measured:
        """Compare pair `number`, or find it in the cache. Changes nothing here."""
        pair = self._plan.pairing.pairs[number]
        if self._cache is None:
            return self._compared(pair), None, False
        key = self._cache.key(pair)
        found = self._cache.get(key, pair)
        if found is not None:
            return found, key, True
        record = self._compared(pair)
        # What changed while it was read is nobody's record.
        return record, key if key is not None and key == self._cache.key(pair) else None, False

    def measured_together(self, numbers: Sequence[int]) -> Iterator[tuple[int, Measured]]:
        """Compare some pairs, or find them in the cache, and yield each when it is done. Changes nothing here."""
        if self._cache is not None:
            for number in numbers:
                yield number, self.measured(number)
            return
        pairs = self._plan.pairing.pairs
        records = compare_pairs((pairs[number] for number in numbers), self._conditions)
        for number, record in zip(numbers, records, strict=True):
            yield number, (record, None, False)

    def _compared(self, pair: Pair) -> Record:
        return next(compare_pairs((pair,), self._conditions))

    def _is_worth_a_thread(self, number: int) -> bool:
        """Whether the files of a pair are large. One that is not there is found missing by who measures."""
        from pytest_msdump.scheduling.files import bytes_to_read

        pair = self._plan.pairing.pairs[number]
        return bytes_to_read(pair) >= _WORTH_A_THREAD_BYTES

"""Work ahead in threads: numpy and the disk leave the lock alone, so that large tensors are measured side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Ahead", "Workers"]

T = TypeVar("T")

# What is done and not yet asked for, for each worker: so many pairs may be behind one that takes long.
_AHEAD = 4


class Workers:
    """Threads that take one task after the other. They are daemons: who interrupts a run does not wait for them.

    Parameters
    ----------
    jobs : int
        How many; each is started when there is a task for it.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Have `function` called; what it returns or raises is in the future."""
        from concurrent.futures import Future

        future: Future[T] = Future()
        self._tasks.put((future, function, arguments))
        if len(self._threads) < self.jobs:
            thread = threading.Thread(target=self._work, name=f"msdump-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Let each thread end with the task it has. Waits for none."""
        for _ in self._threads:
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, function, arguments = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                # Raised again where the result is asked for.
                future.set_exception(error)


class Ahead(Generic[T]):
    """Results of `function` for numbers in a known order, some of them worked out before they are asked for.

    Parameters
    ----------
    workers : Workers
        Who works ahead.
    function : callable
        Number → result; called in any thread.
    order : sequence of int
        The numbers as they are likely to be asked for. Nothing else is worked out ahead.
    is_worth_it : callable
        Whether a number is worth a thread; others are worked out when they are asked for, by who asks.

    Notes
    -----
    At most `workers.jobs` are worked out ahead at one time. What a thread raised is raised where the number is asked
    for, so that a run ends at the same place as without threads.
    """

    def __init__(
        self,
        workers: Workers,
        function: Callable[[int], T],
        order: Sequence[int],
        is_worth_it: Callable[[int], bool],
    ) -> None:
        self._workers = workers
        self._function = function
        self._order = order
        self._places: dict[Hashable, int] = {number: place for place, number in enumerate(order)}
        self._is_worth_it = is_worth_it
        self._futures: dict[int, Future[T]] = {}
        self._next = 0

    def take(self, number: int) -> T:
        """Return the result for `number`, and have the next ones worked out."""
        place = self._places.get(number)
        if place is None:
            return self._function(number)
        self._pass_over(place)
        self._reach_out(place)
        future = self._futures.pop(place, None)
        return self._function(number) if future is None else future.result()

    def close(self) -> None:
        """Take back what no thread has begun."""
        self._pass_over(len(self._order))

    def _pass_over(self, place: int) -> None:
        """Forget what was not asked for in its turn, as when a test was skipped."""
        for earlier in [one for one in self._futures if one < place]:
            self._futures.pop(earlier).cancel()

    def _reach_out(self, place: int) -> None:
        self._next = max(self._next, place)
        while self._next < len(self._order) and len(self._futures) < _AHEAD * self._workers.jobs:
            number = self._order[self._next]
            if self._is_worth_it(number):
                self._futures[self._next] = self._workers.submit(self._function, number)
            self._next += 1

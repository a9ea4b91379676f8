"""What a recording writes is written beside the model."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

# What may wait to be written.
_MOST_BYTES = 64 * 2**20


class Background:
    """Does jobs in a thread of its own, in their order; a caller waits where too many bytes would wait.

    An error of a job is raised once, to the next caller, and drops the jobs that wait. A forked process has no such
    thread: there a job is done at once.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._executor = ThreadPoolExecutor(1, "msdump")
        self._waiting: deque[tuple[Future[Any], int]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def do(self, size: int, job: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Have a job done, which holds so many bytes."""
        if os.getpid() != self._process:
            job(*args, **kwargs)
            return
        with self._lock:
            self._waiting.append((self._executor.submit(job, *args, **kwargs), size))
            self._bytes += size
            while self._waiting and (self._bytes > _MOST_BYTES or self._waiting[0][0].done()):
                self._take()

    def wait(self) -> None:
        """Wait until all jobs are done."""
        if os.getpid() == self._process:
            with self._lock:
                while self._waiting:
                    self._take()

    def close(self) -> None:
        """Wait until all jobs are done, and end the thread."""
        try:
            self.wait()
        finally:
            if os.getpid() == self._process:
                self._executor.shutdown(cancel_futures=True)

    def _take(self) -> None:
        job, size = self._waiting.popleft()
        self._bytes -= size
        try:
            job.result()
        except BaseException:
            for other, _ in self._waiting:
                other.cancel()
            self._waiting.clear()
            self._bytes = 0
            raise

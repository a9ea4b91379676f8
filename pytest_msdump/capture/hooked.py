"""What the recordings of a model that is hooked have in common: their iterations, and their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_msdump.capture.writer import DumpWriter
from pytest_msdump.errors import ConfigError

__all__ = ["Hooked"]


class Hooked(ABC):
    """A recording that is called while a model runs; a subclass says how a model of its framework is watched.

    Its ``__enter__`` sets `writer` and `is_on`, and leaves in `cleanup` what undoes it all.

    Parameters
    ----------
    directory : Path
        Of the dump.
    wish
        What to record; `iterations` of it says whether several.

    Attributes
    ----------
    is_on : bool
        Whether what comes is recorded.
    """

    writer: DumpWriter

    def __init__(self, directory: Path, wish: Any) -> None:
        self.directory, self.wish = directory, wish
        self.is_on = False
        self.cleanup = ExitStack()
        self._iteration = 0
        self._has_begun = self._had_iteration = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        missing = self.missing() if kind is None else None
        if missing is None:
            self.cleanup.__exit__(kind, error, traceback)
            return
        # The manifest is to say that the dump is not whole.
        self.cleanup.__exit__(ConfigError, missing, None)
        raise missing

    @contextmanager
    def iteration(self) -> Iterator[int]:
        """Record one iteration; what runs between two such blocks is not recorded.

        Yields
        ------
        int
            Its number, from 0.

        Raises
        ------
        ConfigError
            A second one, where the recording was not made with ``iterations=True``.
        """
        if self._had_iteration:
            self.step()
        self._had_iteration = self.is_on = True
        try:
            yield self._iteration
        finally:
            self.is_on = False

    def step(self) -> None:
        """End an iteration: what follows belongs to the next one.

        Raises
        ------
        ConfigError
            The recording was not made with ``iterations=True``.
        """
        if not self.wish.iterations:
            raise ConfigError("this recording is of one iteration; make it with iterations=True to record several")
        self.forget()
        self._iteration += 1
        self._has_begun = False

    def stop(self) -> None:
        """Record nothing from here on, also where compiled code or a graph still holds a hook."""
        self.is_on = False
        self.forget()

    @abstractmethod
    def forget(self) -> None:
        """Let go of what is kept of an iteration until its end."""

    @abstractmethod
    def missing(self) -> ConfigError | None:
        """Return the error to raise when something that was asked for has not come."""

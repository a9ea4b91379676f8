"""A recording that runs the model itself: each run is an iteration, and a recording without a run is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pytest_msdump.capture.writer import DumpWriter
from pytest_msdump.errors import ConfigError

__all__ = ["RunRecording"]

_Self = TypeVar("_Self", bound="RunRecording")


class RunRecording:
    """Base of what has a ``run`` of its own.

    Parameters
    ----------
    directory : Path
        An empty folder, or one that will be made, once the ``with`` block begins.
    iterations : bool
        Whether there may be several runs.

    Attributes
    ----------
    directory : Path
        The dump; complete once the block has ended.
    """

    writer: DumpWriter

    def __init__(self, directory: Path, *, iterations: bool) -> None:
        self.directory = directory
        self._several = iterations
        self._runs = 0
        self._is_open = False

    def __enter__(self: _Self) -> _Self:
        self.prepare()
        self.writer = DumpWriter(self.directory, iterations=self._several)
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        if kind is not None or self._runs:
            self.writer.__exit__(kind, error, traceback)
            return
        missing = ConfigError(
            f"{self.directory}: nothing was recorded; call .run(…) of the recording in its with block"
        )
        # The manifest is to say that the dump is not whole.
        self.writer.__exit__(ConfigError, missing, None)
        raise missing

    def prepare(self) -> None:
        """Do what may fail before anything is written."""

    @contextmanager
    def one_run(self) -> Iterator[int]:
        """Yield the number of a run; one that fails does not count.

        Raises
        ------
        ConfigError
            Outside of the block; a second run of a recording that has one iteration.
        """
        if not self._is_open:
            raise ConfigError("a recording runs inside of its with block")
        if self._runs and not self._several:
            raise ConfigError("this recording is of one iteration; make it with iterations=True to record several")
        yield self._runs
        self._runs += 1

    def tell_inputs(self, inputs: dict[str, Any], iteration: int) -> None:
        """Put digests of what a run was given into the manifest."""
        suffix = f"[{iteration}]" if iteration else ""
        self.writer.describe(inputs={name + suffix: value for name, value in inputs.items()})

"""One object that records every framework: what the fixture ``msdump_recorder`` gives."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_msdump.comparison.opening import OpenDump, open_dump
from pytest_msdump.errors import ConfigError, DumpNotFoundError, UnknownDumpFormatError
from pytest_msdump.record.writer import DumpWriter

if TYPE_CHECKING:
    from pytest_msdump.record.process import Ran

__all__ = ["Hooked", "Recorder", "RunRecording", "opened", "require"]


class Recorder:
    """Records live models. Frameworks are imported when they are used.

    Every method takes ``directory=``, an empty folder or one that will be made; else it is a new one below `base`.

    Parameters
    ----------
    base : path
        Where dumps go of which nobody says where.
    opened : callable, optional
        Makes what the methods that wait for a program return of its folder, or of its `record.process.Ran`, which
        has the folder and the end of the log; that itself otherwise.
    """

    def __init__(self, base: str | PathLike[str], *, opened: Callable[[Any], Any] | None = None) -> None:
        self.base = Path(base)
        self._opened = opened or (lambda result: result)
        self._given: set[Path] = set()

    def writer(self, directory: str | PathLike[str] | None = None, *, name: str = "dump", **said: Any) -> DumpWriter:
        """Return a `DumpWriter` for arrays that you have in hand; `said` are its keywords."""
        from pytest_msdump.record.writer import DumpWriter

        return DumpWriter(self.folder(name, directory), **said)

    def torch(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a PyTorch model: a context manager; see `record.torch_modules.record`."""
        return self._record("torch", "torch_modules", model, directory, options)

    def keras(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a Keras model; see `record.keras.record`."""
        return self._record("keras", "keras", model, directory, options)

    def tf1(self, session: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a graph of ``tf.compat.v1``; see `record.tf_graphs.record`."""
        return self._record("tensorflow", "tf_graphs", session, directory, options)

    def onnx(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a model file by ONNX Runtime; see `record.onnx.record`."""
        return self._record("onnxruntime", "onnx", model, directory, options)

    def caffe(self, net: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record a Caffe net after its forward pass; needs ``prototxt=``, see `record.caffe.from_caffe`."""
        return self._finished(self._record("", "caffe", net, directory, options))

    def mindspore(self, model: Any, *, directory: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Record MindSpore: a cell in PyNative mode through hooks, else a script or callable in a process of its own.

        See `record.mindspore.record` and `record.mindspore_run.record`.
        """
        if hasattr(model, "cells_and_names"):
            return self._record("mindspore", "mindspore", model, directory, options)
        return self._finished(self._record("", "mindspore_run", model, directory, options))

    def run(
        self, command: Sequence[str | PathLike[str]], *, directory: str | PathLike[str] | None = None, **options: Any
    ) -> Any:
        """Run any program that dumps, in time, and open what appeared; see `record.program.record`."""
        return self._finished(self._record("", "program", command, directory, options))

    def folder(self, name: str, directory: str | PathLike[str] | None = None) -> Path:
        """Return the folder of a recording: `directory` where somebody says one, else a new one that `name` tells."""
        if directory is not None:
            return Path(directory)
        number = 1
        while (path := self.base / (name if number == 1 else f"{name}_{number}")) in self._given or path.exists():
            number += 1
        self._given.add(path)
        return path

    def _record(
        self, package: str, module: str, subject: Any, directory: str | PathLike[str] | None, options: dict[str, Any]
    ) -> Any:
        require(package)
        record = import_module(f"pytest_msdump.record.{module}").record
        return record(subject, self.folder(module.partition("_")[0], directory), **options)

    def _finished(self, result: Any) -> Any:
        from pytest_msdump.record.process import Ran

        return self._opened(result) if isinstance(result, (Path, Ran)) else result


# Package → extra of this project that installs it.
_EXTRAS = {
    "torch": "torch",
    "keras": "tensorflow",
    "tensorflow": "tensorflow",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "mindspore": "mindspore",
}


def require(package: str) -> None:
    """Say what to install when a framework is not there; an empty name needs nothing.

    Raises
    ------
    ConfigError
        It cannot be imported.
    """
    if not package or package in sys.modules or find_spec(package) is not None:
        return
    extra = _EXTRAS.get(package, package)
    raise ConfigError(
        f"{package} is not installed here, and recording needs it; pip install 'pytest-msdump[{extra}]'"
    ) from ModuleNotFoundError(f"No module named '{package}'", name=package)


# -- What the recordings of a model that is hooked have in common ----------------------------------------------------


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


# -- A recording that runs the model itself --------------------------------------------------------------------------


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


# -- Opens what a program dumped -------------------------------------------------------------------------------------


def opened(ran: Ran | Path) -> OpenDump:
    """Open what a program that ended well has dumped, or what was written to a folder.

    Raises
    ------
    ProgramError
        It dumped nothing, or what is no dump; the text has the end of what it printed.
    """
    if isinstance(ran, Path):
        return open_dump(ran)
    try:
        dump = open_dump(ran.directory)
    except DumpNotFoundError:
        ran.failed(f"ended well and has removed {ran.directory}, which it was to dump to")
    except UnknownDumpFormatError as error:
        ran.failed(f"ended well, and what it left is no dump: {error}")
    if not dump.refs:
        ran.failed(f"ended well after {ran.seconds:.1f} s and dumped nothing to {ran.directory}: {ran.question}")
    return dump

"""What the recordings of all frameworks share: writing tensors, iterations, digests, and errors at the end."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TypeVar

import numpy as np

from pytest_msdump.capabilities.record.calls import calling_line
from pytest_msdump.capabilities.record.manifest import digest, this_rank
from pytest_msdump.capabilities.record.sketching import Sketched
from pytest_msdump.capabilities.record.variation import Perturbation
from pytest_msdump.capabilities.record.writer import DumpWriter
from pytest_msdump.capabilities.statistics.count_sketch import BUCKETS
from pytest_msdump.core.dtypes.arrays import RawArray
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.model.dump import Operator
from pytest_msdump.core.pages import pages

# What may wait to be written beside the model.
_MOST_BYTES = 64 * 2**20
PARAMETER = "Parameter"
_Self = TypeVar("_Self", bound="Recording")


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


class Recording(ABC):
    """A model being recorded, for as long as a ``with`` block runs; the dump is complete after it.

    Parameters
    ----------
    directory : path
        An empty folder, or one that will be made.
    iterations : bool
        ``True`` for several.
    digests : bool
        Put digests of inputs and weights into the manifest: a comparison warns when the two sides had different ones.
    save, full, buckets
        As of `record.writer.DumpWriter`.
    perturb : record.Perturbation, optional
        What to do to the model's inputs and weights, for as long as the block runs. The manifest says it; its digests
        are of inputs and weights as they were before. Other tensors, weights and inputs among them, are recorded as
        the perturbed run has them.
    distributed : bool
        Record into ``rank_R`` of the folder where this process is one of several, as `record.this_rank` finds out;
        ``False`` records it as if it ran alone.

    Raises
    ------
    MsdumpError
        Tensors cannot be written. They are written beside the model, so another call of it may say so, at the latest
        the end of the iteration.
    """

    writer: DumpWriter

    def __init__(
        self,
        directory: str | PathLike[str],
        *,
        iterations: bool = False,
        digests: bool = True,
        save: str = "full",
        full: Sequence[str] = (),
        buckets: int = BUCKETS,
        perturb: Perturbation | None = None,
        distributed: bool = True,
    ) -> None:
        self.perturb, self._unit = perturb, 0.0
        self.rank = this_rank() if distributed else None
        self._whole = Path(directory)
        self.directory = self._whole if self.rank is None else self._whole / self.rank.folder
        self._saving: dict[str, Any] = {"save": save, "full": full, "buckets": buckets}
        self.wants_iterations, self.wants_digests = iterations, digests
        self.is_on = False
        self._iteration = 0
        self._cleanup = ExitStack()

    def __enter__(self: _Self) -> _Self:
        self.prepare()
        with ExitStack() as stack:
            options = {"iterations": self.wants_iterations, "distributed": self.rank, **self._saving}
            self.writer = stack.enter_context(DumpWriter(self._whole, **options))
            self._background = Background()
            stack.callback(self._background.close)
            stack.callback(self.finish_writing)
            # Before the hooks go, so that nothing is written by one that runs meanwhile.
            self.watch(stack)
            stack.callback(self.stop)
            self._cleanup = stack.pop_all()
        self.is_on = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        missing = self.missing() if kind is None else None
        if missing is None:
            self._cleanup.__exit__(kind, error, traceback)
            return
        # The manifest is to say that the dump is not whole.
        self._cleanup.__exit__(ConfigError, missing, None)
        raise missing

    def prepare(self) -> None:  # noqa: B027 - not every recording has something to do
        """Do what may fail before anything is written."""

    def watch(self, stack: ExitStack) -> None:  # noqa: B027
        """Describe the run, and hook the model; the stack removes the hooks."""

    def stop(self) -> None:
        """Record nothing from here on, also where compiled code or a graph still holds a hook."""
        self.is_on = False
        if self.perturb is not None and self._unit:
            self.writer.describe(perturbation={**asdict(self.perturb), "u": self._unit})

    @abstractmethod
    def missing(self) -> ConfigError | None:
        """Return the error to raise when something that was asked for has not come."""

    @abstractmethod
    def array_of(self, tensor: Any) -> Any:
        """Return a tensor as `DumpWriter.write` takes it, ``None`` where it has no numbers."""

    def write(self, name: str, tensor: Any, **about: Any) -> None:
        """Write one tensor of this iteration; `about` are keywords of `DumpWriter.write`."""
        array = self.array_of(tensor)
        if array is not None:
            size, copy = _copied(array)
            self._background.do(size, self.writer.write, name, copy, iteration=self._iteration, **about)

    def perturbed(self, name: str, array: Any) -> Any:
        """Return an input or a weight, an array, as the run is to have it; itself where it stays as it is."""
        unit = None if self.perturb is None else self.perturb.unit(str(array.dtype))
        if self.perturb is None or unit is None:
            return array
        # Of several types the manifest has the coarsest one's.
        self._unit = max(self._unit, unit)
        return self.perturb(name, array)

    def finish_writing(self) -> None:
        """Wait until all that was recorded is written."""
        self._background.wait()

    def add_call(self, call: Operator) -> None:
        """Add a call of this iteration to the graph."""
        self.writer.add_call(call, iteration=self._iteration)

    def write_parameters(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Write weights by name, which have no place in the order of execution."""
        for name, tensor in weights:
            self.write(name, tensor, op_type=PARAMETER)

    def describe_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Put digests of what the model is given in this iteration into the manifest."""
        suffix = f"[{self._iteration}]" if self._iteration else ""
        for name, tensor in inputs.items():
            array = self.array_of(tensor)
            if array is not None:
                size, copy = _copied(array)
                self._background.do(size, self.writer.describe, inputs={f"{name}{suffix}": copy})

    def describe_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Put digests of weights into the manifest; only one is held as an array at a time."""
        arrays = ((name, self.array_of(tensor)) for name, tensor in weights)
        self.writer.describe(weights={name: digest(array) for name, array in arrays if array is not None})

    def _refuse_second_iteration(self) -> None:
        if not self.wants_iterations:
            raise ConfigError("this recording is of one iteration; make it with iterations=True to record several")


def _copied(array: Any) -> tuple[int, Any]:
    """Return the bytes of an array and a copy of it: a model changes its tensors in place."""
    if isinstance(array, Sketched):
        return array.sketch.buckets.nbytes, array
    own = np.frombuffer(array.data, np.uint8) if isinstance(array, RawArray) else np.asarray(array)
    copy = pages(own.size, own.dtype).reshape(own.shape)
    np.copyto(copy, own)
    return copy.nbytes, replace(array, data=copy) if isinstance(array, RawArray) else copy


class HookedRecording(Recording):
    """A recording that is called while a model runs; a subclass says how models of its framework are hooked.

    Parameters
    ----------
    inputs, gradients, parameters : bool
        What to record beside outputs; parameters as they are before the model is first called in each iteration.
    directory, iterations, digests, save, full, buckets, perturb, distributed
        As of `Recording`; several iterations are told apart by `iteration` or `step`.
    """

    # Packages whose frames are not the user's program.
    FRAMEWORKS: ClassVar[tuple[str, ...]]
    # What went wrong, and what to do, when nothing was recorded or no gradient came.
    NOT_CALLED: ClassVar[str]
    NO_GRADIENTS: ClassVar[str]

    def __init__(
        self,
        directory: str | PathLike[str],
        *,
        inputs: bool = False,
        gradients: bool = False,
        parameters: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        self.wants_inputs, self.wants_gradients, self.wants_parameters = inputs, gradients, parameters
        self._has_begun = self._had_iteration = False
        self._written = self._arrived = 0

    @property
    @abstractmethod
    def title(self) -> str:
        """What errors call the model."""

    @contextmanager
    def iteration(self) -> Iterator[int]:
        """Record one iteration and yield its number, from 0; what runs between two such blocks is not recorded.

        ConfigError for a second one, where the recording was not made with ``iterations=True``.
        """
        if self._had_iteration:
            self.step()
        self._had_iteration = self.is_on = True
        try:
            yield self._iteration
        finally:
            self.is_on = False
        # What went wrong with this iteration is said at its end.
        self.finish_writing()

    def step(self) -> None:
        """End an iteration: what follows belongs to the next; ConfigError where ``iterations=True`` was not given."""
        self._refuse_second_iteration()
        self.finish_writing()
        self.forget()
        self._iteration += 1
        self._has_begun = False

    def stop(self) -> None:
        """Record nothing from here on."""
        super().stop()
        self.forget()

    def forget(self) -> None:
        """Drop what is kept until the end of an iteration."""

    def missing(self) -> ConfigError | None:
        """Return an error when no layer was called, or no gradient came."""
        if not self._written:
            return ConfigError(f"{self.title} was recorded, and {self.NOT_CALLED}")
        if self.wants_gradients and not self._arrived:
            return ConfigError(f"gradients of {self.title} were asked for, and none came; {self.NO_GRADIENTS}")
        return None

    def write_all(self, name: str, tensors: Sequence[Any], io: str, op_type: str) -> None:
        """Write what a layer is given or gives back, with the line of the program that called it."""
        line = calling_line(*self.FRAMEWORKS) if tensors else None
        for slot, tensor in enumerate(tensors):
            self.write(name, tensor, slot=slot, io=io, op_type=op_type, line=line)
        self._written += len(tensors)

    def write_gradient(self, name: str, slot: int, gradient: Any) -> None:
        """Write a gradient that has arrived, if there is one."""
        if self.is_on and gradient is not None:
            self._arrived += 1
            self.write(name, gradient, slot=slot)


class RunRecording(Recording):
    """A recording that runs the model itself, by a ``run`` of its own."""

    def missing(self) -> ConfigError | None:
        """Return an error when nothing was run."""
        if self._iteration:
            return None
        return ConfigError(f"{self.directory}: nothing was recorded; call .run(…) of the recording in its with block")

    @contextmanager
    def one_run(self) -> Iterator[int]:
        """Yield the number of a run; a failed one does not count. ConfigError outside of the block, or for too many."""
        if not self.is_on:
            raise ConfigError("a recording runs inside of its with block")
        if self._iteration:
            self._refuse_second_iteration()
        yield self._iteration
        self._iteration += 1


Patterns = str | Sequence[str] | None

_MOST_SHOWN = 30
# Containers give back what their last module gave back: recording both would say everything twice.
_CONTAINERS = frozenset({"Sequential", "SequentialCell"})


def select_operators(
    operators: Mapping[str, str], patterns: Patterns, exclude: Patterns, types: Patterns
) -> frozenset[str]:
    """Return the names to record, of `operators`, which are types by name.

    `patterns` are globs on names that are recorded (all by default), `exclude` on those that are not, `types` on types.
    UnknownNameError for a glob that matches nothing, ConfigError where nothing is left.

    >>> sorted(select_operators({"conv1": "Conv", "conv2": "Conv", "fc": "Gemm"}, "*", "conv2", None))
    ['conv1', 'fc']
    """
    _refuse_unknown((*_as_tuple(patterns), *_as_tuple(exclude)), operators, "operator is called")
    _refuse_unknown(_as_tuple(types), operators.values(), "operator is of type")
    selected = frozenset(
        name
        for name, kind in operators.items()
        if _matches(name, _as_tuple(patterns) or ("*",))
        and not _matches(name, _as_tuple(exclude))
        and _matches(kind, _as_tuple(types) or ("*",))
    )
    if not selected:
        raise ConfigError(f"none of {len(operators)} operators is left to record")
    return selected


def name_modules(model: Any, inner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the modules of a model by name: first the model itself, by the name of its type, then the inner ones."""
    root = type(model).__name__
    while root in inner:
        root += "_"
    return {root: model, **inner}


def select_modules(
    modules: Mapping[str, Any], patterns: Patterns, exclude: Patterns, types: Any, depth: int | None
) -> dict[str, Any]:
    """Return the modules to record, by name, of those that `name_modules` returns."""
    wanted, unwanted, of_types = _as_tuple(patterns), _as_tuple(exclude), _as_tuple(types)
    _refuse_unknown((*wanted, *unwanted), modules, "module is called")
    root = next(iter(modules), "")
    selected = {
        name: module
        for name, module in modules.items()
        if (_matches(name, wanted) if wanted else name == root or type(module).__name__ not in _CONTAINERS)
        and not _matches(name, unwanted)
        and (not of_types or any(is_a(module, kind) for kind in of_types))
        and (depth is None or (0 if name == root else name.count(".") + 1) <= depth)
    }
    if not selected:
        raise ConfigError(
            f"none of the {len(modules)} modules of {root} is left to record by modules=, exclude=, types= and depth="
        )
    return selected


def names_inside(outer: str, names: Iterable[str], root: str) -> list[str]:
    """Return the names of modules that are inside of `outer`."""
    return [name for name in names if name != outer and (outer == root or name.startswith(f"{outer}."))]


def is_a(module: Any, kind: type | str) -> bool:
    """Whether a module is of a type, or of one with such a name."""
    if isinstance(kind, type):
        return isinstance(module, kind)
    return any(base.__name__ == kind for base in type(module).__mro__)


def _refuse_unknown(patterns: Iterable[str], known: Iterable[str], title: str) -> None:
    names = list(dict.fromkeys(known))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnknownNameError(f"no {title} '{pattern}'; {nearest(pattern, names[:_MOST_SHOWN])}")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, (str, type)) else tuple(value)

"""What a recording of a PyTorch model does when a module is called, an operation runs, an optimizer has stepped."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.capture import torch_state
from pytest_msdump.capture.calling_line import calling_line
from pytest_msdump.capture.hooked import Hooked
from pytest_msdump.capture.nested import leaves, named_leaves
from pytest_msdump.capture.torch_gradients import Edge, Gradients
from pytest_msdump.capture.torch_tensors import array_of, is_tensor
from pytest_msdump.errors import ConfigError

if TYPE_CHECKING:
    pass

__all__ = ["TorchRun", "Wish"]

_PARAMETER, _OPTIMIZER = "Parameter", "Optimizer"


class Wish(NamedTuple):
    """What of a model to record; see `torch_modules.record`."""

    level: str = "module"
    inputs: bool = False
    gradients: bool = False
    parameters: bool = False
    optimizer: Any = None
    iterations: bool = False
    compiled: str = "refuse"
    digests: bool = True


class _Call(NamedTuple):
    """A call of a module that has not come back yet."""

    module: Any
    edges: list[Edge]


class TorchRun(Hooked):
    """The part of a recording that is called while the model runs.

    Parameters
    ----------
    model : torch.nn.Module
        Without wrappers.
    directory : Path
        Of the dump.
    modules, watched : mapping of str to module
        All, the model itself first, and those to record.
    wish : Wish
        What of them.
    """

    def __init__(
        self, model: Any, directory: Path, modules: Mapping[str, Any], watched: Mapping[str, Any], wish: Wish
    ) -> None:
        super().__init__(directory, wish)
        self.model = model
        self.gradients = Gradients(self._gradient, self._writing)
        self._names = {id(module): name for name, module in modules.items()}
        self._watched = {id(module) for module in watched.values()}
        self._calls: list[_Call] = []
        self._written = 0
        self._is_writing = False

    # -- iterations ---------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Remove the hooks of this iteration's graph."""
        self.gradients.end_iteration()

    def stop(self) -> None:
        """Record nothing from here on, also where compiled code or a graph still holds a hook."""
        super().stop()
        self._calls.clear()

    def missing(self) -> ConfigError | None:
        """Return the error to raise when something that was asked for has not come."""
        root = self._names[id(self.model)]
        if not self._written:
            return ConfigError(
                f"{root} was recorded, and none of the chosen modules was called; call it inside of the with block "
                "(compiled functions that call it call no hooks: compiled='eager' runs them uncompiled)"
            )
        if self.wish.gradients and not self.gradients.arrived:
            return ConfigError(
                f"gradients of {root} were asked for, and none came; call .backward() inside of the with block, and do "
                "not run the model under no_grad or inference_mode"
            )
        return None

    # -- hooks --------------------------------------------------------------------------------------------------------

    def before(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """Is called before any module of the process runs."""
        import torch

        if torch.compiler.is_compiling() or not self.is_on or id(module) not in self._names:
            return
        if module is self.model:
            # A call that raised has left its modules here.
            self._calls.clear()
        with self._writing():
            if not self._has_begun:
                self._begin(module, args, kwargs or {})
            given = leaves((args, kwargs or {}), is_tensor) if id(module) in self._watched else []
            if self.wish.inputs and not _is_backward():
                self._write_all(self._names[id(module)], given, "input", type(module).__name__)
            edges = self.gradients.edges(given) if self.wish.gradients else []
        self._calls.append(_Call(module, edges))

    def after(self, module: Any, _: Any, result: Any) -> None:
        """Is called after any module of the process has run."""
        import torch

        if torch.compiler.is_compiling() or not self.is_on or id(module) not in self._names:
            return
        call = self._came_back(module)
        if call is None or id(module) not in self._watched:
            return
        name, tensors = self._names[id(module)], leaves(result, is_tensor)
        with self._writing():
            # A module that runs inside of a backward pass runs again, for a checkpoint: it was recorded before.
            if not _is_backward():
                self._write_all(name, tensors, "output", type(module).__name__)
            if self.wish.gradients:
                self.gradients.of_outputs(name, tensors)
                self.gradients.of_inputs(name, call.edges, tensors)

    def op(self, name: str, tensors: list[Any], io: str) -> None:
        """Is called before and after every operation."""
        if not self.is_on or self._is_writing or (io == "input" and not self.wish.inputs):
            return
        scope = self._scope()
        if scope is not None:
            with self._writing():
                self._write_all(f"{scope}/{name}", tensors, io, name)

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """Is called after a step of the optimizer."""
        if not self.is_on:
            return
        names = {id(tensor): name for name, tensor in torch_state.weights(self.model).items()}
        with self._writing():
            for name, tensor in torch_state.optimizer_tensors(optimizer, names):
                self._write(name, tensor, op_type=_OPTIMIZER)

    # -- what hooks do ------------------------------------------------------------------------------------------------

    def _begin(self, module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Tell what an iteration starts from, at the first call of one of the model's modules."""
        self._has_begun = True
        if self.wish.parameters:
            for name, tensor in torch_state.weights(self.model).items():
                self._write(name, tensor, op_type=_PARAMETER)
        self.writer.describe(dtype_policy=torch_state.dtype_policy(self.model))
        if self.wish.digests and module is self.model:
            suffix = f"[{self._iteration}]" if self._iteration else ""
            given = named_leaves("", _arguments(module, args, kwargs), is_tensor)
            self.writer.describe(inputs={name + suffix: array_of(tensor) for name, tensor in given})

    def _came_back(self, module: Any) -> _Call | None:
        while self._calls:
            call = self._calls.pop()
            if call.module is module:
                return call
        return None

    def _scope(self) -> str | None:
        """The name under which an operation is recorded: its module, or the node of the backward pass."""
        if _is_backward():
            import torch

            node = torch._C._current_autograd_node()
            return f"backward/{node.name()}" if self.wish.gradients and node is not None and not self._calls else None
        if not self._calls or id(self._calls[-1].module) not in self._watched:
            return None
        return self._names[id(self._calls[-1].module)]

    def _gradient(self, name: str, gradient: Any, slot: int) -> None:
        if self.is_on:
            with self._writing():
                self._write(name, gradient, slot=slot)

    def _write_all(self, name: str, tensors: list[Any], io: str, op_type: str) -> None:
        line = calling_line("torch") if tensors else None
        for slot, tensor in enumerate(tensors):
            self._write(name, tensor, slot=slot, io=io, op_type=op_type, line=line)
        self._written += len(tensors)

    def _write(self, name: str, tensor: Any, **said: Any) -> None:
        self.writer.write(name, array_of(tensor), iteration=self._iteration, **said)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Operations that run now are the recording's own."""
        outer, self._is_writing = self._is_writing, True
        try:
            yield
        finally:
            self._is_writing = outer


def _is_backward() -> bool:
    """Whether this runs inside of a backward pass."""
    import torch

    return bool(torch._C._current_graph_task_id() != -1)


def _arguments(module: Any, args: Any, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a module is given, by the names that its ``forward`` has for them."""
    try:
        return inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}

"""What a recording of a PyTorch model does when a module is called, an operation runs, an optimizer has stepped."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.errors import ConfigError
from pytest_msdump.record import torch_state
from pytest_msdump.record.names import calling_line, leaves, named_leaves
from pytest_msdump.record.recorder import Hooked
from pytest_msdump.record.torch_choice import plain_name
from pytest_msdump.record.torch_state import array_of, is_tensor

__all__ = ["TorchRun", "Wish"]

Write = Callable[[str, Any, int], None]
Quiet = Callable[[], AbstractContextManager[None]]


class Edge(NamedTuple):
    """Where the gradient of one input of a module goes to: which input, the node of the graph and its output."""

    slot: int
    node: Any
    number: int


class Gradients:
    """Registers hooks that write gradients when they arrive.

    Parameters
    ----------
    write : callable
        Takes the name, the tensor and the slot.
    quiet : callable
        Makes a context in which operations are the recording's own.
    """

    def __init__(self, write: Write, quiet: Quiet) -> None:
        self._write = write
        self._quiet = quiet
        self._lasting: list[Any] = []
        self._handles: list[Any] = []
        self.arrived = 0

    def end_iteration(self) -> None:
        """Remove the hooks of this iteration's graph."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def remove(self) -> None:
        """Remove all hooks."""
        self.end_iteration()
        for handle in self._lasting:
            handle.remove()
        self._lasting.clear()

    def of_parameters(self, parameters: Iterable[tuple[str, Any]]) -> None:
        """Write the gradient of each parameter, as it was added up, each time that a backward pass adds to it."""
        for path, parameter in parameters:
            if parameter.requires_grad and parameter.is_leaf:
                arrive = partial(self._arrive_at, f"{plain_name(path)}/grad")
                self._lasting.append(parameter.register_post_accumulate_grad_hook(arrive))

    def of_outputs(self, name: str, tensors: Sequence[Any]) -> None:
        """Write the gradient of each output: of all that was made of it, before any later in-place operation."""
        for slot, tensor in enumerate(tensors):
            if tensor.requires_grad:
                self._handles.append(tensor.register_hook(partial(self._arrive, f"{name}/grad_output", slot)))

    def edges(self, tensors: Sequence[Any]) -> list[Edge]:
        """Say, before a module runs, where the gradients of its inputs will go to."""
        import torch

        if not torch.is_grad_enabled():
            return []
        edges: dict[tuple[int, int], Edge] = {}
        for slot, tensor in enumerate(tensors):
            if tensor.requires_grad:
                node, number = torch.autograd.graph.get_gradient_edge(tensor)[:2]
                # A tensor that is given twice has one gradient, at its first place.
                edges.setdefault((id(node), number), Edge(slot, node, number))
        return list(edges.values())

    def of_inputs(self, name: str, edges: Sequence[Edge], outputs: Sequence[Any]) -> None:
        """Write the gradient of each input as far as it came through this module.

        An input that the module gives back as it is has none of its own.
        """
        if not edges:
            return
        sought = {(edge.node, edge.number): edge.slot for edge in edges}
        ends: dict[int, list[tuple[Any, int]]] = {}
        for node in _nodes([tensor.grad_fn for tensor in outputs], {node for node, _ in sought}):
            for place, following in enumerate(node.next_functions):
                if following in sought:
                    ends.setdefault(sought[following], []).append((node, place))
        for slot, found in ends.items():
            part = _Sum(len(found), partial(self._arrive, f"{name}/grad_input", slot), self._quiet)
            self._handles += [node.register_hook(part.adder(place)) for node, place in found]

    def _arrive_at(self, name: str, parameter: Any) -> None:
        self._arrive(name, 0, parameter.grad)

    def _arrive(self, name: str, slot: int, gradient: Any) -> None:
        if gradient is not None:
            self.arrived += 1
            self._write(name, gradient, slot)


class _Sum:
    """Adds up what several nodes say of one tensor's gradient, and tells it when the last of them has spoken."""

    def __init__(self, count: int, tell: Callable[[Any], None], quiet: Quiet) -> None:
        self._count = self._left = count
        self._tell = tell
        self._quiet = quiet
        self._total: Any = None
        self._is_waiting = False

    def adder(self, place: int) -> Callable[[Any, Any], None]:
        """Return a hook for a node that gives its part at `place`."""

        def add(gradients: Any, _: Any) -> None:
            self._add(gradients[place])

        return add

    def _add(self, gradient: Any) -> None:
        import torch

        self._left -= 1
        if gradient is not None:
            with torch.no_grad(), self._quiet():
                # What waits for other parts could be changed meanwhile.
                part = gradient.clone() if self._left else gradient
                self._total = part if self._total is None else self._total + part
        if self._left == 0:
            self._finish()
        elif not self._is_waiting:
            # Nodes of outputs that the loss does not use never speak.
            self._is_waiting = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        total, self._total = self._total, None
        self._left, self._is_waiting = self._count, False
        if total is not None:
            self._tell(total)


def _nodes(starts: Iterable[Any], ends: set[Any]) -> list[Any]:
    """All nodes of the graph from `starts` on; `ends` and what is behind them are left out."""
    found: dict[Any, None] = {}
    waiting = [node for node in starts if node is not None]
    while waiting:
        node = waiting.pop()
        if node in found or node in ends:
            continue
        found[node] = None
        waiting += [following for following, _ in node.next_functions if following is not None]
    return list(found)


# -- What a recording of a PyTorch model does when a module is called, an operation runs, an op ----------------------


if TYPE_CHECKING:
    pass


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

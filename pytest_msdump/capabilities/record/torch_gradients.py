"""Gradients of a PyTorch model: hooks that write them when they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

from pytest_msdump.capabilities.record.torch_tensors import plain_name

# Takes the name, the slot and the gradient.
Write = Callable[[str, int, Any], None]
# Makes a context in which operations are the recording's own.
Quiet = Callable[[], AbstractContextManager[None]]


class GradientEdge(NamedTuple):
    """Where the gradient of one input of a module goes to: which input, the node of the graph and its output."""

    slot: int
    node: Any
    number: int


class Gradients:
    """The hooks of one recording."""

    def __init__(self, write: Write, quiet: Quiet) -> None:
        self._write = write
        self._quiet = quiet
        self._lasting: list[Any] = []
        self._handles: list[Any] = []

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

    def hook_parameters(self, parameters: Iterable[tuple[str, Any]]) -> None:
        """Write the gradient of each parameter, as it was added up, each time that a backward pass adds to it."""

        def arrive(name: str, parameter: Any) -> None:
            self._write(name, 0, parameter.grad)

        for path, parameter in parameters:
            if parameter.requires_grad and parameter.is_leaf:
                hook = partial(arrive, f"{plain_name(path)}/grad")
                self._lasting.append(parameter.register_post_accumulate_grad_hook(hook))

    def hook_outputs(self, name: str, tensors: Sequence[Any]) -> None:
        """Write the gradient of each output: of all that was made of it, before any later in-place operation."""
        import torch

        if not torch.is_grad_enabled():
            return
        for slot, tensor in enumerate(tensors):
            if tensor.requires_grad:
                self._handles.append(tensor.register_hook(partial(self._write, f"{name}/grad_output", slot)))

    def edges(self, tensors: Sequence[Any], *, weights: bool = True) -> list[GradientEdge]:
        """Return, before a call, where the gradients of its inputs will go to, with or without those of weights."""
        import torch

        if not torch.is_grad_enabled():
            return []
        edges: dict[tuple[int, int], GradientEdge] = {}
        for slot, tensor in enumerate(tensors):
            if tensor.requires_grad and (weights or not isinstance(tensor, torch.nn.Parameter)):
                node, number = torch.autograd.graph.get_gradient_edge(tensor)[:2]
                # A tensor that is given twice has one gradient, at its first place.
                edges.setdefault((id(node), number), GradientEdge(slot, node, number))
        return list(edges.values())

    def hook_inputs(self, name: str, edges: Sequence[GradientEdge], outputs: Sequence[Any]) -> None:
        """Write the gradient of each input that came through this module; one that it gives back as it is has none."""
        if not edges:
            return
        sought = {(edge.node, edge.number): edge.slot for edge in edges}
        ends: dict[int, list[tuple[Any, int]]] = {}
        for node in _nodes([tensor.grad_fn for tensor in outputs], {node for node, _ in sought}):
            for place, following in enumerate(node.next_functions):
                if following in sought:
                    ends.setdefault(sought[following], []).append((node, place))
        for slot, found in ends.items():
            part = _Sum(len(found), partial(self._write, f"{name}/grad_input", slot), self._quiet)
            self._handles += [node.register_hook(part.hook(place)) for node, place in found]


class _Sum:
    """Adds up the parts of one tensor's gradient that several nodes give, and writes the sum after the last."""

    def __init__(self, count: int, write: Callable[[Any], None], quiet: Quiet) -> None:
        self._count = self._left = count
        self._write = write
        self._quiet = quiet
        self._total: Any = None
        self._is_waiting = False

    def hook(self, place: int) -> Callable[[Any, Any], None]:
        """Return a hook for a node that gives its part at `place`."""
        return lambda gradients, _: self._add(gradients[place])

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
            # Nodes of outputs that the loss does not use never give a part.
            self._is_waiting = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        total, self._total = self._total, None
        self._left, self._is_waiting = self._count, False
        if total is not None:
            self._write(total)


def _nodes(starts: Iterable[Any], ends: set[Any]) -> list[Any]:
    """Return all nodes of the graph from `starts` on, without `ends` and what is behind them."""
    found: dict[Any, None] = {}
    waiting = [node for node in starts if node is not None]
    while waiting:
        node = waiting.pop()
        if node in found or node in ends:
            continue
        found[node] = None
        waiting += [following for following, _ in node.next_functions if following is not None]
    return list(found)

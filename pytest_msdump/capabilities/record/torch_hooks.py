"""Hooks of PyTorch: calls of modules as ``forward`` gets its inputs and the next module the outputs, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, NamedTuple

from pytest_msdump.capabilities.record.calls import leaves
from pytest_msdump.capabilities.record.torch_tensors import is_tensor, plain_name
from pytest_msdump.core.errors import ConfigError


class ForwardHooks:
    """Hooks around the calls of a model's modules that run before and behind all others."""

    def __init__(
        self,
        before: Callable[[Any, Any, Any, bool], tuple[Any, Any] | None],
        after: Callable[[Any, Any, bool], Any],
        raised: Callable[[Any], object],
        *,
        wants_inputs: bool,
    ) -> None:
        self._before, self._after, self._raised, self._wants_inputs = before, after, raised, wants_inputs
        self._ours: set[int] = set()
        # By module and direction: the tensors before other hooks ran, and how often each had been written to.
        self._plain: dict[tuple[int, str], list[tuple[Any, int]]] = {}

    def watch(self, model: Any, stack: ExitStack) -> None:
        """Add the hooks; the stack removes them."""
        from torch.nn.modules import module as hooks

        self._global = {"input": hooks._global_forward_pre_hooks, "output": hooks._global_forward_hooks}
        first = hooks.register_module_forward_pre_hook(self._given)
        last = hooks.register_module_forward_pre_hook(self._entered)
        made = hooks.register_module_forward_hook(self._made, always_call=True)
        left = hooks.register_module_forward_hook(self._left)
        self._global["input"].move_to_end(first.id, last=False)
        self._global["output"].move_to_end(made.id, last=False)
        for handle in (first, last, made, left):
            stack.callback(handle.remove)
        self._last, self._behind = last.id, left.id
        for module in model.modules():
            # A pre-hook gets keyword arguments only where it is listed here; a global one has no other way.
            with_keywords = getattr(module, "_forward_pre_hooks_with_kwargs", None)
            if with_keywords is None:
                continue
            with_keywords.update({first.id: True, last.id: True})
            for key in (first.id, last.id):
                stack.callback(with_keywords.pop, key, None)
            stack.callback(module._forward_pre_hooks.pop, last.id, None)
            stack.callback(module._forward_hooks.pop, left.id, None)
            if not _is_behind(last.id, module._forward_pre_hooks):
                module._forward_pre_hooks[last.id] = self._enter
            self._ours.add(id(module))

    def forget(self) -> None:
        """Drop what calls that raised have left."""
        self._plain.clear()

    def _given(self, module: Any, args: Any, kwargs: Any = None) -> None:
        if not self._is_ours(module):
            return
        own = module._forward_pre_hooks
        if self._wants_inputs and not all(_is_behind(self._last, one) for one in (own, self._global["input"])):
            raise ConfigError(
                f"a forward pre-hook was added to {type(module).__name__} while its inputs were recorded, and may "
                "change them afterwards; add it before the recording begins"
            )
        if own or len(self._global["input"]) > 2:
            self._keep(module, "input", (args, kwargs))
        # PyTorch looks at those that follow after the call.
        if len(self._global["output"]) > 2:
            self._global["output"].move_to_end(self._behind)
        if own := module._forward_hooks:
            # Ours goes to the end, or away with the last of the others.
            own.pop(self._behind, None)
            if not _is_behind(self._behind, own):
                own[self._behind] = self._leave

    def _entered(self, module: Any, args: Any, kwargs: Any = None) -> Any:
        if self._is_ours(module) and self._last not in module._forward_pre_hooks:
            return self._enter(module, args, kwargs)
        return None

    def _enter(self, module: Any, args: Any, kwargs: Any = None) -> Any:
        return self._before(module, args, kwargs or {}, self._has_changed(module, "input", (args, kwargs)))

    def _made(self, module: Any, _: Any, result: Any) -> None:
        if not self._is_ours(module):
            return
        if result is None:
            self._raised(module)
        if module._forward_hooks or len(self._global["output"]) > 2:
            self._keep(module, "output", result)

    def _left(self, module: Any, args: Any, result: Any) -> Any:
        if self._is_ours(module) and self._behind not in module._forward_hooks:
            return self._leave(module, args, result)
        return None

    def _leave(self, module: Any, _: Any, result: Any) -> Any:
        return self._after(module, result, self._has_changed(module, "output", result))

    def _is_ours(self, module: Any) -> bool:
        import torch

        return id(module) in self._ours and not torch.compiler.is_compiling()

    def _keep(self, module: Any, io: str, value: Any) -> None:
        self._plain[id(module), io] = _tensors(value)

    def _has_changed(self, module: Any, io: str, value: Any) -> bool:
        plain = self._plain.pop((id(module), io), None)
        if plain is None:
            return False
        now = _tensors(value)
        same = (one[0] is other[0] and one[1] == other[1] for one, other in zip(plain, now, strict=False))
        return len(plain) != len(now) or not all(same)


def _is_behind(key: int, own: Mapping[int, Any]) -> bool:
    """Whether no hook but those of recordings stands behind the one of this key, or at all where it is not there."""
    for other, hook in reversed([*own.items()]):
        if other == key:
            return True
        if not isinstance(getattr(hook, "__self__", None), ForwardHooks):
            return False
    return True


def _tensors(value: Any) -> list[tuple[Any, int]]:
    # PyTorch does not count how often tensors of inference mode are written to.
    return [(tensor, 0 if tensor.is_inference() else tensor._version) for tensor in leaves(value, is_tensor)]


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

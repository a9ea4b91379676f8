"""Calls of PyTorch's modules, seen as ``forward`` gets its inputs and as the next module gets the outputs.

PyTorch runs global hooks before a module's own, and each of them may change what the next one gets. A module with hooks
of its own therefore gets one more, behind them. One without gets none: layers with a fast path leave it for own hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from pytest_msdump.capabilities.record.calls import leaves
from pytest_msdump.capabilities.record.torch_tensors import is_tensor
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

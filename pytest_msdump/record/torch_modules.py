"""Records PyTorch models: chooses modules, and hooks them for as long as a ``with`` block runs.

Hooks are the global ones of ``torch.nn``: layers that look for hooks of their own and leave their fast path when they
find any (``TransformerEncoderLayer``) compute what they compute without a recording.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.record import torch_choice, torch_state
from pytest_msdump.record.names import leaves
from pytest_msdump.record.torch_recording import TorchRun, Wish
from pytest_msdump.record.torch_state import is_tensor
from pytest_msdump.record.writer import DumpWriter

__all__ = ["record"]

# Memory that nobody has written yet: its bits differ from run to run.
_UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})

Write = Callable[[str, list[Any], str], None]


def op_mode(tell: Write) -> Any:
    """Return a context manager under which every operation is told.

    Parameters
    ----------
    tell : callable
        Called twice with the operation's name: with its input tensors and ``"input"`` before it runs, with its output
        tensors and ``"output"`` after. What it does itself is not told.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Ops(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            name, kwargs = op_name(func), kwargs or {}
            if name is None:
                return func(*args, **kwargs)
            tell(name, leaves((args, kwargs), is_tensor), "input")
            result = func(*args, **kwargs)
            tell(name, leaves(result, is_tensor), "output")
            return result

    return Ops()


def op_name(func: Any) -> str | None:
    """Return the name of an operation such as ``aten.add``, ``None`` for those that compute nothing.

    Views of a tensor hold its own numbers. What works in place has its own name (``aten.relu_``) and is told.
    """
    namespace, _, name = str(func._schema.name).partition("::")
    aliases = [result.alias_info for result in func._schema.returns]
    is_view = any(alias is not None and not alias.is_write for alias in aliases)
    return None if is_view or name in _UNWRITTEN else f"{namespace}.{name}"


# -- Records PyTorch models ------------------------------------------------------------------------------------------


_LEVELS = ("module", "op")
_COMPILED = ("refuse", "eager")
# Hooks are called for what wraps a compiled module, too; it is no module of ours.
_EXTRA_CALLS = r"Using `torch\.compile\(module\)` when there are global hooks"


def record(
    model: Any,
    directory: str | PathLike[str],
    *,
    modules: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    types: Any = (),
    depth: int | None = None,
    **wish: Any,
) -> TorchRecording:
    """Record what the modules of a model give back while a ``with`` block runs.

    Parameters
    ----------
    model : torch.nn.Module
        On any device. Compiled models: see `compiled`.
    directory : path
        An empty folder, or one that will be made.
    modules, exclude : str or sequence of str
        Globs on names as ``model.named_modules()`` has them; the model itself is called by the name of its type.
        Default: all but ``Sequential`` ones, which give back what their last module gave back.
    types : type, str or sequence of them
        Only modules of these types; a text is the name of a type.
    depth : int, optional
        Only modules at most so far below the model: ``conv1`` is at 1.
    level : str
        ``"module"``; ``"op"`` adds every operation that runs below the modules, as ``MODULE/aten.NAME``.
    inputs : bool
        Record also what modules (and operations) are given.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of modules and ``NAME/grad`` of parameters. The backward
        pass belongs into the ``with`` block.
    parameters : bool
        Record parameters and buffers as they are before the first call of each iteration.
    optimizer : torch.optim.Optimizer, optional
        Record after each of its steps the parameters (``NAME/updated``) and its state (``NAME/exp_avg``).
    iterations : bool
        ``True`` for several: see `TorchRecording.iteration` and `TorchRecording.step`.
    compiled : str
        ``"refuse"`` models that are compiled; ``"eager"`` runs them uncompiled while they are recorded.
    digests : bool
        Put digests of inputs and weights into the manifest, by which a comparison sees that both sides had the same.

    Raises
    ------
    ConfigError
        Nothing to record, or a model whose modules call no hooks: compiled, scripted, replicated.
    """
    unknown = set(wish) - set(Wish._fields)
    if unknown:
        raise TypeError(f"record() got an unexpected option '{min(unknown)}'")
    wished = Wish(**wish)
    for value, allowed in ((wished.level, _LEVELS), (wished.compiled, _COMPILED)):
        if value not in allowed:
            raise ConfigError(f"{value!r} is none of {', '.join(map(repr, allowed))}")
    _refuse_old(wished)
    inner = torch_choice.unwrapped(model)
    everything = torch_choice.named(inner)
    watched = torch_choice.chosen(everything, modules, exclude, types, depth)
    torch_choice.refuse(model, everything, watched, compiled=wished.compiled)
    return TorchRecording(inner, Path(directory), everything, watched, wished)


def _refuse_old(wish: Wish) -> None:
    import torch

    if wish.compiled == "eager" and not hasattr(torch.compiler, "set_stance"):
        raise ConfigError(
            f"compiled='eager' needs PyTorch 2.6 or newer, and this is {torch.__version__}; record the model that was "
            "given to torch.compile"
        )


class TorchRecording(TorchRun):
    """A recording of one model; made by `record`. Hooks exist inside of its ``with`` block only.

    Attributes
    ----------
    directory : Path
        The dump; complete once the block has ended.
    """

    def __enter__(self) -> TorchRecording:
        held = torch_state.weights(self.model)
        with ExitStack() as stack:
            self.writer = stack.enter_context(DumpWriter(self.directory, iterations=self.wish.iterations))
            self.writer.describe(**torch_state.circumstances(self.model))
            if self.wish.digests:
                self.writer.describe(weights=dict(torch_state.digests(held)))
            # Before the hooks go, so that nothing is written by one that runs meanwhile.
            self._hook(stack)
            stack.callback(self.stop)
            self.cleanup = stack.pop_all()
        self.is_on = True
        return self

    def _hook(self, stack: ExitStack) -> None:
        from torch.nn.modules import module as hooks

        if self.wish.compiled == "eager":
            import torch

            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", _EXTRA_CALLS)
        before = hooks.register_module_forward_pre_hook(self.before)
        stack.callback(before.remove)
        for module in self.model.modules():
            # So a pre-hook is given what the module is given by keyword; a global one has no other way.
            with_keywords = getattr(module, "_forward_pre_hooks_with_kwargs", None)
            if with_keywords is not None:
                with_keywords[before.id] = True
                stack.callback(with_keywords.pop, before.id, None)
        stack.callback(hooks.register_module_forward_hook(self.after).remove)
        if self.wish.gradients:
            stack.callback(self.gradients.remove)
            self.gradients.of_parameters(self.model.named_parameters())
        if self.wish.optimizer is not None:
            stack.callback(self.wish.optimizer.register_step_post_hook(self.stepped).remove)
        if self.wish.level == "op":
            stack.enter_context(op_mode(self.op))

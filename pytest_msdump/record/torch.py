"""Records PyTorch models by hooks, for as long as a ``with`` block runs.

Hooks are the global ones of ``torch.nn``: layers that look for hooks of their own and leave their fast path when they
find any (``TransformerEncoderLayer``) compute what they compute without a recording.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

from pytest_msdump.errors import ConfigError
from pytest_msdump.record import torch_tensors
from pytest_msdump.record.call_graph import Call
from pytest_msdump.record.calls import bound_arguments, leaves, named_leaves
from pytest_msdump.record.ranks import groups_of
from pytest_msdump.record.recording import HookedRecording
from pytest_msdump.record.selection import Patterns, is_a, name_modules, names_inside, select_modules
from pytest_msdump.record.torch_gradients import Edge, Gradients
from pytest_msdump.record.torch_operations import Provenance, around_operations, op_name
from pytest_msdump.record.torch_tensors import array_of, is_tensor, plain_name

__all__ = ["TorchRecording"]

# Wrappers around a whole model; type → attribute that holds it.
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}
_ALLOWED = {"level": ("module", "op"), "compiled": ("refuse", "eager")}
# Hooks are called for what wraps a compiled module, too; it is no module of ours.
_EXTRA_CALLS = r"Using `torch\.compile\(module\)` when there are global hooks"


def unwrapped(model: Any) -> Any:
    """Return the model itself, without what compiles or distributes it as a whole."""
    while (attribute := _WRAPPERS.get(type(model).__name__)) and hasattr(model, attribute):
        model = getattr(model, attribute)
    return model


def named(model: Any) -> dict[str, Any]:
    """Return all modules by name, in their order; the model itself comes first."""
    # Of what wraps a module and the module itself, the latter stays.
    return name_modules(model, {name: module for path, module in model.named_modules() if (name := plain_name(path))})


def refuse_unhooked(model: Any, modules: Mapping[str, Any], selected: Mapping[str, Any], *, compiled: str) -> None:
    """Refuse models whose hooks PyTorch does not call: a recording would silently lack tensors.

    `model` is as it was given, with its wrappers; `selected` are the modules to record. Compiled ones are fine with
    ``"eager"``; scripted and replicated ones are not.
    """
    for module in model.modules():
        kind = type(module).__name__
        inner = unwrapped(module)
        name = next((name for name, known in modules.items() if known is inner), kind)
        if compiled != "eager" and (kind == "OptimizedModule" or getattr(module, "_compiled_call_impl", None)):
            raise ConfigError(
                f"{name} is compiled, and compiled code calls no hooks; record it with "
                "compiled='eager', which runs it uncompiled while it is recorded, or record the model that was given "
                "to torch.compile"
            )
        if kind == "DataParallel" and len(module.device_ids) > 1:
            raise ConfigError(f"{name} runs on several devices at once; record its .module on one")
    root = next(iter(modules), "")
    for outer, module in modules.items():
        inside = names_inside(outer, selected, root) if is_a(module, "ScriptModule") else []
        if inside:
            raise ConfigError(
                f"{outer} is scripted (torch.jit), and modules inside of it, such as {inside[0]}, call no hooks; "
                f"record the model that it was made from, or only {outer} itself, by modules= or exclude="
            )


class _Call(NamedTuple):
    """A call of a module that has not come back yet."""

    module: Any
    edges: list[Edge]
    call: Call | None = None


class TorchRecording(HookedRecording):
    """Record what the modules of a model give back while a ``with`` block runs.

    Parameters
    ----------
    model : torch.nn.Module
        On any device. Compiled models: see `compiled`.
    modules, exclude : str or sequence of str
        Globs on names as ``model.named_modules()`` has them; the model itself is called by the name of its type.
        Default: all but ``Sequential`` ones, which give back what their last module gave back.
    types : type, str or sequence of them
        Only modules of these types; a text is the name of a type.
    depth : int, optional
        Only modules at most so far below the model: ``conv1`` is at 1.
    level : str
        ``"module"``; ``"op"`` adds every operation that runs below the modules, as ``MODULE/aten.NAME``.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of modules and ``NAME/grad`` of parameters. The backward
        pass belongs into the ``with`` block.
    optimizer : torch.optim.Optimizer, optional
        Record after each of its steps the parameters (``NAME/updated``) and its state (``NAME/exp_avg``).
    compiled : str
        ``"refuse"`` models that are compiled; ``"eager"`` runs them uncompiled while they are recorded.
    graph : bool
        Put into the manifest which module feeds which, through every operation between them: causes of failures are
        found by it.
    mesh : torch.distributed.device_mesh.DeviceMesh, optional
        Its named dimensions go into the manifest, with the ranks of this process's group in each. Default: the meshes
        that the model's weights are distributed over.
    directory, inputs, parameters, iterations, digests, distributed
        As of `record.recording.Recording`; operations have inputs and models buffers, too.

    Raises
    ------
    ConfigError
        Nothing to record, or a model whose modules call no hooks: compiled, scripted, replicated.
    """

    FRAMEWORKS = ("torch",)
    NOT_CALLED = (
        "none of the chosen modules was called; call it inside of the with block "
        "(compiled functions that call it call no hooks: compiled='eager' runs them uncompiled)"
    )
    NO_GRADIENTS = "call .backward() inside of the with block, and do not run the model under no_grad or inference_mode"

    def __init__(
        self,
        model: Any,
        directory: str | PathLike[str],
        *,
        modules: Patterns = None,
        exclude: Patterns = (),
        types: Any = (),
        depth: int | None = None,
        level: str = "module",
        optimizer: Any = None,
        compiled: str = "refuse",
        graph: bool = True,
        mesh: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        for value, allowed in ((level, _ALLOWED["level"]), (compiled, _ALLOWED["compiled"])):
            if value not in allowed:
                raise ConfigError(f"{value!r} is none of {', '.join(map(repr, allowed))}")
        self.level, self.optimizer, self.compiled = level, optimizer, compiled
        self._refuse_old()
        self.model = unwrapped(model)
        if self.rank is not None:
            self.rank = replace(self.rank, groups=groups_of(mesh, self.model.parameters()))
        self._device_kind = torch_tensors.device(self.model).partition(":")[0]
        everything = named(self.model)
        selected = select_modules(everything, modules, exclude, types, depth)
        refuse_unhooked(model, everything, selected, compiled=compiled)
        self.gradients = Gradients(self.write_gradient, self._writing)
        self._names = {id(module): name for name, module in everything.items()}
        self._selected = {id(module) for module in selected.values()}
        self._calls: list[_Call] = []
        self._is_writing = False
        self._provenance = Provenance(self.add_call) if graph else None

    def _refuse_old(self) -> None:
        import torch

        if self.compiled == "eager" and not hasattr(torch.compiler, "set_stance"):
            raise ConfigError(
                f"compiled='eager' needs PyTorch 2.6 or newer, and this is {torch.__version__}; record the model that "
                "was given to torch.compile"
            )

    @property
    def title(self) -> str:
        """The model's name."""
        return self._names[id(self.model)]

    def array_of(self, tensor: Any) -> Any:
        """Return a tensor as an array, bit for bit."""
        return array_of(tensor)

    def prepare(self) -> None:
        """Refuse a model whose weights have no shape yet."""
        torch_tensors.weights(self.model)

    def watch(self, stack: ExitStack) -> None:
        """Describe the run, and add all hooks."""
        import torch
        from torch.nn.modules import module as hooks

        self.writer.describe(**torch_tensors.run_facts(self.model))
        if self.wants_digests:
            self.describe_weights(torch_tensors.weights(self.model).items())
        if self.compiled == "eager":
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", _EXTRA_CALLS)
        before = hooks.register_module_forward_pre_hook(self.before)
        stack.callback(before.remove)
        for module in self.model.modules():
            # A pre-hook gets keyword arguments only where it is listed here; a global one has no other way.
            with_keywords = getattr(module, "_forward_pre_hooks_with_kwargs", None)
            if with_keywords is not None:
                with_keywords[before.id] = True
                stack.callback(with_keywords.pop, before.id, None)
        stack.callback(hooks.register_module_forward_hook(self.after).remove)
        if self.wants_gradients:
            stack.callback(self.gradients.remove)
            self.gradients.hook_parameters(self.model.named_parameters())
        if self.optimizer is not None:
            stack.callback(self.optimizer.register_step_post_hook(self.stepped).remove)
        if self.level == "op" or self._provenance is not None:
            stack.enter_context(around_operations(self.operated))

    def forget(self) -> None:
        """Remove the hooks of this iteration's graph."""
        self.gradients.end_iteration()

    def stop(self) -> None:
        """Record nothing from here on."""
        super().stop()
        self._calls.clear()

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
            # A region may begin inside of the model; what runs after it goes on with what it gave back.
            if policy := torch_tensors.dtype_policy(self._device_kind):
                self.writer.describe(dtype_policy=policy)
            is_selected = id(module) in self._selected
            given = leaves((args, kwargs or {}), is_tensor) if is_selected or not self._calls else []
            if self.wants_inputs and is_selected and not _is_backward():
                self.write_all(self._names[id(module)], given, "input", type(module).__name__)
            edges = self.gradients.edges(given) if self.wants_gradients and is_selected else []
        self._calls.append(_Call(module, edges, self._called(given)))

    def after(self, module: Any, _: Any, result: Any) -> None:
        """Is called after any module of the process has run."""
        import torch

        if torch.compiler.is_compiling() or not self.is_on or id(module) not in self._names:
            return
        call = self._came_back(module)
        if call is None or id(module) not in self._selected:
            return
        name, tensors = self._names[id(module)], leaves(result, is_tensor)
        with self._writing():
            # A module that runs inside of a backward pass runs again, for a checkpoint: it was recorded before.
            if not _is_backward():
                self.write_all(name, tensors, "output", type(module).__name__)
                self._ended(call.call, name, type(module).__name__, tensors)
            if self.wants_gradients:
                self.gradients.hook_outputs(name, tensors)
                self.gradients.hook_inputs(name, call.edges, tensors)

    def operated(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation; is called for every one."""
        if not self.is_on or self._is_writing:
            return func(*args, **kwargs)
        name, scope = (op_name(func), self._scope()) if self.level == "op" else (None, None)
        if name is None or scope is None:
            result = func(*args, **kwargs)
            self._follow(func, args, kwargs, result)
            return result
        given = leaves((args, kwargs), is_tensor)
        call = self._called(given, is_operation=True)
        with self._writing():
            if self.wants_inputs:
                self.write_all(f"{scope}/{name}", given, "input", name)
        result = func(*args, **kwargs)
        self._follow(func, args, kwargs, result)
        made = leaves(result, is_tensor)
        with self._writing():
            self.write_all(f"{scope}/{name}", made, "output", name)
        self._ended(call, f"{scope}/{name}", name, made)
        return result

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """Is called after a step of the optimizer."""
        if not self.is_on:
            return
        names = {id(tensor): name for name, tensor in torch_tensors.weights(self.model).items()}
        with self._writing():
            for name, tensor in torch_tensors.optimizer_tensors(optimizer, names):
                self.write(name, tensor, op_type="Optimizer")

    def write_gradient(self, name: str, slot: int, gradient: Any) -> None:
        """Write a gradient that has arrived."""
        with self._writing():
            super().write_gradient(name, slot, gradient)

    def _begin(self, module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Record what an iteration starts from, at the first call of one of the model's modules."""
        self._has_begun = True
        if self._provenance is not None:
            self._provenance.begin([*self.model.parameters()], [*self.model.buffers()])
        if self.wants_parameters:
            self.write_parameters(torch_tensors.weights(self.model).items())
        if self.wants_digests and module is self.model:
            self.describe_inputs(dict(named_leaves("", bound_arguments(module.forward, args, kwargs), is_tensor)))

    def _came_back(self, module: Any) -> _Call | None:
        while self._calls:
            call = self._calls.pop()
            if call.module is module:
                return call
        return None

    def _called(self, given: list[Any], *, is_operation: bool = False) -> Call | None:
        """Note a call that begins; nothing is behind what an outermost one, or an operation, is given unseen."""
        if self._provenance is None or _is_backward():
            return None
        around = (id(one.module) for one in reversed(self._calls))
        inside = next((self._names[module] for module in around if module in self._selected), "")
        return self._provenance.called(given, inside, has_inputs=is_operation or not self._calls)

    def _ended(self, call: Call | None, name: str, op_type: str, tensors: list[Any]) -> None:
        if self._provenance is not None and call is not None and tensors:
            self._provenance.came_back(call, name, op_type, tensors)

    def _follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self._provenance is not None:
            self._provenance.ran(func, args, kwargs, result, is_backward=_is_backward())

    def _scope(self) -> str | None:
        """Return the name under which an operation is recorded: its module, or the node of the backward pass."""
        if _is_backward():
            import torch

            node = torch._C._current_autograd_node()
            return f"backward/{node.name()}" if self.wants_gradients and node is not None and not self._calls else None
        if not self._calls or id(self._calls[-1].module) not in self._selected:
            return None
        return self._names[id(self._calls[-1].module)]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Operations that run now are the recording's own."""
        outer, self._is_writing = self._is_writing, True
        try:
            yield
        finally:
            self._is_writing = outer


def _is_backward() -> bool:
    import torch

    return bool(torch._C._current_graph_task_id() != -1)

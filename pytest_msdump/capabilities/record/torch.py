"""Records PyTorch models by hooks, for as long as a ``with`` block runs.

Hooks are the global ones of ``torch.nn``: layers that look for hooks of their own and leave their fast path when they
find any (``TransformerEncoderLayer``) compute what they compute without a recording.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

from pytest_msdump.capabilities.record import torch_tensors
from pytest_msdump.capabilities.record.calls import EndedCall, bound_arguments, leaves, named_leaves
from pytest_msdump.capabilities.record.given import given_of_trial
from pytest_msdump.capabilities.record.manifest import groups_of, placement_of
from pytest_msdump.capabilities.record.recording import (
    HookedRecording,
    Patterns,
    is_a,
    name_modules,
    names_inside,
    select_modules,
)
from pytest_msdump.capabilities.record.sketching import Sketched
from pytest_msdump.capabilities.record.torch_hooks import ForwardHooks, GradientEdge, Gradients
from pytest_msdump.capabilities.record.torch_operations import (
    Provenance,
    around_functions,
    around_operations,
    computes,
    function_name,
)
from pytest_msdump.capabilities.record.torch_tensors import (
    array_of,
    is_backward,
    is_elsewhere,
    is_tensor,
    is_transformed,
    plain_name,
    sketch_of_tensor,
)
from pytest_msdump.capabilities.record.torch_variation import (
    BatchHalves,
    Change,
    changed_weights,
    perturbed,
    setting,
    varied_inputs,
    with_channels_last,
)
from pytest_msdump.capabilities.record.variation import Control
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import ModelOutput

# Wrappers around a whole model; type → attribute that holds it.
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}
_ALLOWED = {"level": ("module", "operation", "both"), "compiled": ("refuse", "eager")}
# Where functions are recorded that no module of the model calls: the loss.
_OUTSIDE = "outside"
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


class _ModuleCall(NamedTuple):
    """A call of a module that has not come back yet."""

    module: Any
    edges: list[GradientEdge] = []  # noqa: RUF012 - never changed
    call: EndedCall | None = None
    # What was being handled when it began.
    error: BaseException | None = None


class _Function:
    """A call of a function; it begins with the first operation in it that computes."""

    def __init__(self, name: str, op_type: str, given: Any, edges: list[GradientEdge]) -> None:
        self.name, self.op_type, self.given, self.edges = name, op_type, given, edges
        self.has_begun = False
        self.call: EndedCall | None = None


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
        ``"module"``, ``"operation"`` or ``"both"``. Operations are the functions and tensor methods that modules, or
        the program outside of the model, call and that compute something: ``MODULE/relu``, ``outside/mse_loss``. Of
        functions that call others the outer one is recorded; what belongs to excluded modules is not.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of modules and operations, and ``NAME/grad`` of parameters.
        The backward pass belongs into the ``with`` block.
    optimizer : torch.optim.Optimizer, optional
        Record after each of its steps the parameters (``NAME/updated``) and its state (``NAME/exp_avg``).
    compiled : str
        ``"refuse"`` models that are compiled; ``"eager"`` runs them uncompiled while they are recorded.
    graph : bool
        Put into the manifest which module feeds which, through every operation between them: causes of failures are
        found by it.
    control : record.Control, optional
        Run the model in a harmless other way for as long as the block runs, with the same inputs and weights. What is
        recorded has the names and shapes that it has without; with ``"batch_split"`` there is no graph in the manifest.
    mesh : torch.distributed.device_mesh.DeviceMesh, optional
        Its dimensions go into the manifest, with the ranks of this process's group in each. Default: the meshes that
        the model's weights are distributed over. Of a ``DTensor`` this process's part is recorded, and how the whole is
        placed on the mesh, so that a comparison can put it together.
    directory, inputs, parameters, iterations, digests, save, full, buckets, perturb, distributed
        As of `record.recording.HookedRecording`; operations have inputs and models buffers, too.

    Raises
    ------
    ConfigError
        Nothing to record, or a model whose modules call no hooks: compiled, scripted, replicated; a control that the
        model cannot be run by.
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
        control: Control | None = None,
        mesh: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        for value, allowed in ((level, _ALLOWED["level"]), (compiled, _ALLOWED["compiled"])):
            if value not in allowed:
                raise ConfigError(f"{value!r} is none of {', '.join(map(repr, allowed))}")
        self.level, self.optimizer, self.compiled, self.control = level, optimizer, compiled, control
        self._refuse_old()
        self.model = unwrapped(model)
        is_split = control is not None and control.name == "batch_split"
        if is_split and self.wants_gradients:
            raise ConfigError("batch_split is of forward runs; leave gradients= out, or take another control")
        self._halves = BatchHalves(self.model) if is_split else None
        if self.rank is not None:
            self.rank = replace(self.rank, groups=groups_of(mesh, self.model.parameters()))
        self._device_kind = torch_tensors.device(self.model).partition(":")[0]
        everything = named(self.model)
        selected = select_modules(everything, modules, exclude, types, depth)
        refuse_unhooked(model, everything, selected, compiled=compiled)
        self.gradients = Gradients(self.write_gradient, self._writing)
        self._names = {id(module): name for name, module in everything.items()}
        ids = {id(module) for module in selected.values()}
        self._modules = ids if level != "operation" else set()
        # In which modules operations are recorded; what runs outside of the model goes with the model itself.
        self._scopes = ids if level != "module" else set()
        self._calls: list[_ModuleCall] = []
        self._function: _Function | None = None
        self._hooks = ForwardHooks(self.before, self.after, self.raised, wants_inputs=self.wants_inputs)
        self._changed: dict[str, dict[str, None]] = {"input": {}, "output": {}}
        self._described: int | None = None
        self._is_writing = False
        self._provenance = Provenance(self.add_call) if graph and not is_split else None

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
        return tensor if isinstance(tensor, Sketched) else array_of(tensor)

    def write(self, name: str, tensor: Any, **about: Any) -> None:
        """Write a tensor; where its sketch is kept, nothing else leaves its device."""
        if self._halves is not None and (tensor := self._halves.joined(name, tensor, about)) is None:
            return
        whole = tensor
        if is_elsewhere(tensor) and self.writer.keeps_sketch(name, tensor.numel()):
            dtype = str(torch_tensors.plain_numbers(tensor).dtype).removeprefix("torch.")
            tensor = Sketched(dtype, tuple(tensor.shape), *sketch_of_tensor(tensor, buckets=self.writer.buckets))
        if self.rank is not None and (placement := placement_of(whole, self.rank.groups)):
            about["placement"] = placement
        super().write(name, tensor, **about)

    def prepare(self) -> None:
        """Refuse a model whose weights have no shape yet."""
        torch_tensors.weights(self.model)

    def watch(self, stack: ExitStack) -> None:
        """Describe the run, and add all hooks."""
        import torch
        from torch.optim import optimizer

        self.writer.describe(settings=torch_tensors.settings(), **torch_tensors.run_facts(self.model))
        self.writer.given = given_of_trial()
        if self.wants_digests:
            self.describe_weights(torch_tensors.weights(self.model).items())
        if self.compiled == "eager":
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", _EXTRA_CALLS)
        if self.control is not None:
            stack.enter_context(setting(self.control))
        if self._halves is not None:
            self._halves.watch(stack)
        if (change := self._variation(is_input=False)) is not None:
            stack.enter_context(changed_weights(self.model, change))
        self._hooks.watch(self.model, stack)
        if self.wants_gradients:
            stack.callback(self.gradients.remove)
            self.gradients.hook_parameters(self.model.named_parameters())
        if self.optimizer is not None:
            stack.callback(self.optimizer.register_step_post_hook(self.stepped).remove)
        if self._scopes:
            # What an optimizer computes is none of the model's; see _scope.
            began = optimizer.register_optimizer_step_pre_hook(lambda one, *_: self._calls.append(_ModuleCall(one)))
            ended = optimizer.register_optimizer_step_post_hook(lambda one, *_: self._came_back(one))
            stack.callback(began.remove)
            stack.callback(ended.remove)
            stack.enter_context(around_functions(self.called))
        if self._scopes or self._provenance is not None:
            stack.enter_context(around_operations(self.operated))

    def forget(self) -> None:
        """Remove the hooks of this iteration's graph."""
        self.gradients.end_iteration()

    def stop(self) -> None:
        """Record nothing from here on."""
        super().stop()
        self._calls.clear()
        self._hooks.forget()
        if self._provenance is not None:
            self._provenance.forget()
        control = () if self.control is None else (self.control.note,)
        if notes := (*control, *_changes(self._changed)):
            self.writer.describe(notes=notes)

    def missing(self) -> ConfigError | None:
        """Return an error when no layer was called, no gradient came, or no batch was split."""
        if self._written and self._halves is not None and not self._halves.has_run:
            return ConfigError(f"batch_split splits what {self.title} itself is given, and it was not called")
        return super().missing()

    def _variation(self, *, is_input: bool) -> Change | None:
        """Return what to do to inputs, or to weights, in this run; ``None`` for nothing."""
        changes: list[Change] = []
        if self.control is not None and self.control.name == "channels_last":
            changes.append(with_channels_last)
        if self.perturb is not None and (is_input or self.perturb.has_weights):
            changes.append(partial(perturbed, perturb=self.perturbed))

        def changed(name: str, tensor: Any) -> Any:
            for change in changes:
                tensor = change(name, tensor)
            return tensor

        return changed if changes else None

    def before(self, module: Any, args: Any, kwargs: Any, is_changed: bool) -> tuple[Any, Any] | None:
        """Is called before any module of the model runs; returns what the outermost is given where it is varied."""
        if not self.is_on or id(module) not in self._names:
            return None
        name = self._names[id(module)]
        if module is self.model:
            # A call that raised has left its modules here.
            self._calls.clear()
        if is_changed:
            self._changed["input"][name] = None
        with self._writing():
            self._begin()
            if module is self.model and self.wants_digests and self._described != self._iteration:
                self._described = self._iteration
                self.describe_inputs(dict(named_leaves("", bound_arguments(module.forward, args, kwargs), is_tensor)))
            # A region may begin inside of the model; what runs after it goes on with what it gave back.
            if policy := torch_tensors.dtype_policy(self._device_kind):
                self.writer.describe(dtype_policy=policy)
            varied = None
            if not self._calls and (change := self._variation(is_input=True)) is not None and not is_backward():
                args, kwargs = varied = varied_inputs(f"{self._iteration}", args, kwargs, change)
            is_selected = id(module) in self._modules
            given = leaves((args, kwargs), is_tensor) if is_selected or not self._calls else []
            if self.wants_inputs and is_selected and not is_backward():
                self.write_all(name, given, "input", type(module).__name__)
            edges = self.gradients.edges(given) if self.wants_gradients and is_selected else []
            self._calls.append(_ModuleCall(module, edges, self._called(given), sys.exc_info()[1]))
        return varied

    def after(self, module: Any, result: Any, is_changed: bool) -> Any:
        """Is called after any module of the model has run; returns what goes on where that is of another run."""
        if not self.is_on or id(module) not in self._names:
            return None
        call, name = self._came_back(module), self._names[id(module)]
        if is_changed:
            self._changed["output"][name] = None
        if call is not None and id(module) in self._modules:
            named_tensors = list(named_leaves("", result, is_tensor))
            if module is self.model and not is_backward():
                self.writer.describe(
                    outputs=tuple(ModelOutput(path, name, slot) for slot, (path, _) in enumerate(named_tensors))
                )
            self._returned(name, type(module).__name__, [tensor for _, tensor in named_tensors], call)
            if self.writer.given is not None and not is_backward():
                return self.writer.given.instead_of_tensor(name, result, self.array_of, self._iteration)
        return None

    def raised(self, module: Any) -> None:
        """Is called after a module of the model gave nothing back: it is over, where it has raised."""
        if self._calls and self._calls[-1].module is module and sys.exc_info()[1] is not self._calls[-1].error:
            self._calls.pop()

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a function; is called for every one that no other function calls."""
        op_type = function_name(func)
        if op_type is None or not self.is_on or self._is_writing or is_backward() or not (scope := self._scope()):
            return func(*args, **kwargs)
        edges = []
        if self.wants_gradients:
            with self._writing():
                # Below a function autograd has no edges. Those of weights have the gradients of weights.
                edges = self.gradients.edges(leaves((args, kwargs), is_tensor), weights=False)
        outer, function = self._function, _Function(f"{scope}/{op_type}", op_type, (args, kwargs), edges)
        self._function = function
        try:
            result = func(*args, **kwargs)
        finally:
            self._function = outer
        if function.has_begun:
            # The only one that gives nothing back writes to what it is a method of.
            made = leaves(args[:1] if op_type == "setitem" else result, is_tensor)
            if not any(map(is_transformed, made)):
                self._returned(function.name, op_type, made, function)
        return result

    def operated(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation; is called for every one."""
        if not self.is_on or self._is_writing:
            return func(*args, **kwargs)
        if self._function is not None and not self._function.has_begun and computes(func) and not is_backward():
            self._begin_function(self._function)
        result = func(*args, **kwargs)
        if self._provenance is not None:
            self._provenance.ran(func, args, kwargs, result, is_backward=is_backward())
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

    def _begin(self) -> None:
        """Record what an iteration starts from, at the first call of one of the model's modules, or of a function."""
        if self._has_begun:
            return
        self._has_begun = True
        if self._provenance is not None:
            self._provenance.begin([*self.model.parameters()], [*self.model.buffers()])
        if self.wants_parameters:
            self.write_parameters(torch_tensors.weights(self.model).items())

    def _begin_function(self, function: _Function) -> None:
        with self._writing():
            given = leaves(function.given, is_tensor)
            if any(map(is_transformed, given)):
                self._function = None
                return
            function.has_begun = True
            self._begin()
            if self.wants_inputs:
                self.write_all(function.name, given, "input", function.op_type)
            function.call = self._called(given, is_operation=True)

    def _returned(self, name: str, op_type: str, tensors: list[Any], call: _ModuleCall | _Function) -> None:
        with self._writing():
            # A module that runs inside of a backward pass runs again, for a checkpoint: it was recorded before.
            if not is_backward():
                self.write_all(name, tensors, "output", op_type)
                if self._provenance is not None and call.call is not None and tensors:
                    self._provenance.came_back(call.call, name, op_type, tensors)
            if self.wants_gradients:
                self.gradients.hook_outputs(name, tensors)
                self.gradients.hook_inputs(name, call.edges, tensors)

    def _came_back(self, module: Any) -> _ModuleCall | None:
        while self._calls:
            call = self._calls.pop()
            if call.module is module:
                return call
        return None

    def _called(self, given: list[Any], *, is_operation: bool = False) -> EndedCall | None:
        """Note a call that begins; nothing is behind what an outermost one, or an operation, is given unseen."""
        if self._provenance is None or is_backward():
            return None
        around = (id(one.module) for one in reversed(self._calls))
        inside = next((self._names[module] for module in around if module in self._modules), "")
        return self._provenance.called(given, inside, has_inputs=is_operation or not self._calls)

    def _scope(self) -> str | None:
        """Return the name under which functions are recorded now; ``None`` where they are not."""
        module = self._calls[-1].module if self._calls else self.model
        if id(module) not in self._scopes:
            return None
        return self._names[id(module)] if self._calls else _OUTSIDE

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Operations that run now are the recording's own."""
        outer, self._is_writing = self._is_writing, True
        try:
            yield
        finally:
            self._is_writing = outer


def _changes(changed: Mapping[str, Mapping[str, None]]) -> Iterator[str]:
    """Yield a sentence on the inputs, and one on the outputs, that hooks of others changed."""
    for io, names in changed.items():
        if names:
            hooks, receiver = ("pre-hook", "the module") if io == "input" else ("hook", "the next module")
            yield f"a forward {hooks} changed the {io} of {listed([*names], 3)}; recorded is what {receiver} got"

"""Records MindSpore cells in PyNative mode: what they give back, as it is the moment they return.

The names are those of a recorded PyTorch model: cells by their path, the network by the name of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from functools import partial
from os import PathLike
from typing import Any

from pytest_msdump.capabilities.record.calls import EndedCall, IdentityGraph, leaves, named_leaves, with_leaves
from pytest_msdump.capabilities.record.recording import (
    HookedRecording,
    Patterns,
    name_modules,
    names_inside,
    select_modules,
)
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.arrays import RawArray
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.dtypes import DTYPES

# Copies that may wait for the end of an iteration.
_MOST_BYTES = 64 * 2**20
# Bytes of an element → the type its bits are taken in.
_BITS = {1: "uint8", 2: "uint16"}
# What `Cell.to_float` sets → the type, the coarser one first.
_AMP_TYPES = {"BF16": "bfloat16", "FP16": "float16"}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of MindSpore."""
    import mindspore

    return isinstance(value, mindspore.Tensor)


def array_of(tensor: Any) -> Any:
    """Return a numpy array, or a `RawArray` for types that numpy lacks; ConfigError for a tensor without numbers."""
    import mindspore

    text = str(tensor.dtype).lower()
    # MindSpore's qint4x2 calls itself int4, and has two elements in each byte, in an order that nothing public says.
    name = "qint4x2" if text == "int4" else canonical(text) or text
    try:
        if name in DTYPES and DTYPES[name].native == name:
            return tensor.asnumpy()
        # Not as its bytes in memory: those of a transposed tensor lie in another order.
        bits = tensor.view(getattr(mindspore, _BITS[tensor.itemsize])).asnumpy()
        return RawArray(bits, tuple(tensor.shape), name)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"a {type(tensor).__name__} of {tensor.dtype} cannot be recorded ({reason}); leave it out with exclude="
        ) from error


class CellRecording(HookedRecording):
    """Record what the cells of a network give back while a ``with`` block runs.

    Parameters
    ----------
    network : mindspore.nn.Cell
        Run in PyNative mode: compiled code calls no hooks.
    modules, exclude : str or sequence of str
        Globs on names as ``network.cells_and_names()`` has them; the network itself is called by the name of its type.
        Default: all but ``SequentialCell``, which gives back what its last cell gave back.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of cells; the latter of cells that give back a tensor or a
        tuple of tensors. Gradients of parameters, which MindSpore hands to its caller, are given to
        `parameter_gradients`.
    types, depth
        As of `record.torch.TorchRecording`.
    directory, inputs, parameters, iterations, digests, save, full, buckets, perturb, distributed
        As of `record.recording.HookedRecording`.

    Raises
    ------
    ConfigError
        Nothing to record, graph mode, or a cell with others inside whose ``construct`` is compiled.
    """

    FRAMEWORKS = ("mindspore",)
    NOT_CALLED = (
        "none of the chosen cells was called; call the network inside of the with "
        "block, and not from a function that ms.jit compiles: compiled code calls no hooks"
    )
    array_of = staticmethod(array_of)
    NO_GRADIENTS = "call the function of value_and_grad inside of the with block"

    def __init__(
        self,
        network: Any,
        directory: str | PathLike[str],
        *,
        modules: Patterns = None,
        exclude: Patterns = (),
        types: Any = (),
        depth: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        everything = name_modules(network, {name: cell for name, cell in network.cells_and_names() if name})
        self._network = network
        self._selected = select_modules(everything, modules, exclude, types, depth)
        _refuse_compiled(everything, self._selected)
        self._graph = IdentityGraph(self.add_call)
        self._running: list[tuple[str, EndedCall]] = []
        self._waiting: list[tuple[str, Any, dict[str, Any]]] = []
        self._bytes = 0

    @property
    def title(self) -> str:
        """The name of the network's type."""
        return type(self._network).__name__

    def watch(self, stack: ExitStack) -> None:
        """Describe the run, and add all hooks."""
        import mindspore

        seed = mindspore.get_seed()
        self.writer.describe(
            framework="mindspore",
            version=mindspore.__version__,
            device=str(mindspore.get_context("device_target")).lower(),
            dtype_policy=_dtype_policy(self._network),
            seeds={} if seed is None else {"mindspore": seed},
        )
        if self.wants_digests:
            self.describe_weights(self._network.parameters_and_names())
        if self.perturb is not None:
            self._perturb(stack)
        for name, cell in self._selected.items():
            handles = [
                cell.register_forward_pre_hook(_as_hook(partial(self._before, name)), with_kwargs=True),
                cell.register_forward_hook(_as_hook(partial(self._after, name))),
            ]
            if self.wants_gradients:
                handles.append(cell.register_backward_hook(_as_hook(partial(self._after_backward, name))))
            for handle in handles:
                stack.callback(handle.remove)

    def write(self, name: str, tensor: Any, **about: Any) -> None:
        """Copy a tensor, and write it later: to ask for its numbers now would halt the model until it has them."""
        import mindspore

        size, kind = _MOST_BYTES, canonical(str(tensor.dtype).lower())
        # Others cannot be copied so, which would come out only in the middle of the program.
        if kind in DTYPES and kind in (DTYPES[kind].native, "bfloat16"):
            # Not by `Tensor.copy`, which divides by 1, nor by `clone`, which a CPU lacks. Older releases have no
            # `to(copy=True)`: there nothing waits.
            with suppress(AttributeError, TypeError), mindspore._no_grad():
                tensor, size = tensor.to(tensor.dtype, copy=True), tensor.nbytes
        self._waiting.append((name, tensor, about))
        self._bytes += size
        if self._bytes >= _MOST_BYTES:
            self._write_waiting()

    def finish_writing(self) -> None:
        """Write what waits, and wait until all is written."""
        self._write_waiting()
        super().finish_writing()

    def _write_waiting(self) -> None:
        import mindspore

        waiting, self._waiting, self._bytes = self._waiting, [], 0
        try:
            # Raises what an operation of the program has raised meanwhile; the first conversion would say it of itself.
            mindspore.hal.synchronize()
        finally:
            for name, tensor, about in waiting:
                super().write(name, tensor, **about)

    def parameter_gradients(self, gradients: Sequence[Any], parameters: Sequence[Any] | None = None) -> None:
        """Record the gradients that ``value_and_grad`` has given back, as ``NAME/grad``.

        One for each of `parameters`, by default the network's trainable ones; ConfigError for fewer or more.
        """
        names = [one.name for one in (self._network.trainable_params() if parameters is None else parameters)]
        if len(names) != len(gradients):
            raise ConfigError(f"{len(gradients)} gradients were given for {len(names)} parameters; give parameters=")
        for name, gradient in zip(names, gradients, strict=True):
            self.write_gradient(f"{name}/grad", 0, gradient)

    def _perturb(self, stack: ExitStack) -> None:
        """Perturb the weights until the stack is closed, and what the network is given at each call."""
        import mindspore

        def changed(path: str, tensor: Any) -> Any:
            before = array_of(tensor)
            after = self.perturbed(f"{self._iteration}/{path}", before)
            if after is before:
                return tensor
            made = _tensor_of(after)
            # Gradients of the tensor that was given go through it. The sum is exact, and infinite numbers stay.
            change = mindspore.ops.select(made == tensor, mindspore.ops.zeros_like(made), made - tensor)
            return tensor + mindspore.ops.stop_gradient(change)

        def hook(_: Any, args: Any, kwargs: Any) -> Any:
            if not self.is_on:
                return None
            if self.wants_digests:
                self.describe_inputs(dict(named_leaves("", (*args, *kwargs.values()), is_tensor)))
            return with_leaves("", args, is_tensor, changed), with_leaves("", kwargs, is_tensor, changed)

        stack.callback(self._network.register_forward_pre_hook(hook, with_kwargs=True).remove)
        if self.perturb is None or not self.perturb.has_weights:
            return
        for name, parameter in self._network.parameters_and_names():
            before = deepcopy(array_of(parameter))
            stack.callback(parameter.set_data, _tensor_of(before))
            parameter.set_data(_tensor_of(self.perturbed(name, before)))

    def _before(self, name: str, cell: Any, args: Any, kwargs: Any) -> None:
        if not self.is_on:
            return
        if not self._has_begun:
            self._has_begun = True
            self._graph.begin()
            self._running.clear()
            if self.wants_parameters:
                self.write_parameters(self._network.parameters_and_names())
        given = dict(named_leaves("", (*args, *kwargs.values()), is_tensor))
        if cell is self._network and self.wants_digests and self.perturb is None:
            self.describe_inputs(given)
        if self.wants_inputs:
            self.write_all(name, list(given.values()), "input", type(cell).__name__)
        inside = self._running[-1][0] if self._running else ""
        self._running.append((name, self._graph.called(list(given.values()), inside)))

    def _after(self, name: str, cell: Any, _: Any, output: Any) -> None:
        if not self.is_on:
            return
        tensors = leaves(output, is_tensor)
        self.write_all(name, tensors, "output", type(cell).__name__)
        # Those of a call that raised are still there.
        while self._running:
            known, call = self._running.pop()
            if known == name:
                self._graph.came_back(call, name, type(cell).__name__, tensors)
                break
        if self.wants_gradients:
            for slot, tensor in enumerate(tensors):
                tensor.register_hook(_as_hook(partial(self.write_gradient, f"{name}/grad_output", slot)))

    def _after_backward(self, name: str, _: Any, gradients: Any, __: Any) -> None:
        for slot, gradient in enumerate(leaves(gradients, lambda leaf: leaf is None or is_tensor(leaf))):
            self.write_gradient(f"{name}/grad_input", slot, gradient)


def _tensor_of(array: Any) -> Any:
    import mindspore

    if not isinstance(array, RawArray):
        return mindspore.Tensor(array)
    return mindspore.Tensor(array.data.reshape(array.shape)).view(getattr(mindspore, array.dtype))


def _dtype_policy(network: Any) -> str:
    """Return e.g. ``"amp O2 float16"``: the level, and the coarsest type computed in, which ``O1`` does not show."""
    level, strategy = getattr(network, "_amp_level", None), getattr(network, "amp_strategy", None)
    kinds = {getattr(getattr(cell, "mixed_precision_type", None), "name", "") for _, cell in network.cells_and_names()}
    found = [_AMP_TYPES[kind] for kind in _AMP_TYPES if kind in kinds]
    if strategy is not None:
        found.append(str(strategy.get_amp_dtype()).lower())
    return " ".join(["amp", *filter(None, [level]), *found[:1]]) if level or found else ""


def _refuse_compiled(everything: dict[str, Any], selected: dict[str, Any]) -> None:
    """Refuse networks whose hooks would not be called: in graph mode, or inside of a compiled ``construct``."""
    import mindspore

    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise ConfigError(
            "MindSpore runs in graph mode, whose compiled code calls no hooks; set_context(mode=PYNATIVE_MODE), or "
            "give the script or function that runs the network: it runs in a process of its own that dumps"
        )
    root = next(iter(everything))
    for outer, cell in everything.items():
        inside = names_inside(outer, selected, root)
        # What ms.jit leaves on the function that it has wrapped.
        if inside and hasattr(type(cell).construct, "__wrapped__"):
            raise ConfigError(
                f"construct of {outer} is compiled (ms.jit), and cells inside of it, such as {inside[0]}, call no "
                "hooks; give the script or function that runs the network, or leave them out with exclude="
            )


def _as_hook(method: Callable[..., None]) -> Callable[..., None]:
    """Return a function, as MindSpore wants a hook to be; it returns nothing, so that nothing is replaced."""

    def hook(*values: Any) -> None:
        method(*values)

    return hook

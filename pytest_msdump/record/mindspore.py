"""Records MindSpore cells in PyNative mode: what they give back, as it is the moment they return.

The names are those of a recorded PyTorch model: cells by their path, the network by the name of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.arrays import RawArray
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.record.manifest import digest
from pytest_msdump.record.names import calling_line, leaves, named_leaves
from pytest_msdump.record.recorder import Hooked
from pytest_msdump.record.torch_choice import chosen
from pytest_msdump.record.writer import DumpWriter

# Gives back what its last cell gave back: recording both would say everything twice.
_LEFT_OUT = "SequentialCell"


def chosen_cells(
    network: Any,
    modules: str | Sequence[str] | None,
    exclude: str | Sequence[str],
    types: Any,
    depth: int | None,
) -> dict[str, Any]:
    """Return the cells to record, by name; see `record.torch_choice.chosen`.

    Raises
    ------
    ConfigError
        Nothing is left, or hooks would not be called: graph mode, a compiled ``construct`` around a chosen cell.
    """
    cells = {name: cell for name, cell in network.cells_and_names() if name}
    root = type(network).__name__
    while root in cells:
        root += "_"
    everything = {root: network, **cells}
    offered = {
        name: cell
        for name, cell in everything.items()
        if modules is not None or name == root or type(cell).__name__ != _LEFT_OUT
    }
    watched = chosen(offered, modules, exclude, types, depth)
    _refuse(everything, watched)
    return watched


def _refuse(everything: dict[str, Any], watched: dict[str, Any]) -> None:
    import mindspore

    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise ConfigError(
            "MindSpore runs in graph mode, whose compiled code calls no hooks; set_context(mode=PYNATIVE_MODE), or "
            "give the script or function that runs the network: it runs in a process of its own that dumps"
        )
    root = next(iter(everything))
    for outer, cell in everything.items():
        inside = [name for name in watched if name != outer and (outer == root or name.startswith(f"{outer}."))]
        # What ms.jit leaves on the function that it has wrapped.
        if inside and hasattr(type(cell).construct, "__wrapped__"):
            raise ConfigError(
                f"construct of {outer} is compiled (ms.jit), and cells inside of it, such as {inside[0]}, call no "
                "hooks; give the script or function that runs the network, or leave them out with exclude="
            )


# -- Tensors of MindSpore as arrays, bit for bit ---------------------------------------------------------------------


# Bytes of an element → the type its bits are taken in.
_BITS = {1: "uint8", 2: "uint16"}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of MindSpore."""
    import mindspore

    return isinstance(value, mindspore.Tensor)


def array_of(tensor: Any) -> Any:
    """Return a numpy array, or a `RawArray` for types that numpy lacks.

    Raises
    ------
    ConfigError
        A tensor that has no numbers: sparse, or not initialised.
    """
    import mindspore

    name = _name(tensor.dtype)
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


def _name(dtype: Any) -> str:
    """The logical type, as the tables have it where they do."""
    said = str(dtype).lower()
    # MindSpore's qint4x2 calls itself so, and has two elements in each byte, in an order that nothing public says.
    return "qint4x2" if said == "int4" else canonical(said) or said


# -- Records MindSpore cells in PyNative mode ------------------------------------------------------------------------


_PARAMETER = "Parameter"


class Wish(NamedTuple):
    """What of a network to record; see `record`."""

    inputs: bool = False
    gradients: bool = False
    parameters: bool = False
    iterations: bool = False
    digests: bool = True


def record(
    network: Any,
    directory: str | PathLike[str],
    *,
    modules: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    types: Any = (),
    depth: int | None = None,
    **wish: Any,
) -> CellRecording:
    """Record what the cells of a network give back while a ``with`` block runs.

    Parameters
    ----------
    network : mindspore.nn.Cell
        Run in PyNative mode: compiled code calls no hooks.
    directory : path
        An empty folder, or one that will be made.
    modules, exclude : str or sequence of str
        Globs on names as ``network.cells_and_names()`` has them; the network itself is called by the name of its type.
        Default: all but ``SequentialCell``, which gives back what its last cell gave back.
    types : type, str or sequence of them
        Only cells of these types; a text is the name of a type.
    depth : int, optional
        Only cells at most so far below the network: ``conv1`` is at 1.
    inputs : bool
        Record also what cells are given.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of cells; the latter of cells that give back a tensor or a
        tuple of tensors. Gradients of parameters, which MindSpore hands to its caller, are given to
        `CellRecording.parameter_gradients`.
    parameters : bool
        Record parameters as they are before the first call of each iteration.
    iterations : bool
        ``True`` for several: see `CellRecording.iteration` and `CellRecording.step`.
    digests : bool
        Put digests of inputs and weights into the manifest.

    Raises
    ------
    ConfigError
        Nothing to record, graph mode, or a cell with others inside whose ``construct`` is compiled.
    """
    unknown = set(wish) - set(Wish._fields)
    if unknown:
        raise TypeError(f"record() got an unexpected option '{min(unknown)}'")
    watched = chosen_cells(network, modules, exclude, types, depth)
    return CellRecording(network, Path(directory), watched, Wish(**wish))


class CellRecording(Hooked):
    """A recording of one network; made by `record`. Hooks exist inside of its ``with`` block only.

    Attributes
    ----------
    directory : Path
        The dump; complete once the block has ended.
    """

    def __init__(self, network: Any, directory: Path, watched: dict[str, Any], wish: Wish) -> None:
        super().__init__(directory, wish)
        self._network, self._watched = network, watched
        self._written = self._arrived = 0

    def __enter__(self) -> CellRecording:
        import mindspore

        with ExitStack() as stack:
            device = str(mindspore.get_context("device_target")).lower()
            self.writer = stack.enter_context(
                DumpWriter(
                    self.directory,
                    framework="mindspore",
                    version=mindspore.__version__,
                    device=device,
                    iterations=self.wish.iterations,
                )
            )
            seed = mindspore.get_seed()
            if seed is not None:
                self.writer.describe(seeds={"mindspore": seed})
            if self.wish.digests:
                self.writer.describe(weights={name: digest(array_of(held)) for name, held in self._parameters()})
            for name, cell in self._watched.items():
                self._hook(stack, name, cell)
            stack.callback(self.stop)
            self.cleanup = stack.pop_all()
        self.is_on = True
        return self

    def parameter_gradients(self, gradients: Sequence[Any], parameters: Sequence[Any] | None = None) -> None:
        """Record the gradients that ``value_and_grad`` has given back, as ``NAME/grad``.

        Parameters
        ----------
        gradients : sequence of tensor
            One for each parameter.
        parameters : sequence of Parameter, optional
            Those that were derived by; the network's trainable ones by default.

        Raises
        ------
        ConfigError
            Not as many gradients as parameters.
        """
        names = [held.name for held in (self._network.trainable_params() if parameters is None else parameters)]
        if len(names) != len(gradients):
            raise ConfigError(f"{len(gradients)} gradients were given for {len(names)} parameters; give parameters=")
        for name, gradient in zip(names, gradients, strict=True):
            self._gradient(f"{name}/grad", 0, gradient)

    def _parameters(self) -> Iterator[tuple[str, Any]]:
        return ((name, held) for name, held in self._network.parameters_and_names())

    def _hook(self, stack: ExitStack, name: str, cell: Any) -> None:
        hooks: list[tuple[Callable[..., Any], Callable[..., None], dict[str, Any]]] = [
            (cell.register_forward_pre_hook, partial(self._before, name), {"with_kwargs": True}),
            (cell.register_forward_hook, partial(self._after, name), {}),
        ]
        if self.wish.gradients:
            hooks.append((cell.register_backward_hook, partial(self._behind, name), {}))
        for register, hook, options in hooks:
            stack.callback(register(_plain(hook), **options).remove)

    def _before(self, name: str, cell: Any, args: Any, kwargs: Any) -> None:
        if not self.is_on:
            return
        if not self._has_begun:
            self._begin()
        given = list(named_leaves("", (*args, *kwargs.values()), is_tensor))
        if cell is self._network and self.wish.digests:
            suffix = f"[{self._iteration}]" if self._iteration else ""
            self.writer.describe(inputs={f"{way}{suffix}": digest(array_of(tensor)) for way, tensor in given})
        if self.wish.inputs:
            for slot, (_, tensor) in enumerate(given):
                self._write(name, tensor, slot, io="input", op_type=type(cell).__name__)

    def _begin(self) -> None:
        self._has_begun = True
        if self.wish.parameters:
            for name, held in self._parameters():
                self._write(name, held, op_type=_PARAMETER)

    def _after(self, name: str, cell: Any, _: Any, output: Any) -> None:
        if not self.is_on:
            return
        line = calling_line("mindspore")
        for slot, tensor in enumerate(leaves(output, is_tensor)):
            self._write(name, tensor, slot, op_type=type(cell).__name__, line=line)
            if self.wish.gradients:
                tensor.register_hook(_plain(partial(self._gradient, f"{name}/grad_output", slot)))

    def _behind(self, name: str, _: Any, gradients: Any, __: Any) -> None:
        for slot, gradient in enumerate(leaves(gradients, lambda leaf: leaf is None or is_tensor(leaf))):
            self._gradient(f"{name}/grad_input", slot, gradient)

    def _gradient(self, name: str, slot: int, gradient: Any) -> None:
        if self.is_on and gradient is not None:
            self._arrived += 1
            self._write(name, gradient, slot)

    def _write(self, name: str, tensor: Any, slot: int = 0, **said: Any) -> None:
        self.writer.write(name, array_of(tensor), slot=slot, iteration=self._iteration, **said)
        self._written += said.get("op_type") != _PARAMETER

    def forget(self) -> None:
        """Nothing is kept: hooks on tensors go with their graph."""

    def missing(self) -> ConfigError | None:
        """Return the error to raise when something that was asked for has not come."""
        root = type(self._network).__name__
        if not self._written:
            return ConfigError(
                f"{root} was recorded, and none of the chosen cells was called; call the network inside of the with "
                "block, and not from a function that ms.jit compiles: compiled code calls no hooks"
            )
        if self.wish.gradients and not self._arrived:
            return ConfigError(
                f"gradients of {root} were asked for, and none came; call the function of value_and_grad inside of the "
                "with block"
            )
        return None


def _plain(method: Callable[..., None]) -> Callable[..., None]:
    """Return a function, as MindSpore wants a hook to be; it gives back nothing, so that nothing is replaced."""

    def hook(*values: Any) -> None:
        method(*values)

    return hook

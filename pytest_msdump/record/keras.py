"""Records Keras models on TensorFlow: what layers give back, and gradients, while a ``with`` block runs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_msdump.errors import ConfigError
from pytest_msdump.record.manifest import digest
from pytest_msdump.record.names import Patterns, calling_line, chosen, leaves, named_leaves
from pytest_msdump.record.recorder import Hooked, require
from pytest_msdump.record.tf_graphs import array_of, is_symbolic, is_tensor, version
from pytest_msdump.record.writer import DumpWriter

__all__ = ["Wish"]

# A Sequential gives back what its last layer gave back; an InputLayer is not called.
_LEFT_OUT = ("Sequential", "InputLayer")


def layers_of(model: Any) -> dict[str, Any]:
    """Return layers and operations by name, the model itself first: ``block/conv`` for one inside of another."""
    names: dict[str, Any] = {}
    seen: set[int] = set()
    for name, layer in _walk(model, model.name, ""):
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        number, free = 1, name
        while free in names:
            number += 1
            free = f"{name}_{number}"
        names[free] = layer
    return names


def recorded(layers: Mapping[str, Any], patterns: Patterns, exclude: Patterns, types: Patterns) -> frozenset[str]:
    """Return the names of the layers to record; see `choice.chosen`."""
    root = next(iter(layers))
    kinds = {name: type(layer).__name__ for name, layer in layers.items()}
    if patterns is None and types is None:
        kinds = {name: kind for name, kind in kinds.items() if name == root or kind not in _LEFT_OUT}
    return chosen(kinds, patterns, exclude, types)


def variables_of(layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights by name: ``block/conv/kernel``. A weight that several layers share has the first one's."""
    variables: dict[str, Any] = {}
    seen: set[int] = set()
    root = next(iter(layers))
    # Inner layers first: an outer one has the weights of all inside of it.
    for name, layer in sorted(layers.items(), key=lambda item: -_depth(item[0], root)):
        for variable in getattr(layer, "weights", ()):
            if id(variable) in seen:
                continue
            seen.add(id(variable))
            title = free = f"{name}/{variable.name}" if name != root else variable.name
            number = 1
            while free in variables:
                number += 1
                free = f"{title}_{number}"
            variables[free] = variable
    order = {id(variable): place for place, variable in enumerate(layers[root].weights)}
    return dict(sorted(variables.items(), key=lambda item: order.get(id(item[1]), len(order))))


def _walk(layer: Any, name: str, prefix: str) -> Iterator[tuple[str, Any]]:
    yield name, layer
    for inner in _inside(layer):
        path = f"{prefix}{inner.name}"
        yield from _walk(inner, path, f"{path}/")


def _inside(layer: Any) -> list[Any]:
    """Layers directly inside of one, and the operations of a functional model."""
    found = list(layer._flatten_layers(include_self=False, recursive=False)) if _has_layers(layer) else []
    known = {id(inner) for inner in found}
    return found + [inner for inner in getattr(layer, "operations", ()) if id(inner) not in known]


def _has_layers(layer: Any) -> bool:
    return hasattr(layer, "_flatten_layers")


def _depth(name: str, root: str) -> int:
    return -1 if name == root else name.count("/")


# -- What a recording of a Keras model does when a layer is called, and when a tape is asked fo ----------------------


if TYPE_CHECKING:
    pass


_FRAMEWORKS = ("keras", "tensorflow")


class Wish(NamedTuple):
    """What of a model to record; see `keras_layers.record`."""

    inputs: bool = False
    gradients: bool = False
    parameters: bool = False
    iterations: bool = False
    compiled: str = "refuse"
    digests: bool = True


class _Watched(NamedTuple):
    """A tensor whose gradient is wanted, and where it goes."""

    name: str
    slot: int
    tensor: Any


class KerasRun(Hooked):
    """The part of a recording that is called while the model runs.

    Parameters
    ----------
    model : keras.layers.Layer
        What is recorded.
    directory : Path
        Of the dump.
    layers : mapping of str to layer
        All, the model itself first.
    chosen : frozenset of str
        Names of those to record.
    wish : Wish
        What of them.
    """

    def __init__(
        self, model: Any, directory: Path, layers: Mapping[str, Any], chosen: frozenset[str], wish: Wish
    ) -> None:
        super().__init__(directory, wish)
        self.model = model
        self.layers = list(layers.values())
        self._all = layers
        self._names = {id(layer): name for name, layer in layers.items()}
        self._chosen = chosen
        self._running: list[Any] = []
        self._tensors: list[_Watched] = []
        self._seen: set[str] = set()
        self._traced: set[str] = set()
        self._gradients = 0

    # -- the run ------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Let go of the tensors whose gradients are wanted."""
        self._tensors.clear()

    def stop(self) -> None:
        """Record nothing from here on."""
        super().stop()
        self._running.clear()

    def missing(self) -> ConfigError | None:
        """Return the error to raise when something that was asked for has not come."""
        traced = [name for name in self._all if name in self._traced - self._seen]
        if traced:
            return ConfigError(
                f"{traced[0]} ran inside of a tf.function, where tensors have no numbers (predict, fit and evaluate "
                "compile one); call the model itself, or record with compiled='eager', which runs functions uncompiled"
            )
        if not self._seen:
            return ConfigError(
                f"{self.model.name} was recorded, and none of the chosen layers was called; call it inside of the with "
                "block (a function that is compiled already, as predict may be, calls none; compiled='eager' runs it "
                "uncompiled)"
            )
        if self.wish.gradients and not self._gradients:
            return ConfigError(
                f"gradients of {self.model.name} were asked for, and none came; call the model under a tf.GradientTape "
                "and ask it for the gradient inside of the with block"
            )
        return None

    # -- what is called instead of methods of Keras and TensorFlow -----------------------------------------------------

    def called(self, method: Callable[..., Any], layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a layer, and record what it gives back."""
        name = self._names.get(id(layer)) if self.is_on else None
        # A layer's own method calls that of its base class.
        if name is None or (self._running and self._running[-1] is layer):
            return method(layer, *args, **kwargs)
        given = [tensor for tensor in leaves((args, kwargs), is_tensor) if not is_symbolic(tensor)]
        if not self._has_begun and not any(map(is_symbolic, leaves((args, kwargs), is_tensor))):
            self._begin(layer, args, kwargs)
        if name in self._chosen and self.wish.inputs:
            self._write_all(name, given, "input", layer)
        self._running.append(layer)
        try:
            result = method(layer, *args, **kwargs)
        finally:
            self._running.pop()
        if name in self._chosen and self.is_on:
            self._came_back(name, layer, given, leaves(result, is_tensor))
        return result

    def differentiated(
        self, method: Callable[..., Any], tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Ask a tape for the gradients that are wanted, and in the same pass for those to record."""
        import tensorflow as tf

        if not self.is_on or not tf.executing_eagerly():
            return method(tape, target, sources, *args, **kwargs)
        tensors = list({id(watched.tensor): watched.tensor for watched in self._tensors}.values())
        result, own = method(tape, target, [sources, tensors], *args, **kwargs)
        found = dict(zip(map(id, tensors), own, strict=True))
        for watched in reversed(self._tensors):
            self._gradient(watched.name, watched.slot, found[id(watched.tensor)])
        self._weights(tf.nest.flatten(sources), tf.nest.flatten(result))
        return result

    # -- what these do ------------------------------------------------------------------------------------------------

    def describe(self) -> None:
        """Tell who runs the model, in which state."""
        import tensorflow as tf

        policy = getattr(getattr(self.model, "dtype_policy", None), "name", "float32")
        self.writer.describe(
            framework="tensorflow",
            version=version(),
            device="gpu" if tf.config.list_logical_devices("GPU") else "cpu",
            dtype_policy="" if policy == "float32" else policy,
            seeds=_seeds(),
        )
        if self.wish.digests and self.model.built:
            for name, variable in variables_of(self._all).items():
                self.writer.describe(weights={name: digest(array_of(variable))})

    def _begin(self, layer: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Tell what an iteration starts from, at the first call of one of the model's layers."""
        self._has_begun = True
        if self.wish.parameters:
            for name, variable in variables_of(self._all).items():
                self._write(name, array_of(variable), op_type="Parameter")
        if self.wish.digests and layer is self.model:
            suffix = f"[{self._iteration}]" if self._iteration else ""
            given = named_leaves("", _arguments(layer, args, kwargs), _is_given)
            arrays = {name + suffix: array_of(value) for name, value in given}
            self.writer.describe(inputs={name: array for name, array in arrays.items() if array is not None})

    def _came_back(self, name: str, layer: Any, given: list[Any], tensors: list[Any]) -> None:
        if any(map(is_symbolic, tensors)):
            self._traced.update([] if any(map(_is_planned, tensors)) else [name])
            return
        self._seen.add(name)
        self._write_all(name, tensors, "output", layer)
        if self.wish.gradients:
            self._tensors += _watched(f"{name}/grad_input", given)
            self._tensors += _watched(f"{name}/grad_output", tensors)

    def _weights(self, sources: list[Any], gradients: list[Any]) -> None:
        names: dict[int, str] = {}
        for name, variable in variables_of(self._all).items():
            names |= {id(variable): name, id(variable.value): name}
        for source, gradient in reversed(list(zip(sources, gradients, strict=True))):
            if id(source) in names:
                self._gradient(f"{names[id(source)]}/grad", 0, gradient)

    def _gradient(self, name: str, slot: int, gradient: Any) -> None:
        if gradient is not None and not is_symbolic(gradient):
            self._gradients += 1
            self._write(name, array_of(gradient), slot=slot)

    def _write_all(self, name: str, tensors: list[Any], io: str, layer: Any) -> None:
        line = calling_line(*_FRAMEWORKS) if tensors else None
        for slot, tensor in enumerate(tensors):
            self._write(name, array_of(tensor), slot=slot, io=io, op_type=type(layer).__name__, line=line)

    def _write(self, name: str, array: Any, **said: Any) -> None:
        if array is not None:
            self.writer.write(name, array, iteration=self._iteration, **said)


def _watched(name: str, tensors: list[Any]) -> list[_Watched]:
    """The tensors that gradients flow through."""
    return [
        _Watched(name, slot, tensor)
        for slot, tensor in enumerate(tensors)
        if hasattr(tensor, "dtype") and (tensor.dtype.is_floating or tensor.dtype.is_complex)
    ]


def _is_planned(tensor: Any) -> bool:
    """Whether Keras is only building a model with it."""
    import keras

    return isinstance(tensor, keras.KerasTensor)


def _is_given(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (is_tensor(value) and not is_symbolic(value))


def _arguments(layer: Any, args: Any, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a layer is given, by the names that its ``call`` has for them."""
    try:
        return inspect.signature(layer.call).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}


def _seeds() -> dict[str, int]:
    """What ``tf.random.set_seed`` was given. TensorFlow's public question for it would draw a number."""
    from tensorflow.python.eager import context

    seed = context.global_seed()
    return {} if seed is None else {"tensorflow": int(seed)}


# -- Records Keras models on TensorFlow ------------------------------------------------------------------------------


_COMPILED = ("refuse", "eager")
_EAGER_DATA = r"Even though the `tf\.config\.experimental_run_functions_eagerly`"
_OTHER_BACKENDS = {
    "torch": "record it with msdump_recorder.torch: its layers are modules of PyTorch",
    "jax": "set KERAS_BACKEND=tensorflow before Keras is imported",
}


def record(
    model: Any,
    directory: str | PathLike[str],
    *,
    layers: Patterns = None,
    exclude: Patterns = None,
    types: Patterns = None,
    **wish: Any,
) -> KerasRecording:
    """Record what the layers of a model give back while a ``with`` block runs.

    Parameters
    ----------
    model : keras.Model or keras.layers.Layer
        Keras 3 on TensorFlow: functional, sequential or a class of one's own.
    directory : path
        An empty folder, or one that will be made.
    layers, exclude : str or sequence of str, optional
        Globs on names: a layer's own, after those of the layers around it (``block/conv``); the model by its own.
        Default: all but ``Sequential`` ones, which give back what their last layer gave back.
    types : str or sequence of str, optional
        Globs on names of types, e.g. ``"Conv*"``.
    inputs : bool
        Record also what layers are given.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of layers, and ``NAME/WEIGHT/grad`` of weights, whenever a
        ``tf.GradientTape`` is asked for gradients inside of the block. What is recorded is the gradient of the tensor,
        summed over all that it was used for.
    parameters : bool
        Record weights as they are before the model is first called in each iteration.
    iterations : bool
        ``True`` for several: see `KerasRecording.step`.
    compiled : str
        ``"refuse"`` layers that run inside of a ``tf.function`` (``predict``, ``fit`` and the like compile one);
        ``"eager"`` runs such functions uncompiled while they are recorded.
    digests : bool
        Put digests of inputs and weights into the manifest, by which a comparison sees that both sides had the same.

    Raises
    ------
    ConfigError
        Nothing to record; Keras on another backend.
    """
    require("tensorflow")
    unknown = set(wish) - set(Wish._fields)
    if unknown:
        raise TypeError(f"record() got an unexpected option '{min(unknown)}'")
    wished = Wish(**wish)
    if wished.compiled not in _COMPILED:
        raise ConfigError(f"compiled={wished.compiled!r} is none of {', '.join(map(repr, _COMPILED))}")
    _check(model)
    everything = layers_of(model)
    return KerasRecording(model, Path(directory), everything, recorded(everything, layers, exclude, types), wished)


def _check(model: Any) -> None:
    import keras

    backend = keras.config.backend()
    if backend != "tensorflow":
        raise ConfigError(f"Keras runs on {backend} here; {_OTHER_BACKENDS.get(backend, _OTHER_BACKENDS['jax'])}")
    if not isinstance(model, keras.layers.Layer):
        raise ConfigError(f"a {type(model).__module__}.{type(model).__name__} is no layer or model of Keras 3")


class KerasRecording(KerasRun):
    """A recording of one model; made by `record`. Layers are watched inside of its ``with`` block only.

    Attributes
    ----------
    directory : Path
        The dump; complete once the block has ended.
    """

    def __enter__(self) -> KerasRecording:
        if self.wish.parameters and not self.model.built:
            raise ConfigError(f"{self.model.name} has no weights yet; build it, or call it once before it is recorded")
        with ExitStack() as stack:
            self.writer = stack.enter_context(DumpWriter(self.directory, iterations=self.wish.iterations))
            self.describe()
            self._watch(stack)
            stack.callback(self.stop)
            self.cleanup = stack.pop_all()
        self.is_on = True
        return self

    def _watch(self, stack: ExitStack) -> None:
        import tensorflow as tf

        if self.wish.compiled == "eager":
            stack.callback(tf.config.run_functions_eagerly, tf.config.functions_run_eagerly())
            tf.config.run_functions_eagerly(True)
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", _EAGER_DATA)
        # Layers have no hooks: what runs when one is called is an attribute of its class, or of a class before it.
        owners = {next(kind for kind in type(layer).__mro__ if "__call__" in vars(kind)) for layer in self.layers}
        for owner in owners:
            _replace(stack, owner, "__call__", self.called)
        if self.wish.gradients:
            _replace(stack, tf.GradientTape, "gradient", self.differentiated)


def _replace(stack: ExitStack, owner: type, name: str, around: Callable[..., Any]) -> None:
    """Have calls of a method go through `around`, which is given the method first, until the stack is closed."""
    method = vars(owner)[name]

    def through(*args: Any, **kwargs: Any) -> Any:
        return around(method, *args, **kwargs)

    setattr(owner, name, through)
    stack.callback(setattr, owner, name, method)

"""What a recording of a Keras model does when a layer is called, and when a tape is asked for gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_msdump.capture.calling_line import calling_line
from pytest_msdump.capture.digests import digest
from pytest_msdump.capture.hooked import Hooked
from pytest_msdump.capture.keras_names import variables_of
from pytest_msdump.capture.nested import leaves, named_leaves
from pytest_msdump.capture.tf_values import array_of, is_symbolic, is_tensor, version
from pytest_msdump.errors import ConfigError

if TYPE_CHECKING:
    pass

__all__ = ["KerasRun", "Wish"]

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

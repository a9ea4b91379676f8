"""Records Keras models on TensorFlow and PyTorch: what layers give back, and gradients, while a ``with`` block runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from os import PathLike
from typing import Any

import numpy as np

from pytest_msdump.capabilities.frameworks.keras_backends import keras_backend, replace_method
from pytest_msdump.capabilities.record.calls import (
    EndedCall,
    IdentityGraph,
    bound_arguments,
    leaves,
    named_leaves,
    with_leaves,
)
from pytest_msdump.capabilities.record.recording import HookedRecording, Patterns, select_operators
from pytest_msdump.core.dtypes import canonical, coarser
from pytest_msdump.core.errors import ConfigError

# A Sequential gives back what its last layer gave back; an InputLayer is not called.
_LEFT_OUT = ("Sequential", "InputLayer")
_COMPILED = ("refuse", "eager")


def layers_of(model: Any) -> dict[str, Any]:
    """Return layers and operations by name, the model itself first: ``block/conv`` for one inside of another."""
    names: dict[str, Any] = {}
    seen: set[int] = set()
    for name, layer in _walk(model, model.name, ""):
        if id(layer) not in seen:
            seen.add(id(layer))
            names[_free(name, names)] = layer
    return names


def variables_of(layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights by name: ``block/conv/kernel``. A weight that several layers share has the first one's."""
    variables: dict[str, Any] = {}
    seen: set[int] = set()
    root = next(iter(layers))
    # Inner layers first: an outer one has the weights of all inside of it.
    for name, layer in sorted(layers.items(), key=lambda item: 1 if item[0] == root else -item[0].count("/")):
        for variable in getattr(layer, "weights", ()):
            if id(variable) not in seen:
                seen.add(id(variable))
                title = f"{name}/{variable.name}" if name != root else variable.name
                variables[_free(title, variables)] = variable
    order = {id(variable): place for place, variable in enumerate(layers[root].weights)}
    return dict(sorted(variables.items(), key=lambda item: order.get(id(item[1]), len(order))))


def _walk(layer: Any, name: str, prefix: str) -> Iterator[tuple[str, Any]]:
    yield name, layer
    found: list[Any] = []
    if hasattr(layer, "_flatten_layers"):
        found += layer._flatten_layers(include_self=False, recursive=False)
    known = {id(inner) for inner in found}
    # The operations of a functional model that are no layers.
    found += [inner for inner in getattr(layer, "operations", ()) if id(inner) not in known]
    for inner in found:
        path = f"{prefix}{inner.name}"
        yield from _walk(inner, path, f"{path}/")


def _free(title: str, taken: Mapping[str, Any]) -> str:
    number, name = 1, title
    while name in taken:
        number += 1
        name = f"{title}_{number}"
    return name


class KerasRecording(HookedRecording):
    """Record what the layers of a model give back while a ``with`` block runs.

    Parameters
    ----------
    model : keras.Model or keras.layers.Layer
        Keras 3 on TensorFlow or PyTorch: functional, sequential or a class of one's own.
    layers, exclude : str or sequence of str, optional
        Globs on names: a layer's own, after those of the layers around it (``block/conv``); the model by its own.
        Default: all but ``Sequential`` ones, which give back what their last layer gave back.
    types : str or sequence of str, optional
        Globs on names of types, e.g. ``"Conv*"``.
    gradients : bool
        Record ``NAME/grad_output`` and ``NAME/grad_input`` of layers, and ``NAME/WEIGHT/grad`` of weights, whenever a
        ``tf.GradientTape`` is asked for gradients inside of the block, or PyTorch computes them. What is recorded is
        the gradient of the tensor, summed over all that it was used for.
    compiled : str
        ``"refuse"`` layers that run inside of a ``tf.function`` (``predict``, ``fit`` and the like compile one);
        ``"eager"`` runs such functions uncompiled while they are recorded.
    directory, inputs, parameters, iterations, digests, save, full, buckets, perturb, distributed
        As of `record.recording.HookedRecording`.

    Raises
    ------
    ConfigError
        Nothing to record; Keras on another backend.
    """

    FRAMEWORKS = ("keras", "tensorflow", "torch")
    NOT_CALLED = (
        "none of the chosen layers was called; call it inside of the with "
        "block (a function that is compiled already, as predict may be, calls none; compiled='eager' runs it "
        "uncompiled)"
    )
    NO_GRADIENTS = "compute them inside of the with block, with TensorFlow under a tf.GradientTape"

    def __init__(
        self,
        model: Any,
        directory: str | PathLike[str],
        *,
        layers: Patterns = None,
        exclude: Patterns = None,
        types: Patterns = None,
        compiled: str = "refuse",
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        if compiled not in _COMPILED:
            raise ConfigError(f"compiled={compiled!r} is none of {', '.join(map(repr, _COMPILED))}")
        self.backend = keras_backend()
        _check(model)
        self.model, self.compiled = model, compiled
        self._layers = layers_of(model)
        kinds = {name: type(layer).__name__ for name, layer in self._layers.items()}
        if layers is None and types is None:
            kinds = {name: kind for name, kind in kinds.items() if name == model.name or kind not in _LEFT_OUT}
        self._selected = select_operators(kinds, layers, exclude, types)
        self._names = {id(layer): name for name, layer in self._layers.items()}
        self._running: list[Any] = []
        self._graph = IdentityGraph(self.add_call)
        self._gradients = self.backend.gradients(self.write_gradient)
        self._traced: set[str] = set()
        self._returned: set[str] = set()

    @property
    def title(self) -> str:
        """The model's name."""
        return str(self.model.name)

    def array_of(self, tensor: Any) -> Any:
        """Return an array, ``None`` where there are no numbers."""
        return self.backend.array_of(tensor)

    def prepare(self) -> None:
        """Refuse a model that has no weights to record, or to perturb, yet."""
        wants_weights = self.wants_parameters or (self.perturb is not None and self.perturb.has_weights)
        if wants_weights and not self.model.built:
            raise ConfigError(f"{self.title} has no weights yet; build it, or call it once before it is recorded")

    def watch(self, stack: ExitStack) -> None:
        """Describe the run, and put functions of the recording in the place of methods."""
        self.writer.describe(**self.backend.run_facts(self.model), dtype_policy=_dtype_policy(self._layers.values()))
        if self.wants_digests and self.model.built:
            self.describe_weights(variables_of(self._layers).items())
        if self.perturb is not None and self.perturb.has_weights:
            for name, variable in variables_of(self._layers).items():
                before = np.array(self.array_of(variable))
                # What the run itself writes to it is put back, too.
                stack.callback(variable.assign, before)
                variable.assign(self.perturbed(name, before))
        if self.compiled == "eager":
            self.backend.run_eagerly(stack)
        # Layers have no hooks: what runs when one is called is an attribute of its class, or of a class before it.
        for owner in {
            next(kind for kind in type(layer).__mro__ if "__call__" in vars(kind)) for layer in self._layers.values()
        }:
            replace_method(stack, owner, "__call__", self.called)
        if self.wants_gradients:
            self._gradients.watch(variables_of(self._layers), stack)

    def forget(self) -> None:
        """Drop the tensors whose gradients are wanted."""
        self._gradients.forget()

    def stop(self) -> None:
        """Record nothing from here on."""
        super().stop()
        self._running.clear()

    def missing(self) -> ConfigError | None:
        """Return an error when layers ran in a graph only, none was called, or no gradient came."""
        traced = next((name for name in self._layers if name in self._traced - self._returned), None)
        if traced is not None:
            return ConfigError(
                f"{traced} ran inside of a tf.function, where tensors have no numbers (predict, fit and evaluate "
                "compile one); call the model itself, or record with compiled='eager', which runs functions uncompiled"
            )
        return super().missing()

    def called(self, method: Callable[..., Any], layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a layer, and record what it gives back."""
        name = self._names.get(id(layer)) if self.is_on else None
        # A layer's own method calls that of its base class.
        if name is None or (self._running and self._running[-1] is layer):
            return method(layer, *args, **kwargs)
        tensors = leaves((args, kwargs), self.backend.is_tensor)
        given = [tensor for tensor in tensors if not self.backend.is_symbolic(tensor)]
        if not self._has_begun and len(given) == len(tensors):
            self._begin(layer, args, kwargs)
        if self.perturb is not None and not self._running and len(given) == len(tensors):
            args, kwargs = (
                with_leaves("", values, self._has_numbers, self._perturb_input) for values in (args, kwargs)
            )
            given = leaves((args, kwargs), self.backend.is_tensor)
        if name in self._selected and self.wants_inputs:
            self.write_all(name, leaves((args, kwargs), self._has_numbers), "input", type(layer).__name__)
        around = (self._names[id(one)] for one in reversed(self._running))
        call = self._graph.called(given, next((one for one in around if one in self._selected), ""))
        self._running.append(layer)
        try:
            result = method(layer, *args, **kwargs)
        finally:
            self._running.pop()
        if name in self._selected and self.is_on:
            self._came_back(name, layer, call, given, leaves(result, self.backend.is_tensor))
        return result

    def _has_numbers(self, value: Any) -> bool:
        is_tensor = self.backend.is_tensor(value)
        return isinstance(value, np.ndarray) or (is_tensor and not self.backend.is_symbolic(value))

    def _begin(self, layer: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Record what an iteration starts from, at the first call of one of the model's layers."""
        self._has_begun = True
        self._graph.begin()
        if self.wants_parameters:
            self.write_parameters(variables_of(self._layers).items())
        if self.wants_digests and layer is self.model:
            self.describe_inputs(dict(named_leaves("", bound_arguments(layer.call, args, kwargs), self._has_numbers)))

    def _perturb_input(self, path: str, tensor: Any) -> Any:
        import keras

        if isinstance(tensor, np.ndarray):
            return self.perturbed(f"{self._iteration}/{path}", tensor)
        before: Any = None if isinstance(tensor, keras.Variable) else self.array_of(tensor)
        after = before if before is None else self.perturbed(f"{self._iteration}/{path}", before)
        if after is before:
            return tensor
        # Gradients of the tensor that was given go through it. The sum is exact, and infinite numbers stay.
        with np.errstate(invalid="ignore"):
            change = np.asarray(after - before)
        change[after == before] = 0
        return tensor + keras.ops.convert_to_tensor(change)

    def _came_back(self, name: str, layer: Any, call: EndedCall, given: list[Any], tensors: list[Any]) -> None:
        import keras

        if any(map(self.backend.is_symbolic, tensors)):
            # With its own stand-ins, Keras only builds a model.
            if not any(isinstance(tensor, keras.KerasTensor) for tensor in tensors):
                self._traced.add(name)
            return
        self._returned.add(name)
        self.write_all(name, tensors, "output", type(layer).__name__)
        self._graph.came_back(call, name, type(layer).__name__, tensors)
        if self.wants_gradients:
            self._gradients.came_back(f"{name}/grad_input", given)
            self._gradients.came_back(f"{name}/grad_output", tensors)


def _check(model: Any) -> None:
    import keras

    if not isinstance(model, keras.layers.Layer):
        raise ConfigError(f"a {type(model).__module__}.{type(model).__name__} is not a layer or model of Keras 3")


def _dtype_policy(layers: Iterable[Any]) -> str:
    """Return the name of the policy that computes in the coarsest type; empty where all compute in float32."""
    coarsest, name = "float32", ""
    for policy in (getattr(layer, "dtype_policy", None) for layer in layers):
        dtype = canonical(str(getattr(policy, "compute_dtype", ""))) or "float32"
        if coarser(coarsest, dtype) != coarsest:
            coarsest, name = dtype, str(getattr(policy, "name", ""))
    return name

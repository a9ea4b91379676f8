"""Teacher forcing of Keras models: layer by layer along the graph of a functional model, in float32 and in float64."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.frameworks.keras import KerasRecording, layers_of, variables_of
from pytest_msdump.capabilities.frameworks.keras_backends import keras_backend
from pytest_msdump.capabilities.record.calls import leaves, with_leaves
from pytest_msdump.capabilities.replay.forcing import (
    EXP_FAMILY,
    GRADIENTS,
    ForcedPlace,
    Forcing,
    Marks,
    not_replayable,
    precision,
)
from pytest_msdump.capabilities.replay.torch_forcing import raised_by_the_model
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.record import Local

_LOWER = ("float32", "float16", "bfloat16")


class KerasModel(NamedTuple):
    """A model or layer of Keras, what its call is given (``None``: as a dump has it), and whether it trains."""

    model: Any
    given: Any = None
    training: bool | None = None

    @property
    def inputs(self) -> Any:
        """What the model is given, as it takes it."""
        import keras

        graph = _graph_of(self.model)
        if graph is None:
            return self.given
        flat = _in_order(graph, self.given)
        is_by_name = isinstance(graph._inputs_struct, Mapping) and not isinstance(self.given, Mapping)
        if len(flat) != len(graph.inputs) or (is_by_name and len(flat) > 1):
            names = ", ".join(one.name for one in graph.inputs)
            raise ConfigError(
                f"the model {self.model.name} takes {names}; return (model, inputs) with each by its name"
            )
        return keras.tree.pack_sequence_as(graph._inputs_struct, flat)

    def run(self) -> None:
        """Call the model."""
        self.model(self.inputs, **({} if self.training is None else {"training": self.training}))

    def record(self, directory: Path) -> None:
        """Record a call of the model."""
        with KerasRecording(self.model, directory), raised_by_the_model():
            self.run()

    def weights(self) -> Iterator[tuple[str, Any]]:
        """Yield the weights that a call reads, as arrays; in training statistics are rather written than read."""
        backend = keras_backend()
        for name, variable in variables_of(layers_of(self.model)).items():
            if variable.trainable or not self.training:
                yield name, backend.array_of(variable)


def keras_model(model: Any, given: Any, source: str) -> KerasModel | None:
    """Return a model of Keras with its inputs, ``None`` for another one; ConfigError if it cannot run."""
    layers: Any = getattr(sys.modules.get("keras"), "Layer", ())
    if not isinstance(model, layers):
        return None
    if callable(given) and not hasattr(given, "shape") and not isinstance(given, Mapping):
        raise ConfigError(
            f"{source} returned a function that runs a Keras model; return (model, inputs) instead, inputs as it takes "
            'them; a dict of them by name may have "training": True'
        )
    if not model.built:
        raise ConfigError(f"{source} returned a Keras model that has no weights yet; build it, or call it once")
    training = None
    if isinstance(given, Mapping):
        training = given.get("training")
        given = {name: one for name, one in given.items() if name != "training"} or None
    return KerasModel(model, given, training)


def force_layers(model: KerasModel, forcing: Forcing) -> dict[int, Local]:
    """Run each layer in the left's precision and in float64, with the left's tensors; return each pair's judgement."""
    walk = _Walk(model, forcing)
    with raised_by_the_model():
        walk.run(model.model, model.inputs)
    whys = {label: not_replayable("inside", module=module) for label, module in walk.inside.items()}
    for place, numbers in forcing.places.items():
        if place.label.endswith(GRADIENTS):
            whys[place.label] = not_replayable("forward_only")
        for number in numbers if place.label in whys else ():
            forcing.found.setdefault(number, whys[place.label])
    return forcing.whole()


@dataclass(frozen=True)
class _Value:
    """A tensor of both runs."""

    own: Any
    exact: Any
    marks: Marks


class _Walk:
    """Goes through the graph of a model once; `inside` names layers that ran inside of another one that is no graph."""

    def __init__(self, model: KerasModel, forcing: Forcing) -> None:
        self.inside: dict[str, str] = {}
        self._forcing, self._training = forcing, model.training
        self._names = {id(layer): name for name, layer in layers_of(model.model).items()}
        self._coarsest, _ = precision(forcing.dtypes(self._names.values()))
        self._own, self._exact = _Precision("float32"), _Precision("float64")
        self._calls: Counter[tuple[str, int]] = Counter()

    def run(self, model: Any, given: Any) -> None:
        import keras

        graph = _graph_of(model)
        given = given if graph is None else graph._standardize_inputs(given)
        self._called(
            model,
            with_leaves(
                "",
                given,
                lambda one: hasattr(one, "shape"),
                lambda _, one: _value(tensor := keras.ops.convert_to_tensor(one), tensor, Marks()),
            ),
        )

    def _called(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what a layer gives, the left's tensors in the place of those that have a partner."""
        name, graph, training = self._names.get(id(layer), layer.name), _graph_of(layer), self._training
        if graph is not None and _fits(graph, args, kwargs):
            self._training = kwargs.get("training") if training is None else training
            made = graph._run_through_graph(_in_order(graph, args[0]), lambda inner: partial(self._called, inner))
            self._training = training
        else:
            if training is not None and "training" in getattr(layer, "_call_context_args", ()):
                kwargs["training"] = training
            made = self._computed(layer, name, args, kwargs)
        slots = iter(range(len(leaves(made, _is_value))))
        return with_leaves("", made, _is_value, lambda _, value: self._put(name, next(slots), value))

    def _computed(self, layer: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Run a layer in both precisions, of weights and inputs that are rounded as the left's run rounded them."""
        import keras

        inner = [self._names[id(one)] for one in layers_of(layer).values() if id(one) in self._names]
        self.inside |= dict.fromkeys(inner, name)
        self.inside.pop(name, None)
        kind, words, is_foreign = _described(layer)
        has_exp = is_foreign or EXP_FAMILY.search(words) is not None
        marks = Marks(frozenset({name}), has_exp=has_exp, around=frozenset(inner))
        for value in leaves((args, kwargs), _is_value):
            marks |= value.marks
        stored = self._forcing.dtypes([name])
        low = precision(stored)[0] if stored else self._coarsest
        given = with_leaves("", (args, kwargs), _is_value, lambda _, one: _cast(one.own, low))
        plain, is_random = self._own.run(layer, *given, low=low)
        if is_foreign and not is_random:
            # Nothing says what a function of one's own draws from.
            again, is_random = self._own.run(layer, *given, low=low)
            both = zip(*(leaves(one, keras.ops.is_tensor) for one in (plain, again)), strict=True)
            is_random |= any(_array(one).tobytes() != _array(other).tobytes() for one, other in both)
        if is_random:
            marks = marks._replace(random=kind)
        given = with_leaves("", (args, kwargs), _is_value, lambda _, one: _rounded(one.exact, low))
        try:
            wide = leaves(self._exact.run(layer, *given, low=low)[0], keras.ops.is_tensor)
        except Exception:
            wide = []
        made = leaves(plain, keras.ops.is_tensor)
        if len(wide) != len(made):
            # What follows is judged from the left's own values again.
            wide, marks = made, marks | Marks(single=kind)
        exact = iter(wide)
        return with_leaves("", plain, keras.ops.is_tensor, lambda _, one: _value(one, next(exact), marks, kind))

    def _put(self, name: str, slot: int, value: _Value) -> _Value:
        """Judge what the left has of an output, and go on with it."""
        place = ForcedPlace(name, slot, self._calls[name, slot])
        self._calls[name, slot] += 1
        if not self._forcing.wants(place):
            return value
        left = self._forcing.put(place, _array(value.own), _array(value.exact), value.marks)
        return value if left is None else _Value(_like(value.own, left), _like(value.exact, left), Marks())


class _Precision:
    """Runs layers in a precision that they have only while they run; what they write is kept for their next call."""

    def __init__(self, dtype: str) -> None:
        import keras

        self._dtype = dtype
        self._scope = keras.StatelessScope(initialize_variables=False)

    def run(self, layer: Any, args: Any, kwargs: Any, *, low: str) -> tuple[Any, bool]:
        """Return what a layer or an operation gives, and whether it drew random numbers."""
        import keras

        is_low = low != "float32"
        policy = keras.DTypePolicy(f"mixed_{low}" if is_low and self._dtype == "float32" else self._dtype)
        weights, values = {id(one): one for one in getattr(layer, "weights", ())}, self._scope.state_mapping
        with ExitStack() as stack:
            for weight in weights.values():
                if weight.dtype != self._dtype and _is_float(weight):
                    if id(weight) not in values:
                        # The run rounded those that are cast to what it computes in.
                        value = _rounded(weight.value, low) if weight._autocast else weight.value
                        values[id(weight)] = _cast(value, self._dtype)
                    _set(stack, weight, "_dtype", self._dtype)
            for one in layers_of(layer).values():
                known = getattr(one, "_dtype_policy", None)
                # What computes whole numbers, or is quantized, stays; an operation that casts is one by itself.
                if known is None and vars(one).get("dtype") in _LOWER and self._dtype == "float64":
                    _set(stack, one, "dtype", self._dtype)
                elif known is not None and known.quantization_mode is None and "float" in str(known.compute_dtype):
                    _set(stack, one, "_dtype_policy", policy)
            stack.callback(keras.config.set_floatx, keras.config.floatx())
            keras.config.set_floatx(self._dtype)
            stack.enter_context(self._scope)
            before = dict(values)
            result = layer(*args, **kwargs)
        # Beside weights, layers write to the states of generators.
        written = {key for key, value in values.items() if before.get(key) is not value}
        return result, bool(written - weights.keys())


def _set(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _graph_of(layer: Any) -> Any:
    """Return the graph of a functional or sequential model; ``None`` of others, and where `call` is a class's own."""
    graph = getattr(layer, "_functional", None) or layer
    has_own = not getattr(getattr(type(layer), "call", None), "__module__", "").startswith("keras.")
    return None if has_own or not hasattr(graph, "_run_through_graph") else graph


def _fits(graph: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a graph is called with its inputs alone, of the shapes that it has."""
    if len(args) != 1 or any(value is not None for name, value in kwargs.items() if name != "training"):
        return False
    given = _in_order(graph, args[0])
    return len(given) == len(graph.inputs) and all(
        _is_value(one) and len(one.own.shape) == len(wanted.shape)
        for one, wanted in zip(given, graph.inputs, strict=True)
    )


def _in_order(graph: Any, given: Any) -> list[Any]:
    """Return what a graph is given in the order of its inputs."""
    import keras

    if isinstance(given, Mapping) and not isinstance(graph._inputs_struct, Mapping):
        return [given[one.name] for one in graph.inputs if one.name in given]
    flat: list[Any] = keras.tree.flatten(given)
    return flat


def _described(layer: Any) -> tuple[str, str, bool]:
    """Return a layer's type, the names of all that runs in it, and whether some of that is not Keras' own."""
    parts = [*layers_of(layer).values()]
    functions = [
        function
        for one in parts
        for name in ("activation", "recurrent_activation", "function")
        if callable(function := getattr(one, name, None))
    ]
    kinds = [*map(type, parts), *(one if hasattr(one, "__name__") else type(one) for one in functions)]
    words = " ".join(kind.__name__ for kind in kinds).lower()
    return kinds[0].__name__, words, not all(str(kind.__module__).startswith("keras.") for kind in kinds)


def _is_value(one: Any) -> bool:
    return isinstance(one, _Value)


def _value(own: Any, exact: Any, marks: Marks, kind: str = "") -> _Value:
    """Return a tensor of both runs; one of a layer that had to compute in float64, and did not, says so."""
    is_single = kind and _is_float(exact) and _dtype_of(exact) != "float64"
    return _Value(own, _cast(exact, "float64"), marks | Marks(single=kind) if is_single else marks)


def _dtype_of(tensor: Any) -> str:
    import keras

    return str(keras.backend.standardize_dtype(tensor.dtype))


def _is_float(tensor: Any) -> bool:
    return "float" in _dtype_of(tensor)


def _cast(tensor: Any, dtype: str) -> Any:
    """Return a float in a precision, with the mask that Keras keeps with it; others as they are."""
    import keras

    return _masked(keras.ops.cast(tensor, dtype), tensor) if _is_float(tensor) else tensor


def _rounded(tensor: Any, low: str) -> Any:
    return tensor if low == "float32" else _cast(_cast(tensor, low), "float64")


def _masked(tensor: Any, other: Any) -> Any:
    mask = getattr(other, "_keras_mask", None)
    if mask is not None:
        tensor._keras_mask = mask
    return tensor


def _like(tensor: Any, values: Any) -> Any:
    """Return the left's values in the place of a tensor."""
    import keras

    return _masked(keras.ops.convert_to_tensor(values, dtype=_dtype_of(tensor)), tensor)


def _array(tensor: Any) -> Any:
    import keras

    return keras.ops.convert_to_numpy(_cast(tensor, "float32") if _dtype_of(tensor) == "bfloat16" else tensor)

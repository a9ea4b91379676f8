"""What recording a Keras model needs of the library that computes it: TensorFlow or PyTorch."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from pytest_msdump.capabilities.frameworks import tf_graphs
from pytest_msdump.capabilities.record import torch_tensors
from pytest_msdump.core.errors import ConfigError, missing_package

_EAGER_DATA = r"Even though the `tf\.config\.experimental_run_functions_eagerly`"

# Writes the gradient of a tensor: the name of what it belongs to, the slot, the gradient.
WriteGradient = Callable[[str, int, Any], None]


class KerasBackend(ABC):
    """The library that a Keras model computes with."""

    name: str

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Whether `value` is a tensor or a variable, or one that Keras stands in for."""

    @abstractmethod
    def is_symbolic(self, tensor: Any) -> bool:
        """Whether a tensor has no numbers yet."""

    @abstractmethod
    def array_of(self, tensor: Any) -> Any:
        """Return an array, ``None`` where there are no numbers."""

    @abstractmethod
    def run_facts(self, model: Any) -> Mapping[str, Any]:
        """Return what the manifest says of the library, the device and the seed."""

    @abstractmethod
    def run_eagerly(self, stack: ExitStack) -> None:
        """Run functions uncompiled until the stack is closed."""

    @abstractmethod
    def gradients(self, write: WriteGradient) -> KerasGradients:
        """Return what finds the gradients of a recording."""


class KerasGradients(ABC):
    """Finds the gradients of what layers took and gave, and of weights; `write` gets each of them."""

    def __init__(self, write: WriteGradient) -> None:
        self.write = write

    @abstractmethod
    def watch(self, variables: Mapping[str, Any], stack: ExitStack) -> None:
        """Find those of weights by name, and of all that `came_back` is given, until the stack is closed."""

    @abstractmethod
    def came_back(self, name: str, tensors: Sequence[Any]) -> None:
        """Find those of the tensors that a layer took, or gave."""

    def forget(self) -> None:
        """Drop the tensors whose gradients are wanted."""
        return


class _TensorFlow(KerasBackend):
    name = "tensorflow"
    is_tensor = staticmethod(tf_graphs.is_tensor)
    is_symbolic = staticmethod(tf_graphs.is_symbolic)
    array_of = staticmethod(tf_graphs.array_of)

    def run_facts(self, model: Any) -> Mapping[str, Any]:  # noqa: ARG002
        import tensorflow as tf
        from tensorflow.python.eager import context

        # TensorFlow's public function for what ``tf.random.set_seed`` was given would draw a number.
        seed = context.global_seed()
        return {
            "framework": "tensorflow",
            "version": tf_graphs.version(),
            "device": "gpu" if tf.config.list_logical_devices("GPU") else "cpu",
            "seeds": {} if seed is None else {"tensorflow": int(seed)},
        }

    def run_eagerly(self, stack: ExitStack) -> None:
        import tensorflow as tf

        stack.callback(tf.config.run_functions_eagerly, tf.config.functions_run_eagerly())
        tf.config.run_functions_eagerly(True)
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", _EAGER_DATA)

    def gradients(self, write: WriteGradient) -> KerasGradients:
        return _GradientsOfTape(write)


class _Watched(NamedTuple):
    """A tensor whose gradient is wanted, and where it goes."""

    name: str
    slot: int
    tensor: Any


class _GradientsOfTape(KerasGradients):
    """Asks a ``tf.GradientTape``, when it is asked for gradients, for those to record as well."""

    def __init__(self, write: WriteGradient) -> None:
        super().__init__(write)
        self._tensors: list[_Watched] = []
        self._weights: dict[int, str] = {}
        self._variables: Mapping[str, Any] = {}

    def watch(self, variables: Mapping[str, Any], stack: ExitStack) -> None:
        import tensorflow as tf

        self._variables = variables
        replace_method(stack, tf.GradientTape, "gradient", self.differentiated)

    def came_back(self, name: str, tensors: Sequence[Any]) -> None:
        self._tensors += [
            _Watched(name, slot, tensor)
            for slot, tensor in enumerate(tensors)
            if hasattr(tensor, "dtype") and (tensor.dtype.is_floating or tensor.dtype.is_complex)
        ]

    def forget(self) -> None:
        self._tensors.clear()

    def differentiated(
        self, method: Callable[..., Any], tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Ask a tape for the gradients that are wanted, and in the same pass for those to record."""
        import tensorflow as tf

        if not tf.executing_eagerly():
            return method(tape, target, sources, *args, **kwargs)
        tensors = list({id(watched.tensor): watched.tensor for watched in self._tensors}.values())
        result, own = method(tape, target, [sources, tensors], *args, **kwargs)
        found = dict(zip(map(id, tensors), own, strict=True))
        for watched in reversed(self._tensors):
            self._write(watched.name, watched.slot, found[id(watched.tensor)])
        names: dict[int, str] = {}
        for name, variable in self._variables.items():
            names |= {id(variable): name, id(variable.value): name}
        for source, gradient in reversed(list(zip(tf.nest.flatten(sources), tf.nest.flatten(result), strict=True))):
            if id(source) in names:
                self._write(f"{names[id(source)]}/grad", 0, gradient)
        return result

    def _write(self, name: str, slot: int, gradient: Any) -> None:
        if gradient is not None and not tf_graphs.is_symbolic(gradient):
            self.write(name, slot, gradient)


class _Torch(KerasBackend):
    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        import keras

        return torch_tensors.is_tensor(value) or isinstance(value, (keras.KerasTensor, keras.Variable))

    def is_symbolic(self, tensor: Any) -> bool:
        import keras

        # To find shapes, Keras calls layers with tensors of PyTorch that have nothing else.
        return isinstance(tensor, keras.KerasTensor) or getattr(getattr(tensor, "device", None), "type", "") == "meta"

    def array_of(self, tensor: Any) -> Any:
        import keras

        return keras.ops.convert_to_numpy(tensor)

    def run_facts(self, model: Any) -> Mapping[str, Any]:
        return torch_tensors.run_facts(model)

    def run_eagerly(self, stack: ExitStack) -> None:
        import torch

        stack.enter_context(torch.compiler.set_stance("force_eager"))

    def gradients(self, write: WriteGradient) -> KerasGradients:
        return _GradientsOfHooks(write)


class _GradientsOfHooks(KerasGradients):
    """Has PyTorch call when the gradient of a tensor, summed over all that it was used for, is there."""

    def watch(self, variables: Mapping[str, Any], stack: ExitStack) -> None:
        for name, variable in variables.items():
            if variable.value.requires_grad:
                stack.callback(variable.value.register_hook(partial(self._arrived, f"{name}/grad", 0)).remove)

    def came_back(self, name: str, tensors: Sequence[Any]) -> None:
        for slot, tensor in enumerate(tensors):
            if getattr(tensor, "requires_grad", False):
                tensor.register_hook(partial(self._arrived, name, slot))

    def _arrived(self, name: str, slot: int, gradient: Any) -> None:
        self.write(name, slot, gradient)


_BACKENDS: Mapping[str, type[KerasBackend]] = {"tensorflow": _TensorFlow, "torch": _Torch}


def keras_backend() -> KerasBackend:
    """Return what Keras computes with here; ConfigError where that is another library."""
    try:
        import keras
    except ModuleNotFoundError as error:
        raise missing_package(error, need="recording") or error from error
    name = keras.config.backend()
    if name not in _BACKENDS:
        raise ConfigError(f"Keras runs on {name} here; set KERAS_BACKEND=tensorflow or torch before Keras is imported")
    return _BACKENDS[name]()


def replace_method(stack: ExitStack, owner: type, name: str, around: Callable[..., Any]) -> None:
    """Have calls of a method go through `around`, which is given the method first, until the stack is closed."""
    method = vars(owner)[name]

    def through(*args: Any, **kwargs: Any) -> Any:
        return around(method, *args, **kwargs)

    setattr(owner, name, through)
    stack.callback(setattr, owner, name, method)

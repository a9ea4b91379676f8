"""A model as it is named on a command line, in each framework: how it is loaded, what it takes, how it is recorded."""

from __future__ import annotations

import inspect
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_msdump.capabilities.frameworks.onnx import load_model
from pytest_msdump.capabilities.frameworks.recorder import Recorder
from pytest_msdump.capabilities.programs.functions import load_function, running
from pytest_msdump.capabilities.weights.weights import load
from pytest_msdump.core.errors import ConfigError, TensorFileError

Inputs = Mapping[str, NDArray[Any]]

# Lengths of axes that a model leaves open: the first of a tensor, and the others.
_OPEN_BATCH, _OPEN_LENGTH = 2, 8
_PASSED_BY_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Declared(NamedTuple):
    """One input as a model declares it: axes without a length are texts, equal ones of equal length, or ``None``.

    Integers are below `bound`: the rows of the table that they choose from, or 2, since others are masks or types.
    """

    name: str
    shape: tuple[int | str | None, ...]
    dtype: str
    bound: int = 2


class Side(ABC):
    """A model in one framework; `text` is what was typed."""

    option: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def file(self) -> Path:
        """The file of the model or of its function."""
        return Path(self.text.rpartition(":")[0])

    @cached_property
    def made(self) -> tuple[Any, Inputs | None]:
        """The model, and the inputs that its function returned beside it."""
        with running(self.file, self.text):
            result = load_function(self.text, example=f"--{self.option} net.py:build")()
        model, given = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        return self.checked(model), None if given is None else _named_inputs(given, self.text)

    @property
    def inputs(self) -> Inputs | None:
        """The inputs that the function returned."""
        return self.made[1]

    @property
    def declared(self) -> list[Declared]:
        """The inputs that the model itself declares; empty where it does not."""
        return []

    def checked(self, model: Any) -> Any:
        """Return a model that the function returned; ConfigError where it is none of this framework."""
        return model

    def record(self, inputs: Inputs, directory: Path) -> None:
        """Run the model once and record it; ConfigError, of one line, for what it raises."""
        with running(self.file, self.text):
            self.run(inputs, directory)

    @abstractmethod
    def run(self, inputs: Inputs, directory: Path) -> None:
        """Run the model and record it."""

    def refuse(self, model: Any, wanted: str) -> ConfigError:
        """Return the error for a function that returned something else than `wanted`."""
        return ConfigError(f"{self.text}: returned {type(model).__name__}; return {wanted}, or that and its inputs")


class TorchSide(Side):
    """A PyTorch module, in evaluation mode."""

    option, title = "torch", "PyTorch"

    def checked(self, model: Any) -> Any:
        """Demand a module."""
        if not hasattr(model, "named_modules"):
            raise self.refuse(model, "a torch.nn.Module")
        return model.eval()

    def run(self, inputs: Inputs, directory: Path) -> None:
        """Run ``forward`` without gradients."""
        import torch

        model = self.made[0]
        tensors = {name: torch.tensor(array) for name, array in inputs.items()}
        with Recorder(directory.parent).torch(model, directory=directory), torch.no_grad():
            _call(model, model.forward, tensors)


class MindSporeSide(Side):
    """A MindSpore cell in PyNative mode, not training."""

    option, title = "mindspore", "MindSpore"

    def checked(self, model: Any) -> Any:
        """Demand a cell."""
        if not hasattr(model, "cells_and_names"):
            raise self.refuse(model, "a mindspore.nn.Cell")
        return model.set_train(False)

    def run(self, inputs: Inputs, directory: Path) -> None:
        """Run ``construct``."""
        import mindspore

        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        model = self.made[0]
        tensors = {name: mindspore.Tensor(array) for name, array in inputs.items()}
        with Recorder(directory.parent).mindspore(model, directory=directory):
            _call(model, model.construct, tensors)


class KerasSide(Side):
    """A Keras model, not training."""

    option, title = "keras", "Keras"

    @property
    def declared(self) -> list[Declared]:
        """The model's inputs, where it is not a class of one's own."""
        model = self.made[0]
        # Which table an input chooses from is not said: the smallest suits each.
        bound = min((layer.input_dim for layer in model._flatten_layers() if hasattr(layer, "embeddings")), default=2)
        found = getattr(model, "inputs", None) or []
        return [Declared(one.name, tuple(one.shape), str(one.dtype), bound) for one in found]

    def checked(self, model: Any) -> Any:
        """Demand a model."""
        if not hasattr(model, "layers"):
            raise self.refuse(model, "a keras.Model")
        return model

    def run(self, inputs: Inputs, directory: Path) -> None:
        """Call the model; several inputs are given as a list."""
        model, arrays = self.made[0], [*inputs.values()]
        with Recorder(directory.parent).keras(model, directory=directory):
            model(arrays[0] if len(arrays) == 1 else arrays, training=False)


class OnnxSide(Side):
    """An ONNX file, run by ONNX Runtime."""

    option, title = "onnx", "ONNX"

    @property
    def file(self) -> Path:
        """The file of the model."""
        return Path(self.text)

    @cached_property
    def made(self) -> tuple[Any, Inputs | None]:
        """The model."""
        return load_model(self.file), None

    @property
    def declared(self) -> list[Declared]:
        """The inputs of the graph, weights left out."""
        from onnx.helper import tensor_dtype_to_np_dtype

        graph = self.made[0].proto.graph
        weights = {one.name: one for one in graph.initializer}
        rows = {
            node.input[1]: weights[node.input[0]].dims[0]
            for node in graph.node
            if node.op_type == "Gather" and node.input[0] in weights and not any(one.i for one in node.attribute)
        }
        declared = []
        for one in graph.input:
            kind = one.type.tensor_type
            if one.name not in weights and one.type.HasField("tensor_type"):
                axes = tuple(
                    axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in kind.shape.dim
                )
                dtype = str(tensor_dtype_to_np_dtype(kind.elem_type))
                declared.append(Declared(one.name, axes, dtype, rows.get(one.name, 2)))
        return declared

    def run(self, inputs: Inputs, directory: Path) -> None:
        """Run all nodes; inputs of other names are taken in their order."""
        names = [one.name for one in self.declared]
        if len(names) != len(inputs):
            raise ConfigError(f"{self.text}: takes {', '.join(names)}, and the inputs are {', '.join(inputs)}")
        feeds = dict(inputs) if inputs.keys() == set(names) else dict(zip(names, inputs.values(), strict=True))
        with Recorder(directory.parent).onnx(self.file, directory=directory) as recording:
            recording.run(None, feeds)


# In the order in which they are the reference: a model is ported from PyTorch rather than to it.
SIDES: tuple[type[Side], ...] = (TorchSide, KerasSide, OnnxSide, MindSporeSide)


def draw(declared: Iterable[Declared]) -> Inputs:
    """Draw inputs as a model declares them, the same at each call: normal floats, integers below their bound."""
    lengths: dict[str, int] = {}
    drawn = {}
    for one in declared:
        shape = []
        for place, axis in enumerate(one.shape):
            default = _OPEN_LENGTH if place else _OPEN_BATCH
            shape.append(lengths.setdefault(axis, default) if isinstance(axis, str) else axis or default)
        random = np.random.default_rng(zlib.crc32(one.name.encode()))
        is_float = np.dtype(one.dtype).kind == "f"
        values = random.standard_normal(shape) if is_float else random.integers(0, one.bound, shape)
        drawn[one.name] = values.astype(one.dtype)
    return drawn


def read_inputs(path: str) -> Inputs:
    """Read the arrays of an archive, in its order, which tells inputs of other names apart; else ConfigError."""
    try:
        found = load(Path(path))
    except TensorFileError as error:
        raise ConfigError(f"--inputs: {error}") from None
    return {name: np.asarray(values) for name, values in found.items()}


def _named_inputs(given: Any, text: str) -> Inputs:
    """Return tensors of any framework as arrays, by name, or by place where they have none."""
    several = given if isinstance(given, (Mapping, tuple, list)) else (given,)
    named = several if isinstance(several, Mapping) else {f"input_{at}": one for at, one in enumerate(several)}
    arrays = {str(name): _array_of(value) for name, value in named.items()}
    if not arrays or any(array.dtype.kind not in "fiub" for array in arrays.values()):
        raise ConfigError(f"{text}: the inputs beside the model must be tensors of numbers, one, a list or a dict")
    return arrays


def _array_of(value: Any) -> NDArray[Any]:
    detached = value.detach() if hasattr(value, "detach") else value
    made = detached.asnumpy() if hasattr(detached, "asnumpy") else np.asarray(detached)
    array: NDArray[Any] = np.ascontiguousarray(made)
    return array


def _call(model: Callable[..., Any], signed: Callable[..., Any], tensors: Mapping[str, Any]) -> None:
    """Call a model by the names of its parameters where these are the inputs' names, else in their order."""
    parameters = inspect.signature(signed).parameters
    if tensors.keys() <= parameters.keys():
        model(**tensors)
        return
    places = [one for one in parameters.values() if one.kind in _PASSED_BY_ORDER]
    takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters.values())
    if len(tensors) > len(places) and not takes_any:
        raise ConfigError(f"takes {', '.join(one.name for one in places)}, and the inputs are {', '.join(tensors)}")
    model(*tensors.values())

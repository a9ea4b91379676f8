"""Reads the weights of models of PyTorch, MindSpore and Keras, and of mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from pytest_msdump.dtypes.arrays import RawArray, array_to_save, decode_raw
from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.operators import COUNTERS
from pytest_msdump.record.weight_rules import FRAMEWORKS, kind_of, neutral_role

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Weight:
    """One weight as its framework holds it.

    `values` are in the framework's own axes; bit patterns of the logical type `dtype` where numpy lacks it. `layer` is
    the type of its layer: a name of `weight_rules.KINDS`, another class, or empty where it is unknown. `framework` says
    whose axes it has, `own` is its name there; `also` are further neutral names of the same tensor, which layers share.
    """

    values: Array
    dtype: str
    layer: str = ""
    framework: str = ""
    own: str = ""
    also: tuple[str, ...] = ()

    def numbers(self) -> Array:
        """Return the exact values in a type that numpy has."""
        if self.values.dtype.name == self.dtype:
            return self.values
        return decode_raw(RawArray(self.values, self.values.shape, self.dtype))[0]


# Neutral name → weight, in the order of the model.
Weights = dict[str, Weight]


@dataclass(slots=True)
class Holder:
    """A tensor inside of a model: where its weight is read from and written to."""

    tensor: Any
    layer: str
    own: str
    also: tuple[str, ...] = ()


def framework_of(model: Any) -> str:
    """Return the framework of a model by the names of its classes, without importing any; empty when it is of none."""
    for each in type(model).__mro__:
        name, home = each.__name__, each.__module__.partition(".")[0]
        if (name, home) in (("Module", "torch"), ("Cell", "mindspore")):
            return home
        if name in ("Model", "Layer") and home in ("keras", "tf_keras", "tensorflow"):
            return "keras"
    return ""


def of_model(model: Any) -> Weights:
    """Read the weights of a model."""
    framework = framework_of(model)
    return {name: _weight(holder, framework) for name, holder in holders(model).items()}


def of_mapping(arrays: Mapping[str, Any], framework: str) -> Weights:
    """Read weights by name, where ``/`` separates like ``.`` does; two names of one weight are an error."""
    found: Weights = {}
    for own, array in arrays.items():
        *path, last = own.partition(":")[0].replace("/", ".").split(".")
        name = _joined(".".join(path), neutral_role(last, ""))
        if last in COUNTERS:
            continue
        if name in found:
            raise ConfigError(f"'{found[name].own}' and '{own}' are both the weight {name}; leave one out")
        found[name] = replace(_of_array(array), framework=FRAMEWORKS[framework], own=own)
    return found


def holders(model: Any) -> dict[str, Holder]:
    """Return the tensors of a model by neutral name, in its order; one that layers share has its first name."""
    walk = _WALKS[framework_of(model)]
    found: dict[str, Holder] = {}
    names: dict[int, str] = {}
    for path, layer, own, tensor in walk(model):
        name = _joined(path, neutral_role(own, layer))
        if own in COUNTERS or name in found:
            continue
        if (first := names.setdefault(id(tensor), name)) != name:
            found[first].also += (name,)
        else:
            found[name] = Holder(tensor, layer, _joined(path, own))
    return found


def _weight(holder: Holder, framework: str) -> Weight:
    # A variable of Keras holds a tensor of its backend.
    tensor = holder.tensor.value if framework == "keras" else holder.tensor
    weight = _of_array(tensor() if callable(tensor) else tensor)
    return replace(weight, layer=holder.layer, framework=framework, own=holder.own, also=holder.also)


def _of_array(array: Any) -> Weight:
    values, logical = array_to_save(array)
    # Memory may be the model's own, which training changes.
    return Weight(values.copy(), logical or values.dtype.name)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# Path, type of layer, own name and tensor of each weight of a model.
_Walk = Iterator[tuple[str, str, str, Any]]


def _torch(model: Any) -> _Walk:
    for path, module in model.named_modules(remove_duplicate=False):
        layer = kind_of(type(module).__mro__, "torch")
        for name, tensor in module.named_parameters(recurse=False, remove_duplicate=False):
            yield path, layer, name, tensor
        for name, tensor in module.named_buffers(recurse=False):
            # Buffers that are not saved are no weights: they are computed.
            if name not in module._non_persistent_buffers_set:
                yield path, layer, name, tensor


def _mindspore(network: Any) -> _Walk:
    for path, cell in network.cells_and_names():
        layer = kind_of(type(cell).__mro__, "mindspore")
        yield from ((path, layer, name, held) for name, held in cell.parameters_and_names(expand=False))


def _keras(model: Any) -> _Walk:
    # From the outside in: the last layer that has a variable is the one that made it.
    layers = {id(variable): layer for layer in model._flatten_layers() for variable in layer.weights}
    root = f"{model.name}/"
    for variable in model.weights:
        path = getattr(variable, "path", variable.name).partition(":")[0].removeprefix(root)
        layer, _, own = path.rpartition("/")
        kind = kind_of(type(layers[id(variable)]).__mro__, "keras")
        yield layer.replace("/", "."), kind, own, variable


_WALKS: dict[str, Callable[[Any], _Walk]] = {"torch": _torch, "mindspore": _mindspore, "keras": _keras}

"""Weights of PyTorch, MindSpore and Keras, and of mappings: how frameworks name and arrange them, and reading them.

The neutral names are PyTorch's (``weight``, ``bias``, ``running_mean``, ``running_var``), and so are the neutral axes:
``(out, in)`` of a dense layer, ``(out, in / groups, …)`` of a convolution, ``(in, out / groups, …)`` of a transposed
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dtypes.arrays import RawArray, array_to_save, decode_raw
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.operators import COUNTERS, NEUTRAL_WEIGHT_NAMES

Array = npt.NDArray[Any]

# Name that a user may give → framework whose tables are used; without one, names and axes are neutral already.
FRAMEWORKS = {"": "", "torch": "torch", "mindspore": "mindspore", "keras": "keras", "tensorflow": "keras"}


class LayoutRule(NamedTuple):
    """How to bring an array to the neutral axes."""

    order: tuple[int, ...]
    folded: bool = False
    dropped: int | None = None

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether the rule is for arrays of this shape."""
        return len(shape) == len(self.order) and (self.dropped is None or shape[self.dropped] == 1)

    def neutral(self, values: Array) -> Array:
        """Return the array in neutral axes."""
        turned: Array = values.transpose(self.order)
        if self.folded:
            turned = turned.reshape(turned.shape[0] * turned.shape[1], 1, *turned.shape[2:])
        return turned if self.dropped is None else turned.squeeze(self.dropped)

    def own(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Return an array of `shape` from one in neutral axes, which has the `neutral_shape` of it."""
        if self.dropped is not None:
            values = np.expand_dims(values, self.dropped)
        if self.folded:
            values = values.reshape([shape[axis] for axis in self.order])
        turned: Array = values.transpose(np.argsort(self.order))
        return turned

    def neutral_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape in neutral axes."""
        return self.neutral(np.broadcast_to(np.False_, shape)).shape


# Type of layer → the names that classes of it have, in any framework.
KINDS: dict[str, tuple[str, ...]] = {
    "Dense": ("Linear", "Dense"),
    "Conv1d": ("Conv1d", "Conv1D"),
    "Conv2d": ("Conv2d", "Conv2D"),
    "Conv3d": ("Conv3d", "Conv3D"),
    "ConvTranspose1d": ("ConvTranspose1d", "Conv1dTranspose", "Conv1DTranspose"),
    "ConvTranspose2d": ("ConvTranspose2d", "Conv2dTranspose", "Conv2DTranspose"),
    "ConvTranspose3d": ("ConvTranspose3d", "Conv3dTranspose", "Conv3DTranspose"),
    "DepthwiseConv1d": ("DepthwiseConv1D",),
    "DepthwiseConv2d": ("DepthwiseConv2D",),
    "BatchNorm": ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "BatchNormalization"),
    "LayerNorm": ("LayerNorm", "LayerNormalization"),
    "GroupNorm": ("GroupNorm", "GroupNormalization"),
    "InstanceNorm": ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
    "RMSNorm": ("RMSNorm", "RmsNorm", "RMSNormalization"),
    "Embedding": ("Embedding", "EmbeddingLookup"),
    "PReLU": ("PReLU",),
}
_BY_CLASS = {name: kind for kind, names in KINDS.items() for name in names}

# Types that are another one in other frameworks.
_SAME = {"DepthwiseConv1d": "Conv1d", "DepthwiseConv2d": "Conv2d"}

# Own name → neutral name, in layers of these types. `kernel` alone says nothing of the axes, so only the type decides.
_NORM = {**NEUTRAL_WEIGHT_NAMES, "scale": "weight"}
_NAMES: dict[str, Mapping[str, str]] = {
    **dict.fromkeys(("BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm"), _NORM),
    "Embedding": NEUTRAL_WEIGHT_NAMES,
    "PReLU": {"w": "weight", "alpha": "weight"},
    "": {"kernel": "weight", "depthwise_kernel": "weight"},
}

_RULES: dict[tuple[str, str], LayoutRule] = {
    ("keras", "Dense"): LayoutRule((1, 0)),
    ("keras", "Conv1d"): LayoutRule((2, 1, 0)),
    ("keras", "Conv2d"): LayoutRule((3, 2, 0, 1)),
    ("keras", "Conv3d"): LayoutRule((4, 3, 0, 1, 2)),
    # The kernel of a transposed one is (…, out, in), so the same order gives (in, out, …).
    ("keras", "ConvTranspose1d"): LayoutRule((2, 1, 0)),
    ("keras", "ConvTranspose2d"): LayoutRule((3, 2, 0, 1)),
    ("keras", "ConvTranspose3d"): LayoutRule((4, 3, 0, 1, 2)),
    ("keras", "DepthwiseConv1d"): LayoutRule((1, 2, 0), folded=True),
    ("keras", "DepthwiseConv2d"): LayoutRule((2, 3, 0, 1), folded=True),
    # MindSpore runs them as convolutions over an image that is one high.
    ("mindspore", "Conv1d"): LayoutRule((0, 1, 2, 3), dropped=2),
    ("mindspore", "ConvTranspose1d"): LayoutRule((0, 1, 2, 3), dropped=2),
}


def kind_of(classes: Sequence[type], framework: str) -> str:
    """Return the type of a layer, a name of `KINDS`, or the name of its class when the tables do not know it."""
    homes = ("keras", "tensorflow", "tf_keras") if framework == "keras" else (framework,)
    for name, module in ((each.__name__, each.__module__) for each in classes):
        if module.partition(".")[0] in homes and name in _BY_CLASS:
            return _BY_CLASS[name]
    return classes[0].__name__


def neutral_role(own: str, layer: str) -> str:
    """Return the neutral name of a weight within its layer; an unknown one keeps its own."""
    if own in (table := _NAMES.get(layer, {})):
        return table[own]
    if not layer:
        return NEUTRAL_WEIGHT_NAMES.get(own, own)
    return _NAMES[""].get(own, own)


def rule_for(framework: str, layer: str, role: str, shape: tuple[int, ...]) -> LayoutRule | None:
    """Return how a weight is brought to the neutral axes, or ``None`` where it has them."""
    rule = _RULES.get((framework, layer)) if role == "weight" else None
    # Newer layers of MindSpore have the neutral axes; the axis of one distinguishes the two.
    return None if rule is not None and rule.dropped is not None and not rule.fits(shape) else rule


def same_kind(layer: str) -> str:
    """Return the type that a layer has in all frameworks; empty when the tables do not know it."""
    return _SAME.get(layer, layer) if layer in KINDS else ""


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weight:
    """One weight as its framework holds it."""

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

"""How frameworks name and arrange the weights of a layer: tables of names, axes and layer types.

The neutral names are PyTorch's (``weight``, ``bias``, ``running_mean``, ``running_var``), and so are the neutral axes:
``(out, in)`` of a dense layer, ``(out, in / groups, …)`` of a convolution, ``(in, out / groups, …)`` of a transposed
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.facts.operators import NEUTRAL_WEIGHT_NAMES

Array = npt.NDArray[Any]

# Name that a user may give → framework whose tables are used; without one, names and axes are neutral already.
FRAMEWORKS = {"": "", "torch": "torch", "mindspore": "mindspore", "keras": "keras", "tensorflow": "keras"}


class Rule(NamedTuple):
    """How to bring an array to the neutral axes.

    `order` are its axes in the neutral order. If `folded`, the first two of these become one axis, and an axis of one
    follows: a depthwise convolution. `dropped` is an axis of one that the neutral form lacks.
    """

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

_RULES: dict[tuple[str, str], Rule] = {
    ("keras", "Dense"): Rule((1, 0)),
    ("keras", "Conv1d"): Rule((2, 1, 0)),
    ("keras", "Conv2d"): Rule((3, 2, 0, 1)),
    ("keras", "Conv3d"): Rule((4, 3, 0, 1, 2)),
    # The kernel of a transposed one is (…, out, in), so the same order gives (in, out, …).
    ("keras", "ConvTranspose1d"): Rule((2, 1, 0)),
    ("keras", "ConvTranspose2d"): Rule((3, 2, 0, 1)),
    ("keras", "ConvTranspose3d"): Rule((4, 3, 0, 1, 2)),
    ("keras", "DepthwiseConv1d"): Rule((1, 2, 0), folded=True),
    ("keras", "DepthwiseConv2d"): Rule((2, 3, 0, 1), folded=True),
    # MindSpore runs them as convolutions over an image that is one high.
    ("mindspore", "Conv1d"): Rule((0, 1, 2, 3), dropped=2),
    ("mindspore", "ConvTranspose1d"): Rule((0, 1, 2, 3), dropped=2),
}


def kind_of(classes: Sequence[type], framework: str) -> str:
    """Return the type of a layer, a name of `KINDS`, or the name of its class when the tables do not know it.

    `classes` are the layer's class and its bases. Only those that the framework itself defines count: another
    ``Linear`` may have other axes.
    """
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


def rule_for(framework: str, layer: str, role: str, shape: tuple[int, ...]) -> Rule | None:
    """Return how a weight is brought to the neutral axes, or ``None`` where it has them."""
    rule = _RULES.get((framework, layer)) if role == "weight" else None
    # Newer layers of MindSpore have the neutral axes; the axis of one distinguishes the two.
    return None if rule is not None and rule.dropped is not None and not rule.fits(shape) else rule


def same_kind(layer: str) -> str:
    """Return the type that a layer has in all frameworks; empty when the tables do not know it."""
    return _SAME.get(layer, layer) if layer in KINDS else ""

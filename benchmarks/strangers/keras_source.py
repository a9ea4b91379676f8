"""Ports of models to Keras by hand, channels last, dumped as people do it: a model of the outputs of all layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property, reduce
from random import Random
from typing import Any

import numpy as np
from torch import nn

from .mistakes import NoPlaceError
from .port import Model
from .source import Source
from .tensors import Recording, Tensor
from .truth import Meaning, distance, is_plain

__all__ = ["KERAS", "KerasSource"]

# TensorFlow says much about the processor.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_SAME = 1e-4
# Layer → the reference's module. Keras itself gives the names of LeNet's.
_LENET = {
    "conv2d": "conv1", "re_lu": "relu1", "max_pooling2d": "pool1", "conv2d_1": "conv2", "re_lu_1": "relu2",
    "max_pooling2d_1": "pool2", "dense": "fc1", "re_lu_2": "relu3", "dense_1": "fc2", "re_lu_3": "relu4",
    "dense_2": "fc3",
}  # fmt: skip
_ENCODER = {"token_embedding": "embedding", "logits": "classifier"}
for _number in range(2):
    _ENCODER |= {f"encoder_{_number}_{ours}": f"layers.{_number}.{theirs}" for ours, theirs in (
        ("query", "self_attn.q_proj"), ("key", "self_attn.k_proj"), ("value", "self_attn.v_proj"),
        ("projection", "self_attn.out_proj"), ("attention_norm", "norm1"), ("intermediate", "linear1"),
        ("activation", "relu"), ("output", "linear2"), ("output_norm", "norm2"))}  # fmt: skip


def _lenet(layers: Any, given: Any) -> Any:
    convolutions = (layers.Conv2D(4, 5, padding="same"), layers.ReLU(), layers.MaxPooling2D(2))
    more = (layers.Conv2D(8, 5), layers.ReLU(), layers.MaxPooling2D(2), layers.Flatten())
    dense = (layers.Dense(32), layers.ReLU(), layers.Dense(24), layers.ReLU(), layers.Dense(10))
    return reduce(lambda x, layer: layer(x), (*convolutions, *more, *dense), given)


def _encoder(layers: Any, given: Any) -> Any:
    from keras import ops

    def heads(x: Any) -> Any:
        return ops.transpose(ops.reshape(x, (-1, 10, 4, 6)), (0, 2, 1, 3))

    x = layers.Embedding(96, 24, name="token_embedding")(given)
    for number in range(2):
        name = f"encoder_{number}_{{}}".format
        q, k, v = (heads(layers.Dense(24, use_bias=False, name=name(one))(x)) for one in ("query", "key", "value"))
        scores = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / 6**0.5)
        h = ops.reshape(ops.transpose(ops.matmul(scores, v), (0, 2, 1, 3)), (-1, 10, 24))
        h = x + layers.Dense(24, name=name("projection"))(h)
        x = layers.LayerNormalization(epsilon=1e-5, name=name("attention_norm"))(h)
        h = layers.ReLU(name=name("activation"))(layers.Dense(48, name=name("intermediate"))(x))
        h = x + layers.Dense(24, name=name("output"))(h)
        x = layers.LayerNormalization(epsilon=1e-5, name=name("output_norm"))(h)
    return layers.Dense(10, name="logits")(ops.mean(x, 1))


# Model → its layers, which module each is, and what it is given.
KERAS: dict[str, tuple[Callable[[Any, Any], Any], Mapping[str, str]]] = {
    "lenet": (_lenet, _LENET),
    "encoder": (_encoder, _ENCODER),
}


class KerasSource(Source):
    """The port of a model to Keras."""

    def __init__(self, model: Model, reference: Callable[[], nn.Module], right: Recording, given: Any) -> None:
        super().__init__(model.name, "keras", right)
        self._reference, self._given = reference, given

    @cached_property
    def good(self) -> Recording:  # type: ignore[override]
        """The port without a mistake."""
        return self._recorded(lambda _: None)

    def wrong(self, mistake: str, draw: Random) -> Recording:
        """Return the port with a weight that is 5 % too large, or without a bias."""
        place = {"scaled_weight": 0, "zero_bias": 1}.get(mistake)
        if place is None:
            raise NoPlaceError

        def change(network: Any) -> None:
            layer = draw.choice([one for one in network.layers if len(one.weights) > place])
            weights = layer.get_weights()
            weights[place] = weights[place] * (0 if place else 1.05)
            layer.set_weights(weights)

        return self._recorded(change)

    def _recorded(self, change: Callable[[Any], None]) -> Recording:
        import keras

        # Names count from the beginning again.
        keras.backend.clear_session()
        build, table = KERAS[self.model]
        values = self._given.numpy()
        values = values.transpose(0, 2, 3, 1) if values.ndim == 4 else values
        given = keras.Input(values.shape[1:], dtype=str(values.dtype))
        network = keras.Model(given, build(keras.layers, given))
        modules = dict(self._reference().named_modules())
        for layer in network.layers:
            if layer.weights:
                layer.set_weights(_weights(modules[table[layer.name]], first_dense=layer.name == "dense"))
        change(network)
        layers = [layer for layer in network.layers[1:] if not isinstance(layer, keras.layers.InputLayer)]
        outputs = keras.Model(given, [layer.output for layer in layers])(values)
        return Recording(tuple(
            Tensor(layer.name, np.asarray(output), origin=layer.name)
            for layer, output in zip(layers, outputs, strict=True)
        ))  # fmt: skip

    @cached_property
    def meaning(self) -> Meaning:  # type: ignore[override]
        """What its tensors mean."""
        table = KERAS[self.model][1]
        rights = {one.label: frozenset({group[0].label}) for group in self.right.groups() for one in group}
        lefts = {one.label: rights.get(table.get(one.label, ""), frozenset({f"left {one.label}"}))
                 for one in self.good.tensors}  # fmt: skip
        return Meaning(
            lefts, rights, unjudged=frozenset(one.label for one in self.good.tensors if is_plain(one.values))
        )

    def wrong_rows(self) -> list[str]:
        """Return what the table says and the values contradict."""
        by_label = {one.label: one.values for one in self.right.tensors}
        found = []
        for one in self.good.tensors:
            values = one.values.transpose(0, 3, 1, 2) if one.values.ndim == 4 else one.values
            for other in self.meaning.left[one.label] & by_label.keys():
                apart = distance(values, by_label[other])
                if apart is None or apart > _SAME:
                    found.append(f"keras: {one.label} should be {other}, and is {apart} from it")
        return found


def _weights(module: Any, *, first_dense: bool) -> list[Any]:
    """Return a module's weights with axes in Keras' order; those behind Flatten have channels last."""
    weight = module.weight.detach().numpy()
    if isinstance(module, nn.Conv2d):
        weight = weight.transpose(2, 3, 1, 0)
    elif first_dense:
        weight = weight.reshape(-1, 8, 5, 5).transpose(2, 3, 1, 0).reshape(-1, len(weight))
    elif isinstance(module, nn.Linear):
        weight = weight.T
    bias = getattr(module, "bias", None)
    return [weight] if bias is None else [weight, bias.detach().numpy()]

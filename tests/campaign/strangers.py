"""Sound pairs of strangers, which `law` demands a pass for: small networks in two orders of sums or types of numbers.

Nothing here is written by our recorder. Each pair states the profile, limits file or golden run that it is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from campaign import law_sides
from campaign.law_sides import STORES, Array, Comparison, Tensors, as_type, write_folder
from campaign.stored import Values
from campaign.trials import Outcome, by_command, quietly

BATCH, LENGTH, WIDTH, HEADS = 4, 16, 96, 4
Weights = dict[str, Array]
Tensor = Array


class Arithmetic(NamedTuple):
    """How one framework computes: each tensor is rounded to `dtype`, and sums run in an `order`."""

    dtype: str
    order: str
    mask: float = 0.0
    added: bool = True

    @property
    def wide(self) -> str:
        """The type that sums run in."""
        return "float64" if self.dtype == "float64" else "float32"

    def keep(self, array: Array) -> Array:
        """Store and load a tensor."""
        return as_type(array, self.dtype).astype(self.wide)

    def product(self, one: Array, other: Array) -> Array:
        """Multiply matrices; the inner sum has this order."""
        if self.order == "plain":
            return one @ other
        if self.order == "reversed":
            return np.ascontiguousarray(one[..., ::-1]) @ np.ascontiguousarray(other[..., ::-1, :])
        width = 8 if self.order == "blocked" else 1
        total = np.zeros((*one.shape[:-1], other.shape[-1]), self.wide)
        for start in range(0, one.shape[-1], width):
            total = total + one[..., start : start + width] @ other[..., start : start + width, :]
        return total

    def mean(self, array: Array) -> Array:
        """Average over the last axis."""
        if self.order == "plain":
            return array.mean(-1, keepdims=True)
        if self.order == "one by one":
            return np.add.accumulate(array, -1)[..., -1:] / array.dtype.type(array.shape[-1])
        return array[..., ::-1].reshape(*array.shape[:-1], -1, 8).sum(-1).mean(-1, keepdims=True) / array.dtype.type(8)

    def softmax(self, array: Array) -> Array:
        """Probabilities over the last axis."""
        powers = np.exp(array - array.max(-1, keepdims=True))
        return powers / (self.mean(powers) * array.dtype.type(array.shape[-1]))


Network = Callable[[Arithmetic, Weights], dict[str, Array]]


def _layer_norm(by: Arithmetic, x: Array) -> Array:
    centred = x - by.mean(x)
    return by.keep(centred / np.sqrt(by.mean(centred * centred) + x.dtype.type(1e-5)))


def perceptron(by: Arithmetic, weights: Weights) -> dict[str, Array]:
    """Linear layers, GELU, LayerNorm and probabilities."""
    made = {"fc1": by.keep(by.product(weights["x"], weights["w1"]) + weights["bias"])}
    made["gelu"] = by.keep(made["fc1"] / (1 + np.exp(-1.702 * made["fc1"])))
    made["norm"] = _layer_norm(by, made["gelu"])
    made["fc2"] = by.keep(by.product(made["norm"], weights["w2"]))
    made["softmax"] = by.keep(by.softmax(made["fc2"]))
    return made


def convolution(by: Arithmetic, weights: Weights) -> dict[str, Array]:
    """Convolution by columns, normalisation, ReLU and pooling."""
    image = weights["x"].reshape(BATCH, LENGTH, 8, 12)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    columns = np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(BATCH, 60, LENGTH * 9)
    kernel = np.concatenate([weights["w1"], weights["w2"]])[: LENGTH * 9, :32]
    made = {"conv": by.keep(by.product(columns, kernel).transpose(0, 2, 1))}
    scale = made["conv"].std(axis=(0, 2), keepdims=True)
    made["bn"] = by.keep(made["conv"] / np.sqrt(scale * scale + 1e-5) + weights["bias"][:32, None])
    made["relu"] = by.keep(np.maximum(made["bn"], 0))
    made["pool"] = by.keep(made["relu"].reshape(BATCH, 32, 15, 4).max(-1))
    return made


def attention(by: Arithmetic, weights: Weights) -> dict[str, Array]:
    """Attention under a causal mask, added or filled in."""

    def heads(name: str) -> Array:
        return made[name].reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    x, width = weights["x"], WIDTH // HEADS
    made = {"q": by.keep(by.product(x, weights["w1"])), "k": by.keep(by.product(x, weights["w2"]))}
    made["v"] = by.keep(by.product(x, weights["w3"]))
    scores = by.product(heads("q"), heads("k").swapaxes(-1, -2)) / np.sqrt(x.dtype.type(width))
    made["scores"] = by.keep(scores)
    above = np.triu(np.ones((LENGTH, LENGTH), bool), 1)
    mask = scores.dtype.type(by.mask)
    masked = made["scores"] + np.where(above, mask, 0) if by.added else np.where(above, mask, made["scores"])
    made["masked"] = by.keep(masked)
    made["softmax"] = by.keep(by.softmax(made["masked"]))
    made["context"] = by.keep(by.product(made["softmax"], heads("v")))
    return made


def decoder(by: Arithmetic, weights: Weights) -> dict[str, Array]:
    """A residual stream in which a few channels are far larger than all others."""
    made: dict[str, Array] = {}
    stream = by.keep(weights["x"] * weights["outliers"])
    for layer in range(3):
        power = by.mean(stream * stream)
        made[f"norm{layer}"] = by.keep(stream / np.sqrt(power + stream.dtype.type(1e-6)))
        inner = by.keep(by.product(made[f"norm{layer}"], weights["w1"]))
        made[f"silu{layer}"] = by.keep(inner / (1 + np.exp(-inner)))
        stream = by.keep(stream + by.product(made[f"silu{layer}"], weights["w2"]))
        made[f"residual{layer}"] = stream
    return made


def recurrent(by: Arithmetic, weights: Weights) -> dict[str, Array]:
    """An LSTM over a sequence, and a linear layer."""
    x, size = weights["x"], 24
    hidden = cell = np.zeros((BATCH, size), x.dtype)
    states = []
    for step in range(LENGTH):
        both = np.concatenate([x[:, step], hidden], -1)
        kernel = np.concatenate([weights["w1"], weights["w2"][:size]])
        gates = by.keep(by.product(both, kernel))
        enter, forget, leave = (1 / (1 + np.exp(-gates[:, at : at + size])) for at in (0, size, 2 * size))
        cell = by.keep(forget * cell + enter * np.tanh(gates[:, 3 * size :]))
        hidden = by.keep(leave * np.tanh(cell))
        states.append(hidden)
    made = {"lstm": np.stack(states, 1)}
    made["head"] = by.keep(by.product(made["lstm"], weights["w3"][:size]))
    return made


def embedding(by: Arithmetic, weights: Weights) -> dict[str, Array]:
    """Rows of a table by ids, averaged and projected."""
    ids = weights["ids"]
    made = {"embed": by.keep(np.concatenate([weights["w1"], weights["w2"]])[ids])}
    made["pooled"] = by.keep(by.mean(np.ascontiguousarray(made["embed"].swapaxes(1, 2)))[..., 0])
    made["head"] = by.keep(by.product(made["pooled"], weights["w3"]))
    return made


NETWORKS: Mapping[str, Network] = {
    "perceptron": perceptron,
    "convolution": convolution,
    "attention": attention,
    "decoder": decoder,
    "recurrent": recurrent,
    "embedding": embedding,
}


def drawn(rng: np.random.Generator) -> Weights:
    """Weights and inputs in float64."""
    weights = {name: rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5 for name in ("w1", "w2", "w3")}
    outliers = np.ones(WIDTH)
    outliers[rng.permutation(WIDTH)[: rng.integers(1, 9)]] = rng.choice([30.0, 300.0])
    ids = rng.integers(0, 2 * WIDTH, (BATCH, LENGTH))
    x = rng.normal(size=(BATCH, LENGTH, WIDTH))
    return weights | {"x": x, "bias": rng.normal(size=WIDTH) / 5, "outliers": outliers, "ids": ids}


def computed(network: Network, by: Arithmetic, weights: Weights) -> Tensors:
    """Run a network; ids are a tensor, too."""
    own = {name: by.keep(array) if name != "ids" else array for name, array in weights.items()}
    with np.errstate(over="ignore"):
        made = network(by, own)
    ids = Values(weights["ids"].astype(np.int32), "int32", b"")
    return {"ids": ids} | {name: Values(as_type(array, by.dtype), by.dtype, b"") for name, array in made.items()}


def perturbed(weights: Weights, u: float, rng: np.random.Generator) -> Weights:
    """Inputs and weights, each changed by at most `u` of itself."""
    return {
        name: array if name == "ids" else array * (1 + u * rng.uniform(-1, 1, array.shape))
        for name, array in weights.items()
    }


class Stranger(NamedTuple):
    """A network, the types of both sides, how they are saved, and what the pair states to be judged by."""

    network: str
    types: tuple[str, str]
    saved: str
    stated: str

    @property
    def name(self) -> str:
        """The pair in a line."""
        return f"{self.network}, {self.types[0]} against {self.types[1]}, {self.saved}, by {self.stated}"

    def ask(self, root: Path, rng: np.random.Generator) -> Outcome:
        """Make the pair below a folder and ask."""
        weights, network = drawn(rng), NETWORKS[self.network]
        orders = [str(order) for order in rng.permutation(["plain", "blocked", "reversed", "one by one"])]
        is_mixed = self.types[0] != self.types[1] or "float16" in self.types
        mask, added = float(rng.choice(_MASKS[is_mixed])), bool(rng.random() < 0.5)
        if self.saved in ("msprobe", "statistic table"):
            # Numbers of scores with another mask say nothing of the scores, and are undefined.
            mask = -np.inf
        left, right = (Arithmetic(dtype, order, mask, added) for dtype, order in zip(self.types, orders, strict=False))
        if self.types[0] == self.types[1]:
            # Both loaded the weights of one file.
            weights = {name: a if name == "ids" else as_type(a, left.dtype).astype("f8") for name, a in weights.items()}
        sides = computed(network, left, weights), computed(network, right, weights)
        store = STORES.get(self.saved, STORES["npy"])
        case = Comparison(root, rng, store, right.dtype, {}, *sides, "", "", 0.0)
        case.settings["profile"] = self.stated if self.stated in ("default", "strict") else "default"
        given: list[str] = []
        if self.saved == "partial":
            gone = rng.permutation(sorted(case.tested))[: (len(case.tested) - 1) // 2]
            case.tested = {name: values for name, values in case.tested.items() if name not in gone}
        case.write()
        if self.saved.endswith("sketched"):
            for side in law_sides.SIDES[: 1 if self.saved == "left sketched" else 2]:
                quietly(["sketch", case.given(side), "-o", str(root / f"{side}_sketches")])
                case.settings[side] = f"{side}_sketches"
        if self.stated == "golden":
            write_folder(root / "golden", computed(network, Arithmetic("float64", "plain", mask, added), weights))
            case.settings |= {"golden": "golden", "profile": "strict"}
        if self.stated == "limits file":
            given = ["--limits", self._limits(root, network, right, weights, rng)]
        return by_command(case, *given)

    def _limits(
        self, root: Path, network: Network, right: Arithmetic, weights: Weights, rng: np.random.Generator
    ) -> str:
        """Calibrate as the page on it says: one perturbed run, one of 2**-12 for coarser types."""
        unit = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[right.dtype]
        file = str(root / "limits.json")
        runs = {"reference": weights, "perturbed": perturbed(weights, unit, rng)}
        command = ["calibrate", "reference", "perturbed", "-o", file, "--u", str(unit)]
        if self.types[0] != self.types[1]:
            runs["coarse"] = perturbed(weights, 2.0**-12, rng)
            command += ["--coarse", "coarse"]
        for name, own in runs.items():
            write_folder(root / name, computed(network, right, own))
        code, said = quietly(command)
        if code:
            raise AssertionError(said)
        return file


# By whether types are mixed or narrow: float16 holds no -1e9.
_MASKS = {False: [-3.4028235e38, -1e9, -1e4, -np.inf], True: [-1e4, -np.inf]}
_STATED = {
    ("float32", "float32"): ("strict", "limits file", "default"),
    ("float32", "float64"): ("strict", "default", "default"),
    ("float64", "float64"): ("default", "limits file", "default"),
    ("float16", "float32"): ("default", "limits file", "default"),
    ("float16", "float16"): ("default", "golden", "default"),
    ("bfloat16", "float32"): ("default", "limits file", "default"),
    ("bfloat16", "bfloat16"): ("default", "golden", "default"),
}
_SAVED = ("npy", "mindspore", "both sketched", "msprobe", "safetensors", "partial", "left sketched", "statistic table")


def _strangers() -> tuple[Stranger, ...]:
    """Every network with every mixture of types, in turn saved and judged in every way."""
    found = []
    for number in range(300):
        network = list(NETWORKS)[number % len(NETWORKS)]
        types = list(_STATED)[number // len(NETWORKS) % len(_STATED)]
        turn = number // (len(NETWORKS) * len(_STATED))
        stated = _STATED[types][(turn + number) % 3]
        saved = _SAVED[(turn + number) % len(_SAVED)]
        if stated in ("limits file", "golden") and saved in ("msprobe", "statistic table", "mindspore"):
            saved = "npy"
        found.append(Stranger(network, types, saved, stated))
    return tuple(found)


STRANGERS = _strangers()

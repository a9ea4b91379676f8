"""A small network run in float32 by formulas of its own, with any kernel replaced, and dumped as MindSpore does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dump_builder import write_mindspore
from numpy.lib.stride_tricks import sliding_window_view

Array = npt.NDArray[Any]
# Takes the inputs of an operator and what a sound kernel made of them; returns what a wrong one makes.
Fault = Callable[[Sequence[Array], Array], Array]


@dataclass
class Step:
    """One operator: its kernel, and how its line in the graph goes on behind its inputs."""

    op_type: str
    name: str
    inputs: Sequence[str]
    kernel: Callable[..., Array]
    literals: str = ""
    attributes: str = ""


@dataclass
class Network:
    """Operators in order; `weights` and `values` are by name, `before` are weights of the step before."""

    steps: list[Step] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)

    def run(self, faults: Mapping[str, Fault]) -> dict[str, Array]:
        """Compute all operators in order; a fault's result is what those behind it get."""
        values = dict(self.weights)
        for step in self.steps:
            inputs = [values[name] for name in step.inputs]
            with np.errstate(all="ignore"):
                made = np.asarray(step.kernel(*inputs))
                fault = faults.get(step.name)
                values[step.name] = made if fault is None else np.asarray(fault(inputs, made)).astype(made.dtype)
        return values

    def dump(self, root: Path, faults: Mapping[str, Fault] | None = None, *, inputs: bool = True) -> dict[str, Array]:
        """Run and write a dump with the graph of the run; with `inputs` what operators were given is in it, too."""
        values = self.run(faults or {})
        tensors = []
        for step in self.steps:
            sides = list(enumerate(step.inputs)) if inputs else []
            tensors += [(step.op_type, full(step.name), "input", slot, values[name]) for slot, name in sides]
            tensors.append((step.op_type, full(step.name), "output", 0, values[step.name]))
        tensors += [("Parameter", name, "output", 0, value) for name, value in self.weights.items()]
        write_mindspore(root, tensors)
        folder = root / "rank_0" / "graphs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ms_output_trace_code_graph_0.ir").write_text(self.graph(values), "utf-8")
        return values

    def graph(self, values: Mapping[str, Array]) -> str:
        """Write the graph as MindSpore 2.10 does."""
        numbers = {name: f"%para{number}_{name}" for number, name in enumerate(self.weights, 1)}
        lines = ["# IR entry: @net", "# Params:"]
        lines += [f"{number}: <{typed(self.weights[name])}>" for name, number in numbers.items()]
        lines.append("subgraph @net() {")
        for place, step in enumerate(self.steps):
            numbers[step.name] = f"%{place}"
            operands = ", ".join([*(numbers[name] for name in step.inputs), *filter(None, [step.literals])])
            given = ", ".join(f"<{typed(values[name])}>" for name in step.inputs)
            lines += [
                f"  %{place}(n{place}) = {step.op_type}({operands}) primitive_attrs: {{{step.attributes}}}",
                f"      : ({given}) -> (<{typed(values[step.name])}>)",
                f"      # Fullname with scope: ({full(step.name)})",
                f"      # In file net.py:{place + 10}, 8~20/x = self.{step.name}(x)/",
            ]
        return "\n".join([*lines, "  Return(%0)", "}", ""])


def full(name: str) -> str:
    return f"Default/{name}-op0"


def typed(value: Array) -> str:
    kind = {"float32": "Float32", "int32": "Int32", "float16": "Float16", "bool": "Bool"}[value.dtype.name]
    return f"Tensor[{kind}], ({', '.join(map(str, value.shape))})"


def single(value: npt.ArrayLike) -> Array:
    return np.asarray(value, np.float32)


def cut_mantissa(values: npt.ArrayLike, bits: int) -> Array:
    """Keep the upper bits of the mantissa of float32, rounded half away from 0."""
    lost = 23 - bits
    whole = single(values).view(np.uint32)
    return ((whole + np.uint32(1 << (lost - 1))) & np.uint32(0xFFFFFFFF << lost & 0xFFFFFFFF)).view(np.float32)


def conv(x: Array, w: Array) -> Array:
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w).astype(np.float32)


def conv_filter(dy: Array, x: Array) -> Array:
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), dy.shape[2:], axis=(2, 3))
    return np.einsum("ncijhw,nohw->ocij", windows, dy).astype(np.float32)


def windows(x: Array) -> Array:
    return sliding_window_view(x, (2, 2), axis=(2, 3))[:, :, ::2, ::2]


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> Array:
    mean = x.mean(-1, keepdims=True)
    return single((x - mean) / np.sqrt(x.var(-1, keepdims=True) + single(eps)) * gamma + beta)


def gelu(x: Array) -> Array:
    return single(0.5) * x * (1 + np.tanh(single(0.7978845608) * (x + single(0.044715) * x * x * x)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return single(e / e.sum(-1, keepdims=True))


CONVOLUTION = 'pad: (1, 1, 1, 1), pad_mode: "pad", stride: (1, 1, 1, 1), group: I64(1), dilation: (1, 1, 1, 1)'
POOL = 'kernel_size: (1, 1, 2, 2), strides: (1, 1, 2, 2), pad_mode: "VALID"'


def log_softmax(x: Array) -> Array:
    apart = x - x.max(1, keepdims=True)
    return single(apart - np.log(np.exp(apart).sum(1, keepdims=True)))


def batch_norm(x: Array, *of_channels: Array) -> Array:
    gamma, beta, mean, variance = (value[:, None, None] for value in of_channels)
    return single((x - mean) / np.sqrt(variance + single(1e-5)) * gamma + beta)


def network(seed: int) -> Network:
    """Make a network with a branch of convolutions, one of matrices, gradients and a step of an optimizer."""
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return single(random.normal(size=shape))

    weights = {
        "image": normal(4, 3, 8, 8),
        "kernel": normal(8, 3, 3, 3) / 5,
        "bias": normal(8),
        "gamma": 1 + normal(8) / 10,
        "beta": normal(8) / 10,
        "mean": normal(8) / 10,
        "variance": single(random.uniform(0.5, 2, 8)),
        "dense": normal(128, 64) / 11,
        "bias2": normal(64),
        "scale": 1 + normal(64) / 10,
        "shift": normal(64) / 10,
        "table": normal(20, 64),
        "ids": random.integers(0, 20, 4).astype(np.int32),
        "labels": normal(4, 64),
        "frozen": normal(64),
        "average": normal(64),
        "rate": single(0.125),
        "momentum": single(0.875),
    }

    def channels(value: Array) -> Array:
        return value[:, None, None]

    steps = [
        Step(
            "Conv2D",
            "conv",
            ["image", "kernel"],
            conv,
            attributes=CONVOLUTION,
        ),
        Step("BiasAdd", "bias_add", ["conv", "bias"], lambda x, b: x + channels(b), "I64(0)"),
        Step(
            "BatchNorm",
            "norm",
            ["bias_add", "gamma", "beta", "mean", "variance"],
            batch_norm,
            "Bool(0), F32(1e-05)",
        ),
        Step("ReLU", "relu", ["norm"], lambda x: np.maximum(x, 0)),
        Step(
            "MaxPool",
            "pool",
            ["relu"],
            lambda x: windows(x).max((-1, -2)),
            attributes=POOL,
        ),
        Step(
            "AvgPool",
            "average_pool",
            ["relu"],
            lambda x: windows(x).mean((-1, -2)),
            "(I64(2), I64(2)), (I64(2), I64(2)), I64(2), I64(0)",
        ),
        Step("Add", "both", ["pool", "average_pool"], lambda x, y: x + y),
        Step("Reshape", "flat", ["both"], lambda x: x.reshape(4, 128), "(I64(4), I64(-1))"),
        Step("MatMul", "dense_product", ["flat", "dense"], lambda x, w: x @ w, "Bool(0), Bool(0)"),
        Step("BiasAdd", "dense_bias", ["dense_product", "bias2"], lambda x, b: x + b, "I64(0)"),
        Step("LayerNorm", "layer_norm", ["dense_bias", "scale", "shift"], layer_norm, "I64(-1), I64(-1), F32(1e-05)"),
        Step("GeLU", "gelu", ["layer_norm"], gelu),
        Step("Gather", "embedded", ["table", "ids"], lambda t, i: t[i], "I64(0)"),
        Step("Mul", "scaled", ["gelu", "embedded"], lambda x, y: x * y),
        Step("Transpose", "turned", ["scaled"], lambda x: x.T.copy(), "(I64(1), I64(0))"),
        Step("MatMul", "scores", ["scaled", "turned"], lambda x, y: x @ y, "Bool(0), Bool(0)"),
        Step("Softmax", "attention", ["scores"], softmax, "(I64(-1))"),
        Step("MatMul", "mixed", ["attention", "scaled"], lambda x, y: x @ y, "Bool(0), Bool(0)"),
        Step("Concat", "joined", ["mixed", "embedded"], lambda x, y: np.concatenate([x, y], 1), "I64(1)"),
        Step("Slice", "cut", ["joined"], lambda x: x[:, 32:96], "(I64(0), I64(32)), (I64(4), I64(64))"),
        Step("Tanh", "tanh", ["cut"], np.tanh),
        Step("Exp", "exp", ["tanh"], np.exp),
        Step("Sqrt", "root", ["exp"], np.sqrt),
        Step("Div", "ratio", ["tanh", "root"], lambda x, y: x / y),
        Step("Log", "log", ["exp"], np.log),
        Step("Sigmoid", "gate", ["ratio"], lambda x: 1 / (1 + np.exp(-x))),
        Step("Sub", "error", ["gate", "labels"], lambda x, y: x - y),
        Step("ReduceMean", "rows", ["error"], lambda x: x.mean(1), "(I64(1)), Bool(0)"),
        Step("ReduceSum", "columns", ["error"], lambda x: x.sum(0), "(I64(0)), Bool(0), Bool(0)"),
        Step("ReduceMax", "highest", ["error"], lambda x: x.max(1), "(I64(1)), Bool(0)"),
        Step("Cast", "half", ["error"], lambda x: x.astype(np.float16), "I64(42)"),
        Step("SigmoidGrad", "gate_grad", ["gate", "error"], lambda y, dy: dy * y * (1 - y)),
        Step("BiasAddGrad", "bias_grad", ["gate_grad"], lambda dy: dy.sum(0), "I64(0)"),
        Step("MatMul", "weight_grad", ["flat", "gate_grad"], lambda x, dy: x.T @ dy, "Bool(1), Bool(0)"),
        Step("ReluGrad", "relu_grad", ["norm", "relu"], lambda dy, y: np.where(y > 0, dy, single(0))),
        Step(
            "Conv2DBackpropFilter",
            "kernel_grad",
            ["relu_grad", "image"],
            conv_filter,
            attributes=CONVOLUTION,
        ),
        Step(
            "LogSoftmax",
            "log_softmax",
            ["error"],
            log_softmax,
            "(I64(-1))",
        ),
    ]
    return Network(steps, weights)

"""Models of ONNX in 8 and 4 bits with one mistake in the quantisation, and what is named first.

``python -m benchmarks.blame.quantised OUT --mistakes 120 --seed 1``. Models are quantised by ONNX Runtime, in both of
its formats, then one number of the graph is made wrong. Right is what names a node of the changed tensor first. Sound
models stand beside them: there nothing may be called a cause.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import itertools
import logging
import random
import shutil
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from torch import nn

from pytest_msdump.cli import main as msdump
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.record import Recorder

Graph = Any


class Residual(nn.Module):
    """Two convolutions and what went into them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return torch.relu(x + self.conv2(torch.relu(self.conv1(x))))


class Mobile(nn.Module):
    """An inverted residual of depthwise convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand, self.project = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(3 * width, width, 1)
        self.depthwise = nn.Conv2d(3 * width, 3 * width, 3, padding=1, groups=3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return x + self.project(nn.functional.relu6(self.depthwise(nn.functional.relu6(self.expand(x)))))


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        h = self.norm1(x)
        batch, length, width = x.shape
        q, k, v = (one(h).view(batch, length, self.heads, -1).transpose(1, 2) for one in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5).softmax(-1)
        x = x + self.o((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def _cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), Residual(12), Residual(12), nn.AvgPool2d(4), nn.Flatten(),
                         nn.Linear(108, 10))  # fmt: skip


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 32), nn.Tanh(),
                         nn.Linear(32, 10))  # fmt: skip


def _transformer() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 24), Block(24), Block(24), nn.LayerNorm(24), nn.Linear(24, 12))


def _mobile() -> nn.Module:
    first, last = nn.Conv2d(3, 8, 3, stride=2), nn.Conv2d(8, 16, 1)
    head = (nn.AvgPool2d(7), nn.Flatten(), nn.Linear(16, 10))
    return nn.Sequential(first, nn.ReLU6(), Mobile(8), Mobile(8), last, nn.ReLU6(), *head)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "cnn": (_cnn, (8, 3, 14, 14)),
    "mlp": (_mlp, (32, 24)),
    "transformer": (_transformer, (6, 10, 16)),
    "mobile": (_mobile, (8, 3, 15, 15)),
}
# How a model is quantised: arguments of `quantize_static`.
WAYS: dict[str, dict[str, Any]] = {
    "qdq": {},
    "qdq-uint8": {"activation_type": QuantType.QUInt8, "per_channel": True},
    "qdq-symmetric": {"per_channel": True, "extra_options": {"ActivationSymmetric": True, "WeightSymmetric": True}},
    "qdq-percentile": {"calibrate_method": CalibrationMethod.Percentile, "activation_type": QuantType.QUInt8},
    "qoperator": {"quant_format": QuantFormat.QOperator},
    "qoperator-uint8": {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8},
    "qdq-int4": {"weight_type": QuantType.QInt4, "extra_options": {"WeightSymmetric": True}},
}


class Batches(CalibrationDataReader):
    """What ranges are measured on."""

    def __init__(self, *batches: Any) -> None:
        self._left = iter([{"x": one} for one in batches])

    def get_next(self) -> Any:
        """Return the next batch."""
        return next(self._left, None)


class Made(NamedTuple):
    """A quantised model with its float one, what they are given, and the nodes of the tensor that is wrong."""

    exact: Graph
    rounded: Graph
    given: Any
    truth: frozenset[str] = frozenset()


class NoPlaceError(Exception):
    """The model has nothing that could be wrong in this way."""


def exported(name: str, seed: int, spoil: Callable[[Graph, random.Random], str] | None, draw: random.Random) -> Any:
    """Return the float model, what `spoil` says of it, and two batches."""
    torch.manual_seed(seed)
    make, shape = MODELS[name]
    model, given = make().eval(), torch.randn(shape)
    with torch.no_grad():
        for one in model.modules():
            if isinstance(one, (nn.Linear, nn.Conv2d)):
                nn.init.kaiming_normal_(one.weight)
                one.bias.normal_(0, 0.5)
                one.weight.mul_(torch.randn([len(one.weight)] + [1] * (one.weight.dim() - 1)).mul(0.4).exp())
    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (given,), written, input_names=["x"], dynamo=False)
    proto = onnx.load_model_from_string(written.getvalue())
    said = spoil(proto, draw) if spoil is not None else ""
    return proto, said, [given.numpy(), torch.randn(shape).numpy()]


def quantised(exact: Graph, batches: Any, way: str, folder: Path) -> Graph:
    """Quantise a model."""
    onnx.save(exact, folder / "float.onnx")
    logging.disable(logging.WARNING)
    quantize_static(folder / "float.onnx", folder / "int8.onnx", Batches(*batches), **copy.deepcopy(WAYS[way]))
    logging.disable(logging.NOTSET)
    return onnx.load(folder / "int8.onnx")


# -- Mistakes ----------------------------------------------------------------------------------------------------------


class Numbers:
    """The initializers of a graph, and which nodes take them."""

    def __init__(self, proto: Graph) -> None:
        self.graph = proto.graph
        self.by_name = {one.name: one for one in self.graph.initializer}
        self.takers: defaultdict[str, list[tuple[Any, int]]] = defaultdict(list)
        for node in self.graph.node:
            for slot, name in enumerate(node.input):
                self.takers[name].append((node, slot))
        self.makers = {output: node for node in self.graph.node for output in node.output}

    def values(self, name: str) -> Any:
        """Return an initializer."""
        return numpy_helper.to_array(self.by_name[name])

    def put(self, name: str, values: Any) -> None:
        """Change an initializer."""
        kind = self.by_name[name].data_type
        made = numpy_helper.from_array(np.asarray(values), name)
        if kind != made.data_type:
            made = onnx.helper.make_tensor(name, kind, np.asarray(values).shape, np.asarray(values).ravel().tolist())
        self.by_name[name].CopyFrom(made)

    def copied(self, node: Any, slot: int) -> str:
        """Give an input of a node an initializer of its own; return its name."""
        made = onnx.TensorProto()
        made.CopyFrom(self.by_name[node.input[slot]])
        made.name = f"{made.name}_own"
        self.graph.initializer.append(made)
        self.by_name[made.name] = self.graph.initializer[-1]
        node.input[slot] = made.name
        return made.name


def activations(numbers: Numbers) -> list[tuple[str, str]]:
    """Return the scales and zero points of what nodes give out, each with the name of its tensor."""
    found: dict[str, str] = {}
    for node in numbers.graph.node:
        if node.op_type == "QuantizeLinear":
            found[node.input[1]] = node.input[2]
        elif node.op_type.startswith("QLinear"):
            places = {"QLinearConv": 6, "QLinearMatMul": 6, "QGemm": 7, "QLinearAdd": 6, "QLinearMul": 6}
            slot = places.get(node.op_type, len(node.input) - 2)
            if node.op_type in places:
                found[node.input[slot]] = node.input[slot + 1]
    return [(scale, zero) for scale, zero in found.items() if scale in numbers.by_name and zero in numbers.by_name]


def nodes_at(numbers: Numbers, scale: str) -> frozenset[str]:
    """Return the nodes that put out or dequantise what a scale is for."""
    found = set()
    for node, slot in numbers.takers[scale]:
        is_own = node.op_type in ("QuantizeLinear", "DequantizeLinear") or slot >= len(node.input) - 3
        if is_own and not (node.op_type.startswith("QLinear") and slot < 4):
            found.add(node.name)
    return frozenset(found)


_LAYERS = ("QLinearConv", "QGemm", "QLinearMatMul")


def weights(numbers: Numbers, *, bias: bool = False) -> list[tuple[Any, str, frozenset[str]]]:
    """Return scales of weights: the node and input that takes it, and the nodes of the layer."""
    found = []
    for node in numbers.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in numbers.by_name:
            layers = [one for one, _ in numbers.takers[node.output[0]]]
            slots = {slot for _, slot in numbers.takers[node.output[0]]}
            if layers and slots == ({2} if bias else {1}) and layers[0].op_type != "Add":
                names = frozenset([node.name, *(one.name for one in layers)])
                found.append((node, node.input[1], names))
        elif node.op_type in _LAYERS and not bias and node.input[3] in numbers.by_name:
            found.append((node, node.input[4], frozenset({node.name, *_behind(numbers, node)})))
    return found


def _behind(numbers: Numbers, node: Any) -> Iterator[str]:
    """Yield what dequantises the output of a node."""
    return (one.name for one, _ in numbers.takers[node.output[0]] if one.op_type == "DequantizeLinear")


def _scaled(low: float, high: float, draw: random.Random) -> float:
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))


def _rescale(numbers: Numbers, scale: str, factor: float) -> None:
    """Multiply a scale; biases of whole numbers, whose scale follows from it, stay what they are."""
    numbers.put(scale, numbers.values(scale) * np.float32(factor))
    for node, slot in numbers.takers[scale]:
        at = {"QLinearConv": 8, "QGemm": 6}.get(node.op_type)
        if at is not None and slot == 1 and at < len(node.input) and node.input[at]:
            numbers.put(node.input[at], np.round(numbers.values(node.input[at]) / factor).astype(np.int32))


def too_small(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Divide the scale of an activation."""
    numbers = Numbers(proto)
    scale, _ = _drawn(activations(numbers), draw)
    _rescale(numbers, scale, 1 / _scaled(4, 16, draw))
    return nodes_at(numbers, scale)


def too_large(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Multiply the scale of an activation."""
    numbers = Numbers(proto)
    scale, _ = _drawn(activations(numbers), draw)
    _rescale(numbers, scale, _scaled(10, 40, draw))
    return nodes_at(numbers, scale)


def zero_point(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Move the zero point of an activation, so that much of its range is cut off."""
    numbers = Numbers(proto)
    scale, zero = _drawn(activations(numbers), draw)
    values = numbers.values(zero)
    limits = np.iinfo(values.dtype)
    middle = (int(limits.max) + int(limits.min) + 1) // 2
    numbers.put(zero, np.array(limits.min + 20 if int(values) > middle else limits.max - 20, values.dtype))
    return nodes_at(numbers, scale)


def _drawn(places: list[Any], draw: random.Random) -> Any:
    if not places:
        raise NoPlaceError
    return draw.choice(places)


def _pairs(numbers: Numbers) -> list[Any]:
    return [
        node
        for node in numbers.graph.node
        if node.op_type == "DequantizeLinear" and numbers.makers.get(node.input[0]) is not None
        and numbers.makers[node.input[0]].op_type == "QuantizeLinear"
    ]  # fmt: skip


def other_zero_point(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Dequantise with another zero point than was quantised with."""
    numbers = Numbers(proto)
    node = _drawn(_pairs(numbers), draw)
    name = numbers.copied(node, 2)
    values = numbers.values(name)
    limits = np.iinfo(values.dtype)
    moved = int(values) + draw.choice([-60, 60])
    moved = moved if limits.min <= moved <= limits.max else int(values) - (moved - int(values))
    numbers.put(name, np.array(np.clip(moved, limits.min, limits.max), values.dtype))
    return frozenset({node.name, numbers.makers[node.input[0]].name})


def other_scale(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Dequantise with another scale than was quantised with."""
    numbers = Numbers(proto)
    node = _drawn(_pairs(numbers), draw)
    name = numbers.copied(node, 1)
    numbers.put(name, numbers.values(name) * np.float32(draw.choice([0.5, 0.7, 1.5, 2.0])))
    return frozenset({node.name, numbers.makers[node.input[0]].name})


def weight_scale(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Multiply the scale of a weight."""
    numbers = Numbers(proto)
    _, scale, names = _drawn(weights(numbers), draw)
    numbers.put(scale, numbers.values(scale) * np.float32(draw.choice([0.4, 0.5, 2.0, 3.0])))
    return names


def weight_axis(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Give the channels of a weight the scales of others."""
    numbers = Numbers(proto)
    places = [one for one in weights(numbers) if numbers.values(one[1]).size > 3]
    _, scale, names = _drawn(places, draw)
    values = numbers.values(scale)
    order = np.argsort(values)
    moved = np.empty_like(values)
    moved[order] = values[order[::-1]]
    if values.std() / values.mean() < 0.15:
        raise NoPlaceError
    numbers.put(scale, moved)
    return names


def coarse_weight(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Quantise a weight as if one value of it were 30 times as large."""
    numbers = Numbers(proto)
    places = [one for one in weights(numbers) if numbers.by_name[one[1]].dims in ([], [1])]
    node, scale, names = _drawn(places, draw)
    name = node.input[0 if node.op_type == "DequantizeLinear" else 3]
    values = numbers.values(name)
    if values.dtype not in (np.int8, np.uint8):
        raise NoPlaceError
    zero = numbers.values(node.input[2 if node.op_type == "DequantizeLinear" else 5]).astype(np.int64)
    numbers.put(name, (np.round((values.astype(np.int64) - zero) / 30) + zero).astype(values.dtype))
    numbers.put(scale, numbers.values(scale) * np.float32(30))
    return names


def bias_scale(proto: Graph, draw: random.Random) -> frozenset[str]:
    """Give a bias another scale than that of the input times that of the weight."""
    numbers = Numbers(proto)
    _, scale, names = _drawn(weights(numbers, bias=True), draw)
    numbers.put(scale, numbers.values(scale) * np.float32(_scaled(6, 20, draw)))
    return names


MISTAKES: dict[str, Callable[[Graph, random.Random], frozenset[str]]] = {
    "scale too small": too_small,
    "scale too large": too_large,
    "zero point": zero_point,
    "other zero point": other_zero_point,
    "other scale": other_scale,
    "weight scale": weight_scale,
    "weight axis": weight_axis,
    "coarse weight": coarse_weight,
    "bias scale": bias_scale,
}


def outlier_weight(proto: Graph, draw: random.Random) -> str:
    """Make one output channel of a layer large; the float model has it, too."""
    numbers = Numbers(proto)
    layers = [node for node in numbers.graph.node if node.op_type in ("Conv", "Gemm")]
    node = _drawn(layers[:-1], draw)
    values = numbers.values(node.input[1]).copy()
    values[draw.randrange(values.shape[0])] *= 40
    numbers.put(node.input[1], values)
    return str(node.name)


def outlier_activation(proto: Graph, draw: random.Random) -> str:
    """Make one channel between two layers large, which the second makes small again."""
    numbers = Numbers(proto)
    places = []
    for node in numbers.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            behind = [one for one, _ in numbers.takers[node.output[0]]]
            if len(behind) == 1 and behind[0].op_type == "Relu":
                users = [one for one, slot in numbers.takers[behind[0].output[0]] if slot == 0]
                if len(users) == 1 and users[0].op_type == node.op_type:
                    places.append((node, behind[0], users[0]))
    node, act, user = _drawn(places, draw)
    channel = draw.randrange(numbers.values(node.input[1]).shape[0])
    for name in node.input[1:3]:
        values = numbers.values(name).copy()
        values[channel] *= 300
        numbers.put(name, values)
    values = numbers.values(user.input[1]).copy()
    values[:, channel] /= 300
    numbers.put(user.input[1], values)
    return f"{act.output[0]}"


IN_FLOATS = {"outlier in a weight": outlier_weight, "outlier in an activation": outlier_activation}
# Of these the quantisation follows its rules; they are named first, not called wrong.
NAMED_ALONE = frozenset(IN_FLOATS)
NARROW = "narrow calibration"


def _outputs_of(proto: Graph, name: str) -> list[str]:
    """Return what a layer gives out, and what an activation behind it does."""
    outputs = [node.output[0] for node in proto.graph.node if node.name == name]
    acts = [node for node in proto.graph.node if node.op_type in ("Relu", "Clip") and node.input[0] in outputs]
    return [*outputs, *(node.output[0] for node in acts)]


def make(name: str, way: str, mistake: str, seed: int, folder: Path) -> Made:
    """Return a model with a mistake, or none."""
    draw = random.Random(f"{name} {way} {mistake} {seed}")
    exact, said, batches = exported(name, seed, IN_FLOATS.get(mistake), draw)
    measured = [batches[1] / np.float32(5)] if mistake == NARROW else batches
    rounded = quantised(exact, measured, way, folder)
    truth: frozenset[str] = frozenset()
    numbers = Numbers(rounded)
    if mistake in MISTAKES:
        truth = MISTAKES[mistake](rounded, draw)
    elif mistake == "outlier in a weight":
        if WAYS[way].get("per_channel"):
            raise NoPlaceError
        truth = frozenset({said, f"{said}_quant"})
        ends = [one for one in numbers.graph.node if one.name in truth]
        truth |= {numbers.makers[name].name for one in ends for name in one.input if name in numbers.makers
                  and numbers.makers[name].input[0] in numbers.by_name}  # fmt: skip
        truth |= {one for end in ends for one in _behind(numbers, end)}
        # What the layer gives out has that channel, too.
        truth |= {one for tensor in _outputs_of(exact, said) for one in nodes_at(numbers, f"{tensor}_scale")}
    elif mistake == "outlier in an activation":
        maker = next(node for node in exact.graph.node if said in _outputs_of(exact, node.name)[1:])
        truth = nodes_at(numbers, f"{said}_scale") | nodes_at(numbers, f"{maker.output[0]}_scale")
        if not WAYS[way].get("per_channel"):
            truth |= {maker.name, f"{maker.name}_quant", f"{maker.input[1]}_DequantizeLinear"}
    elif mistake == NARROW:
        truth = nodes_at(numbers, "x_scale")
    if mistake and not truth:
        raise NoPlaceError
    return Made(exact, rounded, batches[0], truth)


def compared(made: Made, folder: Path, *, inputs: bool, parts: tuple[str, str] = ("int8", "float")) -> Any:
    """Record both and compare; return results.json."""
    for proto, part in ((made.rounded, parts[0]), (made.exact, parts[1])):
        shutil.rmtree(folder / part, ignore_errors=True)
        with Recorder(folder).onnx(proto, directory=folder / part, inputs=inputs) as recording:
            recording.run(None, {"x": made.given})
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        msdump(["compare", *(str(folder / part) for part in parts), "--report-dir", str(folder / "report")])
    return read_json(folder / "report/results.json")


def main() -> None:
    """Draw mistakes and print what was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mistakes", type=int, default=60)
    parser.add_argument("--sound", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=20)
    options = parser.parse_args()
    folder = options.out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(options.seed)
    kinds = [*MISTAKES, *IN_FLOATS, NARROW]
    drawn = [""] * options.sound + [kinds[number % len(kinds)] for number in range(options.mistakes)]
    ways = itertools.cycle(itertools.product(MODELS, WAYS))
    first: Counter[str] = Counter()
    cause: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    lines: list[str] = []
    accused = 0
    for mistake in drawn:
        for _ in range(30):
            name, way = next(ways) if not mistake else (draw.choice([*MODELS]), draw.choice([*WAYS]))
            seed = draw.randrange(1000)
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    made = make(name, way, mistake, seed, folder)
            except NoPlaceError:
                continue
            break
        else:
            continue
        has_inputs = draw.random() < 0.5
        found = compared(made, folder, inputs=has_inputs)
        shown = f"{name} {way}, seed {seed}{', inputs' * has_inputs}"
        rows = (found.get("parts") or {}).get("quantised", {}).get("rows", [])
        causes = sorted({one["left"]["address"] for one in found["tensors"] if one.get("role") == "cause"})
        named = {rows[0]["name"], *rows[0]["nodes"]} if rows else set()
        whole[mistake] += 1
        fails = any(one["verdict"] == "fail" for one in found["tensors"])
        wrong = [row["name"] for row in rows if row["is_wrong"] and made.truth.isdisjoint({row["name"], *row["nodes"]})]
        wrong = [] if mistake == NARROW else wrong
        if not mistake:
            accused += bool(causes or wrong)
            lines += [f"sound {shown}: {causes or wrong} {rows[:1]}"] if causes or wrong else []
            continue
        is_first = not made.truth.isdisjoint(named)
        first[mistake] += is_first
        cause[mistake] += is_first and rows[0]["is_wrong"] and len(causes) == 1
        is_right = is_first and not wrong and (bool(causes) or mistake in NAMED_ALONE)
        if not is_right:
            first_rows = "; ".join(f"{row['name']} {row['own']:.3g} {row['why']}" for row in rows[:3])
            said = f"wrong {wrong}, causes {causes}{'' if fails else ', nothing fails'}"
            lines.append(f"{mistake} {shown}: {sorted(made.truth)}: named {first_rows}; {said}")
    for mistake in kinds:
        print(f"{mistake:26} {first[mistake]:4} of {whole[mistake]:4} first, {cause[mistake]:4} as the cause")
    total = sum(whole[one] for one in kinds)
    print(
        f"{first.total()} of {total} first, {cause.total()} as the cause; {accused} of {whole['']} sound runs accused"
    )
    print(*lines[: options.worst], sep="\n")


if __name__ == "__main__":
    main()

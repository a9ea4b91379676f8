"""A small compiled network to put a fault into: device dumps, arrays of the original model, and the rules between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from campaign.networks import Network
from campaign.trials import Array, Sides
from semantics import ascend_made as made
from semantics.ascend_made import dumpmade

RNG = np.random.default_rng(29)


def halves(*shape: int) -> Array:
    """Values of float16 that are not small: a wrong place is a wrong value."""
    return (RNG.standard_normal(shape) + np.copysign(0.5, RNG.standard_normal(shape))).astype(np.float16)


A, B = halves(2, 19, 5, 7), halves(2, 19, 5, 7)
# As the device adds: rounded once.
SUM = A + B
CONV = halves(2, 19, 5, 7)
RELU = np.maximum(CONV, 0)
MATRIX = halves(20, 33)
WEIGHT = halves(48, 1, 3, 2)
PARTS = halves(2, 4, 6)


@dataclass(frozen=True)
class Stored:
    """What one operator's dump holds: keyword arguments of `ascend_made.device`."""

    op_type: str
    stored: Array
    time: int
    more: dict[str, Any] = field(default_factory=dict)


def fractal_z(values: Array) -> Array:
    """One filter of one channel in each group: 16 groups share a block, each on its diagonal place."""
    count, _, height, width = values.shape
    stored = np.full((count // 16 * height * width, 1, 16, 16), np.nan, values.dtype)
    for group in range(count):
        pack, inside = divmod(group, 16)
        for place in range(height * width):
            stored[pack * height * width + place, 0, inside, inside] = values[group, 0].reshape(-1)[place]
    return stored


def five(values: Array) -> dict[str, Any]:
    return {"memory_format": "NC1HWC0", "original": values.shape}


DEVICE = {
    "a": Stored("Relu", made.nc1hwc0(A), 1, five(A)),
    "b": Stored("Relu", made.nc1hwc0(B), 2, five(B)),
    "sum": Stored("Add", SUM, 3, {"original": SUM.shape, "slot_of_inputs": (A, B)}),
    "conv1bn1relu1": Stored("Conv2D", made.nc1hwc0(RELU), 4, five(RELU)),
    "w": Stored(
        "Identity", fractal_z(WEIGHT), 5, {"memory_format": "FRACTAL_Z", "original": WEIGHT.shape, "groups": 48}
    ),
    "fc1": Stored("MatMul", made.fractal_nz(MATRIX), 6, {"memory_format": "FRACTAL_NZ", "original": MATRIX.shape}),
}
SPLIT_TIME = 7
ORIGINAL = {"a": A, "b": B, "sum": SUM, "conv1": CONV, "bn1": CONV, "relu1": RELU, "w": WEIGHT, "fc1": MATRIX}
ADDRESSES = frozenset(
    {
        "a:output:0",
        "b:output:0",
        "sum:input:0",
        "sum:input:1",
        "sum:output:0",
        "conv1bn1relu1:output:0",
        "w:output:0",
        "fc1:output:0",
        "split1:output:0",
        "split1:output:1",
    }
)


@dataclass
class AscendTrial(Sides):
    """The network as it should be, paired by rules; inputs are compared too."""

    root: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in DEVICE:
            self.put(name)
        self.split(*PARTS)
        for name, values in ORIGINAL.items():
            made.original(self.right, name, values)
        for slot, values in enumerate(PARTS):
            np.save(self.right / f"split1.{slot}.{made.TIME + 500}.npy", values)
        made.rules(
            self.rules,
            made.operator("a", "Relu"),
            made.operator("b", "Relu"),
            made.operator("sum", "Add", inputs=("a:0", "b:0")),
            made.operator("conv1bn1relu1", "Conv2D", ["conv1", "bn1", "relu1"], inputs=("sum:0",)),
            made.operator("w", "Identity"),
            made.operator("fc1", "MatMul", inputs=("conv1bn1relu1:0",)),
            {"name": "split1", "type": "SplitD", "input": ["fc1:0"]},
        )

    @property
    def rules(self) -> Path:
        """The model's JSON."""
        return self.root / "model.json"

    @property
    def options(self) -> dict[str, Any]:
        """What the suite says beside its sides."""
        return {"io": "all", "fusion": str(self.rules), **self.settings}

    def put(self, name: str, stored: Array | None = None, **changes: Any) -> Path:
        """Write an operator's dump, with other stored values or another description."""
        right = DEVICE[name]
        described = {"time": right.time, **right.more, **changes}
        values = right.stored if stored is None else stored
        return made.device(self.left, right.op_type, name, values, **described)

    def split(self, *parts: Array) -> Path:
        """Write the dump of the operator that has two outputs."""
        outputs = [
            dumpmade.op_output(made.TYPES[part.dtype.name], part.shape, part.nbytes, original=part.shape)
            for part in parts
        ]
        header = dumpmade.message(outputs=outputs, op_name="split1")
        name = f"SplitD.split1.1.1.{made.TIME + SPLIT_TIME}"
        return dumpmade.put(self.left, name, dumpmade.dump2(header, *(part.tobytes() for part in parts)))

    def file(self, address: str, side: str = "left") -> Path:
        """The one file of an operator: ``OP`` on the left, ``OP`` or ``OP:output:SLOT`` on the right."""
        op, _, slot = address.partition(":output:")
        pattern = f"*.{op}.1.1.*" if side == "left" else f"{op}.{slot or 0}.*.npy"
        (found,) = getattr(self, side).glob(pattern)
        return Path(found)

    def ruled(self, name: str, **changes: Any) -> None:
        """Let the rules say something else of an operator; ``None`` takes a key away."""
        model = json.loads(self.rules.read_text("utf-8"))
        (operator,) = [one for one in model["graph"][0]["op"] if one["name"] == name]
        for key, value in changes.items():
            operator.pop(key, None)
            if value is not None:
                operator[key] = value
        self.rules.write_text(json.dumps(model), "utf-8")


def compiled_network(work: Path) -> Network:
    """A compiled network of the device's own memory formats, beside the original model."""
    made = AscendTrial(work / "compiled")
    of_map = {
        f"{left}:{port}": (f"{right}:output:{slot}", False)
        for left, port, right, slot in (
            *((one, "output:0", one, 0) for one in ("a", "b", "sum", "w", "fc1")),
            ("sum", "input:0", "a", 0),
            ("sum", "input:1", "b", 0),
            ("conv1bn1relu1", "output:0", "relu1", 0),
            *(("split1", f"output:{slot}", "split1", slot) for slot in range(2)),
        )
    }
    return Network("compiled", made.left, made.right, ("rules",), of_map, made.options)

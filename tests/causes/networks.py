"""A network of 60 operators with branches, joins and residuals, computed by numpy, with faults put into it."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dump_builder import write_mindspore

Array = npt.NDArray[Any]

SIZE = 60
_SHAPE = (8, 6)


@dataclass(frozen=True)
class Op:
    """One operator: its name, its type, and the operators that feed it (none: the network's input)."""

    name: str
    op_type: str
    feeds: tuple[str, ...]


def network(seed: int) -> list[Op]:
    """Chains, branches that are joined, and residuals, in an order in which they can run."""
    choice = random.Random(seed)
    ops: list[Op] = []

    def add(op_type: str, *feeds: str) -> str:
        ops.append(Op(f"Default/block{len(ops)}/{op_type}-op{len(ops)}", op_type, feeds))
        return ops[-1].name

    def chain(start: str, length: int) -> str:
        for _ in range(length):
            start = add(choice.choice(("MatMul", "Tanh", "Mul")), start)
        return start

    last = add("MatMul")
    while len(ops) < SIZE - 8:
        kind = choice.choice(("chain", "branch", "residual"))
        if kind == "chain":
            last = chain(last, 2)
        elif kind == "branch":
            last = add("Add", chain(last, choice.randint(1, 3)), chain(last, choice.randint(1, 3)))
        else:
            last = add("Add", last, chain(last, choice.randint(1, 3)))
    chain(last, SIZE - len(ops))
    return ops


def above(ops: list[Op], name: str) -> set[str]:
    """The operator, and all that it depends on."""
    feeds = {op.name: op.feeds for op in ops}
    found, waiting = {name}, [name]
    while waiting:
        for producer in feeds[waiting.pop()]:
            if producer not in found:
                found.add(producer)
                waiting.append(producer)
    return found


def computed(ops: list[Op], seed: int, dtype: Any, faults: Collection[str] = ()) -> dict[str, Array]:
    """Every operator's output; one with a fault gets noise of a fifth of its size."""
    random_numbers = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    start = random_numbers.standard_normal(_SHAPE)
    for op in ops:
        weight = np.linalg.qr(random_numbers.standard_normal((_SHAPE[1], _SHAPE[1])))[0]
        noise = random_numbers.standard_normal(_SHAPE)
        inputs = [values[feed] for feed in op.feeds] or [start.astype(dtype)]
        output = _OPERATIONS[op.op_type](inputs, weight.astype(dtype))
        if op.name in faults:
            output = output + (0.2 * np.abs(output).max() * noise).astype(dtype)
        values[op.name] = output.astype(dtype)
    return values


_OPERATIONS: Mapping[str, Any] = {
    "MatMul": lambda inputs, weight: inputs[0] @ weight,
    "Tanh": lambda inputs, _weight: np.tanh(inputs[0]) * 1.5,
    "Mul": lambda inputs, weight: inputs[0] * (1 + abs(weight[0, 0])),
    "Add": lambda inputs, _weight: (inputs[0] + inputs[1]) / 1.4,
}


def write(root: Path, ops: list[Op], values: Mapping[str, Array], without: Collection[str] = ()) -> None:
    """A dump of MindSpore without those operators; its execution order names all."""
    tensors = [(op.op_type, op.name, "output", 0, values[op.name].astype("<f4")) for op in ops]
    write_mindspore(root, [tensor for tensor in tensors if tensor[1] not in without])
    order = root / "rank_0" / "execution_order" / "ms_execution_order_graph_0.csv"
    order.write_text("\n".join([order.read_text("utf-8").splitlines()[0], *(op.name for op in ops)]) + "\n", "utf-8")


def write_ir(
    folder: Path, lines: Sequence[str], parameters: Sequence[str] = ("x",), shape: tuple[int, ...] = (2, 3)
) -> None:
    """Write the graph of the left side as MindSpore does it beside a dump.

    `lines` hold ``NAME TYPE OPERAND …``; an operand is a parameter or an earlier operator.
    """
    known = {name: f"%para{number}_{name}" for number, name in enumerate(parameters, 1)}
    tensor = f"<Tensor[Float32], {shape}>"
    text = ["# IR entry: @kernel_graph0", "# Params:", *(f"{known[name]}: {tensor}" for name in parameters)]
    text += ["", "subgraph @kernel_graph0() {"]
    for number, line in enumerate(lines):
        name, op_type, *operands = line.split()
        types = ", ".join([tensor] * len(operands))
        text += [
            f"  %{number}(out) = {op_type}({', '.join(known[operand] for operand in operands)})",
            f"      : ({types}) -> ({tensor})",
            f"      # Fullname with scope: (Default/{name})",
        ]
        known[name] = f"%{number}"
    file = folder / "left" / "rank_0" / "graphs" / "ms_output_trace_code_graph_0.ir"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*text, "}", ""]), "utf-8")


def write_graph(folder: Path, ops: list[Op]) -> None:
    """Write the graph of the network."""
    lines = [" ".join([op.name, op.op_type, *(op.feeds or ("x",))]).replace("Default/", "") for op in ops]
    write_ir(folder, lines, shape=_SHAPE)


def write_ge(path: Path, ops: list[Op]) -> Path:
    """The compiled model as ATC writes it into JSON; the network's input is an operator there."""
    data = {"name": "x", "type": "Data", "input": []}
    entries = [{"name": op.name, "type": op.op_type, "input": [f"{f}:0" for f in op.feeds or ("x",)]} for op in ops]
    path.write_text(json.dumps({"name": "net", "graph": [{"op": [data, *entries]}]}), "utf-8")
    return path

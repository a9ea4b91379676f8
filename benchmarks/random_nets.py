"""Random networks with mistakes at known operators: how often these are the causes, and how often an innocent one is.

python benchmarks/random_nets.py [NETS]            prints a table

Values are computed by numpy alone: what an operator does to an error, and which operator is mistaken, follows
from these values, not from anything that the package under test calls so.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Tests write such dumps, too.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from dump_builder import Tensor, write_mindspore

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite

Array = npt.NDArray[Any]

SIZE, WIDTH = 48, 256


class Op(NamedTuple):
    """An operator: its name, what it does, and the numbers of those that feed it."""

    name: str
    kind: str
    feeds: tuple[int, ...]


def network(seed: int) -> list[Op]:
    """Layers as real networks have them, in an order in which they can run."""
    choice = random.Random(seed)
    ops = [Op("Default/op0", "Dense", ())]
    while len(ops) < SIZE:
        number = len(ops)
        last = number - 1
        far = choice.randrange(max(0, last - 6), last) if last else 0
        kind = choice.choice(("Dense", "Dense", "Tanh", "ReLU", "Norm", "Softmax", "Add", "Mul", "Side"))
        two = (last, far) if kind in ("Add", "Mul") else (far,) if kind == "Side" else (last,)
        ops.append(Op(f"Default/op{number}", "Dense" if kind == "Side" else kind, tuple(dict.fromkeys(two))))
    return ops


def _norm(x: Array, epsilon: float = 1e-5) -> Array:
    return (x - x.mean(0)) / np.sqrt(x.var(0) + epsilon)


def _softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


# What a mistake makes of the correct value: gross ones, and one that limits see by a little.
MISTAKES: Mapping[str, Any] = {
    "scaled": lambda y, _: y * 0.9,
    "shifted": lambda y, _: y + 0.2 * y.std(),
    "rows": lambda y, _: np.roll(y, 1, axis=0),
    "clipped": lambda y, _: np.clip(y, -0.6 * np.abs(y).max(), 0.6 * np.abs(y).max()),
    "small": lambda y, noise: y + 3e-4 * np.sqrt(np.mean(y**2)) * noise,
    "rounded": lambda y, _: y.astype("f2"),
}


def computed(ops: list[Op], seed: int, dtype: Any, mistakes: Mapping[int, str], rounding: float) -> list[Array]:
    """Every operator's output; `rounding` is what another order of sums adds to each."""
    numbers = np.random.default_rng(seed)
    rounded = np.random.default_rng(seed + 1)
    start = numbers.standard_normal((16, 16)).astype(dtype)
    values: list[Array] = []
    for number, op in enumerate(ops):
        weight = (numbers.standard_normal((16, 16)) / 4).astype(dtype)
        given = [values[feed] for feed in op.feeds] or [start]
        first, second = given[0], given[-1]
        y: Array = {
            "Dense": lambda x=first, w=weight: x @ w,
            "Tanh": lambda x=first: np.tanh(x),
            "ReLU": lambda x=first: np.maximum(x, 0) + x * 0.01,
            "Norm": lambda x=first: _norm(x),
            "Softmax": lambda x=first: _softmax(x * 3),
            "Add": lambda x=first, z=second: x + z,
            "Mul": lambda x=first, z=second: x * (1 + np.tanh(z)),
        }[op.kind]()
        noise = rounded.standard_normal(y.shape)
        if rounding:
            y = y * (1 + rounding * noise)
        if number in mistakes:
            y = MISTAKES[mistakes[number]](y, noise)
        values.append(np.asarray(y, dtype))
    return values


def compared(folder: Path, ops: list[Op], left: list[Array], right: list[Array], *, graph: bool = True) -> Report:
    """Compare two runs of a network, in profile `strict`."""
    for side, values in (("left", left), ("right", right)):
        tensors: list[Tensor] = [
            (op.kind, op.name, "output", 0, value.astype("f4")) for op, value in zip(ops, values, strict=True)
        ]
        write_mindspore(folder / side, tensors)
    table: dict[str, Any] = {"left": "left", "right": "right", "profile": "strict"}
    if graph:
        entries = [{"name": op.name, "type": op.kind, "input": [f"{ops[f].name}:0" for f in op.feeds]} for op in ops]
        (folder / "net.json").write_text(json.dumps({"name": "net", "graph": [{"op": entries}]}), "utf-8")
        table["fusion"] = "net.json"
    planned = plan(load_suite(file=None, table=table, options={}, directory=folder))
    return build_report(planned, compare_plan(planned))


def distances(left: list[Array], right: list[Array]) -> list[float]:
    """How far each operator's output is from the correct one, over the norm of that."""
    return [float(np.linalg.norm(a.astype("f8") - b) / np.linalg.norm(b)) for a, b in zip(left, right, strict=True)]


def above(ops: list[Op], number: int) -> set[int]:
    """All that an operator depends on, and itself."""
    found, waiting = {number}, [number]
    while waiting:
        for feed in ops[waiting.pop()].feeds:
            if feed not in found:
                found.add(feed)
                waiting.append(feed)
    return found


def causes(report: Report) -> set[int]:
    """Numbers of the operators that are called causes."""
    named = (record.left.true_name or "" for record in report.records if record.role == "cause")
    return {int(name.removeprefix("Default/op")) for name in named}


def trial(
    seed: int, kinds: Collection[str], *, graph: bool = True, rounding: float = 2e-7
) -> tuple[str, set[int], set[int]]:
    """Put mistakes into a network, the second not below the first; return what was seen, the truth, and the causes."""
    ops, choice = network(seed), random.Random(seed)
    places = choice.sample(range(2, SIZE - 4), len(kinds))
    mistakes = dict(zip(sorted(places), kinds, strict=True))
    right = computed(ops, seed, np.float64, {}, 0)
    left = computed(ops, seed, np.float32, mistakes, rounding)
    with tempfile.TemporaryDirectory() as folder:
        report = compared(Path(folder), ops, left, right, graph=graph)
    fails = any(record.fails for record in report.records)
    return ("seen" if fails else "not seen"), set(mistakes), causes(report)


def main() -> None:
    """Print the table."""
    nets = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rows = [([kind], True) for kind in MISTAKES] + [(["scaled"], False), ([], True)]
    rows += [(["small", "rows"], True), (["small", "scaled"], True), (["scaled", "scaled"], True)]
    print(f"{'mistakes':20} {'graph':6} {'seen':>5} {'named':>6} {'of':>4} {'innocent':>9}")
    for kinds, graph in rows:
        counted: Counter[str] = Counter()
        for seed in range(nets):
            seen, truth, named = trial(seed, kinds, graph=graph)
            if seen == "seen":
                counted["seen"] += 1
                counted["named"] += len(truth & named)
                counted["of"] += len(truth)
                counted["innocent"] += len(named - truth)
        numbers = (f"{counted[key]:>{size}}" for key, size in (("seen", 5), ("named", 6), ("of", 4), ("innocent", 9)))
        print(f"{'+'.join(kinds) or 'none':20} {'yes' if graph else 'no':6}", *numbers, flush=True)


if __name__ == "__main__":
    main()

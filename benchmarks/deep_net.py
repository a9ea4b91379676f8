"""A net of 300 operators in which the error grows by small steps until it exceeds its limit, with or without a mistake.

python benchmarks/deep_net.py            prints what is said of the net with the mistake, and of the net without it
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

# Tests write such dumps, too.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from dump_builder import Tensor, write_mindspore

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.summary import summary_lines
from pytest_msdump.core.suite import load_suite

OPERATORS, FIRST_BEYOND, MISTAKEN = 300, 122, 125
# Of profile default, for float32.
LIMIT = 1e-3
_FIRST, _BEYOND, _SCALE = 1e-4, 1.06, 0.97


def name_of(number: int) -> str:
    """Name of an operator, counted from 1."""
    return f"Default/op{number}"


def write_net(folder: Path, *, mistake: bool, graph: bool = True) -> None:
    """Write both sides; every operator permutes its input, the left one adds an error in the same direction."""
    random_numbers = np.random.default_rng(22)
    right = random_numbers.standard_normal(1024)
    error = random_numbers.standard_normal(1024)
    error -= right * (error @ right) / (right @ right)
    error *= _FIRST * LIMIT * np.linalg.norm(right) / np.linalg.norm(error)
    grows, scale = (_BEYOND / _FIRST) ** (1 / (FIRST_BEYOND - 1)), 1.0
    tensors: dict[str, list[Tensor]] = {"left": [], "right": []}
    for number in range(1, OPERATORS + 1):
        if number > 1:
            order = random_numbers.permutation(right.size)
            right, error = right[order], error[order] * (grows if number <= FIRST_BEYOND else 1.0005)
        scale = _SCALE if mistake and number >= MISTAKEN else scale
        for side, values in (("left", scale * (right + error)), ("right", right)):
            tensors[side].append(("MatMul", name_of(number), "output", 0, values.astype("f4")))
    for side, listed in tensors.items():
        write_mindspore(folder / side, listed)
    if graph:
        operators = [
            {"name": name_of(number), "type": "MatMul", "input": [f"{name_of(number - 1)}:0"] if number > 1 else []}
            for number in range(1, OPERATORS + 1)
        ]
        (folder / "net.json").write_text(json.dumps({"name": "net", "graph": [{"op": operators}]}), "utf-8")


def compared(folder: Path, **options: str) -> Report:
    """Compare both sides, by the graph if there is one."""
    graph = {"fusion": "net.json"} if (folder / "net.json").exists() else {}
    table = {"left": "left", "right": "right", **graph, **options}
    planned = plan(load_suite(file=None, table=table, options={}, directory=folder))
    return build_report(planned, compare_plan(planned))


def main() -> None:
    """Print roles and what the summary says."""
    for mistake in (True, False):
        for graph in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                write_net(Path(folder), mistake=mistake, graph=graph)
                report = compared(Path(folder))
            roles = Counter(record.role for record in report.records if record.role)
            print(f"-- {'operator 125 scaled by 0.97' if mistake else 'no mistake'}, {'with' if graph else 'no'} graph")
            print("   cause:", *(record.left.true_name for record in report.records if record.role == "cause"))
            print("   op122:", report.records[FIRST_BEYOND - 1].role, "  of all:", dict(roles))
            print(*(f"   {line}" for line in summary_lines(report, width=110)), sep="\n")


if __name__ == "__main__":
    main()

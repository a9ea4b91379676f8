"""MindSpore's own Dump of a hand-written port, from a process of its own.

Which tensor is which of the model's: one of the same value, where the table has the operator's cell for the module.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from torch import nn

from .mistakes import NoPlaceError
from .port import Model, expanded
from .source import Source
from .tensors import Recording, Tensor
from .truth import Meaning, distance, is_plain

__all__ = ["PORTED", "MindSporeSource"]

# Models that `mindspore_nets` has.
PORTED = ("lenet", "resnet18", "encoder", "lenet-steps")
_SAME = 1e-4
_NAME = re.compile(r"(\w+)\.(.+?)(-op(\d+))?\.\d+\.\d+\.(\d+)\.output\.(\d+)\.\w+\.\w+\.npy")
_ORDER = "execution_order/ms_execution_order_graph_"


class MindSporeSource(Source):
    """The port of a model to MindSpore, in graph mode."""

    styles = ()

    def __init__(
        self, model: Model, reference: Callable[[], nn.Module], right: Recording, given: Sequence[Any]
    ) -> None:
        super().__init__(model.name, "mindspore", right)
        self._reference, self._given = reference, given
        self._is_training = model.optimizer is not None
        self._scopes: dict[str, str] = {}
        self._table: dict[str, str] = {}

    @cached_property
    def _runs(self) -> dict[str, Recording]:
        """Run every variant; return what each saved."""
        with tempfile.TemporaryDirectory() as made:
            folder, root = Path(made), Path(made) / "dump"
            state = {name: values.numpy() for name, values in self._reference().state_dict().items()}
            np.savez(folder / "weights.npz", **state)
            np.savez(folder / "inputs.npz", *(one.numpy() for one in self._given))
            common = {
                "dump_mode": 0, "path": str(root), "net_name": "Net", "iteration": "all", "saved_data": "tensor",
                "input_output": 2, "kernels": [], "support_device": [0], "op_debug_mode": 0, "file_format": "npy",
            }  # fmt: skip
            settings = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}
            (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
            command = [sys.executable, "-m", f"{__package__}.mindspore_nets", self.model, str(folder)]
            variables = {"MINDSPORE_DUMP_CONFIG": str(folder / "config.json"), "GLOG_v": "3"}
            ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise RuntimeError(f"{self.model} in MindSpore: {ran.stderr[-2000:]}")
            lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
            self._scopes, self._table = lines[0]["scopes"], lines[0]["table"]
            return {line["variant"]: self._read(root / "rank_0", line["graphs"]) for line in lines}

    def _read(self, folder: Path, graphs: Sequence[str]) -> Recording:
        """Return the dump of some graphs as if no others had run before."""
        tree: dict[str, bytes] = {}
        tensors = []
        for number, graph in enumerate(graphs):
            order = f"{_ORDER}{graph}.csv"
            if (folder / order).exists():
                tree[f"rank_0/{_ORDER}{number}.csv"] = (folder / order).read_bytes()
            steps = sorted((path for path in (folder / "Net" / graph).iterdir()), key=lambda path: int(path.name))
            for step, path in enumerate(steps):
                files = {file.name: file.read_bytes() for file in path.iterdir()}
                below = f"rank_0/Net/{number}/{step}"
                tree.update((f"{below}/{name}", content) for name, content in files.items())
                tensors += _tensors(below, files, step if self._is_training else None)
        return Recording(tuple(tensors), tree)

    @cached_property
    def good(self) -> Recording:  # type: ignore[override]
        """The dump of the port without a mistake."""
        return self._runs["good"]

    def wrong(self, mistake: str, draw: Random) -> Recording:  # noqa: ARG002
        """Return the dump of the port with a mistake, whose place is always the same."""
        if mistake not in self._runs:
            raise NoPlaceError
        return self._runs[mistake]

    @cached_property
    def meaning(self) -> Meaning:  # type: ignore[override]
        """What its tensors mean."""
        rights: dict[str, frozenset[str]] = {}
        members: dict[str, list[Tensor]] = {}
        for group in self.right.groups():
            members[group[0].label] = group
            rights.update((tensor.label, frozenset({group[0].label})) for tensor in group)
        lefts: dict[str, frozenset[str]] = {}
        unjudged: set[str] = set()
        for tensor in self.good.tensors:
            cell = self._modules_of(tensor.origin)
            same = [] if is_plain(tensor.values) else [
                quantity for quantity, group in members.items()
                if group[0].step == tensor.step and (distance(tensor.values, group[0].values) or 0) < _SAME
                and group[0].values.size == tensor.values.size
            ]  # fmt: skip
            said = [one for one in same if _is_said(tensor.origin, cell, members[one])]
            lefts[tensor.label] = frozenset(said or {f"left {tensor.label}"})
            # What a parameter held before a step is another thing than what it holds behind it, under one name.
            if is_plain(tensor.values) or (not said and (same or tensor.origin.startswith("Parameter."))):
                unjudged.add(tensor.label)
        # An operator that only a port with a mistake has may stand for one that it replaced.
        unjudged.update({tensor.label for run in self._runs.values() for tensor in run.tensors} - lefts.keys())
        return Meaning(lefts, rights, unjudged=frozenset(unjudged))

    def _modules_of(self, origin: str) -> set[str]:
        """Return the reference's modules that the cell of an operator stands for."""
        holding = [path for path, scope in self._scopes.items() if f"_{scope}" in origin]
        cell = max(holding, key=lambda path: len(self._scopes[path]), default="")
        return {
            module
            for template, others in self._table.items()
            for other in others.split()
            for _, module in expanded(template, other, [cell])
        }

    def missing_rows(self) -> list[str]:
        """Return quantities that no tensor of the port has."""
        met = {quantity for quantities in self.meaning.left.values() for quantity in quantities}
        rights = {quantity for quantities in self.meaning.right.values() for quantity in quantities}
        return [f"mindspore: no tensor is {quantity}" for quantity in sorted(rights - met)]


def _is_said(origin: str, modules: set[str], group: Sequence[Tensor]) -> bool:
    """Whether the cell of an operator is one of the modules that hold a tensor."""
    is_update, is_gradient = "optimizer" in origin, "Gradients_" in origin
    for one in group:
        if is_update != (one.kind in ("parameter", "state")) or is_gradient != (one.kind == "gradient"):
            continue
        # Operators of a backward pass that are alike have the scope of the first of them.
        is_inside = any(f"{one.path}.".startswith(f"{module}.") for module in modules)
        if is_update or is_gradient or is_inside:
            return True
    return False


def _tensors(below: str, files: Mapping[str, bytes], step: int | None) -> list[Tensor]:
    """Return the tensors of one iteration. Operators are numbered on over all graphs of a process: order stays."""
    parsed = [(match, name) for name in files if (match := _NAME.fullmatch(name))]
    numbers: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for match, _ in parsed:
        numbers[match[1], match[2]].add(int(match[4] or 0))
    found = []
    seen: Counter[str] = Counter()
    for match, name in sorted(parsed, key=lambda one: (int(one[0][5]), one[1])):
        place = sorted(numbers[match[1], match[2]]).index(int(match[4] or 0))
        origin = f"{match[1]}.{match[2]}[{place}]"
        call = seen[f"{origin}:{match[6]}"]
        seen[f"{origin}:{match[6]}"] += 1
        try:
            values = np.load(io.BytesIO(files[name]))
        except ValueError:  # Some files are shorter than their header says.
            values = np.empty(0)
        found.append(Tensor(f"{below}/{name}", values, int(match[6]), call, step=step, origin=origin))
    return found

"""Write the tensors of any dump as a tree of msprobe, in the form that it has for MindSpore: npy files and JSON.

References: mindstudio-probe 26.2.0, ``core/dump/data_dump``; names and JSON as `dumps.msprobe_json` reads them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.arrays.writer import write_view
from pytest_msdump.capabilities.msprobe.reader import parse_call
from pytest_msdump.capabilities.statistics.tensor_statistics import statistics_of
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.model.dump import PARAMETER, Dump
from pytest_msdump.core.model.tensor import OpKey, TensorRef
from pytest_msdump.core.storage.files import in_utf8, make_folder, write_file

_STATISTICS = {"Max": "maximum", "Min": "minimum", "Mean": "mean", "Norm": "l2_norm", "md5": "crc32"}
_GRADIENTS = {"/grad_output": "input", "/grad_input": "output"}
_DTYPES = {"bfloat16": "BFloat16", "bool": "Bool"}
_UNKNOWN_TYPE = "Module"


def write_msprobe_tree(dump: Dump, out: Path) -> int:
    """Write a tree into a new folder, and return how many tensors there were; what was not saved has its statistics."""
    if out.is_dir() and any(out.iterdir()):
        raise ConfigError(f"{out}: is not empty; empty it, or give another folder")
    if len({(ref.key.op.at.net, ref.key.op.at.graph) for ref in dump.refs}) > 1:
        raise ConfigError(f"{dump.root}: holds several nets or graphs; convert the folder of each by itself")
    processes: defaultdict[Path, list[TensorRef]] = defaultdict(list)
    for ref in dump.refs:
        at = ref.key.op.at
        processes[out / f"step{at.iteration or 0}" / ("proc0" if at.rank is None else f"rank{at.rank}")].append(ref)
    for folder, refs in processes.items():
        _Process(folder, refs).write()
    return len(dump.refs)


class _Process:
    """What one process had in one step."""

    def __init__(self, folder: Path, refs: Sequence[TensorRef]) -> None:
        self.folder, self.refs = folder, refs
        self.types = {ref.key.op.label: ref.key.op.op_type for ref in refs if ref.key.op.op_type}
        self.data: dict[str, dict[str, Any]] = {}
        # Gradients come with the last call first.
        self.last: defaultdict[str, int] = defaultdict(int)
        for ref in refs:
            base = _base_of(ref.key.op)
            self.last[base] = max(self.last[base], ref.key.op.at.occurrence or 0)

    def write(self) -> None:
        tensors = self.folder / "dump_tensor_data"
        make_folder(tensors, kind=MsdumpError)
        lines: dict[str, str] = {}
        for ref in self.refs:
            call, part, index = self._place(ref)
            if ref.line is not None:
                lines[call] = f"File {ref.line.file}, line {ref.line.line}, in f, \n {ref.line.text}"
            leaf = _leaf(ref, tensors, f"{call}.{index}" if part == "weight" else f"{call}.{part}.{index}")
            self._put(ref, call, part, index, leaf)
        stack = {str(number): [[call], [line]] for number, (call, line) in enumerate(lines.items())}
        is_saved = any(not ref.is_unseen for ref in self.refs)
        about = {"task": "tensor" if is_saved else "statistics", "level": "mix", "framework": "mindspore"}
        head = {**about, "dump_data_dir": tensors.name if is_saved else None, "data": self.data}
        for name, document in (("dump.json", head), ("stack.json", stack), ("construct.json", {})):
            write_file(self.folder, name, in_utf8(json.dumps(document, indent=1)))

    def _place(self, ref: TensorRef) -> tuple[str, str, str]:
        """Return the call that a tensor is of, which part of it, and where in that."""
        op, number = ref.key.op, ref.key.op.at.occurrence or 0
        name, base = op.label, _base_of(op)
        for suffix, part in _GRADIENTS.items():
            if name.endswith(suffix):
                return self._call(base, "backward", self.last[base] - number), part, str(ref.key.slot)
        is_gradient = name != base
        if is_gradient or op.op_type == PARAMETER:
            module, _, weight = base.rpartition(".")
            way, part = ("parameters_grad", "weight") if is_gradient else ("forward", "parameters")
            return self._call(module, way, number), part, _plain(weight)
        return self._call(name, "forward", number), ref.key.io, str(ref.key.slot)

    def _call(self, name: str, way: str, number: int) -> str:
        kind = (self.types.get(name) or _UNKNOWN_TYPE).replace(".", "_")
        plain = _plain(name)
        api = f"{plain}.{number}.{way}"
        parsed = parse_call(api)
        if way != "parameters_grad" and parsed is not None and parsed.op_type == kind:
            return api
        return ".".join(filter(None, ("Cell", plain, kind, way, str(number))))

    def _put(self, ref: TensorRef, call: str, part: str, index: str, leaf: Mapping[str, Any]) -> None:
        is_forward = ".forward" in call
        empty: dict[str, Any] = {"input_args": [], "input_kwargs": {}, "output": []} if is_forward else {}
        entry = self.data.setdefault(call, empty)
        if part in ("parameters", "weight"):
            found = entry.setdefault("parameters", {}) if part == "parameters" else entry
            is_free = index not in found
            found[index] = leaf if part == "parameters" else [leaf]
        else:
            listed = entry.setdefault("input_args" if is_forward and part == "input" else part, [])
            # A gradient that is not needed has a place; elsewhere a tensor's place is its number.
            listed += [None] * (int(index) - len(listed)) if not is_forward else []
            is_free = int(index) == len(listed)
            listed.append(leaf)
        if not is_free:
            raise ConfigError(
                f"{ref.key.address}: does not follow the {part} before it, or another tensor has its place "
                f"({call}); leave the operator out with --select"
            )


def _plain(name: str) -> str:
    return "".join(one if one.isprintable() else "_" for one in name.replace("/", "."))


def _base_of(op: OpKey) -> str:
    """Return the operator, or the weight, that a gradient is of; any other operator is its own."""
    name = op.label
    return next((name.removesuffix(end) for end in (*_GRADIENTS, "/grad") if name.endswith(end)), name)


def _leaf(ref: TensorRef, folder: Path, name: str) -> dict[str, Any]:
    if ref.is_unseen:
        values, dtype, shape = ref.statistics.values if ref.statistics else {}, ref.spec.dtype, ref.spec.shape
        saved = {}
    else:
        with closing(open_logical(ref)) as view:
            file = write_view(view, folder / f"{name}.npy")
            values, dtype, shape = statistics_of(view), ref.computed or view.dtype, view.shape
        saved = {"data_name": file.name}
    spelled = _DTYPES.get(dtype or "", (dtype or "").capitalize())
    numbers = {theirs: values[ours] for theirs, ours in _STATISTICS.items() if ours in values}
    return {"type": "mindspore.Tensor", "dtype": spelled, "shape": list(shape or ()), **numbers, **saved}

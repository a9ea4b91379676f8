"""What a recording hands on where it is tried: each operator is given the inputs that another run gave it.

A program that compares environments sets both variables (`msdump upgrade` does); without them nothing here happens.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from pytest_msdump.core.compare.opening import index, open_view
from pytest_msdump.core.model.tensor import TensorRef

# The dump whose tensors are handed on, and the folder for what the starter wants to know beside the dump.
GIVEN, TRIAL = "MSDUMP_GIVEN", "MSDUMP_TRIAL"
# In that folder: which outputs were handed on, and the model that ran.
HANDED_ON, MODEL = "handed_on.json", "model.onnx"


class Given:
    """The outputs of another run: what goes on in place of what an operator made."""

    def __init__(self, root: Path) -> None:
        self._refs: dict[tuple[str, int, int], list[TensorRef]] = {}
        for ref in index(root).refs:
            if ref.key.io == "output":
                place = ref.key.op.label, ref.key.slot, ref.key.op.at.iteration or 0
                self._refs.setdefault(place, []).append(ref)
        self._calls: Counter[tuple[str, int, int]] = Counter()
        self._handed: dict[str, None] = {}
        self._kept: dict[str, None] = {}

    def look(self, op: str, slot: int = 0, iteration: int = 0, call: int = 0) -> Any:
        """Return what the other run had; ``None`` where it has nothing that numpy can hold."""
        refs = self._refs.get((op, slot, iteration), [])
        if call >= len(refs) or refs[call].is_unseen:
            return None
        with closing(open_view(refs[call])) as view:
            return view.read(0, view.size).reshape(view.shape).copy()

    def note(self, op: str, *, is_handed: bool) -> None:
        """Note whether what goes on after an operator is of the other run."""
        (self._handed if is_handed else self._kept).setdefault(op)

    def instead(self, op: str, array: Any, slot: int = 0, iteration: int = 0) -> Any:
        """Return what the other run had in place of an array; the array itself where that has none that fits."""
        place = op, slot, iteration
        found = self.look(*place, self._calls[place])
        self._calls[place] += 1
        fits = isinstance(array, np.ndarray) and found is not None
        fits = fits and (found.shape, found.dtype) == (array.shape, array.dtype)
        self.note(op, is_handed=fits)
        return found if fits else array

    def instead_of_tensor(self, op: str, tensor: Any, array_of: Callable[[Any], Any], iteration: int) -> Any:
        """Return the same of PyTorch: ``None`` where the tensor itself goes on."""
        import torch

        array = array_of(tensor) if isinstance(tensor, torch.Tensor) else None
        found = self.instead(op, array, 0, iteration)
        if found is array:
            return None
        values = torch.from_numpy(found).to(tensor.device)
        # The bits of the values, and what a backward pass goes through.
        return (
            torch.where(torch.ones_like(tensor, dtype=torch.bool), values, tensor) if tensor.requires_grad else values
        )

    def close(self, operators: Iterable[str]) -> None:
        """Say in the folder of the trial what was handed on, and which others of the operators were not."""
        folder = trial_folder()
        self._kept |= dict.fromkeys(op for op in operators if op not in self._handed)
        if folder is not None:
            text = json.dumps({"handed": list(self._handed), "kept": list(self._kept)})
            (folder / HANDED_ON).write_text(text, "utf-8")


def given_of_trial() -> Given | None:
    """Return what is handed on in this process; ``None`` where it runs by itself."""
    root = os.environ.get(GIVEN)
    return Given(Path(root)) if root else None


def trial_folder() -> Path | None:
    """Return the folder beside the dump of a program that was started to be tried."""
    root = os.environ.get(TRIAL)
    return Path(root) if root else None


def keep_model(proto: Any, folder: Path | None) -> None:
    """Keep the ONNX model that runs for who started it, with its weights in it; not one that no file can hold."""
    kept = trial_folder()
    if kept is None or os.environ.get(GIVEN):
        return
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    if folder is not None:
        onnx.load_external_data_for_model(copy, str(folder))
    with suppress(ValueError):
        onnx.save(copy, str(kept / MODEL))


def rewired(model: Any, given: Given) -> tuple[Any, list[tuple[str, str, int]]]:
    """Return an ONNX model whose nodes take what others make as inputs of the model, with node and slot of each.

    What graphs of loops and branches take from outside stays as it is, and is not handed on.
    """
    from onnx import ModelProto, helper

    copy = ModelProto()
    copy.CopyFrom(model.proto)
    nodes = model.nodes
    inner = {name for node in nodes for name in node.read}
    taken = {name for node in nodes for name in node.inputs} | inner
    fed: dict[str, tuple[str, str, int]] = {}
    for node in nodes:
        for slot, name in enumerate(node.outputs):
            if name not in taken:
                given.note(node.name, is_handed=True)
                continue
            values = None if name in inner else given.look(node.name, slot)
            given.note(node.name, is_handed=values is not None)
            if values is not None:
                fed[name] = (f"{name}/given", node.name, slot)
                kind = helper.np_dtype_to_tensor_dtype(values.dtype)
                copy.graph.input.append(helper.make_tensor_value_info(fed[name][0], kind, values.shape))
    for proto in copy.graph.node:
        proto.input[:] = [fed[name][0] if name in fed else name for name in proto.input]
    return copy, list(fed.values())

"""Write what was recorded as a stranger's folder, in one of the styles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .styles import Style, Words
from .tensors import OUTPUT, Recording, Tensor

__all__ = ["HOOKED", "chosen", "write"]

_FIRST_TIME = 1_795_885_365_370_591
_STEP_US = 137

# Which modules people hook.
HOOKED = ("all", "leaves")


def chosen(recording: Recording, hooked: str) -> Sequence[Tensor]:
    """Return the tensors of all modules, or of those alone that hold no other modules."""
    if hooked == "all":
        return recording.tensors
    paths = {tensor.path for tensor in recording.tensors}
    containers = {path[:end] for path in paths for end, sign in enumerate(path) if sign == "."}
    return [tensor for tensor in recording.tensors if tensor.kind != OUTPUT or tensor.path not in containers]


def write(tensors: Sequence[Tensor], style: Style, folder: Path, start: int = 0) -> dict[str, Tensor]:
    """Write tensors into a folder; return them by key. A file whose name comes again holds what was written last.

    Parameters
    ----------
    tensors : sequence of Tensor
        In the order in which they were saved.
    style : Style
        How their files are named.
    folder : Path
        Made when it is not there.
    start : int
        How long after another folder this one was written, in µs.
    """
    kept: dict[str, Tensor] = {}
    archives: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    folder.mkdir(parents=True)
    orders: defaultdict[int | None, int] = defaultdict(int)
    for number, tensor in enumerate(tensors):
        order = orders[tensor.step]
        orders[tensor.step] += 1
        time = _FIRST_TIME + start + number * _STEP_US
        values = tensor.values
        words = Words(tensor.path, tensor.slot, tensor.call, tensor.kind, order, time, str(values.dtype))
        step = "" if tensor.step is None else f"{tensor.step}/"
        name = style.file(words)
        if style.archive:
            archives[step + style.archive][name] = values
            kept[f"{step}{style.archive}::{name}"] = tensor
            continue
        path = folder / (step + name)
        path.parent.mkdir(parents=True, exist_ok=True)
        _save(path, values, is_torch=style.is_torch)
        kept[step + name] = tensor
    for file, values in archives.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        _save(folder / file, values, is_torch=style.is_torch)
    return kept


def write_tree(recording: Recording, folder: Path) -> dict[str, Tensor]:
    """Write a framework's own dump as it is; return its tensors by file."""
    for file, content in (recording.tree or {}).items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return {tensor.path: tensor for tensor in recording.tensors}


def _save(path: Path, values: Any, *, is_torch: bool) -> None:
    if is_torch:
        import torch

        is_many = isinstance(values, dict)
        torch.save({key: torch.tensor(one) for key, one in values.items()} if is_many else torch.tensor(values), path)
    elif isinstance(values, dict):
        with path.open("wb") as file:
            np.savez(file, **values)
    else:
        np.save(path, values)

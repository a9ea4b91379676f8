"""Tensors of a dump, read as the gate reads them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dumps.base import reader
from pytest_msdump.core.model.tensor import TensorRef, TensorView


def opened(ref: TensorRef) -> TensorView:
    return reader(ref.reader).open(ref)


def elements(ref: TensorRef, block_elements: int = 1000) -> npt.NDArray[Any]:
    """The elements of a tensor in its shape, read block by block."""
    with closing(opened(ref)) as view:
        blocks = [block.copy() for block in view.blocks(block_elements)]
        return np.concatenate([view.read(0, 0), *blocks]).reshape(view.shape)


def open_files() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))

"""Write small dumps as the frameworks write them, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.dumps.file_names import MindSporeName, ReferenceName
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.tensor import mangle

# op_type, true name, "input" or "output", slot, values.
Tensor = tuple[str, str, str, int, npt.ArrayLike]

START = 1_700_000_000_000_000
_STEP_US = 100
_LONGEST_NAME_BYTES = 255
_ORDER_HEADER = "NodeExecutionOrder-FullNameWithScope"
_CAMEL_CASE = {"uint": "UInt", "bfloat": "BFloat"}


def write_reference(root: Path, tensors: Mapping[str, npt.ArrayLike], *, start: int = START) -> None:
    """Write a reference folder: ``op.index.timestamp.npy`` for each tensor, in the order given.

    Parameters
    ----------
    root : Path
        The folder; made when it is not there. Files in it stay.
    tensors : mapping of str to array_like
        Values by operator; ``"op:1"`` is the operator's output 1, ``"op"`` its output 0.
    start : int
        Timestamp of the first tensor in µs since 1970; each further one is 100 µs later.
    """
    root.mkdir(parents=True, exist_ok=True)
    for position, (address, values) in enumerate(tensors.items()):
        op, _, index = address.rpartition(":")
        if not (op and index.isdigit()):
            op, index = address, "0"
        name = ReferenceName(op, int(index), start + position * _STEP_US).filename
        np.save(root / name, np.asarray(values))


def write_mindspore(
    root: Path,
    tensors: Sequence[Tensor],
    *,
    rank: int = 0,
    net: str = "Net",
    graph: int = 0,
    iteration: int = 0,
    dtype: str | None = None,
    execution_order: bool = True,
    start: int = START,
) -> None:
    """Write one iteration of a MindSpore dump tree, in the order given.

    Call it again, with the same `root`, for further ranks, nets, graphs and iterations.

    Parameters
    ----------
    root : Path
        The dump's root; made when it is not there. Files in it stay.
    tensors : sequence of (str, str, str, int, array_like)
        Operator type, full name with scope, ``"input"`` or ``"output"``, slot, values. Names are mangled in file names;
        names too long for the file system go to ``mapping.csv``, as MindSpore does it.
    rank, net, graph, iteration : int or str
        The directory below `root`.
    dtype : str, optional
        ``"bfloat16"`` rounds every value to it and saves as MindSpore on CPU does, under the npy type ``<E2`` that
        numpy does not know. The arrays' own types when not given.
    execution_order : bool
        Whether to write the operators, without Parameters, to the graph's execution order, behind those already there.
    start : int
        Timestamp of the first tensor in µs since 1970; each further one is 100 µs later.
    """
    folder = root / f"rank_{rank}" / net / str(graph) / str(iteration)
    folder.mkdir(parents=True, exist_ok=True)
    for position, (op_type, true_name, io, slot, values) in enumerate(tensors):
        array = np.asarray(values)
        name = MindSporeName(
            op_type=op_type,
            op=mangle(true_name),
            task=0,
            stream=0,
            timestamp=start + position * _STEP_US,
            io=io,
            slot=slot,
            memory_format="DefaultFormat",
            dtype=_camel_case(dtype or array.dtype.name),
        )
        _save(folder / _short_name(folder, name.filename), array, dtype)
    if execution_order:
        names = [true_name for op_type, true_name, *_ in tensors if op_type != PARAMETER]
        _add_to_order(root / f"rank_{rank}" / "execution_order" / f"ms_execution_order_graph_{graph}.csv", names)


def _camel_case(dtype: str) -> str:
    kind = dtype.rstrip("0123456789")
    return _CAMEL_CASE.get(kind, kind.capitalize()) + dtype[len(kind) :]


def _short_name(folder: Path, name: str) -> str:
    """Return a name that the file system takes, and write down what it stands for."""
    if len(name.encode()) <= _LONGEST_NAME_BYTES:
        return name
    mapping = folder / "mapping.csv"
    rows = mapping.read_text("utf-8") if mapping.exists() else ""
    short = f"{400_000_000 + rows.count(chr(10))}.npy"
    mapping.write_text(f"{rows}{short},{name}\n", "utf-8")
    return short


def _save(path: Path, array: npt.NDArray[Any], dtype: str | None) -> None:
    if dtype != "bfloat16":
        np.save(path, array)
        return
    header = {"descr": "<E2", "fortran_order": False, "shape": array.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(_bfloat16_bits(array).tobytes())


def _bfloat16_bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Round to the nearest bfloat16, ties to even; the bits are the upper half of float32's."""
    single = np.asarray(array, dtype="<f4", order="C")
    bits = single.view("<u4").astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    # Rounding up could turn a NaN into an infinity: keep its upper half, and make sure that it stays a NaN.
    return np.where(np.isnan(single), (bits >> 16) | 0x40, rounded).astype("<u2")


def _add_to_order(path: Path, names: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text("utf-8").splitlines() if path.exists() else [_ORDER_HEADER]
    merged = dict.fromkeys([*lines, *names])
    path.write_text("".join(f"{line}\n" for line in merged), "utf-8")

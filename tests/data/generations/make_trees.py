"""Writes the trees beside this script: one small run as every release of MindSpore lays it out.

Names, directories and bytes are put together from the documented grammar, without the package. Run it to write all of
them anew: ``python make_trees.py``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
START = 1600000000000000
TIME = "20260131235959"
ITERATIONS = (0, 1)


class Tensor(NamedTuple):
    op_type: str
    scope: str
    task: int
    io: str
    slot: int
    values: np.ndarray

    @property
    def full_name(self) -> str:
        return f"{self.scope}/{self.op_type}-op{self.task}"

    @property
    def mangled(self) -> str:
        return self.full_name.replace("/", "_")

    @property
    def dtype(self) -> str:
        return {"float32": "Float32", "float16": "Float16"}[self.values.dtype.name]


def run(iteration: int) -> list[Tensor]:
    """Two operators; the second one's input is the first one's output."""
    convolved = (np.arange(12, dtype="<f4").reshape(1, 2, 2, 3) + 100 * iteration) / 8
    biased = (convolved + 1).astype("<f2")
    return [
        Tensor("Conv2D", "Default/conv1-Conv2d", 1, "output", 0, convolved),
        Tensor("BiasAdd", "Default/conv1-Conv2d", 2, "input", 0, convolved),
        Tensor("BiasAdd", "Default/conv1-Conv2d", 2, "output", 0, biased),
    ]


def time_of(iteration: int, position: int) -> int:
    return START + 1000 * iteration + 10 * position


def put(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def npy(values: np.ndarray) -> bytes:
    text = f"{{'descr': '{values.dtype.str}', 'fortran_order': False, 'shape': {values.shape}, }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + values.tobytes()


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def dump_file(tensors: list[Tensor]) -> bytes:
    """A dump file of one operator: length of the header, header, the inputs' data, the outputs' data."""
    header = field(1, b"2.0") + field(2, 7)
    for number, io, size_field in ((3, "output", 6), (4, "input", 5)):
        for tensor in tensors:
            if tensor.io != io:
                continue
            data_type = {"float32": 1, "float16": 2}[tensor.values.dtype.name]
            dims = field(1, b"".join(varint(length) for length in tensor.values.shape))
            fields = field(1, data_type) + field(2, 0) + field(3, dims) + field(size_field, tensor.values.nbytes)
            header += field(number, fields)
    header += field(6, tensors[0].full_name.encode())
    data = b"".join(tensor.values.tobytes() for io in ("input", "output") for tensor in tensors if tensor.io == io)
    return struct.pack("<Q", len(header)) + header + data


def operators(iteration: int) -> list[list[Tensor]]:
    tensors = run(iteration)
    return [tensors[:1], tensors[1:]]


def execution_order(path: Path) -> None:
    names = dict.fromkeys(tensor.full_name for tensor in run(0))
    put(path, "".join(f"{line}\n" for line in ("NodeExecutionOrder-FullNameWithScope", *names)))


def write_bins(root: Path, device: str) -> None:
    """1.2 and 1.3, synchronous: raw bytes."""
    for iteration in ITERATIONS:
        for tensor in run(iteration):
            name = tensor.full_name.replace("/", "--")
            dims = "_".join(map(str, tensor.values.shape))
            file = f"{name}_{tensor.io}_{tensor.slot}_shape_{dims}_{tensor.dtype}_NCHW.bin"
            put(root / "Net" / device / f"iteration_{iteration}" / file, tensor.values.tobytes())
    put(root / "Net" / device / "graphs" / "ms_output_trace_code_graph_0.ir", "#IR entry\n")
    execution_order(root / "Net" / device / "execution_order" / "ms_execution_order_graph_0.csv")
    put(root / ".metadata" / "data_dump.json", "{}\n")


def write_first_npy(root: Path) -> None:
    """1.3 in development, on CPU."""
    for tensor in run(0):
        file = f"{tensor.full_name.replace('/', '--')}_{tensor.io}_{tensor.slot}.npy"
        put(root / "Net" / "device_0" / "iteration_0" / file, npy(tensor.values))


def write_npy(folder: Path, iteration: int, *, dtype: bool = True, scoped: bool = True) -> None:
    for position, tensor in enumerate(run(iteration)):
        op = tensor.mangled if scoped else f"{tensor.op_type}-op{tensor.task}"
        behind = f".{tensor.dtype}" if dtype else ""
        stamp = time_of(iteration, position)
        file = f"{tensor.op_type}.{op}.{tensor.task}.1.{stamp}.{tensor.io}.{tensor.slot}.DefaultFormat{behind}.npy"
        put(folder / file, npy(tensor.values))


def write_dumps(folder: Path, iteration: int, *, stream: bool = True) -> None:
    for position, tensors in enumerate(operators(iteration)):
        op, ids = tensors[0], f"{tensors[0].task}.1" if stream else f"{tensors[0].task}"
        put(folder / f"{op.op_type}.{op.mangled}.{ids}.{time_of(iteration, position)}", dump_file(tensors))


def write_converted(folder: Path, iteration: int, form: str) -> None:
    for position, tensors in enumerate(operators(iteration)):
        for tensor in tensors:
            stamp = time_of(iteration, position)
            behind = form.format(shape="x".join(map(str, tensor.values.shape)))
            file = f"{tensor.op_type}.{tensor.mangled}.{tensor.task}.1.{stamp}.{tensor.io}.{tensor.slot}{behind}.npy"
            put(folder / file, npy(tensor.values))


def rank_side_files(root: Path) -> None:
    execution_order(root / "rank_0" / "execution_order" / "ms_execution_order_graph_0.csv")
    put(root / "rank_0" / ".dump_metadata" / "data_dump.json", "{}\n")


def step_side_files(root: Path) -> None:
    put(root / "acl_dump_0.json", json.dumps({"dump": {"dump_path": str(root.name)}}))


def shorten(folder: Path) -> None:
    """Give the first array of a directory a number for a name, as MindSpore does with names beyond 255 bytes."""
    path = min(folder.glob("*.npy"))
    number = int(hashlib.md5(path.name.encode(), usedforsecurity=False).hexdigest()[:7], 16)
    path.rename(folder / f"{number}.npy")
    put(folder / "mapping.csv", f"{number}.npy,{path.name}\n")


def main() -> None:
    for tree in HERE.iterdir():
        if tree.is_dir():
            shutil.rmtree(tree)
    write_bins(HERE / "g1", "device_0")
    write_bins(HERE / "g1_bare_device", "0")
    write_first_npy(HERE / "g1b")
    for step in ITERATIONS:
        write_dumps(HERE / "g2" / "0" / "Net_graph_0" / "0" / str(step), step, stream=False)
        write_dumps(HERE / "g2_not_sunk" / "0" / "Net_graph_0" / "0" / "0", step, stream=False)
        write_npy(HERE / "g3" / "rank_0" / "Net" / "0" / str(step), step, dtype=False)
        write_npy(HERE / "g3_unscoped" / "rank_0" / "Net" / "0" / str(step), step, dtype=False, scoped=False)
        write_npy(HERE / "g4" / "rank_0" / "Net" / "0" / str(step), step)
        write_dumps(HERE / "g5" / "rank_0" / "Net" / "0" / str(step), step)
        write_npy(HERE / "g6_npy" / str(step) / TIME / "0" / "Net" / "0" / str(step), step)
        write_dumps(HERE / "g6_bin" / str(step) / TIME / "0" / "Net" / "0" / str(step), step)
        write_npy(HERE / "g7_npy" / TIME / "0" / "Net" / "0" / str(step), step)
        write_dumps(HERE / "g7_bin" / TIME / "0" / "Net" / "0" / str(step), step)
        write_converted(HERE / "converted_shape" / "rank_0" / "Net" / "0" / str(step), step, ".{shape}")
        write_converted(HERE / "converted_plain" / "rank_0" / "Net" / "0" / str(step), step, "")
        write_converted(HERE / "converted_msnpy" / "rank_0" / "Net" / "0" / str(step), step, ".NCHW")
    for tree in ("g3", "g3_unscoped", "g4", "g5"):
        rank_side_files(HERE / tree)
    for tree in ("g6_npy", "g6_bin"):
        step_side_files(HERE / tree)
    shorten(HERE / "g6_npy" / "0" / TIME / "0" / "Net" / "0" / "0")
    write_dumps(HERE / "g7b_files" / TIME / "0", 0)
    write_npy(HERE / "g7b_npy" / TIME / "0", 0)
    for tensors in operators(0):
        folder = HERE / "g7b_folders" / TIME / "0" / tensors[0].mangled
        write_dumps(folder, 0)
        for path in folder.iterdir():
            if not path.name.startswith(f"{tensors[0].op_type}."):
                path.unlink()
    write_npy(HERE / "mixed" / "rank_0" / "Net" / "0" / "0", 0)
    write_dumps(HERE / "mixed" / "1" / TIME / "0" / "Net" / "0" / "1", 1)


if __name__ == "__main__":
    main()

"""Writes dump files as an Ascend device does, byte by byte, and lays tensors out as it does. Needs numpy only.

A dump file is a length (8 bytes, little-endian), a header of that many bytes, then the raw bytes of all outputs. The
header is a protobuf message. Every field of one begins with a byte, number << 3 | kind. Kind 0 is a whole number, seven
bits a byte, lowest first, the top bit saying that more follow; kind 2 is a length and so many bytes:

========  ====  ========================================================
message   byte  field
========  ====  ========================================================
DumpData  0A    1 version, text
          10    2 dump_time, number
          1A    3 output, message OpOutput, once for each
          32    6 op_name, text
OpOutput  08    1 data_type, number: 1 float32, 2 float16, 3 int8, 7 int32
          10    2 format, number: 0 NCHW, 2 ND, 3 NC1HWC0, 29 FRACTAL_NZ
          1A    3 shape, message Shape: as stored, with padding
          30    6 size in bytes, number
          3A    7 original_shape, message Shape: without padding
Shape     0A    1 dim, numbers one after the other
========  ====  ========================================================
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

DATA_TYPES = {"float32": 1, "float16": 2, "int8": 3, "int32": 7}
FORMATS = {"NCHW": 0, "ND": 2, "NC1HWC0": 3, "FRACTAL_NZ": 29}


def number(value: int) -> bytes:
    """Seven bits a byte, lowest first: 300 is AC 02."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def part(tag: int, content: bytes) -> bytes:
    """Write a field of kind 2."""
    return bytes([tag]) + number(len(content)) + content


def shape(dims: tuple[int, ...]) -> bytes:
    """Write a message Shape."""
    return part(0x0A, b"".join(map(number, dims)))


def output(stored: Array, memory_format: str, original: tuple[int, ...]) -> bytes:
    """Write a message OpOutput."""
    return (
        b"\x08" + number(DATA_TYPES[stored.dtype.name])
        + b"\x10" + number(FORMATS[memory_format])
        + part(0x1A, shape(stored.shape))
        + b"\x30" + number(stored.nbytes)
        + part(0x3A, shape(original))
    )  # fmt: skip


def dump_file(name: str, time: int, stored: Array, memory_format: str, original: tuple[int, ...]) -> bytes:
    """Write a file of one output."""
    header = part(0x0A, b"2.0") + b"\x10" + number(time)
    header += part(0x1A, output(stored, memory_format, original)) + part(0x32, name.encode())
    return struct.pack("<Q", len(header)) + header + np.ascontiguousarray(stored).tobytes()


def write_dump(folder: Path, op_type: str, name: str, task: int, values: Array, memory_format: str) -> None:
    """Lay one operator's output out and write {op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}."""
    time = 1600000000000100 + task
    stored = LAID_OUT[memory_format](values)
    mangled = name.replace("/", "_").replace(".", "_")
    path = folder / f"{op_type}.{mangled}.{task}.1.{time}"
    path.write_bytes(dump_file(name, time, stored, memory_format, values.shape))


def padding(values: Array) -> float | int:
    """What blocks are filled up with. A device leaves anything there; what nobody can read unnoticed serves best."""
    return float("nan") if values.dtype.kind == "f" else 99


def nc1hwc0(values: Array) -> Array:
    """NCHW to [N, C / C0, H, W, C0]: channels in blocks of 32 bytes, so C0 is 16 for float16, 32 for int8."""
    count, channels, height, width = values.shape
    block = 32 if values.dtype.itemsize == 1 else 16
    blocks = -(-channels // block)
    padded = np.full((count, blocks * block, height, width), padding(values), values.dtype)
    padded[:, :channels] = values
    return padded.reshape(count, blocks, block, height, width).transpose(0, 1, 3, 4, 2)


def fractal_nz(values: Array) -> Array:
    """Matrix to [columns / 16, rows / 16, 16, 16]: squares of 16 x 16, those of one column of squares together."""
    rows, columns = values.shape
    down, across = -(-rows // 16), -(-columns // 16)
    padded = np.full((down * 16, across * 16), padding(values), values.dtype)
    padded[:rows, :columns] = values
    return padded.reshape(down, 16, across, 16).transpose(2, 0, 1, 3)


LAID_OUT = {"NC1HWC0": nc1hwc0, "FRACTAL_NZ": fractal_nz, "ND": np.asarray, "NCHW": np.asarray}

"""Writes dump files as an Ascend device does, byte by byte, and formats as it lays tensors out. Needs numpy only.

A dump file is a length (8 bytes, little-endian), a header of that many bytes, then the raw bytes of all outputs. The
header is a protobuf message. Every field of one begins with a byte (number << 3 | kind); kind 0 is a whole number,
written seven bits a byte, lowest first, the top bit saying that more follow; kind 2 is a length and so many bytes:

========  ====  =====================================================
message   byte  field
========  ====  =====================================================
DumpData  0A    1 version, text
          10    2 dump_time, number
          1A    3 output, message OpOutput, once for each
          32    6 op_name, text
OpOutput  08    1 data_type, number: 1 float32, 2 float16, 3 int8
          10    2 format, number: 0 NCHW, 2 ND, 3 NC1HWC0, 29 FRACTAL_NZ
          1A    3 shape, message Shape: as stored, with padding
          30    6 size in bytes, number
          3A    7 original_shape, message Shape: without padding
Shape     0A    1 dim, numbers one after the other
========  ====  =====================================================
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

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


def output(stored: np.ndarray, memory_format: str, original: tuple[int, ...]) -> bytes:
    """Write a message OpOutput."""
    return (
        b"\x08" + number(DATA_TYPES[stored.dtype.name])
        + b"\x10" + number(FORMATS[memory_format])
        + part(0x1A, shape(stored.shape))
        + b"\x30" + number(stored.nbytes)
        + part(0x3A, shape(original))
    )  # fmt: skip


def write_dump(folder: Path, op_type: str, name: str, task: int, time: int, *outputs: bytes | np.ndarray) -> Path:
    """Write one operator's file; `outputs` are messages, each followed by its array."""
    messages, arrays = outputs[::2], outputs[1::2]
    header = part(0x0A, b"2.0") + b"\x10" + number(time) + b"".join(part(0x1A, one) for one in messages)
    header += part(0x32, name.encode())
    content = struct.pack("<Q", len(header)) + header + b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)
    path = folder / f"{op_type}.{name.replace('/', '_')}.{task}.1.{time}"
    path.write_bytes(content)
    return path


def nc1hwc0(values: np.ndarray, block: int = 16) -> np.ndarray:
    """NCHW to [N, C / 16, H, W, 16]. What fills the last block up is NaN here, so that nobody can read it unnoticed."""
    count, channels, height, width = values.shape
    blocks = -(-channels // block)
    padded = np.full((count, blocks * block, height, width), np.nan, values.dtype)
    padded[:, :channels] = values
    return padded.reshape(count, blocks, block, height, width).transpose(0, 1, 3, 4, 2)


def fractal_nz(values: np.ndarray, block: int = 16) -> np.ndarray:
    """Matrix to [columns / 16, rows / 16, 16, 16]; filled up with NaN as above."""
    rows, columns = values.shape
    down, across = -(-rows // block), -(-columns // block)
    padded = np.full((down * block, across * block), np.nan, values.dtype)
    padded[:rows, :columns] = values
    return padded.reshape(down, block, across, block).transpose(2, 0, 1, 3)

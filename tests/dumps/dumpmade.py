"""Dump files put together byte by byte, without the package's own tables."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

FLOAT, FLOAT16, INT8, INT32, STRING, BF16 = 1, 2, 3, 7, 13, 27
ND, NC1HWC0, FRACTAL_Z = 2, 3, 4
TIME = 1600000000000001


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def chunk(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def shape_of(*dims: int) -> bytes:
    return chunk(1, b"".join(map(varint, dims)))


def op_output(
    data_type: int,
    shape: Sequence[int] | None,
    size: int,
    *,
    memory_format: int = ND,
    original: Sequence[int] | None = None,
    groups: int | None = None,
    data: bytes = b"",
    address: int = 0,
) -> bytes:
    """The content of an OpOutput."""
    parts = [number(1, data_type), number(2, memory_format)]
    parts += [chunk(3, shape_of(*shape))] if shape is not None else []
    parts += [chunk(5, data)] if data else []
    parts += [number(6, size)] if size else []
    parts += [chunk(7, shape_of(*original))] if original is not None else []
    parts += [number(8, groups)] if groups is not None else []
    parts += [number(9, address)] if address else []
    return b"".join(parts)


def op_input(
    data_type: int, shape: Sequence[int], size: int, *, original: Sequence[int] | None = None, address: int = 0
) -> bytes:
    """The content of an OpInput, whose numbers differ from an OpOutput's."""
    parts = [number(1, data_type), number(2, ND), chunk(3, shape_of(*shape)), number(5, size)]
    parts += [chunk(6, shape_of(*original))] if original is not None else []
    parts += [number(8, address)] if address else []
    return b"".join(parts)


def message(
    *,
    outputs: Sequence[bytes] = (),
    inputs: Sequence[bytes] = (),
    buffers: Sequence[int] = (),
    op_name: str = "",
    attribute: str | None = None,
    version: str = "2.0",
) -> bytes:
    """A DumpData: its outputs stand before its inputs, as writers have them."""
    parts = [chunk(1, version.encode()), number(2, 7)]
    parts += [chunk(3, one) for one in outputs] + [chunk(4, one) for one in inputs]
    parts += [chunk(5, number(3, size)) for size in buffers]
    parts += [chunk(6, op_name.encode())] if op_name else []
    parts += [chunk(7, chunk(1, b"ffts") + chunk(2, attribute.encode()))] if attribute is not None else []
    return b"".join(parts)


def dump2(header: bytes, *data: bytes) -> bytes:
    """A file of version 2.0."""
    return struct.pack("<Q", len(header)) + header + b"".join(data)


def one_output(values: np.ndarray, *, data_type: int = FLOAT, op_name: str = "", attribute: str | None = None) -> bytes:
    """A file of version 2.0 with one ND output."""
    raw = values.tobytes()
    header = message(outputs=[op_output(data_type, values.shape, len(raw))], op_name=op_name, attribute=attribute)
    return dump2(header, raw)


def nano_tensor(io: str, data_type: int, shape: Sequence[int], size: int) -> bytes:
    dims = struct.pack(f"<{len(shape)}Q", *shape)
    blocks = struct.pack("<II", 0, len(dims)) + dims + struct.pack("<II", 1, len(dims)) + dims
    origin = b"" if io == "input" else struct.pack("<iii", 0, data_type, ND)
    return struct.pack("<iii", data_type, ND, 2) + origin + struct.pack("<QQQI", 4096, 0, size, len(blocks)) + blocks


def nano(inputs: Sequence[bytes], outputs: Sequence[bytes], *data: bytes, extra: bytes = b"") -> bytes:
    header = struct.pack("<II", 0x5A5A5A5A, 1)
    for tag, tensors in ((4, inputs), (5, outputs)):
        block = struct.pack("<I", len(tensors)) + b"".join(tensors)
        header += struct.pack("<II", tag, len(block)) + block
    return dump2(header + extra, *data)


def sliced_json(*, threads: bool, total: int, cuts: Sequence[Sequence[int]], boxes: object = ()) -> str:
    return json.dumps(
        {
            "threadMode": int(threads),
            "slice_instance_num": total,
            "outputCutList": cuts,
            "input_tensor_slice": [],
            "output_tensor_slice": boxes,
        }
    )


def box(*ranges: tuple[int, int]) -> list[dict[str, int]]:
    return [{"lower": low, "higher": high} for low, high in ranges]


def put(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path

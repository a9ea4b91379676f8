"""A decoder of dump files that shares nothing with the package: protobuf by hand, from the published field numbers."""

from __future__ import annotations

import struct
from typing import Any


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def message(data: bytes) -> list[tuple[int, Any]]:
    """(field number, number or bytes), in order; anything but varints and lengths is an error."""
    found, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: Any
        value, at = _varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
            assert at <= len(data)
        else:
            assert tag & 7 == 0
        found.append((tag >> 3, value))
    return found


def _dims(shape: bytes) -> tuple[int, ...]:
    ((field, packed),) = message(shape)
    assert field == 1
    dims, at = [], 0
    while at < len(packed):
        value, at = _varint(packed, at)
        dims.append(value)
    return tuple(dims)


def _tensor(data: bytes, names: dict[int, str]) -> dict[str, Any]:
    fields = message(data)
    assert [number for number, _ in fields] == sorted({number for number, _ in fields})
    told = {names[number]: value for number, value in fields}
    return {key: _dims(value) if isinstance(value, bytes) else value for key, value in told.items()}


OUTPUT = {1: "data_type", 2: "format", 3: "shape", 6: "size", 7: "original_shape", 8: "sub_format"}
INPUT = {1: "data_type", 2: "format", 3: "shape", 5: "size", 6: "original_shape", 7: "sub_format"}


def decode(file: bytes) -> dict[str, Any]:
    """Header fields, and the bytes of every tensor: inputs first; the file must end with the last one."""
    (length,) = struct.unpack_from("<Q", file)
    told: dict[str, Any] = {"output": [], "input": []}
    for number, value in message(file[8 : 8 + length]):
        if number == 3:
            told["output"].append(_tensor(value, OUTPUT))
        elif number == 4:
            told["input"].append(_tensor(value, INPUT))
        else:
            told[{1: "version", 2: "dump_time", 6: "op_name"}[number]] = value
    at = 8 + length
    for tensor in (*told["input"], *told["output"]):
        tensor["data"] = file[at : at + tensor.get("size", 0)]
        at += tensor.get("size", 0)
    assert at == len(file)
    return told

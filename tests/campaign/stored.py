"""Reads dump files from the documented formats, without the package: which tensors a file holds, and their values."""

from __future__ import annotations

import csv
import io
import re
import stat
import struct
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class UnreadableError(Exception):
    """A file that does not hold what its name and header say."""


class Tensor(NamedTuple):
    """Where one tensor lies: its file below the dump, the operator as the file names it, its place among the slots."""

    file: str
    op_type: str
    op: str
    io: str
    slot: int
    time: int
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    container: bool = False

    @property
    def address(self) -> str:
        """``OP:io:slot`` as the file has it."""
        return f"{self.op}:{self.io}:{self.slot}"

    @property
    def folder(self) -> str:
        """The folder below the dump."""
        return self.file.rpartition("/")[0]


class Values(NamedTuple):
    """A tensor's values: `array` in its logical shape, ``None`` where the layout is not known here.

    `dtype` is the logical type, `raw` the bytes of the values, `trailing` the number of bytes behind them.
    """

    array: Array | None
    dtype: str
    raw: bytes
    trailing: int = 0


# -- names -------------------------------------------------------------------------------------------------------------

_CONVERTED = re.compile(r"(?P<op>.+)_(?P<io>input|output)_(?P<slot>\d+)(?P<rest>_shape_.+)?\.(npy|bin)")
_SHAPE = re.compile(r"_shape_((?:\d+_)*)([A-Za-z]+\d*)_\w+")
_CONTAINER = re.compile(r"(?P<type>[\w-]+)\.(?P<op>[\w-]+)\.\d+(\.\d+)?\.(?P<time>\d+)(\.\d+){0,4}")
_SIDE_FILES = (".csv", ".json", ".ir", ".pb", ".txt", ".toml", ".py", ".md")


def tensors(root: Path) -> list[Tensor]:
    """Return the tensors below a dump, in the order of their files' names."""
    found: list[Tensor] = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in relative.split("/")):
            continue
        found += tensors_of(path, relative, real_names(path.parent).get(path.name, path.name))
    return found


def real_names(folder: Path) -> dict[str, str]:
    """Return the names that a folder's ``mapping.csv`` gives to files whose own name is a number."""
    file = folder / "mapping.csv"
    if not file.is_file():
        return {}
    rows = list(csv.reader(file.read_text("utf-8").splitlines()))
    return {row[0]: row[1] for row in rows if len(row) == 2}


def tensors_of(path: Path, relative: str, name: str) -> Iterator[Tensor]:
    """Yield the tensors of one file, whose real name is `name`."""
    if name.endswith(_SIDE_FILES):
        return
    fields = name.split(".")
    for at in range(len(fields) - 2, 2, -1):
        if fields[at] in ("input", "output") and fields[at + 1].isdigit():
            dtype = fields[at + 3] if name.endswith(".npy") and len(fields) == at + 5 else ""
            yield Tensor(
                relative, fields[0], fields[1], fields[at], int(fields[at + 1]), int(fields[at - 1]), dtype.lower()
            )
            return
    if converted := _CONVERTED.fullmatch(name):
        shape, dtype = None, ""
        if described := _SHAPE.fullmatch(converted["rest"] or ""):
            shape, dtype = tuple(map(int, described[1].split("_")[:-1])), described[2].lower()
        op = converted["op"].replace("--", "/")
        yield Tensor(relative, "", op, converted["io"], int(converted["slot"]), 0, dtype, shape)
    elif name.endswith(".npy") and len(fields) >= 4 and fields[-2].isdigit() and fields[-3].isdigit():
        yield Tensor(relative, "", ".".join(fields[:-3]), "output", int(fields[-3]), int(fields[-2]))
    elif named := _CONTAINER.fullmatch(name):
        try:
            items, _ = container(path.read_bytes())
        except UnreadableError:
            items = [Item("output", 0, 0, 0, (), None, 0, 0)]
        for item in items:
            yield Tensor(relative, named["type"], named["op"], item.io, item.slot, int(named["time"]), container=True)


# -- Ascend containers -------------------------------------------------------------------------------------------------


class Item(NamedTuple):
    """One tensor of a container, as its header describes it."""

    io: str
    slot: int
    data_type: int
    memory_format: int
    shape: tuple[int, ...] | None
    original: tuple[int, ...] | None
    start: int
    size: int


# The numbers of DumpData's enums; types that numpy has.
_TYPES = {
    **dict(enumerate(("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint32"), 1)),
    **dict(enumerate(("uint64", "bool", "float64"), 10)),
    16: "complex64",
    17: "complex128",
    27: "bfloat16",
}
# What a container of the other kind, which is not taken apart here, begins with.
_NANO = struct.pack("<I", 0x5A5A5A5A)
_ND, _NCHW, _NHWC, _NC1HWC0, _NZ = 2, 0, 1, 3, 29


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise UnreadableError("a number is cut off")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if key & 7 == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7, len(data))
        if at + size > len(data):
            raise UnreadableError("a field is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def _dims(data: bytes | int) -> tuple[int, ...]:
    """Return the numbers of a Shape, packed or one by one."""
    if isinstance(data, int):
        raise UnreadableError("a number in the place of a shape")
    out: list[int] = []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            out.append(value)
        elif number == 1:
            at = 0
            while at < len(value):
                dim, at = _varint(value, at)
                out.append(dim)
    return tuple(out)


def container(data: bytes) -> tuple[list[Item], int]:
    """Return the tensors of a container of version 2.0, inputs first as they are stored, and where it ends."""
    if len(data) <= 8:
        raise UnreadableError("too short")
    (length,) = struct.unpack_from("<Q", data)
    if length == 0 or 8 + length > len(data) or data[8:12] == _NANO:
        raise UnreadableError("no header of a container")
    found = defaultdict(list)
    for number, value in _fields(data[8 : 8 + length]):
        if number in (3, 4, 5, 8) and isinstance(value, bytes):
            found[number].append(dict(_fields(value)))
    items, start = [], 8 + length
    for number, direction, size_at, original_at in ((4, "input", 5, 6), (3, "output", 6, 7)):
        for slot, one in enumerate(found[number]):
            shape, original = one.get(3), one.get(original_at)
            size = one.get(size_at, 0)
            if not isinstance(size, int):
                raise UnreadableError("a text in the place of a size")
            items.append(
                Item(
                    direction,
                    slot,
                    one.get(1, 0),
                    one.get(2, 0),
                    None if shape is None else _dims(shape),
                    None if original is None else _dims(original),
                    start,
                    size,
                )
            )
            start += size
    if not items:
        raise UnreadableError("no tensors")
    # Buffers and workspaces follow.
    return items, start + sum(one.get(3, 0) for number in (5, 8) for one in found[number])


def logical(item: Item, stored: Array) -> Array | None:
    """Bring stored values to their original shape; ``None`` where that takes more than a few lines."""
    original = item.original
    if original is None or original == stored.shape:
        return stored if item.memory_format in (_ND, _NCHW, _NHWC) else None
    if item.memory_format in (_ND, _NCHW, _NHWC) and int(np.prod(original)) == stored.size:
        return stored.reshape(original)
    if item.memory_format == _NC1HWC0 and stored.ndim == 5 and len(original) == 4:
        count, blocks, height, width, block = stored.shape
        channels = stored.transpose(0, 1, 4, 2, 3).reshape(count, blocks * block, height, width)
        fits = (count, height, width) == (original[0], *original[2:]) and 0 <= blocks * block - original[1] < block
        return channels[:, : original[1]] if fits else None
    if item.memory_format == _NZ and stored.ndim == 4 and len(original) == 2:
        matrix = stored.transpose(1, 2, 0, 3).reshape(stored.shape[1] * 16, -1)
        return matrix[: original[0], : original[1]] if stored.shape[2] == 16 else None
    return None


# -- values ------------------------------------------------------------------------------------------------------------


def content(path: Path) -> bytes:
    """Return a regular file's bytes; links are followed."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError("not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise UnreadableError(str(error)) from None


def widened(bits: Array) -> Array:
    """Return bfloat16's bits as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read(path: Path, tensor: Tensor) -> Values:
    """Return a tensor's values as its file says now; raise `UnreadableError` where the file is broken."""
    data = content(path)
    if tensor.container:
        return _from_container(data, tensor)
    if path.name.endswith(".bin"):
        kind = np.dtype(tensor.dtype)
        shape = tensor.shape or ()
        if len(data) != kind.itemsize * int(np.prod(shape, dtype=int)):
            raise UnreadableError("its size is not what its name says")
        return Values(np.frombuffer(data, kind).reshape(shape), tensor.dtype, data)
    return _from_npy(data, tensor)


def _from_npy(data: bytes, tensor: Tensor) -> Values:
    bfloat16 = re.match(rb"\x93NUMPY\x01\x00..\{'descr': '<[ET]2'", data, re.DOTALL)
    if bfloat16:
        data = re.sub(rb"'<[ET]2'", b"'<u2'", data, count=1)
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception as error:
        # Whatever numpy says of a broken header: it knows no error of its own.
        raise UnreadableError(f"{type(error).__name__}: {error}") from None
    if array.dtype.hasobject or array.dtype.fields is not None:
        raise UnreadableError("no numbers")
    trailing = len(data) - stream.tell()
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    raw = array.tobytes()
    if bfloat16:
        if tensor.dtype not in ("", "bfloat16"):
            raise UnreadableError(f"its name says {tensor.dtype}, its header bfloat16")
        return Values(widened(array), "bfloat16", raw, trailing)
    kind = array.dtype.name
    named = tensor.dtype or kind
    if named != kind and (named, kind) not in {("bfloat16", "float32"), ("int4", "int8"), ("uint1", "int8")}:
        raise UnreadableError(f"its name says {named}, its header {kind}")
    return Values(array, named, raw, trailing)


def _from_container(data: bytes, tensor: Tensor) -> Values:
    if data[8:12] == _NANO:
        return Values(None, "nano", data)
    items, end = container(data)
    for item in items:
        if (item.io, item.slot) == (tensor.io, tensor.slot):
            break
    else:
        raise UnreadableError("the slot is gone")
    raw = data[item.start : item.start + item.size]
    if len(raw) < item.size:
        raise UnreadableError("cut off")
    trailing = max(0, len(data) - end)
    kind = _TYPES.get(item.data_type)
    if kind is None or item.shape is None:
        return Values(None, f"type {item.data_type} {item[3:6]}", raw, trailing)
    width = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
    count = int(np.prod(item.shape, dtype=object))
    if count * width > len(raw):
        raise UnreadableError("its shape holds more than its bytes")
    bits = np.frombuffer(raw[: count * width], np.uint16 if kind == "bfloat16" else kind).reshape(item.shape)
    array = logical(item, widened(bits) if kind == "bfloat16" else bits)
    return Values(array, f"{kind} {item[3:6]}" if array is None else kind, raw, trailing)


class Span(NamedTuple):
    """Where a tensor's values lie in its file, as they are stored."""

    start: int
    kind: str
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """Where they end."""
        width = 2 if self.kind == "bfloat16" else np.dtype(self.kind).itemsize
        return self.start + width * int(np.prod(self.shape, dtype=int))


def span(path: Path, tensor: Tensor) -> Span | None:
    """Return where a tensor's values lie; ``None`` where that is not known here."""
    data = content(path)
    if tensor.container:
        try:
            (item,) = [one for one in container(data)[0] if (one.io, one.slot) == (tensor.io, tensor.slot)]
        except (UnreadableError, ValueError):
            return None
        kind = _TYPES.get(item.data_type)
        found = None if kind is None or item.shape is None else Span(item.start, kind, item.shape)
        return found if found is None or found.end <= len(data) else None
    values = read(path, tensor)
    if values.array is None or not values.array.flags.c_contiguous:
        return None
    kind = "bfloat16" if values.dtype == "bfloat16" and len(values.raw) == 2 * values.array.size else ""
    shape = values.array.shape
    return Span(len(data) - values.trailing - len(values.raw), kind or values.array.dtype.name, shape)

"""Weights in a file: an ``.npz`` as numpy reads it, with one member more that tells types and layers."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from pytest_msdump.capture.manifest_file import put
from pytest_msdump.capture.weight_rules import FRAMEWORKS
from pytest_msdump.capture.weight_sources import Weight, Weights
from pytest_msdump.dtypes import canonical
from pytest_msdump.errors import ConfigError, DumpNotFoundError, TensorFileError
from pytest_msdump.storage.regular import open_regular

__all__ = ["load", "save"]

Array = npt.NDArray[Any]

# A member that numpy.load shows as an array of bytes.
_ABOUT = "msdump.json"
_SCHEMA = 1
# What zipfile, numpy and json raise of damaged files; RuntimeError of members that are encrypted or packed otherwise.
_DAMAGE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def save(weights: Weights, path: Path) -> Path:
    """Write weights to an ``.npz``, whole or not at all; equal weights give equal files.

    Raises
    ------
    ConfigError
        It cannot be written.
    """
    about = {
        name: {
            "dtype": held.dtype,
            "layer": held.layer,
            "framework": held.framework,
            "own": held.own,
            "also": held.also,
        }
        for name, held in weights.items()
    }
    text = json.dumps({"schema_version": _SCHEMA, "weights": about}, ensure_ascii=False).encode()
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, values in (
            *((name, held.values) for name, held in weights.items()),
            (_ABOUT, np.frombuffer(text, np.uint8)),
        ):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _FIXED_TIME), "w", force_zip64=True) as member:
                npy_format.write_array(member, values, allow_pickle=False)
    try:
        return put(path, content.getvalue())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def load(path: Path) -> Weights | dict[str, Array]:
    """Read an ``.npz``: weights where `save` wrote it, else the arrays by name.

    Raises
    ------
    DumpNotFoundError
        There is none.
    TensorFileError
        It is no ``.npz``, or is damaged.
    """
    try:
        with open_regular(Path(path)) as stream, zipfile.ZipFile(stream) as archive:
            arrays = {info.filename.removesuffix(".npy"): _array(archive, info) for info in archive.infolist()}
        about = arrays.pop(_ABOUT, None)
        return arrays if about is None else _weights(arrays, json.loads(about.tobytes())["weights"])
    except FileNotFoundError as error:
        raise DumpNotFoundError(f"{path}: no such file; save the weights first") from error
    except _DAMAGE as error:
        raise TensorFileError(
            f"{path}: is no .npz of weights, or is damaged ({error!s:.200}); save it again"
        ) from error


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as member:
        shape, dtype, size = _header(member)
        # Before anything of this size is allocated.
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != info.file_size - size:
            raise ValueError(f"{info.filename}: {info.file_size} bytes are not an array {shape} of {dtype}")
        member.seek(0)
        array: Array = npy_format.read_array(member, allow_pickle=False)
        return array


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    version = npy_format.read_magic(member)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, _, dtype = read(member)
    return shape, dtype, member.tell()


def _weights(arrays: Mapping[str, Array], about: Mapping[str, Any]) -> Weights:
    if arrays.keys() != about.keys():
        raise ValueError(f"{min(arrays.keys() ^ about.keys())} is there in one half only")
    return {name: _weight(values, about[name]) for name, values in arrays.items()}


def _weight(values: Array, said: Mapping[str, Any]) -> Weight:
    texts = {key: said[key] for key in ("dtype", "layer", "framework", "own")}
    if not all(isinstance(text, str) for text in (*texts.values(), *said["also"])):
        raise TypeError("a name is no text")
    if texts["framework"] not in FRAMEWORKS.values() or canonical(texts["dtype"]) is None:
        raise ValueError(f"unknown framework or type: {texts['framework']!r}, {texts['dtype']!r}")
    weight = Weight(values, also=tuple(said["also"]), **texts)
    # Bits that do not fit the type that they are said to be of.
    weight.numbers()
    return weight

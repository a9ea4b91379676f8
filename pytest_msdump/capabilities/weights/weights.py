"""Weights across frameworks: read, save, load into another model, and check that two sides hold the same numbers."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from pytest_msdump.capabilities.weights.pairs import WeightPair, map_entries, pairs
from pytest_msdump.capabilities.weights.sources import (
    FRAMEWORKS,
    Weight,
    Weights,
    framework_of,
    holders,
    of_mapping,
    of_model,
)
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.errors import ConfigError, DumpNotFoundError, TensorFileError, UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.storage.files import naming, open_regular, write_atomic
from pytest_msdump.core.suite.keys import MapObject

Array = npt.NDArray[Any]

# A member that numpy.load shows as an array of bytes.
_ABOUT = "msdump.json"
_SCHEMA = 1
_FIELDS = ("dtype", "layer", "framework", "own", "also")
# What zipfile, numpy and json raise for damaged files; RuntimeError for encrypted members and other compressions.
_DAMAGE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_SHOWN = 8


def read_weights(source: Any, *, framework: str = "") -> Weights:
    """Read the weights of a model, a mapping or a file.

    Parameters
    ----------
    source : model, mapping of str to array, or path
        A PyTorch module, a MindSpore cell, a built Keras model; arrays by name, where ``/`` separates like ``.`` does;
        an ``.npz`` that `save_weights` or numpy wrote.
    framework : str
        Whose names and axes a mapping or numpy's own file has: ``"torch"``, ``"mindspore"``, ``"keras"`` or
        ``"tensorflow"``. By default PyTorch's.

    Returns
    -------
    dict of str to Weight
        By neutral name: that of PyTorch (``bn1.running_mean``, where MindSpore has ``bn1.moving_mean``).

    Raises
    ------
    ConfigError
        It is none of these, or the framework is unknown.
    """
    if framework not in FRAMEWORKS:
        raise UnknownNameError(f"unknown framework '{framework}'; {nearest(framework, filter(None, FRAMEWORKS))}")
    if framework_of(source):
        return of_model(source)
    if isinstance(source, str | PathLike):
        source = load(Path(source))
    if not isinstance(source, Mapping):
        raise ConfigError(
            f"it is not known how to read weights of a {type(source).__name__}; give a model of PyTorch, MindSpore or "
            "Keras, a mapping of names to arrays, or the path of an .npz"
        )
    if all(isinstance(value, Weight) for value in source.values()):
        return dict(source)
    return of_mapping(source, framework)


def save_weights(source: Any, path: str | PathLike[str], *, framework: str = "") -> Path:
    """Write weights to an ``.npz``, bit for bit, with the types of layers; numpy can read it, too.

    Parameters
    ----------
    source, framework
        As of `read_weights`.
    path : path
        The file, which is replaced whole or not at all.

    Raises
    ------
    ConfigError
        As `read_weights`; it cannot be written.
    """
    weights = read_weights(source, framework=framework)
    about = {name: {field: getattr(weight, field) for field in _FIELDS} for name, weight in weights.items()}
    text = json.dumps({"schema_version": _SCHEMA, "weights": about}, ensure_ascii=False).encode()
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        arrays = {name: weight.values for name, weight in weights.items()}
        for name, values in (*arrays.items(), (_ABOUT, np.frombuffer(text, np.uint8))):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _FIXED_TIME), "w", force_zip64=True) as member:
                npy_format.write_array(member, values, allow_pickle=False)
    with naming(Path(path), kind=ConfigError):
        return write_atomic(Path(path), content.getvalue())


def load_weights(
    model: Any,
    source: Any,
    *,
    map: MapObject = None,  # noqa: A002 - the word of the suite file
    types: Mapping[str, str] | None = None,
    ignore: str | Sequence[str] = (),
    framework: str = "",
    cast: bool = False,
) -> list[str]:
    """Give a model the weights of another one, of any framework. All of them, or none when one does not fit.

    Parameters
    ----------
    model : model
        A PyTorch module, a MindSpore cell or a built Keras model.
    source, framework
        As of `read_weights`.
    map : mapping, callable, list of mappings or path, optional
        Name in `model` → name in `source`: of weights, or of layers, which then stand for all below them; templates
        (``layers.{i}``) of either. Names that are the same need none, and ``gamma`` and ``weight`` are, as are
        ``down_sample`` and ``downsample``. Any map object of `assert_dumps_close`.
    types : mapping of str to str, optional
        Layer of `model` → its type (``"Dense"``), where neither side says it: whether a square matrix is to be
        transposed is never guessed.
    ignore : str or sequence of str
        Globs on names, of either side, that need no partner.
    cast : bool
        Whether numbers may be rounded to the type that the model has.

    Returns
    -------
    list of str
        The names in `model` of what was loaded.

    Raises
    ------
    ConfigError
        Names without a partner, shapes that do not fit, layers of different types, numbers that would be rounded.
    """
    if not framework_of(model):
        raise ConfigError(f"a {type(model).__name__} is not a model of PyTorch, MindSpore or Keras")
    entries, sides = map_entries(map), (of_model(model), read_weights(source, framework=framework))
    found = pairs(*sides, entries=entries, types=types, ignore=ignore)
    values = {pair.name: fitted(pair, cast=cast) for pair in found}
    targets, assign = holders(model), _ASSIGN[framework_of(model)]
    for name, weight in values.items():
        assign(targets[name].tensor, weight)
    return list(values)


def assert_same_weights(
    left: Any,
    right: Any,
    *,
    map: MapObject = None,  # noqa: A002 - the word of the suite file
    types: Mapping[str, str] | None = None,
    ignore: str | Sequence[str] = (),
    framework: str = "",
) -> None:
    """Assert that two sides hold the same numbers, whatever their types, names and axes.

    Parameters
    ----------
    left, right : model, mapping of str to array, or path
        As `source` of `read_weights`; `framework` is for those that do not say it.
    map, types, ignore
        As of `load_weights`.

    Raises
    ------
    AssertionError
        A weight differs, or has no partner.
    ConfigError
        A side that cannot be read; a map or types with names that are not there.
    """
    __tracebackhide__ = True
    sides = [read_weights(side, framework=framework) for side in (left, right)]
    entries = map_entries(map)
    try:
        found = pairs(sides[0], sides[1], entries=entries, types=types, ignore=ignore)
    except UnknownNameError:
        raise
    except ConfigError as error:
        raise AssertionError(str(error)) from error
    lines = [line for pair in found if (line := _difference(pair))]
    if lines:
        more = f"\n  … and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise AssertionError(f"{len(lines)} of {len(found)} weights differ\n  " + "\n  ".join(lines[:_SHOWN]) + more)


def _difference(pair: WeightPair) -> str:
    """Say in a line what differs between two weights; empty when nothing does."""
    left: npt.NDArray[Any] = pair.left.numbers()
    right: npt.NDArray[Any] = pair.right_as_left(pair.right.numbers())
    differs = (left != right) & ~((left != left) & (right != right))
    if not differs.any():
        return ""
    first = tuple(int(axis) for axis in np.argwhere(differs)[0])
    return (
        f"{pair.name} ↔ {pair.right_name}: {int(differs.sum())} of {left.size} elements, the first at {first}: "
        f"{left[first]} and {right[first]}"
    )


def fitted(pair: WeightPair, *, cast: bool = False) -> Weight:
    """Return the right side's numbers in the left side's axes and type; numbers that would be rounded are refused."""
    left, right = pair.left, pair.right
    if left.dtype == right.dtype:
        return Weight(np.ascontiguousarray(pair.right_as_left()), left.dtype)
    numbers = np.ascontiguousarray(pair.right_as_left(right.numbers()))
    values = _converted(numbers, left.dtype)
    if values is None:
        raise ConfigError(f"{pair.name} is {left.dtype} and {pair.right_name} {right.dtype}; convert one model first")
    weight = Weight(values, left.dtype)
    if not cast and not np.array_equal(weight.numbers(), numbers, equal_nan=numbers.dtype.kind in "fc"):
        raise ConfigError(
            f"{pair.name} is {left.dtype} and would round {pair.right_name}, which is {right.dtype}; "
            "cast=True allows it"
        )
    return weight


def _converted(numbers: Any, dtype: str) -> Any:
    """Return numbers in a type: numpy's own, or bfloat16, rounded to the nearest, ties to even; else ``None``."""
    if dtype in DTYPES and DTYPES[dtype].native == dtype:
        with np.errstate(over="ignore", invalid="ignore"):
            return numbers.astype(dtype)
    if dtype != "bfloat16" or numbers.dtype.kind not in "f":
        return None
    with np.errstate(over="ignore"):
        bits = numbers.astype("<f4").view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(numbers), quiet, rounded).astype("<u2")


def _torch(tensor: Any, weight: Weight) -> None:
    import torch

    # Bit patterns go by a signed type: not every release has the unsigned ones.
    values = weight.values
    if values.dtype.name == weight.dtype and values.dtype.kind != "u":
        new = torch.from_numpy(values)
    else:
        signed = values.reshape(-1).view("u1" if values.itemsize == 1 else f"i{values.itemsize}")
        new = torch.from_numpy(signed).view(tensor.dtype).reshape(values.shape)
    with torch.no_grad():
        tensor.copy_(new)


def _mindspore(parameter: Any, weight: Weight) -> None:
    import mindspore

    if weight.values.dtype.name == weight.dtype:
        parameter.set_data(mindspore.Tensor(weight.values))
        return
    bits = mindspore.Tensor(weight.values.reshape(-1).view(f"u{weight.values.itemsize}"))
    parameter.set_data(bits.view(parameter.dtype).reshape(weight.values.shape))


def _keras(variable: Any, weight: Weight) -> None:
    variable.assign(weight.numbers())


_ASSIGN = {"torch": _torch, "mindspore": _mindspore, "keras": _keras}


def load(path: Path) -> Weights | dict[str, Array]:
    """Read an ``.npz``: weights where `save_weights` wrote it, else the arrays by name."""
    try:
        with open_regular(Path(path)) as stream, zipfile.ZipFile(stream) as archive:
            arrays = {info.filename.removesuffix(".npy"): _array(archive, info) for info in archive.infolist()}
        about = arrays.pop(_ABOUT, None)
        return arrays if about is None else _weights(arrays, json.loads(about.tobytes())["weights"])
    except FileNotFoundError as error:
        raise DumpNotFoundError(f"{path}: no such file; save the weights first") from error
    except _DAMAGE as error:
        raise TensorFileError(
            f"{path}: is not an .npz of weights, or is damaged ({error!s:.200}); save it again"
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


def _weight(values: Array, about: Mapping[str, Any]) -> Weight:
    texts = {field: about[field] for field in _FIELDS if field != "also"}
    if not all(isinstance(text, str) for text in (*texts.values(), *about["also"])):
        raise TypeError("a name is no text")
    if texts["framework"] not in FRAMEWORKS.values() or canonical(texts["dtype"]) is None:
        raise ValueError(f"unknown framework or type: {texts['framework']!r}, {texts['dtype']!r}")
    weight = Weight(values, also=tuple(about["also"]), **texts)
    # Raises where the bits do not fit their type.
    weight.numbers()
    return weight

"""Who is compared, and why, as it stands in a record."""

from __future__ import annotations

import os
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.model.pairing import Pair
from pytest_msdump.model.tensor import COORDINATES, TensorRef, TensorSource, TensorSpec
from pytest_msdump.reporting.values import dumps, index_json, text_json

if TYPE_CHECKING:
    from pytest_msdump.model.statistics import StatisticComparison

__all__ = ["names_of", "relative_file"]

Shape = tuple[int, ...] | None

# What is alike in very many records is written once. Coordinates are looked up by their fields, which takes less than
# asking the class for its hash.
_ALIKE = 1024
_coordinates_of = attrgetter(*COORDINATES)


def names_of(
    pair: Pair,
    left_spec: TensorSpec,
    right_spec: TensorSpec,
    *,
    left_root: Path,
    right_root: Path,
    statistics: StatisticComparison | None = None,
) -> tuple[str, ...]:
    """Return the first sections of a record: who is compared, and why.

    Parameters
    ----------
    pair, left_spec, right_spec, statistics
        Of a `Record`.
    left_root, right_root
        As for `to_json`.
    """
    rows = (None, None) if statistics is None else (statistics.left.source, statistics.right.source)
    left = _side(pair.left, left_spec, left_root) + _row(rows[0])
    right = _side(pair.right, right_spec, right_root) + _source(pair.right) + _row(rows[1])
    left_at, right_at = _coordinates_of(pair.left.key.op.at), _coordinates_of(pair.right.key.op.at)
    return (
        f'"order": {pair.order}, "left": {{{left}}}, "right": {{{right}, "at": {_known(right_at)}}}',
        _coordinates(left_at) + _source(pair.left),
        f'"how": {text_json(pair.how)}, "by": {text_json(pair.by)}',
    )


def relative_file(file: Path | str, root: Path) -> str:
    """Return a file's path below `root` with forward slashes; the bare name when `root` is the file itself."""
    text, prefix = str(file), _prefix(root)
    # Nearly every file is below the root: cutting a text costs a tenth of what comparing paths does.
    if os.sep == "/" and prefix and text.startswith(prefix):
        return text[len(prefix) :]
    path = Path(file) if isinstance(file, str) else file
    if path == root:
        return path.name
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


@lru_cache(maxsize=8)
def _prefix(root: Path) -> str:
    """What the names of files below `root` begin with; empty of the folder one is in, and of the file system's root."""
    text = str(root)
    return "" if text == "." or text.endswith("/") else text + "/"


def held(ref: TensorRef, spec: TensorSpec) -> tuple[str | None, Shape, str | None, Shape]:
    """Return the data type, stored shape, memory format and logical shape that a record tells of a tensor.

    Where the opened file (`spec`) left something open, the name's claim holds.
    """
    claimed = ref.spec
    return (
        spec.dtype or claimed.dtype,
        claimed.shape if spec.shape is None else spec.shape,
        spec.memory_format or claimed.memory_format,
        claimed.logical_shape if spec.logical_shape is None else spec.logical_shape,
    )


def _side(ref: TensorRef, spec: TensorSpec, root: Path) -> str:
    """One side of a record."""
    key, source = ref.key, ref.source
    dtype, shape, memory_format, logical = held(ref, spec)
    name, true_name, file = text_json(key.op.name), text_json(key.op.true_name), _file(source, root)
    # Text of JSON is put together: to make the address first takes longer.
    label = true_name if key.op.true_name else name
    text = (
        f'"address": {label[:-1]}{_port(key.io, key.slot)}, "op_type": {text_json(key.op.op_type)}, '
        f'"file": {text_json(file)}, '
        f"{_held(dtype, shape, memory_format)}, "
        f'"name": {name}, "true_name": {true_name}'
    )
    if ref.overflows:
        text += f', "overflows": {dumps([entry.sentence for entry in ref.overflows])}'
    if source.device_address is not None:
        text += f', "device_address": {source.device_address}'
    if logical is not None and logical != shape:
        text += f', "logical_shape": {index_json(logical)}'
    return text


@lru_cache(maxsize=_ALIKE)
def _port(io: str, slot: int) -> str:
    """How the text of an address ends."""
    return text_json(f":{io}:{slot}")[1:]


def _file(source: TensorSource, root: Path) -> str:
    """The file's path below `root`, as `relative_file` tells it."""
    if source.within is None:
        return relative_file(source.path, root)
    folder, name = source.within
    below = _below(folder, root)
    return relative_file(source.location, root) if below is None else below + name


@lru_cache(maxsize=_ALIKE)
def _below(folder: Path, root: Path) -> str | None:
    """What the names of files in a folder begin with; ``None`` where that takes a look at the whole path."""
    text, prefix = str(folder), _prefix(root)
    if os.sep != "/" or not prefix:
        return None
    if text == prefix[:-1]:
        return ""
    return f"{text[len(prefix) :]}/" if text.startswith(prefix) else None


@lru_cache(maxsize=_ALIKE)
def _held(dtype: str | None, shape: tuple[int, ...] | None, memory_format: str | None) -> str:
    """What a file holds."""
    return f'"dtype": {text_json(dtype)}, "shape": {index_json(shape)}, "memory_format": {text_json(memory_format)}'


def _source(ref: TensorRef) -> str:
    """The line of the user's program that made the operator; nothing where no graph tells."""
    line = ref.line
    if line is None:
        return ""
    return f', "source": {dumps({"file": line.file, "line": line.line, "text": line.text})}'


def _row(source: TensorSource | None) -> str:
    """Which row of a table of statistics; nothing where it is no table's."""
    return "" if source is None else f', "row": {dumps(source.part)}'


@lru_cache(maxsize=_ALIKE)
def _coordinates(values: tuple[int | str | None, ...]) -> str:
    """All five coordinates, null where the dump does not have one."""
    return dumps(dict(zip(COORDINATES, values, strict=True)))[1:-1]


@lru_cache(maxsize=_ALIKE)
def _known(values: tuple[int | str | None, ...]) -> str:
    """The coordinates that the dump has."""
    return dumps({name: value for name, value in zip(COORDINATES, values, strict=True) if value is not None})

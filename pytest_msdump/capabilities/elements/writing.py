"""The tables of a pair in detail: every element, the largest errors, a summary. One pass, bounded memory."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.arrays.writer import write_view
from pytest_msdump.capabilities.elements.cells import OWN, Cells, Style, decimals, integers, joined, same, texts, words
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.metrics.values import Array, Doubles, Workspace, components, differences, magnitudes, numbers
from pytest_msdump.core.model.tensor import TensorView
from pytest_msdump.core.storage.files import in_utf8, read_regular

MAPPING = "simple_op_mapping.csv"
_MOST_MAPPING_BYTES = 2**26

_LONGEST_NAME = 255
_LONGEST_TAIL = len("_absolute_error_topn.csv")
_UNSAFE = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]')


def file_stem(operator: str, io_word: str, slot: int, *, coordinates: str = "") -> str:
    """Return the beginning of the names of one tensor's files; a digest stands for an operator's too long name."""
    tail = f"{coordinates}_{io_word}_{slot}"
    name = _UNSAFE.sub("_", operator)
    if len(os.fsencode(name + tail)) + _LONGEST_TAIL <= _LONGEST_NAME:
        return name + tail
    return _digest(operator) + tail


class Batch:
    """Files of one folder, made if needed, that get their names together at the end, or never where one fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[tuple[Path, Path]] = []
        self._open: list[BinaryIO] = []

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for stream in self._open:
            with suppress(OSError):
                stream.close()
        for temporary, _ in self._pending:
            with suppress(OSError):
                temporary.unlink()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise MsdumpError(
                f"details cannot be written into {self._folder}: {reason}; name another folder"
            ) from error

    def path(self, name: str) -> Path:
        """Return the path to write a file to that will be called `name`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{uuid4().hex}.tmp"
        self._pending.append((temporary, self._folder / name))
        return temporary

    def open(self, name: str) -> BinaryIO:
        """Open a file that will be called `name`."""
        stream = self.path(name).open("wb")
        self._open.append(stream)
        return stream

    def finish(self) -> tuple[Path, ...]:
        """Give all files their names; return them in the order in which they were opened."""
        for stream in self._open:
            stream.close()
        for temporary, target in self._pending:
            temporary.replace(target)
        files = tuple(target for _, target in self._pending)
        self._pending.clear()
        return files


def note_stem(folder: Path, stem: str, operator: str) -> None:
    """Record in ``simple_op_mapping.csv`` which operator's name a digest stands for, if `stem` has one."""
    digest = _digest(operator)
    if not stem.startswith(digest):
        return
    path = folder / MAPPING
    try:
        known = read_regular(path, _MOST_MAPPING_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        known = ""
    except OSError as error:
        raise MsdumpError(f"{path} cannot be read: {error.strerror or error}; name another folder") from error
    rows = {row[0]: row[1] for row in csv.reader(io.StringIO(known, newline="")) if len(row) == 2}
    rows[digest] = operator
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows.items())
    with Batch(folder) as batch:
        batch.path(MAPPING).write_bytes(in_utf8(text.getvalue()))
        batch.finish()


def _digest(operator: str) -> str:
    return hashlib.sha256(os.fsencode(operator)).hexdigest()[:32]


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Elements:
    """Some elements of a pair; every field has an entry for each."""

    index: npt.NDArray[np.int64]
    left: Array
    right: Array
    absolute: Array
    relative: Doubles
    zero: Mask
    both_nan: Mask

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.index.size)

    @property
    def are_bools(self) -> bool:
        """Whether both sides are bools, whose difference is not a number."""
        return bool(self.left.dtype.kind == self.right.dtype.kind == "b")

    @property
    def undefined(self) -> Mask:
        """Where the right side is 0 and the left is not."""
        found: Mask = self.zero & (self.absolute != 0)
        return found

    def take(self, places: npt.NDArray[np.intp] | slice) -> Elements:
        """Return the elements at `places`, in that order."""
        return Elements(*(getattr(self, field.name)[places] for field in fields(self)))

    def with_more(self, other: Elements) -> Elements:
        """Return these elements, then others."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Elements(*(np.concatenate(_joinable(one, two)) for one, two in pairs))


def elements(left: Array, right: Array, start: int) -> Elements:
    """Return the elements of two blocks that begin at element number `start`."""
    with np.errstate(all="ignore"):
        absolute, size, both_nan = _absolute(left, right)
        zero = size == 0
        relative = np.divide(absolute.astype(np.float64), size)
        # Equal values are not apart, though 0/0 and Inf/Inf are NaN.
        np.copyto(relative, 0.0, where=absolute == 0)
    index = np.arange(start, start + left.size, dtype=np.int64)
    return Elements(index, left.copy(), right.copy(), absolute, relative, zero, both_nan)


def _absolute(left: Array, right: Array) -> tuple[Array, Doubles, Mask]:
    """Return |l-r|, |r|, and where both sides are NaN."""
    one, other = numbers(left), numbers(right)
    workspace = Workspace()
    parts = components(one, "left", workspace), components(other, "right", workspace)
    found = differences(one, other, parts)
    absolute: Array = found.doubles if found.exact is None else found.exact
    size = magnitudes(components(other, "size", workspace))
    if absolute.dtype.kind != "f" or bool(np.isfinite(absolute).all()):
        return absolute, size, np.zeros(left.size, np.bool_)
    nan_left, nan_right = np.isnan(one), np.isnan(other)
    np.copyto(absolute, 0.0, where=one == other)
    np.copyto(absolute, np.nan, where=nan_left | nan_right)
    return absolute, size, nan_left & nan_right


def _joinable(one: Array, other: Array) -> tuple[Array, Array]:
    """Return both arrays, as Python's integers if numpy has no type for both: signed and unsigned ones of 64 bits."""
    if one.dtype != other.dtype and np.result_type(one, other).kind == "f":
        return one.astype(object), other.astype(object)
    return one, other


_USUAL = "NCHW"


@dataclass(frozen=True, slots=True)
class Axes:
    """The title of coordinates, and the lengths of the axes."""

    label: str
    shape: tuple[int, ...]


def named_axes(shape: tuple[int, ...], letters: str | None, *, pads: bool) -> Axes:
    """Name the axes of a tensor of a logical shape by their letters, if known."""
    if not shape:
        return Axes("ID", (1,))
    known = letters if letters is not None and len(letters) == len(shape) else None
    if pads:
        return Axes(" ".join(known or _USUAL), (*shape, *(1,) * (len(_USUAL) - len(shape))))
    return Axes(" ".join(known or map(str, range(len(shape)))), shape)


def coordinate_cells(index: npt.NDArray[np.int64], axes: Axes) -> list[Cells | bytes]:
    """Return the columns of coordinates, with spaces between them."""
    rest: npt.NDArray[np.unsignedinteger] = index.astype(np.uint32 if prod(axes.shape) < 2**32 else np.uint64)
    columns: list[Cells | bytes] = []
    for length in reversed(axes.shape):
        one = rest.dtype.type(max(length, 1))
        above = rest // one
        columns += [integers(rest - above * one), b" "]
        rest = above
    return columns[-2::-1]


# Stands for an error that has no meaning.
_NOTHING = "-"


def _heading(axes: Axes, style: Style) -> bytes:
    return (",".join(["Index", axes.label, *style.values, "AbsoluteError", "RelativeError"]) + "\n").encode("ascii")


def _lines(elements: Elements, axes: Axes, style: Style, *, tails: bool = False) -> bytes:
    """Return a line for each element; with `tails`, relative errors without meaning have the tail of a number, too."""
    tail = style.tail.encode("ascii")
    columns: list[Cells | bytes] = [integers(elements.index), b",", *coordinate_cells(elements.index, axes), b","]
    for values in (elements.left, elements.right):
        columns += [_value_cells(values, style), tail, b","]
    absolute = same(_NOTHING, elements.size) if elements.are_bools else _value_cells(elements.absolute, style)
    columns += [absolute, tail, b","]
    columns += [_relative_cells(elements, style, tails=tails), b"\n"]
    return joined(columns, elements.size)


def _relative_cells(elements: Elements, style: Style, *, tails: bool) -> Cells:
    undefined = np.ones(elements.size, np.bool_) if elements.are_bools else elements.zero
    if undefined.all():
        return same(_NOTHING + style.tail * tails, elements.size)
    cells = decimals(np.where(undefined, 0.0, elements.relative), smallest=style.smallest)
    if style.tail:
        cells = np.concatenate([cells, same(style.tail, elements.size)])
    if undefined.any():
        cells[:, undefined] = 0
        cells[0, undefined] = ord(_NOTHING)
        if tails and style.tail:
            cells[1, undefined] = ord(style.tail)
    return cells


def _value_cells(values: Array, style: Style) -> Cells:
    if values.dtype.kind == "b":
        return words(values.view(np.uint8).astype(np.intp).clip(0, 1), ["False", "True"])
    if values.dtype.kind == "c":
        return texts([f"{value.real:.6g}{value.imag:+.6g}j" for value in values.tolist()])
    if values.dtype.kind == "f":
        return decimals(to_double(values), smallest=style.smallest)
    if values.dtype == object:
        return texts([f"{value}{style.integer_tail}" for value in values.tolist()])
    cells = integers(values)
    return np.concatenate([cells, same(style.integer_tail, values.size)]) if style.integer_tail else cells


class Extents:
    """Smallest and largest errors of all elements added; NaN if any of them is."""

    def __init__(self) -> None:
        self.count = 0
        self._are_bools = False
        # The smallest and the largest number of each block, as Python's numbers: unsigned and signed ones compare.
        self._errors: dict[str, list[Any]] = {"Absolute": [], "Relative": []}

    def add(self, elements: Elements) -> None:
        """Take more elements of the same two tensors."""
        self.count += elements.size
        self._are_bools = elements.are_bools
        kinds = {"Absolute": elements.absolute, "Relative": elements.relative[~elements.undefined]}
        for kind, errors in kinds.items():
            if errors.size:
                self._errors[kind] += errors[[errors.argmin(), errors.argmax()]].tolist()

    def lines(self, style: Style) -> list[tuple[str, str]]:
        """Return titles and numbers: ``-`` if a number has no meaning, ``nan`` for an empty tensor."""
        ends: dict[str, Callable[[list[Any]], Any]] = {"Min": min, "Max": max}
        return [
            (f"{word}{kind}Error", self._text(end, errors, style))
            for kind, errors in self._errors.items()
            for word, end in ends.items()
        ]

    def _text(self, end: Callable[[list[Any]], Any], errors: list[Any], style: Style) -> str:
        if not self.count:
            return "nan"
        if not errors or self._are_bools:
            return _NOTHING
        number = math.nan if any(error != error for error in errors) else end(errors)
        array = np.array([number], dtype=None if isinstance(number, float) else object)
        return joined([_value_cells(array, style)], 1).decode("ascii")


# A higher class goes first, whatever the size.
_ONE_NAN, _NUMBER, _UNDEFINED, _EQUAL, _BOTH_NAN = 4, 3, 2, 1, 0

Keys = tuple[npt.NDArray[np.int8], npt.NDArray[Any]]


def by_absolute(elements: Elements) -> Keys:
    """Rank by absolute error: NaN on one side, then by size, then NaN on both sides."""
    return _ranked(elements.absolute, elements.both_nan)


def by_relative(elements: Elements) -> Keys:
    """Rank by relative error; elements without one come before those of 0, by absolute error."""
    classes, size = _ranked(elements.relative, elements.both_nan)
    undefined = elements.undefined
    if undefined.any():
        absolute = elements.absolute.astype(np.float64)
        size = np.where(undefined, np.where(np.isnan(absolute), np.inf, absolute), size)
    classes = np.where(elements.absolute == 0, np.int8(_EQUAL), classes)
    return np.where(undefined, np.int8(_UNDEFINED), classes), size


def _ranked(errors: npt.NDArray[Any], both_nan: npt.NDArray[np.bool_]) -> Keys:
    classes = np.full(errors.size, _NUMBER, np.int8)
    if errors.dtype.kind != "f":
        # Python's own integers, beyond 64 bits: their difference shows in float64 well enough.
        return classes, errors.astype(np.float64) if errors.dtype == object else errors
    nan = np.isnan(errors)
    if not nan.any():
        return classes, errors
    classes[nan] = _ONE_NAN
    classes[both_nan] = _BOTH_NAN
    return classes, np.where(nan, 0.0, errors)


class Top:
    """The first `count` elements in a ranking; of equal ones, those with higher numbers."""

    def __init__(self, count: int, rank: Callable[[Elements], Keys]) -> None:
        self._count = count
        self._rank = rank
        # The largest first; ``None`` if there were no elements.
        self.elements: Elements | None = None
        self._last: tuple[Any, Any] | None = None

    def add(self, elements: Elements) -> None:
        """Take more elements, with higher numbers than those before."""
        classes, size = self._rank(elements)
        if self._last is not None:
            last_class, last_size = self._last
            same = classes == last_class
            beyond = np.flatnonzero((classes > last_class) | (same & (size > last_size)))
            # Of those as large as the last one, no more than `count` can get in.
            equal = np.flatnonzero(same & (size == last_size))[-self._count :]
            places = np.concatenate([beyond, equal])
            if not places.size:
                return
            elements = elements.take(places)
        known = elements if self.elements is None else self.elements.with_more(elements)
        classes, size = self._rank(known)
        order = np.lexsort((known.index, size, classes))[::-1][: self._count]
        self.elements = known.take(order)
        if order.size == self._count:
            self._last = classes[order[-1]], size[order[-1]]


MOST_ROWS = 1_000_000
MOST_TOP = 10_000

# How many elements are read, and made text of, at a time: the latter stay near a core's cache.
_BLOCK_ELEMENTS = 131072
_TILE_ELEMENTS = 16384


@dataclass(frozen=True, slots=True)
class DetailOptions:
    """How details are written: `top` largest errors, and up to `rows` elements a file if `every_element` is wanted."""

    style: Style = OWN
    top: int = 20
    rows: int = MOST_ROWS
    every_element: bool = True


@dataclass(frozen=True, slots=True)
class Detail:
    """The files of one pair in detail, the summary and the two lists first."""

    files: tuple[Path, ...]
    summary: Mapping[str, str] = field(default_factory=dict)
    top_absolute: tuple[str, ...] = ()
    top_relative: tuple[str, ...] = ()


def detail_views(
    left: TensorView,
    right: TensorView,
    folder: Path,
    stem: str,
    *,
    names: tuple[str, str],
    letters: str | None = None,
    options: DetailOptions = DetailOptions(),
) -> Detail:
    """Write two tensors of one logical shape in detail: all files, or none if an error is raised."""
    style = options.style
    axes = named_axes(left.shape, letters, pads=style.pads_axes)
    tops = Top(options.top, by_absolute), Top(options.top, by_relative)
    seen = Extents()
    with Batch(folder) as batch:
        # Opened first, so that these come first in the list of files.
        summary_path = batch.path(f"{stem}_summary.txt")
        top_paths = [batch.path(f"{stem}_{kind}_error_topn.csv") for kind in ("absolute", "relative")]
        rows = _Rows(batch, stem, axes, options) if options.every_element else None
        for start in range(0, left.size, _BLOCK_ELEMENTS):
            stop = min(start + _BLOCK_ELEMENTS, left.size)
            block = elements(left.read(start, stop), right.read(start, stop), start)
            seen.add(block)
            for top in tops:
                top.add(block)
            if rows is not None:
                rows.add(block)
        # A name is one line; several are joined without the commas between them.
        plain = [terminal_text(name).replace(",", " ") for name in names]
        summary = {"TotalCount": str(seen.count), **dict(zip(style.operators, plain, strict=True))}
        summary |= {"Format": axes.label, **dict(seen.lines(style))}
        summary_path.write_bytes(in_utf8("".join(f"{key}:{text}\n" for key, text in summary.items())))
        lists = []
        for path, top in zip(top_paths, tops, strict=True):
            table = _heading(axes, style)
            if top.elements is not None:
                table += _lines(top.elements, axes, style, tails=True)
            path.write_bytes(table)
            lists.append(tuple(table.decode("ascii").replace("\t", "").splitlines()))
        if style.with_array:
            write_view(left, batch.path(f"{stem}.npy"))
        return Detail(batch.finish(), summary, *lists)


class _Rows:
    """The files with every element, each named by the number of its first."""

    def __init__(self, batch: Batch, stem: str, axes: Axes, options: DetailOptions) -> None:
        self._batch = batch
        self._stem = stem
        self._axes = axes
        self._options = options
        self._stream = self._next(0)
        self._room = options.rows

    def _next(self, first: int) -> BinaryIO:
        stream = self._batch.open(f"{self._stem}_{first}.csv")
        stream.write(_heading(self._axes, self._options.style))
        return stream

    def add(self, block: Elements) -> None:
        """Write a block, into the next files if one is full."""
        start = 0
        while start < block.size:
            if not self._room:
                self._stream.close()
                self._stream = self._next(int(block.index[start]))
                self._room = self._options.rows
            stop = min(block.size, start + self._room, start + _TILE_ELEMENTS)
            tile = block.take(slice(start, stop))
            self._stream.write(_lines(tile, self._axes, self._options.style))
            self._room -= stop - start
            start = stop

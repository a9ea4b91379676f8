"""Write one pair in detail: every element, the largest errors, a summary. One pass, bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.dumps.npy import write_npy
from pytest_msdump.elements.cells import OWN, Cells, Style, decimals, integers, joined, texts, words
from pytest_msdump.elements.elements import Axes, Elements, coordinate_cells, elements, named_axes
from pytest_msdump.elements.files import Batch
from pytest_msdump.escape import terminal_text
from pytest_msdump.metrics.values import Array
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.storage.files import in_utf8

__all__ = [
    "MOST_ROWS",
    "MOST_TOP",
    "NOTHING_SEEN",
    "Detail",
    "Top",
    "Wishes",
    "by_absolute",
    "by_relative",
    "detail_views",
    "extents_of",
]

_NOTHING = "-"
_ERRORS = ("AbsoluteError", "RelativeError")


def heading(axes: Axes, style: Style) -> bytes:
    """Return the first line of a table."""
    return (",".join(["Index", axes.label, *style.values, *_ERRORS]) + "\n").encode("ascii")


def lines(elements: Elements, axes: Axes, style: Style, *, tails: bool = False) -> bytes:
    """Return a line for each element.

    Parameters
    ----------
    tails : bool
        Whether a relative error that means nothing has the tail of a number, too, as in the vendor's shorter tables.
    """
    tail = style.tail.encode("ascii")
    columns: list[Cells | bytes] = [integers(elements.index), b",", *coordinate_cells(elements.index, axes), b","]
    for values in (elements.left, elements.right):
        columns += [_value_cells(values, style), tail, b","]
    columns += [error_cells(elements.absolute, style, no_number=elements.of_truths), tail, b","]
    columns += [_relative_cells(elements, style, tails=tails), b"\n"]
    return joined(columns, elements.size)


def error_cells(errors: Array, style: Style, *, no_number: bool = False) -> Cells:
    """Return the cells of errors, which are integers or float64."""
    if no_number:
        return words(np.zeros(errors.size, np.intp), [_NOTHING])
    return _value_cells(errors, style)


def _relative_cells(elements: Elements, style: Style, *, tails: bool) -> Cells:
    """Relative errors with what follows them."""
    undefined = np.ones(elements.size, np.bool_) if elements.of_truths else elements.zero
    if undefined.all():
        return words(np.zeros(elements.size, np.intp), [_NOTHING + style.tail * tails])
    numbers = decimals(np.where(undefined, 0.0, elements.relative), smallest=style.smallest)
    tail = words(np.zeros(elements.size, np.intp), [style.tail]) if style.tail else numbers[:0]
    cells = np.concatenate([numbers, tail])
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
    if not style.integer_tail:
        return cells
    return np.concatenate([cells, words(np.zeros(values.size, np.intp), [style.integer_tail])])


# -- The few numbers of a whole tensor -------------------------------------------------------------------------------


Number = Any


@dataclass(frozen=True, slots=True)
class Extent:
    """Smallest and largest error; ``None`` while there was none that means anything. NaN goes before every number."""

    least: Number = None
    most: Number = None

    def merge(self, other: Extent) -> Extent:
        """Return the extent of both parts."""
        if self.least is None or other.least is None:
            return other if self.least is None else self
        both = (self.least, other.least, self.most, other.most)
        if any(number != number for number in both):
            return Extent(math.nan, math.nan)
        return Extent(min(both[:2]), max(both[2:]))


@dataclass(frozen=True, slots=True)
class Extents:
    """Both errors over the elements seen so far."""

    count: int = 0
    absolute: Extent = Extent()
    relative: Extent = Extent()
    of_truths: bool = False

    def merge(self, other: Extents) -> Extents:
        """Return the extents of both parts."""
        return replace(
            other,
            count=self.count + other.count,
            absolute=self.absolute.merge(other.absolute),
            relative=self.relative.merge(other.relative),
        )

    def lines(self, style: Style) -> list[tuple[str, str]]:
        """Return titles and numbers: ``-`` of what means nothing, ``nan`` of an empty tensor."""
        named = (("Absolute", self.absolute), ("Relative", self.relative))
        return [
            (f"{word}{kind}Error", self._text(number, style))
            for kind, extent in named
            for word, number in (("Min", extent.least), ("Max", extent.most))
        ]

    def _text(self, number: Number, style: Style) -> str:
        if not self.count:
            return "nan"
        if number is None or self.of_truths:
            return "-"
        array = np.array([number], dtype=None if isinstance(number, float) else object)
        return joined([error_cells(array, style)], 1).decode("ascii")


NOTHING_SEEN = Extents()


def extents_of(elements: Elements) -> Extents:
    """Return the extents of some elements."""
    defined = elements.relative[~elements.undefined]
    return Extents(elements.size, _extent(elements.absolute), _extent(defined), elements.of_truths)


def _extent(errors: Any) -> Extent:
    if not errors.size:
        return Extent()
    least, most = errors.min(), errors.max()
    return Extent(*(number.item() if isinstance(number, np.generic) else number for number in (least, most)))


# -- The elements with the largest errors, found in one pass ---------------------------------------------------------


# What is of a higher class goes first, whatever its size.
_ONE_NAN, _NUMBER, _UNDEFINED, _EQUAL, _BOTH_NAN = 4, 3, 2, 1, 0

Keys = tuple[npt.NDArray[np.int8], npt.NDArray[Any]]


def by_absolute(elements: Elements) -> Keys:
    """Rank by absolute error: NaN on one side, then by size, then NaN on both sides."""
    return _ranked(elements.absolute, elements.both_nan)


def by_relative(elements: Elements) -> Keys:
    """Rank by relative error: between those above 0 and those of 0 come elements without one, by absolute error."""
    classes, size = _ranked(elements.relative, elements.both_nan)
    equal = elements.absolute == 0
    apart = elements.undefined
    if apart.any():
        absolute = elements.absolute.astype(np.float64)
        size = np.where(apart, np.where(np.isnan(absolute), np.inf, absolute), size)
    return np.where(apart, np.int8(_UNDEFINED), np.where(equal, np.int8(_EQUAL), classes)), size


def _ranked(errors: npt.NDArray[Any], both_nan: npt.NDArray[np.bool_]) -> Keys:
    classes = np.full(errors.size, _NUMBER, np.int8)
    if errors.dtype.kind != "f":
        # Python's own integers: beyond 64 bits they are so large that a float tells them apart well enough.
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
        self._found: Elements | None = None
        self._last: tuple[Any, Any] | None = None

    def add(self, elements: Elements) -> None:
        """Look at more elements, with higher numbers than those before."""
        classes, size = self._rank(elements)
        if self._last is not None:
            last_class, last_size = self._last
            same = classes == last_class
            beyond = np.flatnonzero((classes > last_class) | (same & (size > last_size)))
            # Of those that are as large as the last one, no more can get in than there is room for.
            equal = np.flatnonzero(same & (size == last_size))[-self._count :]
            places = np.concatenate([beyond, equal])
            if not places.size:
                return
            elements = elements.take(places)
        self._found = self._best(elements if self._found is None else self._found.with_more(elements))
        if self._found.size == self._count:
            classes, size = self._rank(self._found)
            self._last = classes[-1], size[-1]

    def _best(self, elements: Elements) -> Elements:
        classes, size = self._rank(elements)
        order = np.lexsort((elements.index, size, classes))
        return elements.take(order[::-1][: self._count])

    @property
    def elements(self) -> Elements | None:
        """The largest first; ``None`` when there was nothing to look at."""
        return self._found


# -- Write one pair in detail ----------------------------------------------------------------------------------------


MOST_ROWS = 1_000_000
MOST_TOP = 10_000

# What is read at a time, and what is made text of at a time: the latter stays near a core's cache.
_BLOCK_ELEMENTS = 131072
_TILE_ELEMENTS = 16384


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be written.

    Parameters
    ----------
    style : Style
        How it looks.
    top : int
        How many of the largest errors are listed.
    rows : int
        The most elements in one file.
    every_element : bool
        Whether every element is written, or the lists and the summary alone.
    """

    style: Style = OWN
    top: int = 20
    rows: int = MOST_ROWS
    every_element: bool = True


@dataclass(frozen=True, slots=True)
class Detail:
    """What was written of one pair.

    Parameters
    ----------
    files : tuple of Path
        Summary first, then both lists, then the rest.
    summary : mapping
        Title → text, as the summary has them.
    top_absolute, top_relative : tuple of str
        The lists with their titles, as lines.
    """

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
    wishes: Wishes = Wishes(),
) -> Detail:
    """Write two tensors of one logical shape in detail.

    Parameters
    ----------
    left, right : TensorView
        As `layouts.axes.meet` returns them.
    folder : Path
        Where to.
    stem : str
        What the names of the files begin with: see `elements.files.file_stem`.
    names : tuple of str
        The left and the right operator.
    letters : str, optional
        What the axes are, e.g. ``"NCHW"``.
    wishes : Wishes
        What is wanted.

    Returns
    -------
    Detail
        All files are there, or an error was raised and none is.

    Raises
    ------
    MsdumpError
        A tensor cannot be read to its end, or a file cannot be written.
    """
    style = wishes.style
    axes = named_axes(left.shape, letters, pads=style.pads_axes)
    tops = Top(wishes.top, by_absolute), Top(wishes.top, by_relative)
    seen = NOTHING_SEEN
    with Batch(folder) as batch:
        # Asked for first, so that these come first in the list of files.
        summary_path = batch.path(f"{stem}_summary.txt")
        top_paths = [batch.path(f"{stem}_{kind}_error_topn.csv") for kind in ("absolute", "relative")]
        rows = _Rows(batch, stem, axes, wishes) if wishes.every_element else None
        for block in _blocks(left, right):
            seen = seen.merge(extents_of(block))
            for top in tops:
                top.add(block)
            if rows is not None:
                rows.add(block)
        told = {
            "TotalCount": str(seen.count),
            style.operators[0]: _plain(names[0]),
            style.operators[1]: _plain(names[1]),
        }
        told |= {"Format": axes.label, **dict(seen.lines(style))}
        summary_path.write_bytes(in_utf8("".join(f"{key}:{text}\n" for key, text in told.items())))
        lists = []
        for path, top in zip(top_paths, tops, strict=True):
            table = heading(axes, style)
            if top.elements is not None:
                table += lines(top.elements, axes, style, tails=True)
            path.write_bytes(table)
            lists.append(tuple(table.decode("ascii").replace("\t", "").splitlines()))
        if style.with_array:
            write_npy(left, batch.path(f"{stem}.npy"))
        return Detail(batch.finish(), told, *lists)


def _plain(name: str) -> str:
    """A name on one line; of several, without the commas between them."""
    return terminal_text(name).replace(",", " ")


def _blocks(left: TensorView, right: TensorView) -> Iterator[Elements]:
    for start in range(0, left.size, _BLOCK_ELEMENTS):
        stop = min(start + _BLOCK_ELEMENTS, left.size)
        yield elements(left.read(start, stop), right.read(start, stop), start)


class _Rows:
    """The files with every element, each called by the number of its first."""

    def __init__(self, batch: Batch, stem: str, axes: Axes, wishes: Wishes) -> None:
        self._batch = batch
        self._stem = stem
        self._axes = axes
        self._wishes = wishes
        self._stream = self._next(0)
        self._room = wishes.rows

    def _next(self, first: int) -> BinaryIO:
        stream = self._batch.open(f"{self._stem}_{first}.csv")
        stream.write(heading(self._axes, self._wishes.style))
        return stream

    def add(self, block: Elements) -> None:
        """Write a block, into more than one file where it has to be."""
        start = 0
        while start < block.size:
            if not self._room:
                self._stream.close()
                self._stream = self._next(int(block.index[start]))
                self._room = self._wishes.rows
            stop = min(block.size, start + self._room, start + _TILE_ELEMENTS)
            tile = block.take(slice(start, stop))
            self._stream.write(lines(tile, self._axes, self._wishes.style))
            self._room -= stop - start
            start = stop

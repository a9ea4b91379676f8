"""Write one pair in detail: every element, the largest errors, a summary. One pass, bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pytest_msdump.detailing.axes import Axes, named_axes
from pytest_msdump.detailing.elements import Elements, elements
from pytest_msdump.detailing.files import Batch
from pytest_msdump.detailing.style import OWN, Style
from pytest_msdump.detailing.summary import NOTHING_SEEN, extents_of
from pytest_msdump.detailing.tables import heading, lines
from pytest_msdump.detailing.top import Top, by_absolute, by_relative
from pytest_msdump.escape import terminal_text
from pytest_msdump.model.tensor import TensorView
from pytest_msdump.readers.npy_writer import write_npy
from pytest_msdump.reporting.atomic import in_utf8

__all__ = ["MOST_ROWS", "MOST_TOP", "Detail", "Wishes", "detail_views"]

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
        As `memory_formats.axes.meet` returns them.
    folder : Path
        Where to.
    stem : str
        What the names of the files begin with: see `detailing.files.file_stem`.
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

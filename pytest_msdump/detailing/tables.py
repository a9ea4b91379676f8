"""Elements as lines of a table, in the columns of the vendor's tools."""

from __future__ import annotations

import numpy as np

from pytest_msdump.detailing.axes import Axes, coordinate_cells
from pytest_msdump.detailing.cells import Cells, decimals, integers, joined, texts, words
from pytest_msdump.detailing.elements import Elements
from pytest_msdump.detailing.style import Style
from pytest_msdump.dtypes.decode import to_double
from pytest_msdump.metrics.values import Array

__all__ = ["error_cells", "heading", "lines"]

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

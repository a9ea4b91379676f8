"""Numbers as text, a block at a time: what ``%.6f``, ``%.6e`` and ``%d`` print, without a loop over elements.

Cells are an array of bytes with a row for each character and a column for each element; shorter texts are padded with
0, which `joined` leaves out. Python's own ``%`` takes five times as long for a block of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.uint8]
_Doubles = npt.NDArray[np.float64]

_ZERO = ord("0")
_MILLION = 10**6

# Up to here a number has its millionths in 52 bits, and its integer part in 32.
_LARGEST_FIXED = 4e9
# Below this, a power of ten that scales a number is no float.
_SMALLEST_SCALED = 1e-290
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(-300, 301)])
# A product of a float and 10**6 = 15625 * 2**6 is exact when the float leaves as many bits unused as 15625 has.
_UNUSED_BITS = np.uint64(2**14 - 1)
# Scaled by a power of ten, which is rounded itself, a number may be that far from where it should be.
_DOUBT = 1e-6


def texts(words_: Sequence[str]) -> Cells:
    """Return the cells of one text for each element."""
    table = np.array([word.encode("ascii") for word in words_], dtype=bytes)
    width = max(table.dtype.itemsize, 1)
    return np.ascontiguousarray(table.astype(f"S{width}").view(np.uint8).reshape(len(words_), width).T)


def words(choice: npt.NDArray[np.intp], table: Sequence[str]) -> Cells:
    """Return for each element the text of the table at the place that `choice` names."""
    return np.take(texts(table), choice, axis=1)


def same(text: str, count: int) -> Cells:
    """Return one text for all elements."""
    return words(np.zeros(count, np.intp), [text])


def integers(values: npt.NDArray[np.integer]) -> Cells:
    """Return what ``%d`` prints of integers of up to 64 bits."""
    if not values.size:
        return np.zeros((1, 0), np.uint8)
    if values.dtype.kind == "u":
        return _whole(values.astype(np.uint64, copy=False))
    negative = values < 0
    # The smallest integer has no positive counterpart but in modular arithmetic.
    raw = values.astype(np.int64, copy=False).view(np.uint64)
    return np.vstack([_signs(negative), _whole(np.where(negative, np.uint64(0) - raw, raw))])


def decimals(values: _Doubles, *, smallest: float) -> Cells:
    """Return what ``%.6f`` prints, and ``%.6e`` for numbers nearer to 0 than `smallest`, which is above 2**-40."""
    size = np.abs(values)
    fixed = ((size >= smallest) | (size == 0)) & (size < _LARGEST_FIXED)
    if fixed.all():
        return _fixed(values, size)
    scaled = (size < smallest) & (size >= _SMALLEST_SCALED) & ~fixed
    parts = [
        (place, form(values[place], size[place]))
        for place, form in ((np.flatnonzero(fixed), _fixed), (np.flatnonzero(scaled), _scientific))
        if place.size
    ]
    rest = np.flatnonzero(~(fixed | scaled))
    if rest.size:
        others = [f"{value:.6e}" if 0 < abs(value) < smallest else f"{value:.6f}" for value in values[rest].tolist()]
        parts.append((rest, texts(others)))
    cells = np.zeros((max((part.shape[0] for _, part in parts), default=1), values.size), np.uint8)
    for place, part in parts:
        cells[: part.shape[0], place] = part
    return cells


def joined(columns: Sequence[Cells | bytes], rows: int) -> bytes:
    """Return the rows of a table one after the other; columns are cells, or bytes that are the same in every row."""
    blocks = [
        np.broadcast_to(np.frombuffer(column, np.uint8)[:, None], (len(column), rows))
        if isinstance(column, bytes)
        else column
        for column in columns
    ]
    whole: bytes = np.concatenate(blocks).T.tobytes()
    return whole.translate(None, b"\0")


def _signs(negative: npt.NDArray[np.bool_]) -> Cells:
    signs: Cells = negative.view(np.uint8) * np.uint8(ord("-"))
    return signs[None, :]


def _digits(values: npt.NDArray[np.unsignedinteger], places: int) -> Cells:
    cells = np.empty((places, values.size), np.uint8)
    ten = values.dtype.type(10)
    for place in range(places - 1, -1, -1):
        rest = values // ten
        np.add(values - rest * ten, _ZERO, out=cells[place], casting="unsafe")
        values = rest
    return cells


def _whole(values: npt.NDArray[np.uint64]) -> Cells:
    largest = int(values.max()) if values.size else 0
    narrow = values.astype(np.uint32) if largest < 2**32 else values
    places = len(str(largest))
    cells = _digits(narrow, places)
    for place in range(places - 1):
        cells[place][narrow < narrow.dtype.type(10 ** (places - 1 - place))] = 0
    return cells


def _fixed(values: _Doubles, size: _Doubles) -> Cells:
    """Return what ``%.6f`` prints."""
    scaled = size * float(_MILLION)
    rounded = np.rint(scaled)
    millionths = rounded.astype(np.uint64)
    whole = millionths // np.uint64(_MILLION)
    fraction = (millionths - whole * np.uint64(_MILLION)).astype(np.uint32)
    point = np.full((1, values.size), ord("."), np.uint8)
    cells = np.concatenate([_signs(np.signbit(values)), _whole(whole), point, _digits(fraction, 6)])
    # Halves go to the even side, but the scaled number is one of these only where scaling was exact.
    halves = np.flatnonzero(np.abs(scaled - rounded) == 0.5)
    doubtful = halves[size[halves].view(np.uint64) & _UNUSED_BITS != 0]
    return _corrected(cells, doubtful, [f"{value:.6f}" for value in values[doubtful].tolist()])


def _scientific(values: _Doubles, size: _Doubles) -> Cells:
    """Return what ``%.6e`` prints of numbers that a power of ten can scale."""
    exponent = np.floor(np.log10(size)).astype(np.intp)
    exponent -= _mantissa(size, exponent) < _MILLION
    exponent += _mantissa(size, exponent) >= 10 * _MILLION
    scaled = _mantissa(size, exponent)
    rounded = np.rint(scaled)
    doubtful = np.flatnonzero(np.abs(scaled - rounded) > 0.5 - _DOUBT)
    carried = rounded >= 10 * _MILLION
    exponent += carried
    rounded[carried] = _MILLION
    mantissa = _digits(rounded.astype(np.uint32), 7)
    powers = _digits(np.abs(exponent).astype(np.uint32), 3)
    powers[0][powers[0] == _ZERO] = 0
    point, letter = (np.full((1, values.size), ord(char), np.uint8) for char in ".e")
    sign = np.where(exponent < 0, np.uint8(ord("-")), np.uint8(ord("+")))[None, :]
    cells = np.concatenate([_signs(values < 0), mantissa[:1], point, mantissa[1:], letter, sign, powers])
    return _corrected(cells, doubtful, [f"{value:.6e}" for value in values[doubtful].tolist()])


def _mantissa(size: _Doubles, exponent: npt.NDArray[np.intp]) -> _Doubles:
    """Return each number scaled so that its integer part has its first seven digits."""
    scaled: _Doubles = size * _POWERS[300 + 6 - exponent]
    return scaled


def _corrected(cells: Cells, places: npt.NDArray[np.intp], right: Sequence[str]) -> Cells:
    """Replace the texts at some places by others that are no longer."""
    if right:
        other = texts(right)
        cells[:, places] = 0
        cells[: other.shape[0], places] = other
    return cells


@dataclass(frozen=True, slots=True)
class Style:
    """How details are written, in one of the vendor's forms or in ours.

    `operators` and `values` are titles of the left and the right side, in the summary and in tables. A number below
    `smallest` has an exponent, so that it does not look like 0; `integer_tail` follows an integer, `tail` any number in
    a table. If `pads_axes`, there are four coordinates at least, as if every tensor were N C H W; if `with_array`, the
    left side's values are written as ``.npy``, too.

    References
    ----------
    Ascend "Accuracy Comparison Tool", single-operator comparison, the first releases and 26.2.0.
    """

    operators: tuple[str, str]
    values: tuple[str, str]
    smallest: float
    integer_tail: str
    tail: str
    pads_axes: bool
    with_array: bool


# 5e-7 itself is what '%.6f' prints as 0.000000.
_JUST_VISIBLE = 5.0000001e-7

# Releases up to 26.2.0, the first releases, and the same titles with six significant digits at least.
NEWER = Style(("NPUDump", "GroundTruth"), ("NPUDump", "GroundTruth"), _JUST_VISIBLE, ".000000", "\t", True, True)
OLDER = Style(("LeftOp", "RightOp"), ("Left", "Right"), _JUST_VISIBLE, ".000000", "\t", True, True)
OWN = Style(("LeftOp", "RightOp"), ("Left", "Right"), 0.1, "", "", False, False)

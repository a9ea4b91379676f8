"""Diagnoses of where a drift is: slices of an axis agree, and all others differ, each as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from pytest_msdump.capabilities.diagnosis.claim import Array, Sides
from pytest_msdump.capabilities.diagnosis.orders import divisors
from pytest_msdump.capabilities.diagnosis.text import ATTENTION
from pytest_msdump.core.model.record import Diagnosis
from pytest_msdump.core.text import Message, Parameter

# A slice agrees when it is apart by at most this share of its norm, or what its type rounds; it differs when it is
# apart by that share, by so many times what any that agrees is apart, and in a fifth of its elements.
_AGREEING, _DIFFERING, _GAP, _SHARE, _FAR = 1e-4, 4e-3, 20.0, 0.2, 0.01
_FEWEST_ELEMENTS, _MOST_CELLS = 4, 2**16
_MOST_ROWS, _MOST_STEP, _MOST_RANGES, _MOST_SHOWN = 8, 8, 64, 6


class _Sums(NamedTuple):
    """Sums over slices: squared differences, the right's squares, elements that differ, and far; elements of each."""

    apart: Array
    right: Array
    differing: Array
    far: Array
    elements: int


def one_part(sides: Sides, operator: str) -> Diagnosis | None:
    """Diagnose the part that differs, by all elements; `operator` holds types and names of both sides."""
    shape = sides.shape
    if not sides.is_whole or len(shape) < 2 or sides.size < _FEWEST_ELEMENTS**2:
        return None
    parts: list[Message] = []
    hints: list[Message] = []
    ranges: dict[str, list[tuple[int, int]]] = {}
    with np.errstate(all="ignore"):
        for axis, length in enumerate(shape):
            if length < 2 or sides.size // length < _FEWEST_ELEMENTS:
                continue
            sampled = _sums(sides, (axis,), sides.sample_ranges)
            if not (_agreeing(sampled, sides)[1] & (sampled.right > 0)).any():
                continue
            differs = _differing(_sums(sides, (axis,), sides.ranges()), sides)
            found = None if differs is None else _of_rows(sides, axis) or _along(differs, axis, len(shape))
            if differs is not None and found is not None:
                parts.append(found)
                hints += filter(None, [_hint(found, differs, axis, len(shape), operator)])
                ranges[str(axis)] = _ranges(differs)
    # One slice alone is what `one_slice` says.
    if all(len(one) == 1 and one[0][0] == one[0][1] for one in ranges.values()):
        return None
    if not hints and re.search(ATTENTION, operator, re.IGNORECASE) and _is_padded(ranges):
        hints = [Message("points_to_padding")]
    evidence = Message("only_part_differs", {"parts": tuple(parts), "hint": hints[0] if hints else None})
    return Diagnosis("one_part", "high", evidence, {"ranges": ranges})


def _is_padded(ranges: Mapping[str, list[tuple[int, int]]]) -> bool:
    """Whether some rows differ, and only in their beginning."""
    return ranges.keys() == {"0", "1"} and len(ranges["1"]) == 1 and ranges["1"][0][0] == 0


def _sums(sides: Sides, axes: tuple[int, ...], ranges: Iterable[tuple[int, int]]) -> _Sums:
    lengths = tuple(sides.shape[axis] for axis in axes)
    found: list[Array] = [np.zeros(prod(lengths)) for _ in range(4)]
    # One huge element hides all others of its slice in a norm.
    finite = sides.finite_sample[1]
    usual = float(np.median(np.abs(finite))) if finite.size else 0.0
    relative = max(_AGREEING, sides.rounding.relative)
    for start, stop in ranges:
        left, right = sides.read(start, stop)
        places = np.arange(start, stop)
        cells = np.zeros(places.size, np.intp)
        for axis, length in zip(axes, lengths, strict=True):
            cells = cells * length + places // prod(sides.shape[axis + 1 :]) % length
        is_same = (left == right) | (np.isnan(left) & np.isnan(right))
        distance = np.where(is_same, 0.0, np.nan_to_num(np.abs(left - right), nan=np.inf))
        differs, far = distance > sides.rounding.of(right), distance > 20 * relative * (np.abs(right) + usual)
        for number, values in enumerate((np.square(distance), np.square(right), differs, far)):
            found[number] += np.bincount(cells, values, found[number].size)
    apart, squares, differing, far = (total.reshape(lengths) for total in found)
    return _Sums(apart, squares, differing, far, sides.size // prod(lengths))


def _agreeing(sums: _Sums, sides: Sides) -> tuple[Array, Array]:
    """Return by how much of its norm each slice is apart, and which agree, of those that were looked at."""
    apart = np.sqrt(sums.apart / np.maximum(sums.right, np.finfo(float).tiny))
    agrees = (apart <= max(_AGREEING, sides.rounding.relative)) & (sums.far <= _FAR * sums.elements)
    return apart, agrees


def _differing(sums: _Sums, sides: Sides) -> Array | None:
    """Return which slices differ; ``None`` where some neither agree nor differ, or all do the same."""
    apart, agrees = _agreeing(sums, sides)
    if not agrees.any() or agrees.all():
        return None
    bound = max(_DIFFERING, 4 * sides.rounding.relative, _GAP * float(apart[agrees].max()))
    differs: Array = (apart >= bound) & (sums.differing >= _SHARE * sums.elements)
    return differs if (differs | agrees).all() else None


def _ranges(differs: Array) -> list[tuple[int, int]]:
    """Return the first and the last of each run of slices that differ."""
    edges = np.diff(differs.astype(np.int8), prepend=0, append=0)
    return [
        (int(one), int(other) - 1) for one, other in zip(*(np.flatnonzero(edges == by) for by in (1, -1)), strict=True)
    ]


def _along(differs: Array, axis: int, axes: int) -> Message | None:
    """Return which slices of an axis differ, where they form a pattern."""
    count, wrong, ranges = len(differs), np.flatnonzero(differs), _ranges(differs)
    first, last = int(wrong[0]), int(wrong[-1])
    said: dict[str, Parameter] = {"axis": axis}
    if first == last:
        return Message("index_of_axis", {**said, "index": first})
    if axis < axes - 1 and len(ranges) == 1 and last == count - 1:
        return Message("from_index", {**said, "first": first})
    for step in range(2, min(_MOST_STEP, count // 3) + 1):
        if np.array_equal(wrong, np.arange(first, count, step)) and first < step:
            return Message("every_index", {**said, "step": step, "first": first})
    width = max(one for one in divisors(count)[:-1] if (differs.reshape(-1, one) == differs[::one, None]).all())
    blocks = np.flatnonzero(differs[::width])
    if width > 1 and len(blocks) <= _MOST_RANGES:
        numbers = ", ".join(map(str, blocks))
        return Message("blocks_of_axis", {**said, "numbers": numbers, "n": count // width, "width": width})
    if len(ranges) > _MOST_RANGES:
        return None
    texts = [str(one) if one == other else f"{one}–{other}" for one, other in ranges]
    shown = texts if len(texts) <= _MOST_SHOWN else [*texts[:_MOST_SHOWN], "…"]
    return Message("places_of_axis", {**said, "numbers": ", ".join(shown)})


def _of_rows(sides: Sides, axis: int) -> Message | None:
    """Return from where on, or until where, each row of the first axis differs, where that is another place in each."""
    rows, length = sides.shape[0], sides.shape[axis]
    is_small = rows * length <= _MOST_CELLS and sides.size // rows // length >= _FEWEST_ELEMENTS
    if not axis or rows < 2 or axis == len(sides.shape) - 1 or not is_small:
        return None
    differs = _differing(_sums(sides, (0, axis), sides.ranges()), sides)
    if differs is None or rows > _MOST_ROWS:
        return None
    counts = differs.sum(1)
    if len(np.unique(counts[counts > 0])) < 2:
        return None
    for code, places in (("until_in_rows", np.arange(length)), ("last_in_rows", np.arange(length)[::-1])):
        if np.array_equal(differs, places < counts[:, None]):
            return Message(code, {"axis": axis, "numbers": tuple(map(int, counts))})
    return None


def _hint(found: Message, differs: Array, axis: int, axes: int, operator: str) -> Message | None:
    """Return the mistake of attention that a pattern points to, where names speak of it."""
    if not re.search(ATTENTION, operator, re.IGNORECASE):
        return None
    if found.code in ("until_in_rows", "last_in_rows"):
        return Message("points_to_padding")
    if found.code == "from_index":
        return Message("points_to_positions" if found.parameters["first"] == 1 else "points_to_cache", {"axis": axis})
    if axis < axes - 1 and not differs[-1] and differs[:-1].all() and len(differs) >= _FEWEST_ELEMENTS:
        return Message("points_to_mask", {"axis": axis})
    wide = found.parameters.get("width", 1)
    heads = differs[:: wide if isinstance(wide, int) else 1]
    number = np.arange(len(heads))
    for groups in divisors(len(heads))[1:-1] if len(heads) <= _MOST_RANGES else ():
        if np.array_equal(heads, number * groups // len(heads) != number % groups):
            return Message("points_to_repeat", {"n": groups})
    return None

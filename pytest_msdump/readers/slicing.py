"""How an operator was cut into slices: the text that FFTS+ leaves as the first attribute of a dump's header."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pytest_msdump.errors import TensorFileError

__all__ = ["MAX_TEXT_BYTES", "Box", "Slicing", "axis_by_shapes", "follow_each_other", "parse_slicing"]

MAX_TEXT_BYTES = 2**23

_MAX_LENGTH = 2**63 - 1


class Box(NamedTuple):
    """Which part of a tensor one slice is: for each axis the first index, and the one behind the last."""

    lower: tuple[int, ...]
    higher: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(high - low for low, high in zip(self.lower, self.higher, strict=True))


class Slicing(NamedTuple):
    """How an operator was cut.

    Parameters
    ----------
    by_threads : bool
        Cut by the runtime into threads, rather than by the compiler into operators.
    total : int
        How many slices there are.
    cuts : tuple of tuple of int
        For each output and axis, into how many parts it was cut.
    boxes : tuple of tuple of Box
        For each thread and output, which part of the output it wrote; empty when not told.
    """

    by_threads: bool
    total: int
    cuts: tuple[tuple[int, ...], ...]
    boxes: tuple[tuple[Box, ...], ...]

    def cut_axis(self, slot: int) -> int | None:
        """Return the first axis of an output that was cut; ``None`` when none was."""
        cuts = self.cuts[slot] if slot < len(self.cuts) else ()
        return next((axis for axis, parts in enumerate(cuts) if parts != 1), None)

    def boxes_of(self, slot: int) -> tuple[Box, ...]:
        """Return the part of an output that each thread wrote, in the order of threads; empty when not told."""
        if len(self.boxes) < self.total or any(slot >= len(boxes) for boxes in self.boxes):
            return ()
        return tuple(boxes[slot] for boxes in self.boxes[: self.total])


def parse_slicing(text: str, *, where: str) -> Slicing:
    """Read the text.

    Parameters
    ----------
    text : str
        JSON with ``threadMode``, ``slice_instance_num``, ``outputCutList`` and ``output_tensor_slice``; other keys are
        skipped.
    where : str
        The file, for error texts.

    Raises
    ------
    TensorFileError
        When it is something else.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(where, "is not JSON") from error
    if not isinstance(values, dict):
        raise _damaged(where, "is not a JSON object")
    mode, count = values.get("threadMode"), values.get("slice_instance_num")
    if mode not in (0, 1):
        raise _damaged(where, "says no threadMode 0 or 1")
    if type(count) is not int or count < 1:
        raise _damaged(where, "says no slice_instance_num of 1 or more")
    try:
        cuts = tuple(tuple(map(_length, axes)) for axes in _list(values.get("outputCutList")))
        boxes = tuple(tuple(map(_box, outputs)) for outputs in _list(values.get("output_tensor_slice")))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(where, "tells of cuts in a way that is not known") from error
    return Slicing(bool(mode), count, cuts, boxes)


def _damaged(where: str, what: str) -> TensorFileError:
    return TensorFileError(
        f"{where}: the attribute that should tell how the operator was sliced {what}, so the slices cannot be joined; "
        "dump it again without FFTS+ slices"
    )


def _list(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError
    return value


def _length(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_LENGTH:
        raise ValueError
    return value


def _box(axes: Any) -> Box:
    lower = tuple(_length(axis["lower"]) for axis in _list(axes))
    higher = tuple(_length(axis["higher"]) for axis in _list(axes))
    if any(low > high for low, high in zip(lower, higher, strict=True)):
        raise ValueError
    return Box(lower, higher)


def follow_each_other(boxes: Sequence[Box], axis: int) -> bool:
    """Tell whether parts that differ along one axis leave no gap and do not overlap."""
    return all(before.higher[axis] == after.lower[axis] for before, after in pairwise(boxes))


def axis_by_shapes(shapes: Sequence[tuple[int, ...]], whole: tuple[int, ...]) -> int | None:
    """Find the axis along which parts of these shapes make the whole.

    Examples
    --------
    >>> axis_by_shapes([(2, 5), (1, 5)], (3, 5))
    0
    >>> axis_by_shapes([(2, 5), (1, 5)], (4, 5)) is None
    True
    """
    if any(len(shape) != len(whole) for shape in shapes):
        return None
    cut = [axis for axis in range(len(whole)) if any(shape[axis] != whole[axis] for shape in shapes)]
    if len(cut) != 1 or sum(shape[cut[0]] for shape in shapes) != whole[cut[0]]:
        return None
    return cut[0]

"""A tensor that was dumped in slices (FFTS+), one file for each, joined along the axis it was cut along."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.ascend.dump_file import DumpFile, open_dump_file, part_of
from pytest_msdump.capabilities.ascend.header import StoredTensor
from pytest_msdump.core.dumps.array_reader import StoredView, ordered_axes
from pytest_msdump.core.dumps.file_names import slice_numbers
from pytest_msdump.core.dumps.sidefiles import parse_object
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec, TensorView

Array = npt.NDArray[Any]

_MOST_NAMED = 4
_MAX_TEXT_BYTES = 2**23
_MAX_LENGTH = 2**63 - 1


class JoinedView(TensorView):
    """Tensors that are parts of one along an axis, as that one (a `model.tensor.TensorView`). Made by `open_sliced`."""

    def __init__(
        self,
        views: Sequence[StoredView],
        axis: int,
        *,
        original_shape: tuple[int, ...] | None,
        stored_shape: tuple[int, ...] | None = None,
    ) -> None:
        self._views, self._axis, self._original_shape = tuple(views), axis, original_shape
        first = self._views[0]
        lengths = [view.shape[axis] for view in self._views]
        self._shape = (*first.shape[:axis], sum(lengths), *first.shape[axis + 1 :])
        self._stored_shape = self._shape if stored_shape is None else stored_shape
        inner = prod(first.shape[axis + 1 :])
        # Elements of one row, that is of everything at one index of the axes before the joined one: of each part.
        self._widths = tuple(length * inner for length in lengths)
        self._row = sum(self._widths)
        self._native = first.read(0, 0).dtype

    @property
    def spec(self) -> TensorSpec:
        """What the headers say, with the joined stored shape."""
        spec = self._views[0].spec
        logical = self._original_shape if spec.memory_format else self._shape
        trailing = sum(view.spec.trailing_bytes for view in self._views)
        return replace(spec, shape=self._stored_shape, logical_shape=logical, trailing_bytes=trailing)

    @property
    def shape(self) -> tuple[int, ...]:
        """Stored shape of the whole tensor."""
        return self._shape

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` in C order of `shape`; see `StoredView.read`."""
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"elements {start} to {stop} of slices asked for, together they have {self.size}")
        out = np.empty(stop - start, self._native)
        position = start
        while position < stop:
            target = out[position - start :]
            row, inside = divmod(position, self._row)
            rows = 0 if inside else target.size // self._row
            position += self._fill_rows(target, row, rows) if rows else self._fill_part(target, row, inside)
        return out

    def _fill_rows(self, target: Array, row: int, rows: int) -> int:
        """Fill whole rows from `row` on, all rows of one part at once."""
        grid = target[: rows * self._row].reshape(rows, self._row)
        column = 0
        for view, width in zip(self._views, self._widths, strict=True):
            part = view.read(row * width, (row + rows) * width)
            grid[:, column : column + width] = part.reshape(rows, width)
            column += width
        return rows * self._row

    def _fill_part(self, target: Array, row: int, inside: int) -> int:
        """Fill from the middle of a row up to where the next part begins."""
        for view, width in zip(self._views, self._widths, strict=True):
            if inside < width:
                count = min(width - inside, target.size)
                begin = row * width + inside
                target[:count] = view.read(begin, begin + count)
                return count
            inside -= width
        raise AssertionError("a row ends with its last part")

    def permuted(self, axes: tuple[int, ...]) -> JoinedView:
        """Return this tensor with its axes in another order, as `numpy.transpose` takes them; reads no data."""
        order = ordered_axes(axes, self._shape, "slices")
        return JoinedView(
            [view.permuted(order) for view in self._views],
            order.index(self._axis),
            original_shape=self._original_shape,
            stored_shape=self._stored_shape,
        )

    def close(self) -> None:
        """Close all files."""
        for view in self._views:
            view.close()


def open_sliced(pieces: Sequence[Path], part: int | None) -> StoredView | JoinedView:
    """Open a tensor whose slices are in several files; reads no data."""
    with ExitStack() as stack:
        files: list[DumpFile] = []
        for path in pieces:
            files.append(open_dump_file(path))
            stack.callback(files[-1].file.close)
        slicing = _slicing(files, pieces)
        tensor = part_of(files[0].header, part, pieces[0])
        view: StoredView | JoinedView
        if slicing is None:
            view = files[0].open(tensor)
        elif tensor.io == "input":
            view = _open_input(files, slicing, tensor)
        else:
            view = _open_output(files, slicing, tensor)
        stack.pop_all()
    if isinstance(view, StoredView):
        for one in files[1:]:
            one.file.close()
    return view


def _slicing(files: Sequence[DumpFile], pieces: Sequence[Path]) -> Slicing | None:
    """Read how the operator was sliced, and whether all slices are there; ``None`` when it was not."""
    first = files[0]
    where = first.file.where
    if first.header.attribute is None:
        if len(files) == 1:
            return None
        raise TensorFileError(
            f"{where}: one of {len(files)} slices, but its header does not say how the operator was cut; dump it "
            "again without FFTS+ slices"
        )
    slicing = parse_slicing(first.text(first.header.attribute, _MAX_TEXT_BYTES), where=where)
    numbers = slice_numbers(pieces)
    wanted = set(range(slicing.total))
    if len(files) != slicing.total or (numbers is not None and set(numbers) != wanted):
        missing = sorted(wanted.difference(numbers or ()))[:_MOST_NAMED]
        which = f", e.g. not number {missing[0]}" if numbers and missing else ""
        raise TensorFileError(
            f"{where}: {len(files)} of {slicing.total} slices are there{which}; some are missing, or from another "
            "run, so the tensor cannot be put together: dump it again"
        )
    return None if slicing.total == 1 else slicing


def _open_input(files: Sequence[DumpFile], slicing: Slicing, tensor: StoredTensor) -> StoredView | JoinedView:
    whole = tensor.original_shape
    if slicing.by_threads:
        # The original shape is that of the whole tensor, so it says nothing of the part that one thread read.
        is_part = whole is not None and prod(whole) != prod(tensor.shape)
        return files[0].open(tensor._replace(original_shape=None) if is_part else tensor)
    parts = [_matching_part(one, tensor) for one in files]
    shapes = [one.shape for one in parts]
    if whole is not None and all(shape == whole for shape in shapes):
        return files[0].open(tensor)
    axis = None if whole is None else _axis_by_shapes(shapes, whole)
    if axis is None:
        raise TensorFileError(
            f"{files[0].file.where}: input {tensor.slot} of {len(files)} slices of shapes {shapes[0]} … {shapes[-1]}: "
            "how they make one tensor is unknown; compare outputs, or leave it out with deselect"
        )
    views = [one.open(each) for one, each in zip(files, parts, strict=True)]
    return JoinedView(views, axis, original_shape=whole)


def _axis_by_shapes(shapes: Sequence[tuple[int, ...]], whole: tuple[int, ...]) -> int | None:
    """Find the axis along which parts of these shapes make the whole; ``None`` when that is not certain."""
    if any(len(shape) != len(whole) for shape in shapes):
        return None
    cut = [axis for axis in range(len(whole)) if any(shape[axis] != whole[axis] for shape in shapes)]
    return cut[0] if len(cut) == 1 and sum(shape[cut[0]] for shape in shapes) == whole[cut[0]] else None


def _open_output(files: Sequence[DumpFile], slicing: Slicing, tensor: StoredTensor) -> JoinedView:
    where = f"{files[0].file.where}: output {tensor.slot}"
    boxes = slicing.boxes_of(tensor.slot) if slicing.by_threads else ()
    parts = [_matching_part(one, tensor) for one in files]
    shapes = [box.shape for box in boxes] or [one.shape for one in parts]
    axis = slicing.cut_axis(tensor.slot)
    if axis is None or axis >= len(shapes[0]):
        raise TensorFileError(
            f"{where}: {len(files)} slices, but the header names no axis that they were cut along; they are not joined "
            "by guess: dump it again without FFTS+ slices"
        )
    around = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    fits = len(around) == 1 and all(
        len(shape) == len(shapes[0]) and prod(shape) == prod(one.shape)
        for shape, one in zip(shapes, parts, strict=True)
    )
    if not fits or any(before.higher[axis] != after.lower[axis] for before, after in pairwise(boxes)):
        raise TensorFileError(
            f"{where}: slices of shapes {', '.join(map(str, shapes[:_MOST_NAMED]))} do not make one tensor along axis "
            f"{axis}; the dump is damaged or from several runs: dump it again"
        )
    views = [one.open(each._replace(shape=shape)) for one, each, shape in zip(files, parts, shapes, strict=True)]
    return JoinedView(views, axis, original_shape=_whole_original_shape(parts, slicing, axis))


def _whole_original_shape(parts: Sequence[StoredTensor], slicing: Slicing, axis: int) -> tuple[int, ...] | None:
    """Return the original shape of the whole: each thread's header has it, a slice of the compiler only its own."""
    first = parts[0].original_shape
    if slicing.by_threads:
        return first
    if first is None or any(one.original_shape != one.shape for one in parts):
        return None
    return (*first[:axis], sum(one.shape[axis] for one in parts), *first[axis + 1 :])


def _matching_part(file: DumpFile, tensor: StoredTensor) -> StoredTensor:
    """Return the tensor of a slice that is part of the same whole as the first slice's."""
    for one in file.header.tensors:
        if (one.io, one.slot) == (tensor.io, tensor.slot):
            if (one.data_type, one.memory_format) == (tensor.data_type, tensor.memory_format):
                return one
            raise TensorFileError(
                f"{file.file.where}: {one.io} {one.slot} is {one.data_type.label} in {one.memory_format}, the first "
                f"slice is {tensor.data_type.label} in {tensor.memory_format}; the files are not slices of one operator"
            )
    raise TensorFileError(
        f"{file.file.where}: has no {tensor.io} {tensor.slot}, the first slice has; the files are not slices of "
        "one operator"
    )


class SliceBox(NamedTuple):
    """Which part of a tensor one slice is: for each axis the first index, and the one behind the last."""

    lower: tuple[int, ...]
    higher: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(high - low for low, high in zip(self.lower, self.higher, strict=True))


class Slicing(NamedTuple):
    """How an operator was cut: by the runtime into threads if `by_threads`, else by the compiler into operators."""

    by_threads: bool
    total: int
    cuts: tuple[tuple[int, ...], ...]
    boxes: tuple[tuple[SliceBox, ...], ...]

    def cut_axis(self, slot: int) -> int | None:
        """Return the first axis of an output that was cut; ``None`` when none was."""
        cuts = self.cuts[slot] if slot < len(self.cuts) else ()
        return next((axis for axis, parts in enumerate(cuts) if parts != 1), None)

    def boxes_of(self, slot: int) -> tuple[SliceBox, ...]:
        """Return the part of an output that each thread wrote, in the order of threads; empty when unknown."""
        if len(self.boxes) < self.total or any(slot >= len(boxes) for boxes in self.boxes):
            return ()
        return tuple(boxes[slot] for boxes in self.boxes[: self.total])


def parse_slicing(text: str, *, where: str) -> Slicing:
    """Read the JSON of ``threadMode``, ``slice_instance_num``, ``outputCutList`` and ``output_tensor_slice``."""
    values, wrong = parse_object(text)
    if wrong:
        raise _damaged(where, wrong)
    mode, count = values.get("threadMode"), values.get("slice_instance_num")
    if mode not in (0, 1):
        raise _damaged(where, "says no threadMode 0 or 1")
    if type(count) is not int or count < 1:
        raise _damaged(where, "says no slice_instance_num of 1 or more")
    try:
        cuts = tuple(tuple(map(_length, axes)) for axes in _list(values.get("outputCutList")))
        boxes = tuple(tuple(map(_box, outputs)) for outputs in _list(values.get("output_tensor_slice")))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(where, "describes the cuts in an unknown way") from error
    return Slicing(bool(mode), count, cuts, boxes)


def _damaged(where: str, what: str) -> TensorFileError:
    return TensorFileError(
        f"{where}: the attribute that should say how the operator was sliced {what}, so the slices cannot be joined; "
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


def _box(axes: Any) -> SliceBox:
    lower = tuple(_length(axis["lower"]) for axis in _list(axes))
    higher = tuple(_length(axis["higher"]) for axis in _list(axes))
    if any(low > high for low, high in zip(lower, higher, strict=True)):
        raise ValueError
    return SliceBox(lower, higher)

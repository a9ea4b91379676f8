"""A tensor that was dumped in slices (FFTS+), one file for each, joined along the axis it was cut along."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.dumps.array_reader import StoredView, open_stored, ordered_axes
from pytest_msdump.dumps.ascend_file import DumpFile, open_dump_file, part_of
from pytest_msdump.dumps.ascend_header import StoredTensor
from pytest_msdump.dumps.ascend_names import slice_numbers
from pytest_msdump.dumps.buffers import MAX_TEXT_BYTES, Slicing, axis_by_shapes, follow_each_other, parse_slicing
from pytest_msdump.dumps.sidefiles import read_text
from pytest_msdump.errors import TensorFileError
from pytest_msdump.model.graph import KernelArguments
from pytest_msdump.model.tensor import TensorRef, TensorSpec, mangle

__all__ = ["open_sliced", "parse_kernel_args", "read_kernel_args"]

Array = npt.NDArray[Any]

_MOST_NAMED = 4


class JoinedView:
    """Tensors that are parts of one along an axis, as that one (a `model.tensor.TensorView`). Made by `open_sliced`.

    Parameters
    ----------
    views : sequence of StoredView
        The parts in order, of one type; their shapes differ along `axis` only.
    axis : int
        Along which they are joined.
    original_shape : tuple of int, optional
        Of the whole, before the memory format.
    stored_shape : tuple of int, optional
        Of the whole; differs from the joined shape when the axes were moved.
    """

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

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._views[0].dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self._shape)

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

    def blocks(self, block_elements: int) -> Iterator[Array]:
        """Yield all elements, `block_elements` at a time."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

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
    """Open a tensor whose slices are in several files; reads no data.

    Parameters
    ----------
    pieces : sequence of Path
        The files, in the order of their slices' numbers.
    part : int, optional
        Number of the tensor in the first file, as `ascend_file.open_part` takes it.

    Returns
    -------
    TensorView
        Outputs are joined. Of inputs that threads read, which overlap as the operator needs it, only the first
        thread's is opened. Inputs of slices that the compiler made are joined when their shapes leave no doubt.

    Raises
    ------
    TensorFileError
        When slices are missing, or it is not certain how to join them.
    """
    with ExitStack() as stack:
        files: list[DumpFile] = []
        for path in pieces:
            files.append(open_dump_file(path))
            stack.callback(files[-1].file.close)
        slicing = _slicing(files, pieces)
        tensor = part_of(files[0].header, part, pieces[0])
        view: StoredView | JoinedView
        if slicing is None:
            view = _opened(files[0], tensor)
        elif tensor.io == "input":
            view = _input(files, slicing, tensor)
        else:
            view = _output(files, slicing, tensor)
        stack.pop_all()
    if isinstance(view, StoredView):
        for one in files[1:]:
            one.file.close()
    return view


def _slicing(files: Sequence[DumpFile], pieces: Sequence[Path]) -> Slicing | None:
    """Read how the operator was sliced, and whether all slices are there; ``None`` when it was not."""
    first = files[0]
    where = str(first.file.path)
    if first.header.attribute is None:
        if len(files) == 1:
            return None
        raise TensorFileError(
            f"{where}: one of {len(files)} slices, but its header does not tell how the operator was cut; dump it "
            "again without FFTS+ slices"
        )
    slicing = parse_slicing(first.text(first.header.attribute, MAX_TEXT_BYTES), where=where)
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


def _input(files: Sequence[DumpFile], slicing: Slicing, tensor: StoredTensor) -> StoredView | JoinedView:
    if slicing.by_threads:
        return _alone(files[0], tensor)
    same = [_same(one, tensor) for one in files]
    shapes = [one.shape for one in same]
    whole = tensor.original_shape
    if whole is not None and all(shape == whole for shape in shapes):
        return _opened(files[0], tensor)
    axis = None if whole is None else axis_by_shapes(shapes, whole)
    if axis is None:
        raise TensorFileError(
            f"{files[0].file.path}: input {tensor.slot} of {len(files)} slices of shapes {shapes[0]} … {shapes[-1]}: "
            "how they make one tensor is not told; compare outputs, or leave it out with deselect"
        )
    views = [_opened(one, each) for one, each in zip(files, same, strict=True)]
    return JoinedView(views, axis, original_shape=whole)


def _opened(file: DumpFile, tensor: StoredTensor) -> StoredView:
    return open_stored(file.file, tensor, trailing_bytes=file.trailing_bytes)


def _alone(file: DumpFile, tensor: StoredTensor) -> StoredView:
    """Open what one thread read. The original shape is that of the whole tensor, so it says nothing of a part."""
    part = tensor.original_shape is not None and prod(tensor.original_shape) != prod(tensor.shape)
    return _opened(file, tensor._replace(original_shape=None) if part else tensor)


def _output(files: Sequence[DumpFile], slicing: Slicing, tensor: StoredTensor) -> JoinedView:
    where = f"{files[0].file.path}: output {tensor.slot}"
    boxes = slicing.boxes_of(tensor.slot) if slicing.by_threads else ()
    parts = [_same(one, tensor) for one in files]
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
    if not fits or not follow_each_other(boxes, axis):
        raise TensorFileError(
            f"{where}: slices of shapes {', '.join(map(str, shapes[:_MOST_NAMED]))} do not make one tensor along axis "
            f"{axis}; the dump is damaged or from several runs: dump it again"
        )
    views = [_opened(one, each._replace(shape=shape)) for one, each, shape in zip(files, parts, shapes, strict=True)]
    return JoinedView(views, axis, original_shape=_original_shape(parts, slicing, axis))


def _original_shape(parts: Sequence[StoredTensor], slicing: Slicing, axis: int) -> tuple[int, ...] | None:
    """Return the original shape of the whole: each thread's header tells it, a slice of the compiler only its own."""
    first = parts[0].original_shape
    if slicing.by_threads:
        return first
    if first is None or any(one.original_shape != one.shape for one in parts):
        return None
    return (*first[:axis], sum(one.shape[axis] for one in parts), *first[axis + 1 :])


def _same(file: DumpFile, tensor: StoredTensor) -> StoredTensor:
    """Return the tensor of a slice that is part of the same whole as the first slice's."""
    for one in file.header.tensors:
        if (one.io, one.slot) == (tensor.io, tensor.slot):
            if (one.data_type, one.memory_format) == (tensor.data_type, tensor.memory_format):
                return one
            raise TensorFileError(
                f"{file.file.path}: {one.io} {one.slot} is {one.data_type.label} in {one.memory_format}, the first "
                f"slice is {tensor.data_type.label} in {tensor.memory_format}; the files are not slices of one operator"
            )
    raise TensorFileError(
        f"{file.file.path}: has no {tensor.io} {tensor.slot}, the first slice has; the files are not slices of "
        "one operator"
    )


# -- Arguments of a kernel, ``OP_TYPE.OP.json`` beside its tensors ---------------------------------------------------


_MAX_BYTES = 2**20
_MOST_ARGUMENTS = 1000
_LONGEST_VALUE = 1000


def parse_kernel_args(text: str) -> Mapping[str, str]:
    """Return arguments by name.

    Raises
    ------
    ValueError
        The text is no JSON object.

    Examples
    --------
    >>> parse_kernel_args('{"transpose_a": "False", "dims": [1, 2]}')
    {'transpose_a': 'False', 'dims': '[1, 2]'}
    """
    try:
        values = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested beyond measure") from error
    if not isinstance(values, dict):
        raise ValueError("no object")
    return {name: _text(value) for name, value in list(values.items())[:_MOST_ARGUMENTS]}


def read_kernel_args(ref: TensorRef) -> KernelArguments | None:
    """Read the arguments of the operator that a tensor belongs to.

    Parameters
    ----------
    ref : TensorRef
        Only the directory of its file is looked into.

    Returns
    -------
    KernelArguments or None
        ``None`` where none were saved; without values, and with a note, where they cannot be read.
    """
    path = _path(ref)
    if path is None or not path.exists():
        return None
    text, note = read_text(path, _MAX_BYTES)
    if note:
        return KernelArguments(path.name, note=note)
    try:
        return KernelArguments(path.name, parse_kernel_args(text))
    except ValueError:
        return KernelArguments(path.name, note="is not a JSON object of arguments")


def _path(ref: TensorRef) -> Path | None:
    """The file's path. A name from a table may hold slashes, and leads nowhere else when it is mangled."""
    op = ref.key.op
    if not op.op_type or not op.name:
        return None
    name = f"{mangle(op.op_type)}.{mangle(op.name)}.json"
    # Longer ones no file system takes.
    return ref.source.path.parent / name if len(name.encode(errors="replace")) <= 255 and "\0" not in name else None


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"

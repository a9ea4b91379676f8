"""One tensor of a dump file, in its stored axes, as something that is read piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.decode import StoredAs, bytes_needed, can_decode, stored_as
from pytest_msdump.dumps.ascend_file import FileSource, open_dump_file, part_of
from pytest_msdump.dumps.ascend_header import Noted, StoredTensor, bytes_behind, parse_header
from pytest_msdump.dumps.buffers import BLOCK_BYTES, Scratch, StridedReader
from pytest_msdump.dumps.stored_file import StoredFile
from pytest_msdump.errors import TensorFileError, TensorShapeError
from pytest_msdump.facts.dump_proto import NOT_NUMBERS
from pytest_msdump.model.tensor import TensorSpec

__all__ = [
    "PackedReader",
    "StoredView",
    "laid_out",
    "open_output",
    "open_part",
    "open_stored",
    "ordered_axes",
]

Array = npt.NDArray[Any]

_MAX_ELEMENTS = 2**63 - 1


class PackedReader:
    """Elements of less than a byte. What is not in stored order is picked out of pieces of the file."""

    def __init__(
        self, file: StoredFile, offset: int, form: StoredAs, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self._file, self._offset, self._form = file, offset, form
        self._shape, self._strides = shape, strides
        self._dense = strides == _dense_strides(shape)
        self._per_byte = 8 // form.itemsize_bits
        self._raw = Scratch()

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the order asked for, decoded."""
        if self._dense:
            return self._stored(start, stop)
        places = self._places(start, stop)
        out = np.empty(places.size, self._form.unpack(np.empty(0, np.uint8)).dtype)
        low, high = (int(places.min()), int(places.max()) + 1) if places.size else (0, 0)
        for begin in range(low, high, BLOCK_BYTES):
            end = min(begin + BLOCK_BYTES, high)
            wanted = (places >= begin) & (places < end)
            if wanted.any():
                out[wanted] = self._stored(begin, end)[places[wanted] - begin]
        return out

    def _places(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return the stored element numbers of a range of the logical order."""
        rest = np.arange(start, stop, dtype=np.int64)
        places = np.zeros(stop - start, np.int64)
        for length, stride in zip(reversed(self._shape), reversed(self._strides), strict=True):
            rest, index = np.divmod(rest, max(length, 1))
            places += index * stride
        return places

    def _stored(self, start: int, stop: int) -> Array:
        first, last = start // self._per_byte, -(-stop // self._per_byte)
        raw = self._raw.take(last - first, np.dtype(np.uint8))
        self._file.read_into(raw.data, self._offset + first)
        skipped = start - first * self._per_byte
        values: Array = self._form.unpack(raw)[skipped : skipped + stop - start]
        return values


class Layout(NamedTuple):
    """How a kind of tensors lies in files, its axes in some order, and what is told of it.

    `stored_spec` is what headers say, `axes` the order of the stored axes, `spec` what is told of the tensor in that
    order. `steps` are stored elements per step of each axis of `shape`. `item` is what one element is read as, and
    `decode` makes values of what was read.
    """

    stored_spec: TensorSpec
    axes: tuple[int, ...]
    spec: TensorSpec
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    size: int
    form: StoredAs
    item: np.dtype[Any]
    decode: Callable[[Array], Array]


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=1024)
def laid_out(spec: TensorSpec, axes: tuple[int, ...] | None = None) -> Layout:
    """Return how a tensor of which a header says this lies in its file, in another order of its axes if told so."""
    stored, order = spec.shape or (), tuple(range(len(spec.shape or ())))
    axes = order if axes is None else axes
    strides, shape = _dense_strides(stored), tuple(stored[axis] for axis in axes)
    told = spec if axes == order else replace(spec, memory_format=None, logical_shape=shape)
    form = stored_as(spec.dtype or "")
    item, decode, width = form.stored, form.unpack, form.itemsize_bits // 8
    if not width:
        # Several elements share a byte: who reads them takes them apart.
        decode = _as_it_is
    elif item.itemsize != width:
        # An element of several stored numbers (complex32) travels as one.
        item, decode = np.dtype(f"V{width}"), partial(_unpacked, form)
    steps = tuple(strides[axis] for axis in axes)
    return Layout(spec, axes, told, shape, steps, prod(shape), form, item, decode)


def _as_it_is(values: Array) -> Array:
    return values


def _unpacked(form: StoredAs, raw: Array) -> Array:
    return form.unpack(raw.view(form.stored))


class StoredView:
    """A tensor of a dump file (a `model.tensor.TensorView`), its axes as `layout` says. Made by `open_stored`.

    Memory formats are undone by who knows them: `shape` is the stored shape, `spec.logical_shape` the one that the
    dump says the tensor had before. Not for several threads at a time; views made by `permuted` share the file.
    """

    def __init__(self, file: StoredFile, offset: int, layout: Layout, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._file, self._offset, self._layout, self._block_bytes = file, offset, layout, block_bytes
        self._reader: PackedReader | StridedReader
        if layout.form.itemsize_bits < 8:
            self._reader = PackedReader(file, offset, layout.form, layout.shape, layout.steps)
        else:
            self._reader = StridedReader(file, offset, layout.item, layout.shape, layout.steps, block_bytes=block_bytes)

    @property
    def spec(self) -> TensorSpec:
        """What the header says; after `permuted`, the memory format is gone and the logical shape is the new one."""
        return self._layout.spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Stored shape, its axes in the order asked for."""
        return self._layout.shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._layout.stored_spec.dtype or ""

    @property
    def size(self) -> int:
        """Number of stored elements, padding included."""
        return self._layout.size

    def read(self, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` in C order of `shape`: 1-D, native, decoded.

        The array belongs to the caller until the next `read` of this view.

        Raises
        ------
        ValueError
            For a range outside the tensor, or after `close`.
        TensorFileError
            When the file has shrunk meanwhile or the disk refuses.
        """
        layout = self._layout
        if not 0 <= start <= stop <= layout.size:
            raise ValueError(f"{self._file.path}: elements {start} to {stop} asked for, it has {layout.size}")
        return layout.decode(self._reader.read(start, stop))

    def blocks(self, block_elements: int) -> Iterator[Array]:
        """Yield all elements, `block_elements` at a time; each block is the caller's until the next."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

    def permuted(self, axes: tuple[int, ...]) -> StoredView:
        """Return this tensor with its axes in another order, as `numpy.transpose` takes them; reads no data.

        Raises
        ------
        TensorShapeError
            When `axes` is not a permutation of this tensor's axes.
        """
        layout = self._layout
        order = ordered_axes(axes, layout.shape, str(self._file.path))
        moved = laid_out(layout.stored_spec, tuple(layout.axes[axis] for axis in order))
        return StoredView(self._file, self._offset, moved, block_bytes=self._block_bytes)

    def close(self) -> None:
        """Close the file, for every view of it."""
        self._file.close()

    def __enter__(self) -> StoredView:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


def ordered_axes(axes: tuple[int, ...], shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    """Return a permutation without negative axes.

    Raises
    ------
    TensorShapeError
        When `axes` does not name each axis of `shape` once.
    """
    rank = len(shape)
    order = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if sorted(order) != list(range(rank)):
        raise TensorShapeError(
            f"{where}: axes {list(axes)} do not permute its stored shape {shape}; name each of 0 to {rank - 1} once"
            if rank
            else f"{where}: axes {list(axes)} of a tensor without axes; leave them out"
        )
    return order


@lru_cache(maxsize=1024)
def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return elements per step of each axis, for a tensor stored without gaps."""
    return tuple(accumulate((1, *shape[:0:-1]), mul))[::-1] if shape else ()


def open_stored(
    file: StoredFile, tensor: StoredTensor, *, trailing_bytes: int = 0, block_bytes: int = BLOCK_BYTES
) -> StoredView:
    """Open one tensor of a dump file whose header was read; reads no data.

    Parameters
    ----------
    file : StoredFile
        The dump file.
    tensor : StoredTensor
        What its header says of the tensor.
    trailing_bytes : int
        Of the file, to be told with the tensor.
    block_bytes : int
        Bound of what is held between reads when the elements must be gathered from other places.

    Raises
    ------
    TensorFileError
        When its type has no numeric meaning or cannot be decoded, or its data is not all there. Bytes beyond what the
        shape needs are padding when the header counts them; they are never read.
    """
    described = (tensor.data_type.dtype, tensor.shape, tensor.memory_format, tensor.original_shape, tensor.groups)
    if (found := _described(*described)) is None:
        raise _no_numbers(tensor, _where(file, tensor))
    layout, needed = found
    if needed is None:
        raise TensorFileError(
            f"{_where(file, tensor)}: shape {tensor.shape} is more than any memory holds; the header is damaged"
        )
    if needed > tensor.size:
        raise TensorFileError(
            f"{_where(file, tensor)}: shape {tensor.shape} of {layout.spec.dtype} needs {needed} bytes, the header "
            f"gives it {tensor.size}; the dump is damaged or was cut short while writing: dump it again"
        )
    there = file.size - tensor.start
    if tensor.size > there:
        raise TensorFileError(
            f"{_where(file, tensor)}: cut off, {max(there, 0)} of its {tensor.size} bytes are there; "
            "the run was probably killed while writing: dump it again"
        )
    if trailing_bytes:
        layout = laid_out(replace(layout.stored_spec, trailing_bytes=trailing_bytes))
    return StoredView(file, tensor.start, layout, block_bytes=block_bytes)


# A network has many tensors and few kinds of them.
@lru_cache(maxsize=1024)
def _described(
    dtype: str, shape: tuple[int, ...], memory_format: str, logical_shape: tuple[int, ...] | None, groups: int
) -> tuple[Layout, int | None] | None:
    """Return how a tensor lies in its file, and in how many bytes, ``None`` of too many; ``None`` without numbers."""
    known = canonical(dtype)
    if known is None or not can_decode(known):
        return None
    # Of an empty tensor too, since nothing else would hold back what numpy makes of the other lengths.
    is_possible = prod(filter(None, shape)) <= _MAX_ELEMENTS
    layout = laid_out(TensorSpec(known, shape, memory_format, logical_shape, groups))
    return layout, bytes_needed(known, prod(shape)) if is_possible else None


def _where(file: StoredFile, tensor: StoredTensor) -> str:
    return f"{file.path}: {tensor.io} {tensor.slot}"


def _no_numbers(tensor: StoredTensor, where: str) -> TensorFileError:
    label, dtype = tensor.data_type
    why = NOT_NUMBERS.get(dtype)
    if why is not None:
        return TensorFileError(
            f"{where}: {label} has no numeric meaning; {why}, so it cannot be compared: leave it out with deselect"
        )
    return TensorFileError(
        f"{where}: data type {label} cannot be decoded; cast the tensor to float32 in the network, or leave it out "
        "with deselect"
    )


# -- The tensors of an Ascend dump file, opened by number ------------------------------------------------------------


def open_part(path: Path | str, part: int | None, noted: object = None) -> StoredView:
    """Open one tensor of a dump file lazily.

    Parameters
    ----------
    path : Path or str
        The file; text is a path of this machine.
    part : int, optional
        Its number among inputs, then outputs. ``None`` for a file whose header could not be read when it was indexed:
        now it is said why.
    noted : Noted, optional
        What the header said of the tensor when the dump was indexed; it is read again where the file is another now.

    Raises
    ------
    TensorFileError
        When the header cannot be read, the tensor is not there, its data is not what the header says, or whole dumps
        follow it.
    """
    file = StoredFile(path)
    try:
        file.hold()
        source = FileSource(file)
        if isinstance(noted, Noted) and noted.state == file.state:
            return open_stored(file, noted.tensor, trailing_bytes=bytes_behind(source, noted.end))
        header = parse_header(source)
        return open_stored(file, part_of(header, part, path), trailing_bytes=bytes_behind(source, header.end))
    except BaseException:
        file.close()
        raise


def open_output(path: Path, index: int) -> StoredView:
    """Open the output that a file of an original model holds: its only one, else the one of this index.

    Raises
    ------
    TensorFileError
        As `open_part`.
    """
    opened = open_dump_file(path)
    try:
        outputs = [tensor for tensor in opened.header.tensors if tensor.io == "output"]
        part = index if len(outputs) > 1 else 0
        tensor = part_of(opened.header._replace(tensors=tuple(outputs)), part, path)
        return open_stored(opened.file, tensor, trailing_bytes=opened.trailing_bytes)
    except BaseException:
        opened.file.close()
        raise

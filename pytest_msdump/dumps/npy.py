"""One ``.npy`` file as a tensor that is read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from pytest_msdump.dtypes.decode import Storage, storage_of
from pytest_msdump.dumps.base import Reader
from pytest_msdump.dumps.buffers import BLOCK_BYTES, StridedReader
from pytest_msdump.dumps.filename import number, parse_mindspore, parse_reference
from pytest_msdump.dumps.manifest import read_manifest
from pytest_msdump.dumps.npy_header import NpyHeader, cut_off, extent, parse_header
from pytest_msdump.dumps.stored_file import StoredFile
from pytest_msdump.errors import TensorFileError, TensorShapeError
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, TensorView

if TYPE_CHECKING:
    from pytest_msdump.model.dump import TensorEntry

__all__ = ["NpyFileReader", "open_npy", "parse_header"]

_FIRST_READ_BYTES = 2**12


class NpyView:
    """The tensor of an npy file (a `model.tensor.TensorView`). Made by `open_npy`.

    Holds one band of `block_bytes` and what the caller asks for at once. Not for several threads at a time. Views made
    by `permuted` share the file: closing one of them closes all.
    """

    def __init__(
        self, file: StoredFile, header: NpyHeader, storage: Storage, layout: _Layout, *, block_bytes: int
    ) -> None:
        self._file, self._header, self._storage, self._layout = file, header, storage, layout
        self._block_bytes = block_bytes
        self._reader = StridedReader(
            file, header.data_offset, storage.stored, layout.shape, layout.steps, block_bytes=block_bytes
        )

    @property
    def spec(self) -> TensorSpec:
        """Logical dtype, the header's shape, the claimed memory format, and the shape after `permuted`."""
        return self._layout.spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape; ``()`` for a 0-d tensor."""
        return self._layout.shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._storage.logical

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._layout.size

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return elements `start` to `stop` of the logical shape in C order: 1-D, native, bfloat16 as exact float32.

        The array belongs to the caller until the next `read` of this view.

        Raises
        ------
        ValueError
            For a range outside the tensor, or after `close`.
        TensorFileError
            When the file has shrunk meanwhile or the disk refuses.
        """
        if not 0 <= start <= stop <= self._layout.size:
            raise ValueError(f"{self._file.path}: elements {start} to {stop} asked for, it has {self._layout.size}")
        return self._storage.decode(self._reader.read(start, stop))

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        """Yield all elements, `block_elements` at a time; each block is the caller's until the next."""
        for start in range(0, self.size, block_elements):
            yield self.read(start, min(start + block_elements, self.size))

    def permuted(self, axes: tuple[int, ...]) -> NpyView:
        """Return this tensor with its axes in another order, as `numpy.transpose` takes them; reads no data.

        Raises
        ------
        TensorShapeError
            When `axes` is not a permutation of this tensor's axes.
        """
        layout = self._layout
        rank = len(layout.shape)
        order = tuple(axis + rank if axis < 0 else axis for axis in axes)
        if sorted(order) != list(range(rank)):
            raise TensorShapeError(
                f"{self._file.path}: axes {list(axes)} do not permute its shape {layout.shape}; name each of 0 to "
                f"{rank - 1} once"
            )
        moved = _laid_out(
            self._header, layout.spec.dtype, layout.spec.memory_format, tuple(layout.axes[axis] for axis in order)
        )
        return NpyView(self._file, self._header, self._storage, moved, block_bytes=self._block_bytes)

    def close(self) -> None:
        """Close the file, for every view of it."""
        self._file.close()

    def __enter__(self) -> NpyView:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


class _Layout(NamedTuple):
    """What is told of a kind of tensors, its axes in some order, and stored elements per step of each of them."""

    axes: tuple[int, ...]
    spec: TensorSpec
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    size: int


# A dump has many files and few headers.
@lru_cache(maxsize=1024)
def _laid_out(
    header: NpyHeader, dtype: str | None, memory_format: str | None, axes: tuple[int, ...] | None = None
) -> _Layout:
    """Return how a tensor lies that is stored without gaps, in another order of its axes if told so."""
    stored, fortran = header.shape, header.fortran_order
    lengths = stored if fortran else stored[::-1]
    strides = tuple(accumulate((1, *lengths[:-1]), mul)) if lengths else ()
    steps = strides if fortran else strides[::-1]
    axes = tuple(range(len(stored))) if axes is None else axes
    shape = tuple(stored[axis] for axis in axes)
    spec = TensorSpec(dtype, stored, memory_format, shape)
    return _Layout(axes, spec, shape, tuple(steps[axis] for axis in axes), prod(stored))


def open_npy(path: Path | str, claimed: TensorSpec, *, block_bytes: int = BLOCK_BYTES) -> NpyView:
    """Open an npy file as a tensor; reads its header only.

    Parameters
    ----------
    path : Path or str
        A regular file, or a link to one; text is a path of this machine.
    claimed : TensorSpec
        What the dump says of it. `dtype` is the logical type where the header only tells the storage;
        `memory_format` is handed on; shapes are the header's.
    block_bytes : int
        Bound of what is held between reads when the elements must be gathered from other places.

    Raises
    ------
    TensorFileError
        When the file cannot be read, is not a whole npy file of numbers, or contradicts what is claimed of it.
    """
    file = StoredFile(path)
    try:
        file.hold()
        header = parse_header(_head(file), where=str(path))
        storage = storage_of(header.descr, claimed.dtype, where=str(path))
        layout = _laid_out(header, storage.logical, claimed.memory_format)
        _check_size(file, header, layout.size * storage.stored.itemsize)
    except BaseException:
        file.close()
        raise
    return NpyView(file, header, storage, layout, block_bytes=block_bytes)


def _head(file: StoredFile) -> bytes:
    """Read no more than the header may need, however long the file claims it to be."""
    is_here = file.held(0, file.size) is not None
    head = file.read_bytes(0, file.size if is_here else min(file.size, _FIRST_READ_BYTES))
    if file.size == len(head):
        return head
    _, end = extent(head, str(file.path))
    return file.read_bytes(0, min(file.size, end)) if end > len(head) else head


def _check_size(file: StoredFile, header: NpyHeader, needed: int) -> None:
    there = file.size - header.data_offset
    if there < needed:
        raise cut_off(str(file.path), f"after {there} of {needed} bytes")
    if there > needed:
        raise TensorFileError(
            f"{file.path}: {there - needed} bytes too many: shape {header.shape} in its header needs {needed}; "
            "two writers, or a damaged header: dump it again"
        )


# -- One ``.npy`` file as a dump of one tensor -----------------------------------------------------------------------


class NpyFileReader(Reader):
    """A single file. It has no coordinates; its operator's name is what the file name says, or all of it."""

    name = "npy-file"
    looks_for = "a single .npy file"

    def recognises(self, root: Path) -> bool:
        """Tell whether `root` is a file that ends in ``.npy``."""
        return root.is_file() and root.suffix.lower() == ".npy"

    def index(self, root: Path) -> Dump:
        """List the one tensor; a manifest beside it, or beside its iteration's folder, tells what its name does not."""
        key, spec, timestamp = _parse(root.name)
        ref = TensorRef(key=key, spec=spec, source=TensorSource.of(root, timestamp), reader=self.name, place=0)
        entry = _entry(root)
        if entry is not None:
            from pytest_msdump.dumps.manifest import told

            ref = told(ref, entry)
        return Dump(root=root, reader=self.name, refs=(ref,))

    def open(self, ref: TensorRef) -> TensorView:
        """Open the tensor lazily; see `Reader.open`."""
        return open_npy(ref.source.path, ref.spec)


def _entry(path: Path) -> TensorEntry | None:
    """What the manifest of the dump that this file is of says of it."""
    whole = path.absolute()
    folder = whole.parent.parent if number(whole.parent.name) is not None else whole.parent
    for root in (whole.parent, folder):
        manifest, _ = read_manifest(root)
        if manifest is not None:
            return manifest.tensors.get(whole.relative_to(root).as_posix())
    return None


def _parse(name: str) -> tuple[TensorKey, TensorSpec, int | None]:
    """Read a file name by the first grammar that fits."""
    dumped = parse_mindspore(name)
    if dumped:
        op = OpKey(name=dumped.op, op_type=dumped.op_type)
        return TensorKey(op, dumped.io, dumped.slot), dumped.spec, dumped.timestamp
    reference = parse_reference(name)
    if reference:
        return TensorKey(OpKey(reference.op), "output", reference.slot), TensorSpec(), reference.timestamp
    return TensorKey(OpKey(Path(name).stem), "output", 0), TensorSpec(), None

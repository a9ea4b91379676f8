"""One ``.npy`` file as a tensor that is read piece by piece.

References
----------
NEP 1, "A Simple File Format for NumPy Arrays": versions 1.0 (2-byte header length), 2.0 (4-byte) and 3.0 (UTF-8).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from pytest_msdump.dtypes.decode import Storage, storage_of
from pytest_msdump.errors import TensorFileError, TensorShapeError
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers.buffers import BLOCK_BYTES, StoredFile, StridedReader

__all__ = ["NpyHeader", "NpyView", "open_npy", "parse_header"]

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_KEYS = {"descr", "fortran_order", "shape"}

# Plain arrays need under 2 KiB; the bound keeps a forged length from being believed.
_MAX_HEADER_BYTES = 2**16
_FIRST_READ_BYTES = 2**12

# The lower of what numpy 1.26 (32) and 2.x (64) hold; a dump's tensors have at most 8 axes.
_MAX_RANK = 32
_MAX_LENGTH = 2**63 - 1

# All that a header may consist of, so that `literal_eval` meets no operators, names, escapes or odd numbers.
_LITERALS = re.compile(r"""(?:[\s{}()\[\],:]|'[^'\\\n]*'|"[^"\\\n]*"|(?:True|False|-?\d{1,20})(?!\w))*""", re.ASCII)

_FOREIGN = (
    (b"version https://git-lfs", "is a Git LFS pointer, not the tensor itself; run `git lfs pull`"),
    (b"PK\x03\x04", "is a zip archive (.npz?); unpack it, one .npy file for each tensor"),
    (b"\x1f\x8b", "is compressed with gzip; unpack it first"),
    (b"\x80", "looks like a pickle, which is never loaded; save the tensor with numpy.save"),
)


class NpyHeader(NamedTuple):
    """What an npy file says of itself; `descr` as it stands there, `data_offset` in bytes."""

    version: tuple[int, int]
    descr: object
    fortran_order: bool
    shape: tuple[int, ...]
    data_offset: int


def parse_header(head: bytes, *, where: str) -> NpyHeader:
    """Parse the beginning of an npy file.

    Parameters
    ----------
    head : bytes
        At least the whole header; what follows is not looked at.
    where : str
        The file, for error texts.

    Raises
    ------
    TensorFileError
        When this is no npy file, the header is cut off or longer than 64 KiB, or says anything but a plain array's
        `descr`, `fortran_order` and `shape`.
    """
    version, end = _extent(head, where)
    if len(head) < end:
        raise _cut(where, f"inside its header, {len(head)} of {end} bytes")
    begin = len(_MAGIC) + 2 + _LENGTH_BYTES[version]
    try:
        text = head[begin:end].decode("utf-8" if version == (3, 0) else "latin-1")
        entries = ast.literal_eval(text.strip()) if _LITERALS.fullmatch(text) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        entries = None
    if not isinstance(entries, dict) or entries.keys() != _KEYS:
        raise _damaged(where, "does not hold exactly descr, fortran_order and shape")
    shape, fortran = entries["shape"], entries["fortran_order"]
    if not isinstance(fortran, bool):
        raise _damaged(where, f"says fortran_order {str(fortran)[:40]}, which is neither True nor False")
    if not _is_shape(shape):
        raise _damaged(where, f"says shape {str(shape)[:80]}, which is no tuple of at most {_MAX_RANK} lengths")
    return NpyHeader(version, entries["descr"], fortran, shape, end)


def _extent(head: bytes, where: str) -> tuple[tuple[int, int], int]:
    """Return the npy version and the number of bytes before the data."""
    for start, sentence in _FOREIGN:
        if head.startswith(start):
            raise TensorFileError(f"{where}: {sentence}")
    if not head:
        raise TensorFileError(f"{where}: is empty (0 bytes); the run was probably killed while writing: dump it again")
    if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
        raise TensorFileError(f"{where}: is not an npy file (it begins with {head[:6]!r}); save it with numpy.save")
    if len(head) < len(_MAGIC) + 6:
        raise _cut(where, f"inside its header, after {len(head)} bytes")
    version = (head[6], head[7])
    length_bytes = _LENGTH_BYTES.get(version)
    if length_bytes is None:
        raise TensorFileError(
            f"{where}: is npy version {head[6]}.{head[7]}; known: 1.0, 2.0, 3.0. Save it again as 1.0"
        )
    begin = len(_MAGIC) + 2 + length_bytes
    length = int.from_bytes(head[8:begin], "little")
    if length > _MAX_HEADER_BYTES:
        raise _damaged(where, f"claims to be {length} bytes long, at most {_MAX_HEADER_BYTES} are believed")
    return version, begin + length


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, tuple)
        and len(shape) <= _MAX_RANK
        and all(type(length) is int and 0 <= length <= _MAX_LENGTH for length in shape)
    )


def _cut(where: str, how: str) -> TensorFileError:
    return TensorFileError(f"{where}: cut off {how}; the run was probably killed while writing: dump it again")


def _damaged(where: str, how: str) -> TensorFileError:
    return TensorFileError(f"{where}: its npy header {how}; the file is damaged or forged, dump it again")


class NpyView:
    """The tensor of an npy file (a `model.tensor.TensorView`). Made by `open_npy`.

    Holds one band of `block_bytes` and what the caller asks for at once. Not for several threads at a time. Views made
    by `permuted` share the file: closing one of them closes all.
    """

    def __init__(
        self,
        file: StoredFile,
        header: NpyHeader,
        storage: Storage,
        axes: tuple[int, ...],
        *,
        memory_format: str | None,
        block_bytes: int,
    ) -> None:
        self._file, self._header, self._storage, self._axes = file, header, storage, axes
        self._memory_format, self._block_bytes = memory_format, block_bytes
        strides = _dense_strides(header.shape, fortran=header.fortran_order)
        self._shape = tuple(header.shape[axis] for axis in axes)
        self._size = prod(self._shape)
        self._reader = StridedReader(
            file,
            header.data_offset,
            storage.stored,
            self._shape,
            tuple(strides[axis] for axis in axes),
            block_bytes=block_bytes,
        )

    @property
    def spec(self) -> TensorSpec:
        """Logical dtype, the header's shape, the claimed memory format, and the shape after `permuted`."""
        return TensorSpec(self._storage.logical, self._header.shape, self._memory_format, self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape; ``()`` for a 0-d tensor."""
        return self._shape

    @property
    def dtype(self) -> str:
        """Logical data type, a name from `facts.dtypes`."""
        return self._storage.logical

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._size

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
        if not 0 <= start <= stop <= self._size:
            raise ValueError(f"{self._file.path}: elements {start} to {stop} asked for, it has {self._size}")
        return self._storage.decode(self._reader.read(start, stop))

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        """Yield all elements, `block_elements` at a time; each block is the caller's until the next."""
        for start in range(0, self._size, block_elements):
            yield self.read(start, min(start + block_elements, self._size))

    def permuted(self, axes: tuple[int, ...]) -> NpyView:
        """Return this tensor with its axes in another order, as `numpy.transpose` takes them; reads no data.

        Raises
        ------
        TensorShapeError
            When `axes` is not a permutation of this tensor's axes.
        """
        rank = len(self._shape)
        order = tuple(axis + rank if axis < 0 else axis for axis in axes)
        if sorted(order) != list(range(rank)):
            raise TensorShapeError(
                f"{self._file.path}: axes {list(axes)} do not permute its shape {self._shape}; name each of 0 to "
                f"{rank - 1} once"
            )
        return NpyView(
            self._file,
            self._header,
            self._storage,
            tuple(self._axes[axis] for axis in order),
            memory_format=self._memory_format,
            block_bytes=self._block_bytes,
        )

    def close(self) -> None:
        """Close the file, for every view of it."""
        self._file.close()

    def __enter__(self) -> NpyView:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


def _dense_strides(shape: tuple[int, ...], *, fortran: bool) -> tuple[int, ...]:
    """Return elements per step of each axis, for a tensor stored without gaps."""
    lengths = shape if fortran else shape[::-1]
    strides = tuple(accumulate((1, *lengths[:-1]), mul)) if lengths else ()
    return strides if fortran else strides[::-1]


def open_npy(path: Path, claimed: TensorSpec, *, block_bytes: int = BLOCK_BYTES) -> NpyView:
    """Open an npy file as a tensor; reads its header only.

    Parameters
    ----------
    path : Path
        A regular file, or a link to one.
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
        header = parse_header(_head(file), where=str(path))
        storage = storage_of(header.descr, claimed.dtype, where=str(path))
        _check_size(file, header, storage.stored.itemsize)
    except BaseException:
        file.close()
        raise
    axes = tuple(range(len(header.shape)))
    return NpyView(file, header, storage, axes, memory_format=claimed.memory_format, block_bytes=block_bytes)


def _head(file: StoredFile) -> bytes:
    """Read no more than the header may need, however long the file claims it to be."""
    head = bytearray(min(file.size, _FIRST_READ_BYTES))
    file.read_into(memoryview(head), 0)
    _, end = _extent(bytes(head), str(file.path))
    if end > len(head) and file.size > len(head):
        head = bytearray(min(file.size, end))
        file.read_into(memoryview(head), 0)
    return bytes(head)


def _check_size(file: StoredFile, header: NpyHeader, item_bytes: int) -> None:
    needed, there = prod(header.shape) * item_bytes, file.size - header.data_offset
    if there < needed:
        raise _cut(str(file.path), f"after {there} of {needed} bytes")
    if there > needed:
        raise TensorFileError(
            f"{file.path}: {there - needed} bytes too many: shape {header.shape} in its header needs {needed}; "
            "two writers, or a damaged header: dump it again"
        )

"""Arrays of MindSpore 1.2 and 1.3: raw bytes in a file whose name alone says what they are (`flat_name`)."""

from __future__ import annotations

from math import prod
from pathlib import Path

from pytest_msdump.dtypes.decode import bytes_needed, can_decode
from pytest_msdump.errors import TensorFileError
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers.buffers import BLOCK_BYTES, StoredFile
from pytest_msdump.readers.flat_name import parse_flat
from pytest_msdump.readers.stored import StoredView, laid_out

__all__ = ["open_flat"]

_POINTER = b"version https://git-lfs"
_KILLED = "the run was probably killed while writing: dump it again"
_MAX_ELEMENTS = 2**63 - 1


def open_flat(path: Path, claimed: TensorSpec, *, block_bytes: int = BLOCK_BYTES) -> StoredView:
    """Open a ``.bin`` file as a tensor in its stored axes; reads no data.

    Parameters
    ----------
    path : Path
        A regular file, or a link to one.
    claimed : TensorSpec
        What its name says of it, as `FlatName.spec` gives it. The shape is the stored one: in a device's memory format
        the logical shape is unknown.
    block_bytes : int
        Bound of what is held between reads when the elements must be gathered from other places.

    Raises
    ------
    TensorFileError
        When the file cannot be read, or does not have just the bytes that dtype and shape need.
    """
    file = StoredFile(path)
    try:
        _check(file, claimed)
    except BaseException:
        file.close()
        raise
    return StoredView(file, 0, laid_out(claimed), block_bytes=block_bytes)


def _check(file: StoredFile, claimed: TensorSpec) -> None:
    where, shape = str(file.path), claimed.shape
    if claimed.dtype is None or shape is None or not can_decode(claimed.dtype):
        parsed = parse_flat(file.path.name)
        said = parsed.dtype if parsed else "none"
        raise TensorFileError(
            f"{where}: data type {said} in its name cannot be decoded; leave the tensor out with deselect"
        )
    if prod(length for length in shape if length) > _MAX_ELEMENTS:
        raise TensorFileError(f"{where}: shape {shape} in its name is more than any memory holds; rename the file")
    if _is_pointer(file):
        raise TensorFileError(f"{where}: is a Git LFS pointer, not the tensor itself; run `git lfs pull`")
    needed = bytes_needed(claimed.dtype, prod(shape))
    if file.size == 0 and needed:
        raise TensorFileError(f"{where}: is empty (0 bytes); {_KILLED}")
    if file.size < needed:
        raise TensorFileError(f"{where}: cut off after {file.size} of {needed} bytes; {_KILLED}")
    if file.size > needed:
        raise TensorFileError(
            f"{where}: {file.size - needed} bytes too many: shape {shape} of {claimed.dtype} in its name needs "
            f"{needed}; the file was renamed or written twice: dump it again"
        )


def _is_pointer(file: StoredFile) -> bool:
    head = bytearray(min(file.size, len(_POINTER)))
    file.read_into(memoryview(head), 0)
    return bytes(head) == _POINTER

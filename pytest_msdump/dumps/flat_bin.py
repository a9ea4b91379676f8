"""Arrays of MindSpore 1.2 and 1.3: raw bytes in a file whose name alone says what they are (`flat_name`)."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.decode import bytes_needed, can_decode
from pytest_msdump.dumps.array_reader import StoredView, laid_out
from pytest_msdump.dumps.buffers import BLOCK_BYTES
from pytest_msdump.dumps.stored_file import StoredFile
from pytest_msdump.errors import TensorFileError
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.tensor import TensorSpec, mangle

__all__ = ["FlatName", "open_flat", "parse_flat", "parse_flat_npy"]

_TENSOR = r"(?P<op>.+)_(?P<io>input|output)_(?P<slot>[0-9]{1,9})"
# Memory formats hold underscores (FRACTAL_NZ), data types do not.
_FLAT = re.compile(
    _TENSOR + r"_shape(?P<dims>(?:_[0-9]{1,19})*)_+(?P<dtype>[A-Za-z][A-Za-z0-9]*)_(?P<format>[A-Za-z]\w*)\.bin",
    re.DOTALL | re.ASCII,
)
_SUFFIX = ".bin"
_FLAT_NPY = re.compile(_TENSOR + r"\.npy", re.DOTALL)
_KERNEL = re.compile(r"(?P<op_type>.+)-op[0-9]+", re.DOTALL)
_SCOPE = "--"


class FlatName(NamedTuple):
    """What a file name says. `op` is spelled as later releases do it, so that both meet; `dtype` as in the file."""

    op: str
    op_type: str | None
    io: str
    slot: int
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    memory_format: str | None = None

    @property
    def spec(self) -> TensorSpec:
        """What the name claims of the tensor. A dtype that `facts.dtypes` does not know is left out."""
        return TensorSpec(canonical(self.dtype or ""), self.shape, self.memory_format)


def parse_flat(name: str) -> FlatName | None:
    """Read the name of a ``.bin`` file, from the right.

    Parameters
    ----------
    name : str
        A file name without its directory.

    Returns
    -------
    FlatName or None
        ``None`` when the name has another form. `op_type` is the last part of the operator's name; what is not
        numbered as kernels are is a Parameter.

    Examples
    --------
    >>> parsed = parse_flat("Default--Add-op1_input_0_shape_1_3_3_4_Float32_DefaultFormat.bin")
    >>> parsed.op, parsed.op_type, parsed.io, parsed.slot
    ('Default_Add-op1', 'Add', 'input', 0)
    >>> parsed.shape, parsed.dtype, parsed.memory_format
    ((1, 3, 3, 4), 'Float32', 'DefaultFormat')
    """
    # Nearly all other names are told by their end alone.
    match = _FLAT.fullmatch(name) if name.endswith(_SUFFIX) else None
    if match is None:
        return None
    shape = tuple(int(length) for length in match["dims"].split("_")[1:])
    return _named(match)._replace(shape=shape, dtype=match["dtype"], memory_format=match["format"])


def parse_flat_npy(name: str) -> FlatName | None:
    """Read the name of an npy file of the short-lived form, which is too plain to be looked for everywhere.

    Examples
    --------
    >>> parse_flat_npy("Default--Add-op1_output_0.npy")[:4]
    ('Default_Add-op1', 'Add', 'output', 0)
    """
    match = _FLAT_NPY.fullmatch(name)
    return _named(match) if match else None


def _named(match: re.Match[str]) -> FlatName:
    scoped = match["op"]
    op = mangle(scoped.replace(_SCOPE, "/"))
    return FlatName(op, _op_type(scoped), match["io"], int(match["slot"]))


def _op_type(scoped: str) -> str | None:
    last = scoped.rpartition(_SCOPE)[2]
    kernel = _KERNEL.fullmatch(last)
    if kernel is None:
        return PARAMETER
    # A scope that was written with underscores cannot be told from the type.
    return None if "_" in last and _SCOPE not in scoped else kernel["op_type"]


# -- Arrays of MindSpore 1.2 and 1.3: raw bytes in a file whose name alone says what they are ( ----------------------


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

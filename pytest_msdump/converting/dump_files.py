"""Arrays into binary dump files, as the device's runtime writes them: header, then inputs, then outputs.

The file appears whole or not at all, and is written block by block. The vendor's own tool writes headers of JSON with a
size of 0, which no tool can read, its own included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from pytest_msdump.converting.array_files import whole_file
from pytest_msdump.converting.dump_header import StoredHeader, encode_header
from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.decode import bytes_needed
from pytest_msdump.dtypes.encode import encode
from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.memory_formats import may_be_padded
from pytest_msdump.model.tensor import TensorView

__all__ = ["DumpTensor", "write_dump"]

# Several elements may share a byte: a multiple of 8.
_BLOCK_ELEMENTS = 2**17


@dataclass(frozen=True, slots=True)
class DumpTensor:
    """One tensor that is to stand in a dump file.

    Parameters
    ----------
    view : TensorView
        Its values; the shape is the stored one.
    io : str
        ``"output"`` or ``"input"``. The place among those of its kind is its slot.
    dtype : str, optional
        Of the elements in the dump; the view's by default. The values must be values of that type: nothing is rounded.
    memory_format : str
        What the axes of the view are; nothing is moved.
    original_shape : tuple of int, optional
        Without padding. By default the stored shape, unless the format is padded: then the header does not say.
    groups : int
        Of a convolution whose weight this is.
    """

    view: TensorView
    io: str = "output"
    dtype: str | None = None
    memory_format: str = "ND"
    original_shape: tuple[int, ...] | None = None
    groups: int = 1


def write_dump(path: Path, tensors: Sequence[DumpTensor], *, op_name: str = "", dump_time: int = 0) -> Path:
    """Write a binary dump file (container 2.0).

    Parameters
    ----------
    path : Path
        The file; its folder exists, and a file of this name is replaced. Its name tells operator and time, by one of
        the grammars of dump files; it is not looked at.
    tensors : sequence of DumpTensor
        At least one. Each view is read to its end, and not closed.
    op_name : str
        The operator's true name, for the header.
    dump_time : int
        For the header; by custom the microseconds since 1970 of the name.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    ConfigError
        A dump cannot say a data type or memory format.
    TensorFileError
        There is no tensor, one cannot be read, or a value is none that its data type has.
    MsdumpError
        The file cannot be written.

    Notes
    -----
    The same tensors, name and time give the same bytes.
    """
    if not tensors:
        raise TensorFileError(f"{path}: a dump of no tensor would be read as a damaged one; give at least one")
    ordered = sorted(tensors, key=lambda tensor: tensor.io == "output")
    header = encode_header([_header(tensor) for tensor in ordered], op_name=op_name, dump_time=dump_time)
    with whole_file(path) as stream:
        stream.write(header)
        for tensor in ordered:
            dtype = tensor.dtype or tensor.view.dtype
            for block in tensor.view.blocks(_BLOCK_ELEMENTS):
                stream.write(encode(block, dtype).data)
    return path


def _header(tensor: DumpTensor) -> StoredHeader:
    shape = tensor.view.shape
    name = tensor.dtype or tensor.view.dtype
    original = tensor.original_shape
    if original is None and not may_be_padded(tensor.memory_format):
        original = shape
    return StoredHeader(
        io=tensor.io,
        dtype=canonical(name) or name,
        memory_format=tensor.memory_format,
        shape=shape,
        original_shape=original,
        size=bytes_needed(name, prod(shape)),
        groups=tensor.groups,
    )

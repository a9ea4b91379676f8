"""Writes arrays into binary dump files, as the device's runtime does: header, then inputs, then outputs.

The file appears whole or not at all, and is written block by block. The vendor's own tool writes headers of JSON with a
size of 0, which no tool can read, its own included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from pytest_msdump.convert.array_files import whole_file
from pytest_msdump.dtypes import canonical
from pytest_msdump.dtypes.decode import bytes_needed
from pytest_msdump.dtypes.encode import encode
from pytest_msdump.errors import ConfigError, TensorFileError, UnknownNameError, nearest
from pytest_msdump.facts.dump_proto import DATA_TYPES, DUMP_DATA, MEMORY_FORMATS, OP_INPUT, OP_OUTPUT, SHAPE
from pytest_msdump.facts.memory_formats import may_be_padded
from pytest_msdump.layouts.blocks import format_name
from pytest_msdump.model.tensor import TensorView

__all__ = ["DumpTensor", "data_type_number", "memory_format_number", "write_dump"]

_VARINT, _LEN = 0, 2
_MOST = 2**64 - 1


def varint(value: int) -> bytes:
    """Return an unsigned number of 64 bits in groups of seven bits, the lowest first.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    if not 0 <= value <= _MOST:
        raise ValueError(f"{value} is no unsigned number of 64 bits")
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def number_field(number: int, value: int) -> bytes:
    """Return the field of a number; nothing for 0."""
    return varint(number << 3 | _VARINT) + varint(value) if value else b""


def bytes_field(number: int, content: bytes | Iterable[int]) -> bytes:
    """Return the field of a text, of a message, which may be empty, or of a packed list of numbers."""
    data = content if isinstance(content, bytes) else b"".join(map(varint, content))
    return varint(number << 3 | _LEN) + varint(len(data)) + data


# -- The header of an Ascend dump file -------------------------------------------------------------------------------


_VERSION = b"2.0"
_LENGTH_BYTES = 8

# Quantised integers have the names of the plain ones, which come first in the table.
_DATA_TYPES = {kind.dtype: number for number, kind in reversed(DATA_TYPES.items())}
_FORMATS = {name: number for number, name in MEMORY_FORMATS.items()}

_DUMP, _SHAPE, _OUTPUT, _INPUT = (
    {name: number for number, name in fields.items()} for fields in (DUMP_DATA, SHAPE, OP_OUTPUT, OP_INPUT)
)
_FIELDS = {"output": _OUTPUT, "input": _INPUT}


def data_type_number(name: str) -> int:
    """Return the number of a data type in a header.

    Examples
    --------
    >>> data_type_number("half"), data_type_number("bfloat16")
    (2, 27)
    """
    known = canonical(name)
    if known is None:
        raise UnknownNameError(f"unknown data type '{name}'; {nearest(name, _DATA_TYPES)}")
    if known not in _DATA_TYPES:
        raise ConfigError(f"a dump file has no number for the data type {known}; it has: {', '.join(_DATA_TYPES)}")
    return _DATA_TYPES[known]


def memory_format_number(name: str) -> int:
    """Return the number of a memory format in a header.

    Examples
    --------
    >>> memory_format_number("NC1HWC0"), memory_format_number("FracZ"), memory_format_number("DefaultFormat")
    (3, 4, 2)
    """
    upper = name.strip().upper()
    found = _FORMATS.get(upper, _FORMATS.get(format_name(name) or ""))
    if found is None:
        raise UnknownNameError(f"unknown memory format '{name}'; {nearest(upper, _FORMATS)}")
    return found


# -- Writing a file --------------------------------------------------------------------------------------------------


# Several elements may share a byte: a multiple of 8.
_BLOCK_ELEMENTS = 2**17


@dataclass(frozen=True, slots=True)
class DumpTensor:
    """One tensor of a dump file.

    Parameters
    ----------
    view : TensorView
        Its values; the shape is the stored one.
    io : str
        ``"output"`` or ``"input"``. Its place among those is its slot.
    dtype : str, optional
        Of the elements in the dump; the view's by default. Values that it does not have are an error.
    memory_format : str
        What the axes of the view are; nothing is moved.
    original_shape : tuple of int, optional
        Without padding. By default the stored shape, or none where the format is padded.
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
        The file; its folder exists, and a file of this name is replaced.
    tensors : sequence of DumpTensor
        At least one. Views are not closed.
    op_name : str
        The operator's true name, for the header.
    dump_time : int
        For the header; by custom the microseconds since 1970 of the name.

    Raises
    ------
    ConfigError
        A data type or memory format has no number in dumps.
    TensorFileError
        There is no tensor, one cannot be read, or its type does not have one of its values.
    MsdumpError
        The file cannot be written.
    """
    if not tensors:
        raise TensorFileError(f"{path}: a dump of no tensor would be read as a damaged one; give at least one")
    ordered = sorted(tensors, key=lambda tensor: tensor.io == "output")
    header = _header(ordered, op_name, dump_time)
    with whole_file(path) as stream:
        stream.write(header)
        for tensor in ordered:
            dtype = tensor.dtype or tensor.view.dtype
            for block in tensor.view.blocks(_BLOCK_ELEMENTS):
                stream.write(encode(block, dtype).data)
    return path


def _header(tensors: Sequence[DumpTensor], op_name: str, dump_time: int) -> bytes:
    """Return the beginning of a dump file: the header's length in 8 bytes, and the header."""
    message = bytes_field(_DUMP["version"], _VERSION) + number_field(_DUMP["dump_time"], dump_time)
    for io in ("output", "input"):
        message += b"".join(bytes_field(_DUMP[io], _tensor(one)) for one in tensors if one.io == io)
    if op_name:
        message += bytes_field(_DUMP["op_name"], op_name.encode())
    return len(message).to_bytes(_LENGTH_BYTES, "little") + message


def _tensor(one: DumpTensor) -> bytes:
    fields, shape, dtype = _FIELDS[one.io], one.view.shape, one.dtype or one.view.dtype
    original = one.original_shape
    if original is None and not may_be_padded(one.memory_format):
        original = shape
    message = number_field(fields["data_type"], data_type_number(dtype))
    message += number_field(fields["format"], memory_format_number(one.memory_format))
    # No shape at all means a scalar.
    if shape:
        message += bytes_field(fields["shape"], bytes_field(_SHAPE["dim"], shape))
    message += number_field(fields["size"], bytes_needed(dtype, prod(shape)))
    if original:
        message += bytes_field(fields["original_shape"], bytes_field(_SHAPE["dim"], original))
    if one.groups > 1:
        message += number_field(fields["sub_format"], one.groups)
    return message

"""The header of an Ascend dump file as bytes: message `DumpData` of version 2.0, data outside. No I/O.

References
----------
Package `toolkit.dumpdata` (proto3): the numbers of fields, data types and memory formats are those that
`facts.dump_proto` has for reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_msdump.converting.proto_writing import bytes_field, number_field
from pytest_msdump.dtypes import canonical
from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.dump_proto import DATA_TYPES, DUMP_DATA, MEMORY_FORMATS, OP_INPUT, OP_OUTPUT, SHAPE
from pytest_msdump.memory_formats.blocks import format_name

__all__ = ["StoredHeader", "data_type_number", "encode_header", "memory_format_number"]

_VERSION = b"2.0"
_LENGTH_BYTES = 8

# A quantised integer is the integer it is stored as; that one comes first in the table.
_DATA_TYPES = {kind.dtype: number for number, kind in reversed(DATA_TYPES.items())}
_FORMATS = {name: number for number, name in MEMORY_FORMATS.items()}


def _numbers(fields: Mapping[int, str]) -> Mapping[str, int]:
    return {name: number for number, name in fields.items()}


_DUMP, _SHAPE = _numbers(DUMP_DATA), _numbers(SHAPE)
_FIELDS = {"output": _numbers(OP_OUTPUT), "input": _numbers(OP_INPUT)}


class StoredHeader(NamedTuple):
    """What a header says of one tensor: `shape` is the stored one, `size` its bytes, `groups` a convolution's."""

    io: str
    dtype: str
    memory_format: str
    shape: tuple[int, ...]
    original_shape: tuple[int, ...] | None
    size: int
    groups: int = 1


def data_type_number(name: str) -> int:
    """Return the number of a data type in a header.

    Raises
    ------
    ConfigError
        When a dump cannot say this type.

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

    Raises
    ------
    UnknownNameError
        When there is none.

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


def encode_header(tensors: Sequence[StoredHeader], *, op_name: str, dump_time: int) -> bytes:
    """Return what stands before the data of a dump file: the header's length in 8 bytes, and the header.

    Parameters
    ----------
    tensors : sequence of StoredHeader
        Inputs and outputs, each in the order of their slots. Data follows in another order: all inputs, all outputs.
    op_name : str
        As the framework writes it.
    dump_time : int
        Of the run, as the dump's name has it.

    Raises
    ------
    ConfigError
        A data type or memory format has no number.
    """
    message = bytes_field(_DUMP["version"], _VERSION) + number_field(_DUMP["dump_time"], dump_time)
    for io in ("output", "input"):
        message += b"".join(bytes_field(_DUMP[io], _tensor(one)) for one in tensors if one.io == io)
    if op_name:
        message += bytes_field(_DUMP["op_name"], op_name.encode())
    return len(message).to_bytes(_LENGTH_BYTES, "little") + message


def _tensor(one: StoredHeader) -> bytes:
    fields = _FIELDS[one.io]
    parts = [
        number_field(fields["data_type"], data_type_number(one.dtype)),
        number_field(fields["format"], memory_format_number(one.memory_format)),
    ]
    # No shape at all means a scalar.
    if one.shape:
        parts.append(bytes_field(fields["shape"], bytes_field(_SHAPE["dim"], one.shape)))
    parts.append(number_field(fields["size"], one.size))
    if one.original_shape:
        parts.append(bytes_field(fields["original_shape"], bytes_field(_SHAPE["dim"], one.original_shape)))
    if one.groups > 1:
        parts.append(number_field(fields["sub_format"], one.groups))
    return b"".join(parts)

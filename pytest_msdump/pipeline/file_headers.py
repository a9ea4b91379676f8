"""What the header of a tensor file says, word for word: for people who ask why a file is read as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dump_proto import DUMP_DATA
from pytest_msdump.readers.ascend_file import DumpFile, open_dump_file
from pytest_msdump.readers.ascend_header import MAX_HEADER_BYTES, StoredTensor
from pytest_msdump.readers.npy import parse_header
from pytest_msdump.readers.wire import Span, named_fields, span_of, varint_of
from pytest_msdump.storage.regular import open_regular

__all__ = ["FileHeader", "TensorHeader", "file_header"]

_ARRAY, _RAW = ".npy", ".bin"
# More than any npy header may have.
_NPY_HEAD_BYTES = 2**17
_LENGTH_BYTES = 8
_LONGEST_VERSION = 64
_KINDS = {
    "2.0": "a dump file in the format of Ascend",
    "protobuf": "a dump file in one protobuf message",
    "nano": "a nano dump file of Ascend",
}


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """What a dump file's header says of one tensor; `first_byte` is where its data begins, `bytes` how many there are.

    `address` is where it was on the device, 0 where nobody says; `groups` those of a convolution.
    """

    io: str
    slot: int
    data_type: str
    memory_format: str
    shape: tuple[int, ...]
    original_shape: tuple[int, ...] | None
    groups: int
    first_byte: int
    bytes: int
    address: int


@dataclass(frozen=True, slots=True)
class FileHeader:
    """What a file is, and what its header says of the whole of it.

    Parameters
    ----------
    kind : str
        For people: ``an npy file``, ``a nano dump file of Ascend``.
    fields : tuple of (str, str or int)
        Name and value, as the file has them.
    tensors : tuple of TensorHeader
        Of a dump file; an npy file has one array, of which `fields` tell.
    """

    kind: str
    fields: tuple[tuple[str, str | int], ...] = ()
    tensors: tuple[TensorHeader, ...] = ()

    def of(self, io: str, slot: int) -> TensorHeader | None:
        """Return what is said of one tensor."""
        return next((one for one in self.tensors if (one.io, one.slot) == (io, slot)), None)


def file_header(path: Path) -> FileHeader | None:
    """Read the header of a tensor file again.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    FileHeader or None
        ``None`` when it has none that can be read; opening its tensors says why.
    """
    if path.suffix == _RAW:
        return FileHeader("raw bytes, of which its name tells")
    try:
        if path.suffix == _ARRAY:
            return _of_npy(path)
        opened = open_dump_file(path)
        try:
            return _of_dump(opened)
        finally:
            opened.file.close()
    except (TensorFileError, OSError):
        return None


def _of_npy(path: Path) -> FileHeader:
    with open_regular(path) as file:
        header = parse_header(file.read(_NPY_HEAD_BYTES), where=str(path))
    fields = (
        ("version", ".".join(map(str, header.version))),
        ("descr", str(header.descr)),
        ("order", "Fortran" if header.fortran_order else "C"),
        ("first_byte", header.data_offset),
    )
    return FileHeader("an npy file", fields)


def _of_dump(opened: DumpFile) -> FileHeader:
    header = opened.header
    fields: list[tuple[str, str | int]] = [("container", header.container)]
    if header.container != "nano":
        fields += _whole(opened)
    if header.op_name:
        fields.append(("op_name", header.op_name))
    if header.untyped:
        fields.append(("buffers_and_spaces", header.untyped))
    return FileHeader(_KINDS[header.container], tuple(fields), tuple(map(_tensor, header.tensors)))


def _whole(opened: DumpFile) -> list[tuple[str, str | int]]:
    """Version and time of a `DumpData`."""
    source = opened.source
    span = Span(0, source.size)
    if opened.header.container == "2.0":
        length = int.from_bytes(source.peek(0, _LENGTH_BYTES), "little")
        span = Span(_LENGTH_BYTES, _LENGTH_BYTES + min(length, MAX_HEADER_BYTES))
    found: dict[str, str | int] = {}
    for name, entry in named_fields(source, span, DUMP_DATA):
        if name == "version":
            found[name] = opened.text(span_of(source, entry), _LONGEST_VERSION)
        elif name == "dump_time":
            found[name] = varint_of(source, entry)
    return sorted(found.items(), reverse=True)


def _tensor(tensor: StoredTensor) -> TensorHeader:
    return TensorHeader(
        io=tensor.io,
        slot=tensor.slot,
        data_type=tensor.data_type.label,
        memory_format=tensor.memory_format,
        shape=tensor.shape,
        original_shape=tensor.original_shape,
        groups=tensor.groups,
        first_byte=tensor.start,
        bytes=tensor.size,
        address=tensor.address,
    )

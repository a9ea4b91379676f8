"""One Ascend dump file: opened, its header read, and its tensors and other parts opened by number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.capabilities.ascend.dump_proto import DUMP_DATA, NOT_NUMBERS
from pytest_msdump.capabilities.ascend.header import (
    MAX_HEADER_BYTES,
    Header,
    RawPart,
    StoredTensor,
    bytes_behind,
    parse_header,
)
from pytest_msdump.capabilities.protobuf.wire import FileSource, WireSpan, named_fields, span_of, varint_of
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.decode import bytes_needed, can_decode
from pytest_msdump.core.dumps.array_reader import BLOCK_BYTES, StoredView, can_be_held, layout_of
from pytest_msdump.core.dumps.stored_file import StoredFile, opened, truncated
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec

_RAW_BLOCK_BYTES = 2**20
_LENGTH_BYTES = 8
_LONGEST_VERSION = 64

# What the vendor calls buffers and workspaces in file names.
RAW_WORDS = {"buffer": "l1buffer", "space": "space"}


class DumpFile(NamedTuple):
    """An open dump file and what its header says."""

    file: StoredFile
    source: FileSource
    header: Header

    def text(self, span: WireSpan, most_bytes: int) -> str:
        """Return a text of the header; TensorFileError where it is longer than `most_bytes`, or no text."""
        if span.length > most_bytes:
            raise TensorFileError(f"{self.file.where}: a text of {span.length} bytes in its header; it is damaged")
        try:
            return self.source.peek(span.start, span.length).decode()
        except UnicodeDecodeError as error:
            raise TensorFileError(f"{self.file.where}: a name in its header is not text; it is damaged") from error

    def version_and_time(self) -> list[tuple[str, str | int]]:
        """Return what the header says of the version and the time of the dump."""
        source = self.source
        span = WireSpan(0, source.size)
        if self.header.container == "2.0":
            length = int.from_bytes(source.peek(0, _LENGTH_BYTES), "little")
            span = WireSpan(_LENGTH_BYTES, _LENGTH_BYTES + min(length, MAX_HEADER_BYTES))
        found: dict[str, str | int] = {}
        for name, entry in named_fields(source, span, DUMP_DATA):
            if name == "version":
                found[name] = self.text(span_of(source, entry), _LONGEST_VERSION)
            elif name == "dump_time":
                found[name] = varint_of(source, entry)
        return sorted(found.items(), reverse=True)

    def open(self, tensor: StoredTensor, *, block_bytes: int = BLOCK_BYTES) -> StoredView:
        """Open one of its tensors; reads no data."""
        where, dtype = f"{self.file.where}: {tensor.io} {tensor.slot}", canonical(tensor.data_type.dtype)
        behind = bytes_behind(self.source, self.header.end)
        if dtype is None or not can_decode(dtype):
            raise _no_numbers(tensor, where)
        if not can_be_held(tensor.shape):
            raise TensorFileError(f"{where}: shape {tensor.shape} is more than any memory holds; the header is damaged")
        needed = bytes_needed(dtype, prod(tensor.shape))
        if needed > tensor.size:
            raise TensorFileError(
                f"{where}: shape {tensor.shape} of {dtype} needs {needed} bytes, the header gives it {tensor.size}; "
                "the dump is damaged or was cut short while writing: dump it again"
            )
        self.check_is_there(tensor, f"{tensor.io} {tensor.slot}")
        spec = TensorSpec(dtype, tensor.shape, tensor.memory_format, tensor.original_shape, tensor.groups, behind)
        return StoredView(self.file, tensor.start, layout_of(spec), block_bytes=block_bytes)

    def check_is_there(self, part: StoredTensor | RawPart, what: str) -> None:
        """Refuse a part whose bytes are not all in the file."""
        there = max(0, self.file.size - part.start)
        if part.size > there:
            raise truncated(f"{self.file.where}: {what}", f"cut off, {there} of its {part.size} bytes are there")


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


@contextmanager
def _opened(path: Path | str) -> Iterator[DumpFile]:
    """Open a dump file and read its header; it is closed again where an error is raised."""
    with opened(path) as file:
        source = FileSource(file)
        yield DumpFile(file, source, parse_header(source))


def open_dump_file(path: Path | str) -> DumpFile:
    """Open a dump file and read its header; the caller closes `file`. Text is a path of this machine."""
    with _opened(path) as dump:
        return dump


def read_header(path: Path | str) -> tuple[Header, int]:
    """Return what a dump file says of its tensors, and the file's size; raises as `open_dump_file`."""
    dump = open_dump_file(path)
    dump.file.close()
    return dump.header, dump.file.size


def part_of(header: Header, part: int | None, path: Path | str) -> StoredTensor:
    """Return a tensor by its number among inputs, then outputs; TensorFileError where there is no such tensor."""
    if part is None or part >= len(header.tensors):
        found = "no tensor" if not header.tensors else f"{len(header.tensors)} tensors"
        raise TensorFileError(
            f"{path}: holds {found}; the file has changed since the dump was indexed, or was written without data"
        )
    return header.tensors[part]


def open_part(path: Path | str, part: int | None) -> StoredView:
    """Open one tensor of a dump file lazily; without a number, given to a file with an unreadable header, raise why."""
    with _opened(path) as dump:
        return dump.open(part_of(dump.header, part, path))


def open_output(path: Path, index: int) -> StoredView:
    """Open the output that a file of an original model holds: its only one, else the one of this index."""
    with _opened(path) as dump:
        outputs = tuple(tensor for tensor in dump.header.tensors if tensor.io == "output")
        part = index if len(outputs) > 1 else 0
        return dump.open(part_of(dump.header._replace(tensors=outputs), part, path))


def raw_bytes(path: Path, part: RawPart) -> Iterator[bytes]:
    """Yield the bytes of a buffer or workspace, a piece at a time; TensorFileError where they are not all there."""
    dump = open_dump_file(path)
    with closing(dump.file):
        dump.check_is_there(part, f"{RAW_WORDS[part.kind]} {part.slot}")
        for start in range(part.start, part.start + part.size, _RAW_BLOCK_BYTES):
            yield dump.file.read_bytes(start, min(_RAW_BLOCK_BYTES, part.start + part.size - start))

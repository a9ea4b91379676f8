"""One Ascend dump file: opened, and its header read. Needs no numpy, so that dumps can be listed without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.dumps.ascend_header import Header, StoredTensor, bytes_behind, parse_header
from pytest_msdump.dumps.stored_file import FileState, StoredFile
from pytest_msdump.dumps.wire import Span
from pytest_msdump.errors import TensorFileError

__all__ = [
    "DumpFile",
    "FileSource",
    "UntypedPart",
    "open_dump_file",
    "part_of",
    "read_header",
    "untyped_bytes",
    "untyped_parts",
]

_WINDOW_BYTES = 2**12


class FileSource:
    """A file as a `wire.Source`. Looks through a small window, so that fields cost no system call each."""

    def __init__(self, file: StoredFile, first: bytes = b"") -> None:
        self._file = file
        # An attribute and no property: it is asked for several times in each of very many files.
        self.size = file.size
        self._window = first
        self._begin = 0

    @property
    def where(self) -> str:
        """The file's path."""
        return str(self._file.path)

    def peek(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from `start` on; fewer only at the end of the file."""
        offset = start - self._begin
        if offset >= 0 <= count and offset + count <= len(self._window):
            return self._window[offset : offset + count]
        count = max(0, min(count, self.size - start))
        if not self._begin <= start <= start + count <= self._begin + len(self._window):
            length = min(max(count, _WINDOW_BYTES), self.size - start) if count else 0
            self._window, self._begin = self._file.read_bytes(start, length), start
        return self._window[start - self._begin : start - self._begin + count]


class DumpFile(NamedTuple):
    """An open dump file and what its header says."""

    file: StoredFile
    source: FileSource
    header: Header

    @property
    def trailing_bytes(self) -> int:
        """Bytes behind all that the header explains; see `ascend_header.bytes_behind`."""
        return bytes_behind(self.source, self.header.end)

    def text(self, span: Span, most_bytes: int) -> str:
        """Return a text that is inside the header.

        Raises
        ------
        TensorFileError
            When it is longer than `most_bytes`, or no text.
        """
        if span.length > most_bytes:
            raise TensorFileError(f"{self.file.path}: a text of {span.length} bytes in its header; it is damaged")
        try:
            return self.source.peek(span.start, span.length).decode()
        except UnicodeDecodeError as error:
            raise TensorFileError(f"{self.file.path}: a text in its header is no text; it is damaged") from error


def open_dump_file(path: Path) -> DumpFile:
    """Open a dump file and read its header; the caller closes `file`.

    Raises
    ------
    TensorFileError
        When it cannot be opened or its header cannot be read.
    """
    file = StoredFile(path)
    try:
        file.hold()
        source = FileSource(file)
        return DumpFile(file, source, parse_header(source))
    except BaseException:
        file.close()
        raise


def read_header(path: Path | str) -> tuple[Header, int, FileState | None]:
    """Return what a dump file says of its tensors, the file's size, and its state if it has one.

    Parameters
    ----------
    path : Path or str
        The file; text is a path of this machine.

    Raises
    ------
    TensorFileError
        As `open_dump_file`.
    """
    file = StoredFile(path)
    try:
        header = parse_header(FileSource(file, file.first_bytes(_WINDOW_BYTES)))
        return header, file.size, file.state
    finally:
        file.close()


def part_of(header: Header, part: int | None, path: Path | str) -> StoredTensor:
    """Return one tensor of a header.

    Raises
    ------
    TensorFileError
        When there is no such tensor.
    """
    if part is None or part >= len(header.tensors):
        found = "no tensor" if not header.tensors else f"{len(header.tensors)} tensors"
        raise TensorFileError(
            f"{path}: holds {found}; the file has changed since the dump was indexed, or was written without data"
        )
    return header.tensors[part]


# -- Buffers and workspaces of an Ascend dump file -------------------------------------------------------------------


_BLOCK_BYTES = 2**20
# What the vendor calls them in file names.
_WORDS = {"buffer": "l1buffer", "space": "space"}


class UntypedPart(NamedTuple):
    """One of them: ``l1buffer`` or ``space``, its number among its kind, and where its bytes are in the file."""

    kind: str
    slot: int
    start: int
    size: int


def untyped_parts(path: Path) -> tuple[UntypedPart, ...]:
    """Find the buffers, then the workspaces, of a dump file; none in a nano dump, which has no word for them.

    Raises
    ------
    TensorFileError
        The file or its header cannot be read.
    """
    opened = open_dump_file(path)
    opened.file.close()
    return tuple(UntypedPart(_WORDS[part.kind], part.slot, part.start, part.size) for part in opened.header.raw)


def untyped_bytes(path: Path, part: UntypedPart) -> Iterator[bytes]:
    """Yield the bytes of a buffer or workspace, a piece at a time.

    Raises
    ------
    TensorFileError
        They are not all there.
    """
    opened = open_dump_file(path)
    try:
        there = max(0, opened.file.size - part.start)
        if part.size > there:
            raise TensorFileError(
                f"{path}: {part.kind} {part.slot}: cut off, {there} of its {part.size} bytes are there; "
                "the run was probably killed while writing: dump it again"
            )
        for start in range(part.start, part.start + part.size, _BLOCK_BYTES):
            piece = bytearray(min(_BLOCK_BYTES, part.start + part.size - start))
            opened.file.read_into(memoryview(piece), start)
            yield bytes(piece)
    finally:
        opened.file.close()

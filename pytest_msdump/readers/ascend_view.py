"""The tensors of an Ascend dump file, opened by number."""

from __future__ import annotations

from pathlib import Path

from pytest_msdump.readers.ascend_contents import Noted
from pytest_msdump.readers.ascend_file import FileSource, open_dump_file, part_of
from pytest_msdump.readers.ascend_header import bytes_behind, parse_header
from pytest_msdump.readers.stored import StoredView, open_stored
from pytest_msdump.readers.stored_file import StoredFile

__all__ = ["open_output", "open_part"]


def open_part(path: Path | str, part: int | None, noted: object = None) -> StoredView:
    """Open one tensor of a dump file lazily.

    Parameters
    ----------
    path : Path or str
        The file; text is a path of this machine.
    part : int, optional
        Its number among inputs, then outputs. ``None`` for a file whose header could not be read when it was indexed:
        now it is said why.
    noted : Noted, optional
        What the header said of the tensor when the dump was indexed; it is read again where the file is another now.

    Raises
    ------
    TensorFileError
        When the header cannot be read, the tensor is not there, its data is not what the header says, or whole dumps
        follow it.
    """
    file = StoredFile(path)
    try:
        file.hold()
        source = FileSource(file)
        if isinstance(noted, Noted) and noted.state == file.state:
            return open_stored(file, noted.tensor, trailing_bytes=bytes_behind(source, noted.end))
        header = parse_header(source)
        return open_stored(file, part_of(header, part, path), trailing_bytes=bytes_behind(source, header.end))
    except BaseException:
        file.close()
        raise


def open_output(path: Path, index: int) -> StoredView:
    """Open the output that a file of an original model holds: its only one, else the one of this index.

    Raises
    ------
    TensorFileError
        As `open_part`.
    """
    opened = open_dump_file(path)
    try:
        outputs = [tensor for tensor in opened.header.tensors if tensor.io == "output"]
        part = index if len(outputs) > 1 else 0
        tensor = part_of(opened.header._replace(tensors=tuple(outputs)), part, path)
        return open_stored(opened.file, tensor, trailing_bytes=opened.trailing_bytes)
    except BaseException:
        opened.file.close()
        raise

"""The tensors of an Ascend dump file, opened by number."""

from __future__ import annotations

from pathlib import Path

from pytest_msdump.readers.ascend_contents import Noted
from pytest_msdump.readers.ascend_file import FileSource, open_dump_file, part_of
from pytest_msdump.readers.ascend_header import parse_header
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
        When the header cannot be read, the tensor is not there, or its data is not what the header says.
    """
    file = StoredFile(path)
    try:
        file.hold()
        if isinstance(noted, Noted) and noted.state == file.state:
            return open_stored(file, noted.tensor)
        return open_stored(file, part_of(parse_header(FileSource(file)), part, path))
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
        return open_stored(opened.file, part_of(opened.header._replace(tensors=tuple(outputs)), part, path))
    except BaseException:
        opened.file.close()
        raise

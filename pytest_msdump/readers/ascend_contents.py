"""What is in an Ascend dump file, as its header tells: tensors, and where their data lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_msdump.facts.dump_proto import DataType
    from pytest_msdump.readers.ascend_raw import RawPart
    from pytest_msdump.readers.stored_file import FileState
    from pytest_msdump.readers.wire import Span

__all__ = ["Header", "Noted", "StoredTensor"]


class StoredTensor(NamedTuple):
    """One tensor of a dump file.

    `start` is the byte of the file where its data begins, `size` the bytes that the header gives it. `shape` is the
    stored one, ``()`` when the header has none; `original_shape` is ``None`` when the header has none. `address` is
    where the tensor was on the device, 0 when nobody says.
    """

    io: str
    slot: int
    data_type: DataType
    memory_format: str
    shape: tuple[int, ...]
    original_shape: tuple[int, ...] | None
    groups: int
    start: int
    size: int
    address: int = 0


class Noted(NamedTuple):
    """A tensor as the header told of it when the dump was indexed, and the state that its file was in.

    `end` is the header's, see `Header`.
    """

    tensor: StoredTensor
    state: FileState
    end: int


class Header(NamedTuple):
    """What is in a dump file: tensors in stored order, and where its first attribute's value is.

    `raw` are buffers and workspaces, which are no tensors; `end` is the byte behind all that is told of.
    """

    container: str
    op_name: str
    tensors: tuple[StoredTensor, ...]
    attribute: Span | None = None
    raw: tuple[RawPart, ...] = ()
    end: int = 0

    @property
    def untyped(self) -> int:
        """Number of buffers and workspaces."""
        return len(self.raw)

"""Members of a zip archive, found without reading more of it than a directory may have.

References
----------
PKWARE "APPNOTE.TXT - .ZIP File Format Specification" 6.3.10: local headers, data descriptors, Zip64.
"""

from __future__ import annotations

import struct
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pytest_msdump.core.dumps.stored_file import LFS_POINTER, StoredFile, truncated
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.storage.files import Seekable

# Some 150,000 members; a directory takes a hundred times as much memory as it has bytes.
_MAX_DIRECTORY_BYTES = 2**24
# Before a member's data: a signature, fixed fields, and the lengths of its name and of extra fields.
_LOCAL_BYTES, _LOCAL_SIGNATURE = 30, b"PK\x03\x04"
_ENCRYPTED = 1
# Deflate makes at most 258 bytes of two bits.
_MOST_PER_BYTE = 1032

# What zipfile raises for damaged directories.
_DAMAGE = (BadZipFile, OSError, ValueError, OverflowError, NotImplementedError, EOFError, struct.error)


class Member(NamedTuple):
    """A member of an archive, where its local header begins, and how many bytes there are up to the next member."""

    info: ZipInfo
    start: int
    room: int

    @property
    def name(self) -> str:
        """Its name in the archive's directory: a name only, never a path to write to."""
        return self.info.filename


def members_of(file: StoredFile, advice: str) -> list[Member]:
    """Return the members of an archive, without its folders; `advice` ends the error of what is no archive."""
    start, sentence = LFS_POINTER
    head = file.read_bytes(0, min(file.size, len(start)))
    if head == start:
        raise TensorFileError(f"{file.where}: {sentence}")
    try:
        with closing(_Stream(file)) as stream, ZipFile(stream) as archive:
            infos, end = archive.infolist(), archive.start_dir
    except _DAMAGE as error:
        if not head:
            raise truncated(file.where, "is empty (0 bytes)") from error
        raise TensorFileError(
            f"{file.where}: is not a zip archive, or was cut off while it was written ({error!s:.80}); {advice}"
        ) from error
    starts = sorted(info.header_offset for info in infos)
    # Of two members that begin at one place, neither has room.
    after = dict(reversed(list(pairwise([*starts, end]))))
    return [
        Member(info, info.header_offset, after[info.header_offset] - info.header_offset)
        for info in infos
        # `ZipInfo.is_dir` fails for an empty name.
        if info.file_size or not info.filename.endswith("/")
    ]


class _Stream(Seekable):
    """What `zipfile` asks of a file; it never reads more than a directory may have."""

    def __init__(self, file: StoredFile) -> None:
        self._file, self.size = file, file.size

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.size - self._at)
        count = left if size is None or size < 0 else min(size, left)
        if count > _MAX_DIRECTORY_BYTES:
            raise BadZipFile(f"its directory has {count} bytes, at most {_MAX_DIRECTORY_BYTES} are believed")
        content = self._file.read_bytes(self._at, count)
        self._at += count
        return content


def is_encrypted(info: ZipInfo) -> bool:
    """Whether a member needs a password."""
    return bool(info.flag_bits & _ENCRYPTED)


def size_problem(info: ZipInfo) -> str:
    """Return why the size that the directory claims of a member cannot be true; empty where it may be."""
    is_stored = info.compress_type == ZIP_STORED
    if info.file_size != info.compress_size if is_stored else info.file_size > info.compress_size * _MOST_PER_BYTE:
        return f"{info.compress_size} bytes in the archive cannot be the {info.file_size} that its directory claims"
    return ""


def data_start(file: StoredFile, member: Member, where: str) -> int:
    """Return where a member's data begins, which its local header says; it ends before the next member."""
    # A directory that claims to be longer than the file has members before its beginning.
    if not 0 <= member.start <= file.size - _LOCAL_BYTES or member.room < _LOCAL_BYTES:
        raise damaged(where, "lies across another one, or outside of the archive")
    local = file.read_bytes(member.start, _LOCAL_BYTES)
    before = _LOCAL_BYTES + int.from_bytes(local[-4:-2], "little") + int.from_bytes(local[-2:], "little")
    if not local.startswith(_LOCAL_SIGNATURE):
        raise damaged(where, "does not begin where the archive's directory says")
    if before + member.info.compress_size > member.room:
        raise damaged(where, "lies across another one, or outside of the archive")
    return member.start + before


def damaged(where: str, how: str) -> TensorFileError:
    """Return the error of a member that is not what the archive's directory says."""
    return TensorFileError(f"{where}: {how}; the archive is damaged or forged, save it again")

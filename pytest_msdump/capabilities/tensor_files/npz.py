"""Archives of named arrays, ``.npz``, as `numpy.savez` and `numpy.savez_compressed` write them."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pytest_msdump.core.dumps.array_files import ArrayFileReader, Contents, NamedArray
from pytest_msdump.core.dumps.array_reader import StoredView
from pytest_msdump.core.dumps.npy import npy_view
from pytest_msdump.core.dumps.stored_file import LFS_POINTER, StoredFile, truncated
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.dump import MANIFEST_FILE
from pytest_msdump.core.model.tensor import TensorSpec
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


_MEMBER = ".npy"
_UNKNOWN = TensorSpec()
_HEAD_BYTES = 2**16
_PIECE_BYTES = 2**20

_WEIGHTS = "save_weights wrote it: assert_same_weights knows its types and axes, which are compared as stored here"


class NpzReader(ArrayFileReader):
    """An archive of npy files: stored members are read where they are, compressed ones unpacked when first read."""

    name = "npz"
    looks_for = "an .npz archive"
    suffixes = (".npz",)

    def contents_of(self, file: StoredFile) -> Contents:
        """Read the zip directory; see `ArrayFileReader.contents_of`."""
        members = members_of(file, "save it again with numpy.savez")
        about = MANIFEST_FILE + _MEMBER
        arrays = [member for member in members if _is_array(member.name) and member.name != about]
        repeats = Counter(member.name for member in arrays)
        found: dict[str, NamedArray] = {}
        for member in arrays:
            name = member.name.removesuffix(_MEMBER)
            problem = _problem(member.info, repeats[member.name])
            found[name] = NamedArray(name, _UNKNOWN, member.start, member.room, problem, member)
        return Contents(
            tuple(found.values()),
            unexplained=tuple(member.name for member in members if not _is_array(member.name)),
            notes=(_WEIGHTS,) if len(arrays) < sum(_is_array(member.name) for member in members) else (),
        )

    def view_of(self, file: StoredFile, array: NamedArray) -> StoredView:
        """Open a member; see `ArrayFileReader.view_of`."""
        member: Member = array.entry
        info, where = member.info, f"{file.where}: {array.name}"
        start = data_start(file, member, where)
        if info.compress_type == ZIP_STORED:
            return npy_view(file, array.spec, where=where, start=start, size=info.file_size)
        return npy_view(_Unpacked(file, start, info, where), array.spec, where=where)


def _is_array(name: str) -> bool:
    return name.endswith(_MEMBER) and name != _MEMBER


def _problem(info: ZipInfo, members: int) -> str:
    """Return why a member cannot be opened, as far as the directory says."""
    if members > 1:
        return f"{members} members of the archive have this name; which of them is meant is unknown"
    if is_encrypted(info):
        return "is encrypted; save it without a password"
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        return f"is compressed in another way than numpy's (method {info.compress_type}); save it with numpy.savez"
    return size_problem(info)


class _Unpacked(StoredFile):
    """A compressed member as a file. Its first 64 KiB are kept in memory; to read more, it is unpacked to disk."""

    def __init__(self, packed: StoredFile, start: int, info: ZipInfo, where: str) -> None:
        self._location = where
        self.size = info.file_size
        self._packed, self._start, self._info = packed, start, info
        self._head = b""
        wanted = min(self.size, _HEAD_BYTES)
        for piece in self._pieces(_HEAD_BYTES):
            self._head += piece
            # One that ends here is read on to its end, where its checksum is looked at.
            if len(self._head) >= wanted and self.size > _HEAD_BYTES:
                break

    @property
    def descriptor(self) -> int | None:
        if self._descriptor < 0:
            self._unpack()
        return self._descriptor

    def read_into(self, target: memoryview, offset: int) -> None:
        stop = offset + len(target)
        if stop <= len(self._head):
            target[:] = self._head[offset:stop]
        else:
            super().read_into(target, offset)

    def close(self) -> None:
        super().close()
        self._head = b""
        self._packed.close()

    def _unpack(self) -> None:
        try:
            folder = tempfile.gettempdir()
            if shutil.disk_usage(folder).free < self.size:
                raise TensorFileError(
                    f"{self.where}: {self.size} bytes do not fit in {folder}, where it is unpacked; name a larger "
                    "folder in TMPDIR, or save it with numpy.savez, which does not compress"
                )
            with tempfile.TemporaryFile(buffering=0) as unpacked:
                for piece in self._pieces(_PIECE_BYTES):
                    unpacked.write(piece)
                self._descriptor = os.dup(unpacked.fileno())
        except OSError as error:
            raise TensorFileError(
                f"{self.where}: cannot be unpacked: {error.strerror or error}; name a folder with room in TMPDIR"
            ) from error

    def _pieces(self, most_bytes: int) -> Iterator[bytes]:
        """Yield what the member holds, at most so many bytes at a time, and hold it against the archive's directory."""
        decoder, done, checksum = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0
        at, end = self._start, self._start + self._info.compress_size
        try:
            while at < end and not decoder.eof:
                packed = self._packed.read_bytes(at, min(most_bytes, end - at))
                at += len(packed)
                while piece := decoder.decompress(packed, most_bytes):
                    packed = decoder.unconsumed_tail
                    done += len(piece)
                    checksum = zlib.crc32(piece, checksum)
                    if done > self.size:
                        raise damaged(self.where, f"holds more than the {self.size} bytes that it claims")
                    yield piece
        except zlib.error as error:
            raise damaged(self.where, f"cannot be unpacked ({error})") from error
        if at < end or not decoder.eof or decoder.unused_data or done != self.size or checksum != self._info.CRC:
            raise damaged(self.where, "does not hold what the archive's directory says")

"""Archives of named arrays, ``.npz``, as `numpy.savez` and `numpy.savez_compressed` write them.

References
----------
PKWARE "APPNOTE.TXT - .ZIP File Format Specification" 6.3.10: local headers, data descriptors, Zip64.
"""

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
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pytest_msdump.dumps.array_files import ArrayFileReader, Contents, NamedArray
from pytest_msdump.dumps.array_reader import StoredView
from pytest_msdump.dumps.npy import npy_view
from pytest_msdump.dumps.stored_file import LFS_POINTER, StoredFile, truncated
from pytest_msdump.errors import TensorFileError
from pytest_msdump.model.dump import MANIFEST_FILE
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.storage.remote import Seekable

__all__ = ["NpzReader"]

_MEMBER = ".npy"
_UNKNOWN = TensorSpec()
_ENCRYPTED = 1

# Some 150,000 members; a directory takes a hundred times as much memory as it has bytes.
_MAX_DIRECTORY_BYTES = 2**24
# Before a member's data: a signature, fixed fields, and the lengths of its name and of extra fields.
_LOCAL_BYTES, _LOCAL_SIGNATURE = 30, b"PK\x03\x04"
# Deflate makes at most 258 bytes of two bits.
_MOST_PER_BYTE = 1032
_HEAD_BYTES = 2**16
_PIECE_BYTES = 2**20

# What zipfile raises for damaged directories.
_DAMAGE = (BadZipFile, OSError, ValueError, OverflowError, NotImplementedError, EOFError, struct.error)
_WEIGHTS = "save_weights wrote it: assert_same_weights knows its types and axes, which are compared as stored here"


class NpzReader(ArrayFileReader):
    """An archive of npy files: stored members are read where they are, compressed ones unpacked when first read."""

    name = "npz"
    looks_for = "an .npz archive"
    suffix = ".npz"

    def contents_of(self, file: StoredFile) -> Contents:
        """Read the zip directory; see `ArrayFileReader.contents_of`."""
        infos, end = _directory(file)
        starts = sorted(info.header_offset for info in infos)
        after = dict(reversed(list(pairwise([*starts, end]))))
        # `ZipInfo.is_dir` fails for an empty name.
        members = [info for info in infos if info.file_size or not info.filename.endswith("/")]
        about = MANIFEST_FILE + _MEMBER
        arrays = [info for info in members if _is_array(info.filename) and info.filename != about]
        repeats = Counter(info.filename for info in arrays)
        found: dict[str, NamedArray] = {}
        for info in arrays:
            # Of two members that begin at one place, neither has room.
            room = after[info.header_offset] - info.header_offset
            name = info.filename.removesuffix(_MEMBER)
            problem = _problem(info, repeats[info.filename])
            found[name] = NamedArray(name, _UNKNOWN, info.header_offset, room, problem, info)
        return Contents(
            tuple(found.values()),
            unexplained=tuple(info.filename for info in members if not _is_array(info.filename)),
            notes=(_WEIGHTS,) if len(arrays) < sum(_is_array(info.filename) for info in members) else (),
        )

    def view_of(self, file: StoredFile, array: NamedArray) -> StoredView:
        """Open a member; see `ArrayFileReader.view_of`."""
        info: ZipInfo = array.entry
        where = f"{file.where}: {array.name}"
        start = _data_start(file, array, where)
        if info.compress_type == ZIP_STORED:
            return npy_view(file, array.spec, where=where, start=start, size=info.file_size)
        return npy_view(_Unpacked(file, start, info, where), array.spec, where=where)


def _is_array(name: str) -> bool:
    return name.endswith(_MEMBER) and name != _MEMBER


def _directory(file: StoredFile) -> tuple[list[ZipInfo], int]:
    """Return the members of an archive, and where its data ends."""
    start, sentence = LFS_POINTER
    head = file.read_bytes(0, min(file.size, len(start)))
    if head == start:
        raise TensorFileError(f"{file.where}: {sentence}")
    try:
        with closing(_Stream(file)) as stream, ZipFile(stream) as archive:
            return archive.infolist(), archive.start_dir
    except _DAMAGE as error:
        if not head:
            raise truncated(file.where, "is empty (0 bytes)") from error
        raise TensorFileError(
            f"{file.where}: is not a zip archive, or was cut off while it was written ({error!s:.80}); save it again "
            "with numpy.savez"
        ) from error


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


def _problem(info: ZipInfo, members: int) -> str:
    """Return why a member cannot be opened, as far as the directory says."""
    if members > 1:
        return f"{members} members of the archive have this name; which of them is meant is unknown"
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted; save it without a password"
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        return f"is compressed in another way than numpy's (method {info.compress_type}); save it with numpy.savez"
    is_stored = info.compress_type == ZIP_STORED
    if info.file_size != info.compress_size if is_stored else info.file_size > info.compress_size * _MOST_PER_BYTE:
        return f"{info.compress_size} bytes in the archive cannot be the {info.file_size} that its directory claims"
    return ""


def _data_start(file: StoredFile, array: NamedArray, where: str) -> int:
    """Return where a member's data begins, which its local header says; it ends before the next member."""
    info: ZipInfo = array.entry
    if array.start + _LOCAL_BYTES > file.size or array.size < _LOCAL_BYTES:
        raise _damaged(where, "lies across another one, or outside of the archive")
    local = file.read_bytes(array.start, _LOCAL_BYTES)
    before = _LOCAL_BYTES + int.from_bytes(local[-4:-2], "little") + int.from_bytes(local[-2:], "little")
    if not local.startswith(_LOCAL_SIGNATURE):
        raise _damaged(where, "does not begin where the archive's directory says")
    if before + info.compress_size > array.size:
        raise _damaged(where, "lies across another one, or outside of the archive")
    return array.start + before


def _damaged(where: str, how: str) -> TensorFileError:
    return TensorFileError(f"{where}: {how}; the archive is damaged or forged, save it again")


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
        """The number of the unpacked file."""
        if self._descriptor < 0:
            self._unpack()
        return self._descriptor

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target`; see `StoredFile.read_into`."""
        stop = offset + len(target)
        if stop <= len(self._head):
            target[:] = self._head[offset:stop]
        else:
            super().read_into(target, offset)

    def close(self) -> None:
        """Close the unpacked file and the archive."""
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
                        raise _damaged(self.where, f"holds more than the {self.size} bytes that it claims")
                    yield piece
        except zlib.error as error:
            raise _damaged(self.where, f"cannot be unpacked ({error})") from error
        if at < end or not decoder.eof or decoder.unused_data or done != self.size or checksum != self._info.CRC:
            raise _damaged(self.where, "does not hold what the archive's directory says")

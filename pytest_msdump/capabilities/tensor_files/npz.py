"""Archives of named arrays, ``.npz``, as `numpy.savez` and `numpy.savez_compressed` write them."""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipInfo

from pytest_msdump.capabilities.tensor_files.zip_members import (
    Member,
    damaged,
    data_start,
    is_encrypted,
    members_of,
    size_problem,
)
from pytest_msdump.core.dumps.array_files import ArrayFileReader, Contents, NamedArray
from pytest_msdump.core.dumps.array_reader import StoredView
from pytest_msdump.core.dumps.npy import npy_view
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.dump import MANIFEST_FILE
from pytest_msdump.core.model.tensor import TensorSpec

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

"""Files of `torch.save`, ``.pt`` and ``.pth``: tensors by name, each read where it is, without PyTorch.

References: PyTorch 2.13, ``torch/serialization.py``: a zip archive of ``NAME/data.pkl``, ``NAME/byteorder`` and
``NAME/data/KEY``, none of them compressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.tensor_files.npz import Member, data_start, is_encrypted, members_of, size_problem
from pytest_msdump.capabilities.tensor_files.torch_pickle import (
    MAX_PICKLE_BYTES,
    PickledTensor,
    UnreadablePickleError,
    tensors_in,
    value_in,
)
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.decode import can_decode
from pytest_msdump.core.dumps.array_files import ArrayFileReader, Contents, NamedArray
from pytest_msdump.core.dumps.array_reader import Layout, StoredView, can_be_held, layout_of
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec

_Values = npt.NDArray[Any]

# How files begin that PyTorch wrote before release 1.6.
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"
_ZIP, _ANY = b"PK", ".bin"
_OF_MINDSPORE = (
    "save it again with torch.save; of a checkpoint of MindSpore make an archive in Python: np.savez('f.npz', **{n: "
    "p.asnumpy() for n, p in mindspore.load_checkpoint('f.ckpt').items()})"
)
_PICKLE, _BYTE_ORDER = "data.pkl", "byteorder"
_BYTE_ORDERS = {b"little": "<", b"big": ">"}
# A view may repeat its storage (`expand`), which then says nothing of how long reading takes.
_MOST_REPEATED = 2**31


class TorchFileReader(ArrayFileReader):
    """A tensor, or tensors in lists and dicts, which are named by their keys, joined by dots."""

    name = "torch-file"
    looks_for = "a file of torch.save: .pt, .pth, .bin or .ckpt"
    suffixes = (".pt", ".pth", ".bin", ".ckpt")

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is such a file, which of a ``.bin`` only its content says."""
        if not super().recognises(root) or root.suffix.lower() != _ANY:
            return super().recognises(root)
        try:
            with closing(StoredFile(root)) as file:
                return not file.size or file.read_bytes(0, min(file.size, 2)) in (_ZIP, _LEGACY[:2])
        except TensorFileError:
            return True

    def contents_of(self, file: StoredFile) -> Contents:
        """Read ``data.pkl``; see `ArrayFileReader.contents_of`."""
        members, base, value = _value_of(file)
        order = _byte_order(file, members.get(base + _BYTE_ORDER))
        try:
            found = tensors_in(value)
        except UnreadablePickleError as error:
            raise TensorFileError(f"{file.where}: its {_PICKLE} {error}") from error
        repeats = Counter(".".join(keys) for keys, _ in found)
        arrays = {
            (name := ".".join(keys)): replace(_array(file, name, one, members, base, order, repeats[name]), keys=keys)
            for keys, one in found
        }
        return Contents(tuple(arrays.values()))

    def view_of(self, file: StoredFile, array: NamedArray) -> StoredView:
        """Open a tensor; see `ArrayFileReader.view_of`."""
        member, layout, offset = array.entry
        where = f"{file.where}: {array.name}"
        return StoredView(file, data_start(file, member, where) + offset, layout)


def open_only_tensor(path: Path) -> StoredView:
    """Open the one tensor of a file. TensorFileError where there are several, or none."""
    reader = TorchFileReader()
    arrays = reader.arrays(path)
    if len(arrays) != 1:
        raise TensorFileError(f"{path}: has {len(arrays)} tensors, and one was saved; the file is of something else")
    return reader.opened_view(path, arrays[0])


def saved_value(path: Path) -> Any:
    """Return what a file holds, as `torch_pickle.value_in` does. TensorFileError where it cannot be read."""
    with closing(StoredFile(path)) as file:
        return _value_of(file)[2]


def _value_of(file: StoredFile) -> tuple[Mapping[str, Member], str, Any]:
    """Return the members of a file, how the names of all of them begin, and what its pickle holds."""
    if file.read_bytes(0, min(file.size, len(_LEGACY))) == _LEGACY:
        raise TensorFileError(
            f"{file.where}: is of the form that torch.save had before PyTorch 1.6, which has to be unpickled; save "
            "it again: torch.save(torch.load(FILE, weights_only=True), FILE)"
        )
    advice = _OF_MINDSPORE if file.where.lower().endswith(".ckpt") else "save it again with torch.save"
    members = {member.name: member for member in members_of(file, advice)}
    pickle = next((name for name in members if name.partition("/")[2] == _PICKLE), None)
    if pickle is None:
        raise TensorFileError(f"{file.where}: has no {_PICKLE}, so torch.save did not write it")
    try:
        return members, pickle.removesuffix(_PICKLE), value_in(_read(file, members[pickle], MAX_PICKLE_BYTES))
    except UnreadablePickleError as error:
        raise TensorFileError(f"{file.where}: its {_PICKLE} {error}") from error


def _read(file: StoredFile, member: Member, most: int) -> bytes:
    problem = _problem(member)
    if not problem and member.info.file_size > most:
        problem = f"has {member.info.file_size} bytes, at most {most} are believed"
    if problem:
        raise TensorFileError(f"{file.where}: {member.name}: {problem}")
    return file.read_bytes(data_start(file, member, f"{file.where}: {member.name}"), member.info.file_size)


def _problem(member: Member) -> str:
    if is_encrypted(member.info) or member.info.compress_type != ZIP_STORED:
        return "is compressed or encrypted, which torch.save never does; save it again"
    return size_problem(member.info)


def _byte_order(file: StoredFile, member: Member | None) -> str:
    """Return the order of bytes; files of older releases do not say, and are little-endian."""
    said = b"little" if member is None else _read(file, member, max(map(len, _BYTE_ORDERS)))
    if said not in _BYTE_ORDERS:
        raise TensorFileError(
            f"{file.where}: its {_BYTE_ORDER} is {said[:20]!r}, neither little nor big; save it again"
        )
    return _BYTE_ORDERS[said]


def _array(
    file: StoredFile,
    name: str,
    tensor: PickledTensor,
    members: Mapping[str, Member],
    base: str,
    order: str,
    repeats: int,
) -> NamedArray:
    """Return one tensor; whatever is wrong with it alone is its problem."""
    name = name or Path(file.where).stem
    member = members.get(f"{base}data/{tensor.storage.key}")
    dtype = canonical(tensor.storage.dtype)
    problem = tensor.problem or _problem_of(tensor, dtype, member, repeats)
    if problem or dtype is None or member is None:
        return NamedArray(name, TensorSpec(shape=tensor.shape), 0, 0, problem)
    layout = _layout(tensor, dtype, order)
    offset = tensor.offset * layout.bits // 8
    if _last_byte(tensor, layout) > member.info.file_size:
        return NamedArray(name, layout.spec, 0, 0, "reaches beyond its storage; the file is damaged, save it again")
    return NamedArray(name, layout.spec, member.start, member.room, entry=(member, layout, offset))


def _problem_of(tensor: PickledTensor, dtype: str | None, member: Member | None, repeats: int) -> str:
    if repeats > 1:
        return f"{repeats} tensors of the file have this name; which of them is meant is unknown"
    if dtype is None or not can_decode(dtype):
        shown = tensor.storage.dtype[:40]
        return f"data type {shown} cannot be decoded; save the tensor as float32, or leave it out with deselect"
    if member is None:
        return f"its storage {tensor.storage.key[:40]!r} is not in the file; save it again"
    elements = prod(tensor.shape)
    if not can_be_held(tensor.shape) or elements > max(tensor.storage.elements, _MOST_REPEATED):
        return "repeats its storage beyond what can be compared; save its .contiguous()"
    return _problem(member)


def _last_byte(tensor: PickledTensor, layout: Layout) -> int:
    if not prod(tensor.shape):
        return 0
    last = tensor.offset + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.strides, strict=True))
    return (last + 1) * layout.bits // 8


def _layout(tensor: PickledTensor, dtype: str, order: str) -> Layout:
    little = layout_of(TensorSpec(dtype, tensor.shape, None, tensor.shape))
    stored, decode = little.stored, little.decode
    if order == ">" and dtype == "complex32":
        decode = _big_endian_halves
    elif order == ">":
        stored, decode = stored.newbyteorder(">"), lambda raw: little.decode(raw.astype(little.stored))
    spec = little.spec if tensor.scale is None else replace(little.spec, dtype="float32")
    return Layout(spec, tensor.shape, tensor.strides, little.bits, stored, _finished(tensor, decode))


def _big_endian_halves(raw: _Values) -> _Values:
    return raw.view(np.dtype(">f2")).astype(np.float32).view(np.complex64)


def _finished(tensor: PickledTensor, decode: Callable[[_Values], _Values]) -> Callable[[_Values], _Values]:
    """Return what makes the tensor's values of stored elements."""
    if tensor.scale is not None:
        scale, zero_point = np.float32(tensor.scale), np.int64(tensor.zero_point)
        return lambda raw: ((decode(raw).astype(np.int64) - zero_point).astype(np.float32) * scale).astype(np.float32)
    if tensor.conj and tensor.neg:
        return lambda raw: np.negative(np.conj(decode(raw)))
    if tensor.conj:
        return lambda raw: np.conj(decode(raw))
    if tensor.neg:
        return lambda raw: np.negative(decode(raw))
    return decode

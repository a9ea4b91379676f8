"""Files of named tensors in the safetensors format.

References: Hugging Face, "Safetensors: Format": 8 bytes with the length of a JSON header, the header, the data. Its
reader refuses headers of more than 100 MB, names that are there twice, and data that overlaps or has gaps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import Any

from pytest_msdump.core.dtypes.decode import bytes_needed
from pytest_msdump.core.dumps.array_files import ArrayFileReader, Contents, NamedArray
from pytest_msdump.core.dumps.array_reader import StoredView, can_be_held, layout_of
from pytest_msdump.core.dumps.npy import is_shape
from pytest_msdump.core.dumps.stored_file import LFS_POINTER, StoredFile, truncated
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec
from pytest_msdump.core.storage.files import unique_keys

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
_METADATA = "__metadata__"
_MOST_LABELS, _LONGEST_LABEL = 8, 100

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0",
    "C64": "complex64",
    **{f"I{bits}": f"int{bits}" for bits in (64, 32, 16, 8)},
    **{f"U{bits}": f"uint{bits}" for bits in (64, 32, 16, 8)},
    "BOOL": "bool",
}


class SafetensorsReader(ArrayFileReader):
    """A file of named tensors, each read where it is. Small texts of its metadata are labels of the run."""

    name = "safetensors"
    looks_for = "a .safetensors file"
    suffixes = (".safetensors",)

    def contents_of(self, file: StoredFile) -> Contents:
        """Read the header; see `ArrayFileReader.contents_of`."""
        header, begin = _header(file)
        metadata = header.pop(_METADATA, {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise _damaged(file, f"has a {_METADATA} that is not a table of texts")
        arrays = tuple(_array(file, name, entry, begin) for name, entry in header.items())
        _check_places(file, arrays, begin)
        return Contents(arrays, labels=tuple(_labels(metadata)))

    def view_of(self, file: StoredFile, array: NamedArray) -> StoredView:
        """Open a tensor; see `ArrayFileReader.view_of`."""
        return StoredView(file, array.start, layout_of(array.spec))


def _header(file: StoredFile) -> tuple[dict[str, Any], int]:
    """Return the table of a file's header, and where its data begins."""
    start, sentence = LFS_POINTER
    head = file.read_bytes(0, min(file.size, len(start)))
    if head == start:
        raise TensorFileError(f"{file.where}: {sentence}")
    if len(head) < _LENGTH_BYTES:
        raise truncated(file.where, f"cut off after {file.size} bytes, before its header")
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    if length > _MAX_HEADER_BYTES:
        raise _damaged(file, f"claims to be {length} bytes long, at most {_MAX_HEADER_BYTES} are believed")
    begin = _LENGTH_BYTES + length
    if begin > file.size:
        raise truncated(file.where, f"cut off inside its header, {file.size} of {begin} bytes")
    try:
        header = json.loads(file.read_bytes(_LENGTH_BYTES, length).decode(), object_pairs_hook=unique_keys)
    # RecursionError: no header is nested deeper than two levels.
    except (ValueError, RecursionError) as error:
        raise _damaged(file, f"is not JSON ({error!s:.80})") from error
    if not isinstance(header, dict):
        raise _damaged(file, "is no table")
    return header, begin


def _array(file: StoredFile, name: str, entry: Any, begin: int) -> NamedArray:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise _damaged(file, f"does not give {name[:60]!r} exactly dtype, shape and data_offsets")
    label, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(label, str) or not isinstance(shape, list) or not is_shape(tuple(shape)):
        raise _damaged(file, f"gives {name[:60]!r} no dtype, or no shape of at most 32 lengths")
    if not isinstance(offsets, list) or len(offsets) != 2 or not is_shape(tuple(offsets)) or offsets[0] > offsets[1]:
        raise _damaged(file, f"gives {name[:60]!r} no beginning and end")
    size, lengths, dtype = offsets[1] - offsets[0], tuple(shape), _DTYPES.get(label)
    problem = ""
    if dtype is None:
        problem = f"data type {label[:20]} cannot be decoded; save the tensor as float32, or leave it out with deselect"
    elif not can_be_held(lengths) or bytes_needed(dtype, prod(lengths)) != size:
        raise _damaged(file, f"gives {name[:60]!r} {size} bytes for shape {str(lengths)[:80]} of {dtype}")
    return NamedArray(name, TensorSpec(dtype, lengths, None, lengths), begin + offsets[0], size, problem)


def _check_places(file: StoredFile, arrays: tuple[NamedArray, ...], begin: int) -> None:
    """Refuse data that overlaps, has gaps, or is not all there, as the format demands."""
    places = sorted((array.start, array.start + array.size) for array in arrays)
    ends = [(begin, begin), *places]
    if any(before[1] != after[0] for before, after in pairwise(ends)):
        raise _damaged(file, "gives tensors places that overlap or leave gaps")
    needed, there = ends[-1][1] - begin, file.size - begin
    if there < needed:
        raise truncated(file.where, f"cut off after {there} of {needed} bytes of data")
    if there > needed:
        raise _damaged(file, f"explains {needed} bytes of data, and there are {there}")


def _labels(metadata: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is short and can be printed, if all of it is little: a whole configuration is no label."""
    if len(metadata) <= _MOST_LABELS:
        for name, value in metadata.items():
            if value and len(name) + len(value) <= _LONGEST_LABEL and name.isprintable() and value.isprintable():
                yield f"metadata {name}", value


def _damaged(file: StoredFile, how: str) -> TensorFileError:
    return TensorFileError(f"{file.where}: its safetensors header {how}; the file is damaged or forged, save it again")

"""Files of one `TensorProto` of ONNX, as test data sets have them (``test_data_set_0/input_0.pb``), without onnx.

References: ONNX 1.22, ``onnx.proto``: the messages `TensorProto` and what each data type is stored as.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import closing
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.protobuf.wire import (
    LENGTH,
    VARINT,
    Field,
    FileSource,
    WireSpan,
    fields,
    span_of,
    varint_of,
    varints,
)
from pytest_msdump.core.dtypes.low_precision import float4_e2m1_codes
from pytest_msdump.core.dumps.array_files import ArrayFileReader, Contents, NamedArray
from pytest_msdump.core.dumps.array_reader import Layout, StoredView, can_be_held, layout_of, steps_of
from pytest_msdump.core.dumps.npy import is_shape
from pytest_msdump.core.dumps.stored_file import LFS_POINTER, StoredFile
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.model.tensor import TensorSpec

# Numbers of fields.
_DIMS, _DATA_TYPE, _SEGMENT, _STRINGS, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 3, 6, 8, 9, 13, 14
_FLOATS, _INT32S, _INT64S, _DOUBLES, _UINT64S = 4, 5, 7, 10, 11
_LAST = 16
# Data type → its name, and the field of its numbers where they are not raw.
_TYPES = {
    1: ("float32", _FLOATS),
    2: ("uint8", _INT32S),
    3: ("int8", _INT32S),
    4: ("uint16", _INT32S),
    5: ("int16", _INT32S),
    6: ("int32", _INT32S),
    7: ("int64", _INT64S),
    9: ("bool", _INT32S),
    10: ("float16", _INT32S),
    11: ("float64", _DOUBLES),
    12: ("uint32", _UINT64S),
    13: ("uint64", _UINT64S),
    14: ("complex64", _FLOATS),
    15: ("complex128", _DOUBLES),
    16: ("bfloat16", _INT32S),
    17: ("float8_e4m3fn", _INT32S),
    18: ("float8_e4m3fnuz", _INT32S),
    19: ("float8_e5m2", _INT32S),
    20: ("float8_e5m2fnuz", _INT32S),
    21: ("uint4", _INT32S),
    22: ("int4", _INT32S),
    23: ("float4_e2m1", _INT32S),
    24: ("float8_e8m0", _INT32S),
    25: ("uint2", _INT32S),
    26: ("int2", _INT32S),
}
_TEXTS = 8
_FIXED = (_FLOATS, _DOUBLES)
_MOST_TYPES = 32
_MOST_AXES, _LONGEST_NAME = 32, 2**12
_MORE, _LONGEST_VARINT = 0x80, 10
_LIKELY = re.compile(r"(?:input|output)_[0-9]{1,6}\.pb")
_RESAVE = "save it with onnx.numpy_helper.from_array"


class OnnxTensorReader(ArrayFileReader):
    """One tensor by its own name, else by its file's."""

    name = "onnx-tensor"
    looks_for = "a .pb or .tensorproto file of one TensorProto of ONNX"
    suffixes = (".pb", ".tensorproto")

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is such a file: a ``.pb`` may also be a model, which only its content says."""
        if not super().recognises(root):
            return False
        if root.suffix.lower() != ".pb" or _LIKELY.fullmatch(root.name):
            return True
        try:
            with closing(StoredFile(root)) as file:
                types = _fields_of(file)[_DATA_TYPE]
                return bool(types) and types[-1].wire_type == VARINT and 0 < types[-1].value <= _MOST_TYPES
        except TensorFileError:
            return False

    def contents_of(self, file: StoredFile) -> Contents:
        """Read what stands beside the numbers; see `ArrayFileReader.contents_of`."""
        start, sentence = LFS_POINTER
        if file.read_bytes(0, min(file.size, len(start))) == start:
            raise TensorFileError(f"{file.where}: {sentence}")
        source, found = FileSource(file), _fields_of(file)
        if not found[_DATA_TYPE]:
            raise TensorFileError(f"{file.where}: is empty, cut off, or no TensorProto of ONNX; {_RESAVE}")
        label = varint_of(source, found[_DATA_TYPE][-1])
        shape = tuple(length for one in found[_DIMS] for length in varints(source, one, _MOST_AXES))
        if not is_shape(shape) or not can_be_held(shape):
            raise TensorFileError(f"{file.where}: shape {str(shape)[:80]} is none of a tensor; the file is damaged")
        name = _name_of(file, found[_NAME])
        dtype, typed = _TYPES.get(label, ("", 0))
        spec = TensorSpec(dtype or None, shape, None, shape)
        spans = tuple(found[_RAW] or found[typed])
        problem = _problem_of(label, found)
        if not problem and not spans and 0 not in shape:
            problem = f"has no numbers for shape {shape}; it was cut off, or its data was stripped: {_RESAVE}"
        array = NamedArray(
            name or Path(file.where).stem,
            spec,
            0,
            file.size,
            problem,
            (0 if found[_RAW] else typed, spans),
            is_named_inside=bool(name),
        )
        return Contents((array,))

    def view_of(self, file: StoredFile, array: NamedArray) -> StoredView:
        """Open the tensor: its bytes where they lie, or its numbers, which protobuf packs; sizes are checked."""
        layout, (typed, given) = _layout(array.spec), array.entry
        needed = -(-prod(layout.shape) * layout.bits // 8)
        if len(given) == 1 and given[0].wire_type == LENGTH and (not typed or typed in _FIXED):
            _check_size(file, given[0].span.length, needed)
            return StoredView(file, given[0].start, layout)
        parts = [file.read_bytes(one.start, one.span.length) for one in given]
        if typed and typed not in _FIXED:
            width = max(layout.bits, 8) // 8
            parts = [_numbers(file, *one).astype(f"<u{width}").tobytes() for one in zip(given, parts, strict=True)]
        data = b"".join(parts)
        _check_size(file, len(data), needed)
        file.close()
        return StoredView(_Memory(file.where, data), 0, layout)


def _fields_of(file: StoredFile) -> defaultdict[int, list[Field]]:
    """Return the fields by their numbers; TensorFileError where the file is no message, or one of something else."""
    found: defaultdict[int, list[Field]] = defaultdict(list)
    source = FileSource(file)
    for one in fields(source, WireSpan(0, file.size)):
        found[one.number].append(one)
    return found


def _name_of(file: StoredFile, given: list[Field]) -> str:
    """Return the tensor's own name; an empty text where it has none that can be shown."""
    span = span_of(FileSource(file), given[-1]) if given else WireSpan(0, 0)
    name = file.read_bytes(span.start, min(span.length, _LONGEST_NAME)).decode(errors="replace")
    return name if name.isprintable() and span.length < _LONGEST_NAME else ""


def _problem_of(label: int, found: defaultdict[int, list[Field]]) -> str:
    """Return why the tensor cannot be opened, as far as its message says."""
    if found[_EXTERNAL] or any(one.value for one in found[_LOCATION]):
        return f"its numbers lie in another file, which is not looked for; {_RESAVE}, which puts them inside"
    if found[_SEGMENT]:
        return f"is a segment of a tensor, or a sequence of several; save each whole: {_RESAVE}"
    if label == _TEXTS or found[_STRINGS]:
        return "holds texts, which cannot be compared as numbers; leave it out with deselect"
    if label not in _TYPES:
        return f"data type {label} of ONNX cannot be decoded; save the tensor as float32, or leave it out with deselect"
    return ""


def _layout(spec: TensorSpec) -> Layout:
    if spec.dtype != "float4_e2m1":
        return layout_of(spec)
    codes = float4_e2m1_codes()

    def decode(raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return codes[np.stack((raw & 15, raw >> 4), -1)].reshape(-1)

    shape = spec.shape or ()
    return Layout(spec, shape, steps_of(shape), 4, np.dtype(np.uint8), decode)


def _numbers(file: StoredFile, given: Field, packed: bytes) -> npt.NDArray[np.uint64]:
    """Return the numbers of a repeated field, packed or not, each of 7 bits a byte, the lowest first."""
    if given.wire_type == VARINT:
        return np.array([given.value], np.uint64)
    data = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(data < _MORE) + 1
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64) if ends.size else ends
    lengths = ends - starts
    if (ends[-1] if ends.size else 0) != data.size or (lengths > _LONGEST_VARINT).any():
        raise TensorFileError(f"{file.where}: its numbers are cut off or damaged; {_RESAVE}")
    numbers = np.zeros(ends.size, np.uint64)
    for place in range(int(lengths.max(initial=0))):
        has = lengths > place
        numbers[has] |= (data[starts[has] + place] & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return numbers


def _check_size(file: StoredFile, there: int, needed: int) -> None:
    if there != needed:
        raise TensorFileError(
            f"{file.where}: has {there} bytes of numbers, and its type and shape need {needed}; it is damaged or cut "
            f"off: {_RESAVE}"
        )


class _Memory(StoredFile):
    """Bytes in memory as a file."""

    def __init__(self, where: str, data: bytes) -> None:
        self._location, self._data, self.size = where, data, len(data)

    @property
    def descriptor(self) -> None:
        """None: nothing but `read_into` can read it."""
        return

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from byte `offset` on; sizes were checked before."""
        target.cast("B")[:] = self._data[offset : offset + target.nbytes]

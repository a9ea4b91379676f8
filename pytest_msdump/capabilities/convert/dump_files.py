"""Write tensors of any dump into binary dump files, as the device's runtime does: header, inputs, outputs.

The vendor's own tool writes headers of JSON with a size of 0, which no tool can read, its own included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.capabilities.arrays.encode import encode
from pytest_msdump.capabilities.arrays.writer import whole_file
from pytest_msdump.capabilities.ascend.dump_proto import DATA_TYPES, DUMP_DATA, OP_INPUT, OP_OUTPUT, SHAPE
from pytest_msdump.capabilities.ascend.dump_proto import MEMORY_FORMATS as HEADER_FORMATS
from pytest_msdump.capabilities.convert.formats import Relabelled, bring
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dtypes.decode import bytes_needed
from pytest_msdump.core.dumps.array_files import is_named_array
from pytest_msdump.core.dumps.file_names import number, parse_ascend, parse_converted, parse_mindspore, parse_reference
from pytest_msdump.core.errors import (
    ConfigError,
    MsdumpError,
    TensorFileError,
    TensorShapeError,
    UnknownNameError,
    nearest,
)
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS, may_be_padded
from pytest_msdump.core.layouts.blocks import format_name
from pytest_msdump.core.layouts.converters import Converters
from pytest_msdump.core.layouts.device_layout import check_fits
from pytest_msdump.core.model.tensor import TensorRef, TensorView

Shape = tuple[int, ...]

# -- Which tensor belongs to which file ------------------------------------------------------------------------------

# Kind → what its dump files end in; those of a device have no ending.
KINDS = {"caffe": ".pb", "tf": ".pb", "quant": ".quant", "offline": "", "sim": ""}

_ARRAY = ".npy"
# A number with more digits is a time.
_MOST_DIGITS = 9
_ORIGINAL, _DEVICE = "OP.INDEX.TIME.npy", "OP_TYPE.OP.TASK[.STREAM].TIME[.output].INDEX.npy"


class ArrayName(NamedTuple):
    """The dump file that an array belongs to, and which of its tensors it is."""

    dump: str
    op: str
    io: str
    slot: int
    timestamp: int


class DumpSource(NamedTuple):
    """A tensor for a dump file, the name of its own file before it was shortened, and the folder to write to."""

    ref: TensorRef
    name: str
    folder: Path = Path()


@dataclass(frozen=True, slots=True)
class DumpPlan:
    """One dump file to write: its path below the output folder, and its tensors in order."""

    path: Path
    parts: tuple[tuple[ArrayName, DumpSource], ...]


def expected_names(kind: str | None) -> str:
    """Return the form that names of arrays must have, for messages."""
    if kind is None:
        return f"{_ORIGINAL} or {_DEVICE}"
    return _ORIGINAL if KINDS[kind] else _DEVICE


def array_name(name: str, kind: str | None) -> ArrayName | None:
    """Read the file name of an array; ``None`` when it has another form."""
    # A mapping.csv may say anything; a name never leads out of the output folder.
    if not name.endswith(_ARRAY) or name.startswith(".") or "/" in name:
        return None
    if kind is None:
        return _device_array(name) or _original_array(name, KINDS["tf"])
    return _original_array(name, KINDS[kind]) if KINDS[kind] else _device_array(name)


def _original_array(name: str, suffix: str) -> ArrayName | None:
    parsed = parse_reference(name)
    if parsed is None or len(name.split(".")[-3]) > _MOST_DIGITS:
        return None
    # The file's name keeps leading zeros of its numbers.
    return ArrayName(name.removesuffix(_ARRAY) + suffix, parsed.op, "output", 0, parsed.timestamp or 0)


def _device_array(name: str) -> ArrayName | None:
    dumped = parse_mindspore(name)
    if dumped:
        fields = (dumped.op_type, dumped.op, dumped.task, dumped.stream, dumped.timestamp)
        return ArrayName(".".join(map(str, fields)), dumped.op, dumped.io, dumped.slot, dumped.timestamp)
    converted = parse_converted(name)
    if converted:
        dump, file = converted.dump, name.rpartition(f".{converted.io}.")[0]
        return ArrayName(file, dump.op, converted.io, converted.slot, dump.timestamp)
    file, _, index = name.removesuffix(_ARRAY).rpartition(".")
    slot, parsed = number(index), parse_ascend(file)
    if slot is None or parsed is None or len(index) > _MOST_DIGITS:
        return None
    return ArrayName(file, parsed.op, "output", slot, parsed.timestamp)


def plan_dumps(sources: Iterable[DumpSource], kind: str | None) -> tuple[Sequence[DumpPlan], Sequence[str]]:
    """Return the dump files that tensors become, by path, and the names that have another form than `kind` has."""
    found: defaultdict[Path, list[tuple[ArrayName, DumpSource]]] = defaultdict(list)
    others = []
    for source in sources:
        parsed = array_name(source.name, kind)
        if kind is None and not source.name.endswith(_ARRAY) and not is_named_array(source.ref):
            key = source.ref.key
            parsed = ArrayName(source.name, key.op.name, key.io, key.slot, source.ref.source.timestamp or 0)
        if parsed is None:
            others.append(source.name)
        else:
            found[source.folder / parsed.dump].append((parsed, source))
    for parts in found.values():
        parts.sort(key=lambda part: (part[0].io, part[0].slot, part[1].name))
    return [DumpPlan(path, tuple(found[path])) for path in sorted(found)], sorted(others)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a caller says of tensors; it wins over what their files say."""

    dtype: str | None = None
    memory_format: str | None = None
    shape: Shape | None = None
    groups: int | None = None
    wanted: str | None = None
    converters: Converters = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.dtype is not None:
            data_type_number(self.dtype)
        for name in (self.memory_format, self.wanted):
            if name is not None:
                memory_format_number(name)


def write_planned(plan: DumpPlan, out: Path, overrides: Overrides) -> Path:
    """Write one dump file below `out`, whole or not at all."""
    path = out / plan.path
    _check_slots(plan)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MsdumpError(f"{path.parent}: cannot be made: {error.strerror or error}") from error
    with ExitStack() as opened:
        tensors = []
        for parsed, source in plan.parts:
            tensor = _open_tensor(parsed, source.ref, overrides)
            opened.callback(tensor.view.close)
            tensors.append(tensor)
        first, source = plan.parts[0]
        op_name = source.ref.key.op.true_name or first.op
        return write_dump(path, tensors, op_name=op_name, dump_time=first.timestamp)


def _check_slots(plan: DumpPlan) -> None:
    """Refuse gaps and doubles: a dump file numbers its tensors by their place."""
    for io in ("input", "output"):
        own = [(parsed.slot, source.name) for parsed, source in plan.parts if parsed.io == io]
        for place, (slot, name) in enumerate(own):
            if slot < place:
                raise MsdumpError(
                    f"{own[place - 1][1]} and {name} are both {io} {slot} of {plan.path.name}; leave one out"
                )
            if slot > place:
                raise MsdumpError(
                    f"{io} {place} of {plan.path.name} is not there, but {name} is; a dump file numbers its tensors by "
                    "their place: give all of them"
                )


def _open_tensor(parsed: ArrayName, ref: TensorRef, overrides: Overrides) -> DumpTensor:
    dtype = overrides.dtype or ref.spec.dtype
    view = _open_as(ref, dtype)
    try:
        name = overrides.memory_format or view.spec.memory_format or "ND"
        groups = overrides.groups or view.spec.groups
        shape = overrides.shape or view.spec.logical_shape
        if not overrides.shape and shape == view.shape and may_be_padded(name):
            shape = None
        if overrides.wanted is not None:
            view, shape = _moved(view, name, shape, overrides)
            name = overrides.wanted
        original = _original_shape(view, name, shape, groups)
        # A graph says what was computed, the file what was written.
        dtype = view.dtype if ref.spec.dtype_from and not overrides.dtype else dtype or view.dtype
        return DumpTensor(view, parsed.io, dtype, name, original, groups)
    except BaseException:
        view.close()
        raise


def _open_as(ref: TensorRef, dtype: str | None) -> TensorView:
    """Open a tensor as a type; where it is stored as another one, as that."""
    try:
        return open_view(replace(ref, spec=replace(ref.spec, dtype=dtype)))
    except TensorFileError:
        if dtype is None:
            raise
        return open_view(replace(ref, spec=replace(ref.spec, dtype=None)))


def _moved(view: TensorView, name: str, shape: Shape | None, overrides: Overrides) -> tuple[TensorView, Shape | None]:
    """Bring a tensor to another memory format; return it and its logical shape, as far as that is known."""
    wanted = overrides.wanted or name
    is_said = overrides.memory_format is not None or overrides.groups is not None
    labelled = Relabelled(view, name, overrides.groups) if is_said else view
    moved = bring(labelled, wanted, shape=overrides.shape, converters=overrides.converters)
    if not may_be_padded(wanted):
        return moved, moved.shape
    return moved, shape if may_be_padded(name) else view.shape


def _original_shape(view: TensorView, name: str, shape: Shape | None, groups: int) -> Shape | None:
    """Return the logical shape, when the stored one can hold it."""
    known, where = format_name(name), f"{name} of shape {view.shape}"
    row = MEMORY_FORMATS.get(known or "")
    if known is None or row is None or not may_be_padded(known):
        if shape is not None and prod(shape) != view.size:
            raise TensorShapeError(f"{where} is not a tensor of shape {shape}: it has {view.size} elements")
        return shape
    if "..." not in row.stored and len(row.stored) != len(view.shape):
        raise TensorShapeError(
            f"{where}: {known} has {len(row.stored)} stored axes; name what the axes of the array are, or nothing"
        )
    if shape is not None and view.size:
        check_fits(replace(view.spec, memory_format=known, shape=view.shape, logical_shape=shape, groups=groups))
    return shape


# -- The file --------------------------------------------------------------------------------------------------------

_VERSION = b"2.0"
_LENGTH_BYTES = 8
_MOST = 2**64 - 1
# Wire types of Protobuf.
_VARINT, _LEN = 0, 2
# Several elements may share a byte: a multiple of 8.
_BLOCK_ELEMENTS = 2**17

# Quantised integers have the names of the plain ones, which come first in the table.
_DATA_TYPES = {kind.dtype: number for number, kind in reversed(DATA_TYPES.items())}
_FORMATS = {name: number for number, name in HEADER_FORMATS.items()}

_DUMP, _SHAPE, _OUTPUT, _INPUT = (
    {name: number for number, name in fields.items()} for fields in (DUMP_DATA, SHAPE, OP_OUTPUT, OP_INPUT)
)
_FIELDS = {"output": _OUTPUT, "input": _INPUT}


@dataclass(frozen=True, slots=True)
class DumpTensor:
    """One tensor of a dump file: a view in stored axes, and its place among the file's outputs or inputs, its slot."""

    view: TensorView
    io: str = "output"
    dtype: str | None = None
    memory_format: str = "ND"
    original_shape: Shape | None = None
    groups: int = 1


def write_dump(path: Path, tensors: Sequence[DumpTensor], *, op_name: str = "", dump_time: int = 0) -> Path:
    """Write a binary dump file (container 2.0), whole or not at all, into an existing folder; views are not closed."""
    if not tensors:
        raise TensorFileError(f"{path}: a dump of no tensor would be read as a damaged one; give at least one")
    ordered = sorted(tensors, key=lambda tensor: tensor.io == "output")
    header = _header(ordered, op_name, dump_time)
    with whole_file(path) as stream:
        stream.write(header)
        for tensor in ordered:
            for block in tensor.view.blocks(_BLOCK_ELEMENTS):
                stream.write(encode(block, tensor.dtype or tensor.view.dtype).data)
    return path


def data_type_number(name: str) -> int:
    """Return the number of a data type in a header."""
    known = canonical(name)
    if known is None:
        raise UnknownNameError(f"unknown data type '{name}'; {nearest(name, _DATA_TYPES)}")
    if known not in _DATA_TYPES:
        raise ConfigError(f"a dump file has no number for the data type {known}; it has: {', '.join(_DATA_TYPES)}")
    return _DATA_TYPES[known]


def memory_format_number(name: str) -> int:
    """Return the number of a memory format in a header."""
    upper = name.strip().upper()
    found = _FORMATS.get(upper, _FORMATS.get(format_name(name) or ""))
    if found is None:
        raise UnknownNameError(f"unknown memory format '{name}'; {nearest(upper, _FORMATS)}")
    return found


def _header(tensors: Sequence[DumpTensor], op_name: str, dump_time: int) -> bytes:
    """Return the beginning of a dump file: the header's length in 8 bytes, and the header."""
    message = bytes_field(_DUMP["version"], _VERSION) + number_field(_DUMP["dump_time"], dump_time)
    for io in ("output", "input"):
        message += b"".join(bytes_field(_DUMP[io], _tensor_message(one)) for one in tensors if one.io == io)
    if op_name:
        message += bytes_field(_DUMP["op_name"], op_name.encode())
    return len(message).to_bytes(_LENGTH_BYTES, "little") + message


def _tensor_message(one: DumpTensor) -> bytes:
    fields, shape, dtype = _FIELDS[one.io], one.view.shape, one.dtype or one.view.dtype
    original = one.original_shape
    if original is None and not may_be_padded(one.memory_format):
        original = shape
    message = number_field(fields["data_type"], data_type_number(dtype))
    message += number_field(fields["format"], memory_format_number(one.memory_format))
    # No shape at all means a scalar.
    if shape:
        message += bytes_field(fields["shape"], bytes_field(_SHAPE["dim"], shape))
    message += number_field(fields["size"], bytes_needed(dtype, prod(shape)))
    if original:
        message += bytes_field(fields["original_shape"], bytes_field(_SHAPE["dim"], original))
    if one.groups > 1:
        message += number_field(fields["sub_format"], one.groups)
    return message


def varint(value: int) -> bytes:
    """Return an unsigned number of 64 bits in groups of seven bits, the lowest first."""
    if not 0 <= value <= _MOST:
        raise ValueError(f"{value} is not an unsigned 64-bit number")
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def number_field(number: int, value: int) -> bytes:
    """Return the field of a number; nothing for 0."""
    return varint(number << 3 | _VARINT) + varint(value) if value else b""


def bytes_field(number: int, content: bytes | Iterable[int]) -> bytes:
    """Return the field of a text, of a message, which may be empty, or of a packed list of numbers."""
    data = content if isinstance(content, bytes) else b"".join(map(varint, content))
    return varint(number << 3 | _LEN) + varint(len(data)) + data

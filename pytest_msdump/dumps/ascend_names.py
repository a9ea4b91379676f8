"""What the name of an Ascend dump file says: ``op_type.op.task[.stream].timestamp[.task_type.context.thread.device]``.

Names are read from the right. The timestamp, a number of ten digits or more, tells the numbers before it from those
behind it; operator names with dots in them are read as far as that allows.

References
----------
The naming rules of the vendor's comparison tools, 2022 to 2026 (msprobe); the stream id was added in between.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.dtypes import canonical
from pytest_msdump.dumps.ascend_file import read_header
from pytest_msdump.dumps.ascend_header import Header, Noted
from pytest_msdump.dumps.filename import ReferenceName, is_time, number, parse_reference
from pytest_msdump.dumps.stored_file import FileState
from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dump_proto import TASK_TYPES, DataType
from pytest_msdump.model.graph import file_spelling
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, location_of

__all__ = [
    "PROTOBUF_SUFFIXES",
    "AscendName",
    "ConvertedBin",
    "ConvertedName",
    "Found",
    "Remarks",
    "SliceName",
    "parse_ascend",
    "parse_converted",
    "parse_converted_bin",
    "parse_protobuf",
    "refs_of",
    "slice_name",
    "slice_numbers",
]

PROTOBUF_SUFFIXES = (".pb", ".quant")

# Seconds since 1970 have ten digits, the microseconds of most writers sixteen. What may stand behind them has fewer.
_TIMESTAMP_DIGITS = 10
# The shortest name that fits is the operator's: numbers before the time are a task and a stream, where there are two.
_TIMED = re.compile(
    r"([^./]+)\.([^/]*?)\.([0-9]{1,255})(?:\.([0-9]{1,255}))?\.([0-9]{10,255})"
    r"(?:(?:\.([0-9]{1,9}))?\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9}))?",
    re.DOTALL,
)
_FFTS = next(value for value, name in TASK_TYPES.items() if name == "FFTSPLUS")
_SLICE = re.compile(r"_lxslice([0-9]{1,9})")
_CONVERTED = re.compile(r"(.+)\.(input|output)\.([0-9]{1,9})(?:\.([^.]+))?\.npy", re.DOTALL)
_CONVERTED_BIN = re.compile(
    r"(.+)\.(input|output)\.([0-9]{1,9})\.([0-9]{1,18}(?:_[0-9]{1,18})*)\.([A-Za-z][A-Za-z0-9_]*)\.([A-Z][A-Za-z0-9_]*)\.bin",
    re.DOTALL,
)
_SHAPE = re.compile(r"[0-9]{1,18}(?:x[0-9]{1,18})*")
_SUBGRAPH = re.compile(r".*sgt_graph_[0-9]+_(?=.)", re.DOTALL)
# A short timestamp is known by its place alone: before four numbers where there are so many that they can be these.
_SHORT_EXTRAS, _SHORT_NUMBERS = 4, 6


class AscendName(NamedTuple):
    """The fields of a file name. Those behind `timestamp` (in µs since 1970 by custom) are ``None`` when not there."""

    op_type: str
    op: str
    task: int
    stream: int | None
    timestamp: int
    task_type: int | None = None
    context: int | None = None
    thread: int | None = None
    device: int | None = None

    @property
    def is_ffts(self) -> bool:
        """Whether the operator ran in slices, each of which has a file (FFTS+)."""
        return self.task_type == _FFTS

    @property
    def is_known(self) -> bool:
        """Whether the task type, when there is one, is one that exists."""
        return self.task_type is None or self.task_type in TASK_TYPES


class ConvertedName(NamedTuple):
    """Name of an array that a tool made of one tensor of a dump file: the file's name, and which tensor it was.

    `form` is what stands behind: the shape, as in ``2x19x5x7``, the memory format, or nothing.
    """

    dump: AscendName
    io: str
    slot: int
    form: str | None

    @property
    def has_shape(self) -> bool:
        """Whether `form` is a shape."""
        return self.form is not None and _SHAPE.fullmatch(self.form) is not None

    @property
    def memory_format(self) -> str | None:
        """The memory format, where the name tells it."""
        return None if self.has_shape else self.form


class ConvertedBin(NamedTuple):
    """Name of raw bytes that a tool made of one tensor of a dump file; it says all that a header would.

    `shape` is flat where the tensor stayed as it was stored.
    """

    dump: AscendName
    io: str
    slot: int
    shape: tuple[int, ...]
    dtype: str
    memory_format: str


class SliceName(NamedTuple):
    """Name of an operator that ran in slices.

    `op` is without the numbers of slices, `origin` also without the subgraph that the compiler put in front; `number`
    is the slice's, ``None`` when the name has none because slices are threads.
    """

    op: str
    origin: str
    number: int | None


def parse_ascend(name: str) -> AscendName | None:
    """Read the name of a dump file.

    Parameters
    ----------
    name : str
        A file name without its directory, or what a ``mapping.csv`` gives for one.

    Returns
    -------
    AscendName or None
        ``None`` when the name has another form.

    Examples
    --------
    >>> parse_ascend("Conv2D.conv1.3.1.1600000000000003")[:5]
    ('Conv2D', 'conv1', 3, 1, 1600000000000003)
    >>> parse_ascend("SplitD.split1.4.1600000000000004").stream is None
    True
    >>> parse_ascend("Add.op.5.3.1600000000000010.4.11.0.0")[5:]
    (4, 11, 0, 0)
    """
    # Nearly all other names are told by their end alone.
    if not "0" <= name[-1:] <= "9":
        return None
    match = _TIMED.fullmatch(name)
    if match is None:
        return _by_place(name)
    op_type, op, task, stream, timestamp, task_type, context, thread, device = match.groups()
    if not op:
        return None
    number_of_stream = None if stream is None else int(stream)
    # Hardly any name goes on behind the time.
    if device is None:
        return AscendName(op_type, op, int(task), number_of_stream, int(timestamp))
    behind = (None if task_type is None else int(task_type), int(context), int(thread), int(device))
    return AscendName(op_type, op, int(task), number_of_stream, int(timestamp), *behind)


def _by_place(name: str) -> AscendName | None:
    """Read a name whose timestamp is shorter than any since 1970, as people write them."""
    fields = name.split(".")
    numbers: list[int] = []
    # The first two fields are names, whatever they look like.
    for field in reversed(fields[2:]):
        value = number(field)
        if value is None:
            break
        if len(field) >= _TIMESTAMP_DIGITS:
            return None
        numbers.insert(0, value)
    extras = _SHORT_EXTRAS if len(numbers) >= _SHORT_NUMBERS else 0
    count = len(numbers) - extras
    ids = 2 if count > 2 else 1
    op = ".".join(fields[1 : len(fields) - extras - 1 - ids])
    if count < 2 or "/" in name or not fields[0] or not op:
        return None
    task, *stream, timestamp = numbers[count - 1 - ids : count]
    return AscendName(fields[0], op, task, stream[0] if stream else None, timestamp, *numbers[count:])


def slice_name(op: str) -> SliceName:
    """Take the numbers of slices, and the subgraph's name, out of an operator's name.

    Examples
    --------
    >>> slice_name("partition0_sgt_graph_0_conv_lxslice12")
    SliceName(op='partition0_sgt_graph_0_conv', origin='conv', number=12)
    >>> slice_name("conv")
    SliceName(op='conv', origin='conv', number=None)
    """
    numbers = _SLICE.findall(op)
    bare = _SLICE.sub("", op) or op
    return SliceName(bare, _SUBGRAPH.sub("", bare), int(numbers[-1]) if numbers else None)


def slice_of(parsed: AscendName) -> int:
    """Return the number of the slice that a file of an FFTS+ operator is: of its name, or of its thread."""
    named = slice_name(parsed.op).number
    return (parsed.thread or 0) if named is None else named


def slice_numbers(paths: Iterable[Path]) -> tuple[int, ...] | None:
    """Return the number of each slice by its file's name; ``None`` when a name does not tell."""
    parsed = [parse_ascend(path.name) for path in paths]
    return None if None in parsed else tuple(slice_of(one) for one in parsed if one)


def parse_protobuf(name: str) -> ReferenceName | None:
    """Read a name of the form ``op.index.timestamp.pb``, or ``.quant`` of a quantised model.

    Examples
    --------
    >>> parse_protobuf("conv1.0.1600000000000001.pb")
    ReferenceName(op='conv1', slot=0, timestamp=1600000000000001)
    """
    stem, dot, suffix = name.rpartition(".")
    return parse_reference(f"{stem}.npy") if dot + suffix in PROTOBUF_SUFFIXES else None


def parse_converted(name: str) -> ConvertedName | None:
    """Read the name of an array that was made of a dump file: the file's, ``.input.K`` or ``.output.K``, and ``.npy``.

    Examples
    --------
    >>> parsed = parse_converted("Conv2D.conv1.3.1.1600000000000003.output.0.2x19x5x7.npy")
    >>> parsed.dump.op, parsed.io, parsed.slot, parsed.form
    ('conv1', 'output', 0, '2x19x5x7')
    """
    # Nearly all other names are told by this alone.
    if not name.endswith(".npy") or not (".output." in name or ".input." in name):
        return None
    match = _CONVERTED.fullmatch(name)
    dump = parse_ascend(match[1]) if match else None
    return ConvertedName(dump, match[2], int(match[3]), match[4]) if match and dump else None


def parse_converted_bin(name: str) -> ConvertedBin | None:
    """Read the name of raw bytes that were made of a dump file: the file's, which tensor, lengths, type and format.

    Examples
    --------
    >>> parsed = parse_converted_bin("Add.op.3.1.1600000000000003.output.0.2_19.bfloat16.ND.bin")
    >>> parsed.dump.op, parsed.shape, parsed.dtype, parsed.memory_format
    ('op', (2, 19), 'bfloat16', 'ND')
    """
    match = _CONVERTED_BIN.fullmatch(name)
    dump = parse_ascend(match[1]) if match else None
    if match is None or dump is None:
        return None
    shape = tuple(int(length) for length in match[4].split("_"))
    return ConvertedBin(dump, match[2], int(match[3]), shape, match[5], match[6])


# -- From dump files to references -----------------------------------------------------------------------------------


_UNREADABLE = "{files} of which the header cannot be read, e.g. {example}"
_WITHOUT_TENSORS = "{files} without a tensor, e.g. {example}"
_UNTYPED = "{files} with buffers or workspaces, which are no tensors and are left out, e.g. {example}"
_TRAILING = "{files} with more bytes than the header tells of, which were not read, e.g. {example}"
_FIRST_THREAD = "{files} of operators in threads (FFTS+), whose inputs are the first thread's alone, e.g. {example}"


class Found(NamedTuple):
    """A dump file, what its name says, and where in the run it was dumped."""

    folder: Path
    file: str
    name: AscendName
    at: Coordinates

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.file


class Remarks:
    """What is worth a sentence, each kind said once however many files it is true of."""

    def __init__(self) -> None:
        self._files: defaultdict[str, list[str]] = defaultdict(list)
        self._said: list[str] = []

    def add(self, sentence: str, example: str) -> None:
        """Note a file; `sentence` has places for ``{files}`` and ``{example}``."""
        self._files[sentence].append(example)

    def say(self, *sentences: str) -> None:
        """Note something that is said as it is."""
        self._said += sentences

    @property
    def notes(self) -> tuple[str, ...]:
        """What was said, and one sentence for each kind of file."""
        counted = (
            sentence.format(files="1 file" if len(examples) == 1 else f"{len(examples)} files", example=min(examples))
            for sentence, examples in self._files.items()
        )
        return (*self._said, *counted)


def refs_of(found: Iterable[Found], remarks: Remarks, *, reader: str) -> list[TensorRef]:
    """Read the headers of one directory's files.

    Parameters
    ----------
    found : iterable of Found
        The files.
    remarks : Remarks
        Gets what is worth telling.
    reader : str
        Who opens the tensors.

    Returns
    -------
    list of TensorRef
        One for each input and output. A file whose header cannot be read gives one output, which cannot be opened.
        Their places are a guess, for `placed_by_time` to put right: most need not be made anew.
    """
    sliced: defaultdict[tuple[str, str], list[Found]] = defaultdict(list)
    refs: list[TensorRef] = []
    # They are looked at in order of time: what is made one after the other lies side by side in memory.
    for place, one in enumerate(sorted(found, key=lambda each: each.name.timestamp)):
        name = one.name
        if name.task_type is not None and name.is_ffts:
            sliced[name.op_type, slice_name(name.op).op].append(one)
        else:
            refs += _whole(one, place, remarks, reader)
    for files in sliced.values():
        for members in _passes(files):
            refs += _joined(members, remarks, reader)
    return refs


def _passes(files: Sequence[Found]) -> Sequence[Sequence[Found]]:
    """Tell the runs of one sliced operator apart: the first file of every slice, the second of every slice, and so on.

    Where one slice has more files than another, or their times are none, nothing tells which of them belong together.
    They stay one run, which has too many files to be opened: better than slices of two runs in one tensor.
    """
    by_number: defaultdict[int, list[Found]] = defaultdict(list)
    for one in sorted(files, key=lambda each: (each.name.timestamp, each.file)):
        by_number[slice_of(one.name)].append(one)
    ordered = [by_number[number] for number in sorted(by_number)]
    repeats = any(len(members) > 1 for members in ordered)
    if repeats and (len(set(map(len, ordered))) > 1 or not all(is_time(one.name.timestamp) for one in files)):
        return [[one for members in ordered for one in members]]
    return list(zip(*ordered, strict=True))


def _whole(one: Found, place: int, remarks: Remarks, reader: str) -> list[TensorRef]:
    """Make the references of one file; `place` is its operator's where nothing else comes between."""
    header, state = _header(one, remarks)
    folder, file, name, _ = one
    if header is None:
        return [_unreadable(one, TensorSource(folder, file, name.timestamp), reader)]
    op = _key(one, header.op_name)
    refs: list[TensorRef] = []
    for part, tensor in enumerate(header.tensors):
        noted = Noted(tensor, state, header.end) if state else None
        source = TensorSource(folder, file, name.timestamp, part, device_address=tensor.address, noted=noted)
        claimed = _claimed(tensor.data_type, tensor.shape, tensor.memory_format, tensor.original_shape, tensor.groups)
        refs.append(TensorRef(TensorKey(op, tensor.io, tensor.slot), claimed, source, reader, place))
    return refs


def _joined(members: Sequence[Found], remarks: Remarks, reader: str) -> Iterator[TensorRef]:
    """Make references to tensors whose slices are in several files."""
    headers = [_header(one, remarks)[0] for one in members]
    first = min(members, key=attrgetter("name.timestamp"))
    pieces = tuple(one.path for one in members)
    header, timestamp = headers[0], first.name.timestamp
    if header is None:
        source = TensorSource.of(pieces[0], timestamp, pieces=pieces)
        yield _unreadable(members[0], source, reader)
        return
    op = _key(members[0], header.op_name)
    by_threads = slice_name(members[0].name.op).number is None
    for part, tensor in enumerate(header.tensors):
        if tensor.io == "input" and by_threads and len(members) > 1:
            remarks.add(_FIRST_THREAD, members[0].file)
        source = TensorSource.of(pieces[0], timestamp, part, pieces, tensor.address)
        # Shapes are known when the slices are joined.
        claimed = _claimed(tensor.data_type, None, tensor.memory_format, None, tensor.groups)
        yield TensorRef(TensorKey(op, tensor.io, tensor.slot), claimed, source, reader)


def _header(one: Found, remarks: Remarks) -> tuple[Header | None, FileState | None]:
    try:
        header, size, state = read_header(location_of(one.folder, one.file))
    except TensorFileError:
        remarks.add(_UNREADABLE, one.file)
        return None, None
    if not header.tensors:
        remarks.add(_WITHOUT_TENSORS, one.file)
    if header.raw:
        remarks.add(_UNTYPED, one.file)
    if size > header.end:
        remarks.add(_TRAILING, one.file)
    return header, state


def _key(one: Found, header_name: str) -> OpKey:
    """Name an operator: as its file has it, and truly when the header's name is that name before it was mangled."""
    name, true_name = one.name.op, header_name
    if one.name.task_type is not None and one.name.is_ffts:
        sliced = slice_name(name)
        name, origin = sliced.op, sliced.origin
        true_name = slice_name(header_name).origin
        if file_spelling(true_name) != file_spelling(origin):
            true_name = origin
    elif true_name != name and (spelling := file_spelling(true_name)) != name and spelling != file_spelling(name):
        true_name = name
    return OpKey(name, one.at, one.name.op_type, true_name if true_name != name else None)


def _unreadable(one: Found, source: TensorSource, reader: str) -> TensorRef:
    return TensorRef(TensorKey(_key(one, ""), "output", 0), TensorSpec(), source, reader)


# A network has many tensors and few kinds of them, which share their memory.
@lru_cache(maxsize=2048)
def _claimed(
    data_type: DataType,
    shape: tuple[int, ...] | None,
    memory_format: str,
    original_shape: tuple[int, ...] | None,
    groups: int,
) -> TensorSpec:
    """Return what a header claims of a tensor."""
    return TensorSpec(canonical(data_type.dtype), shape, memory_format, original_shape, groups)

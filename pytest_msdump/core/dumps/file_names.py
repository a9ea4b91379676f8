"""Grammars of file names in dumps: what each name says of its tensors, with nothing opened.

An operator's own name may hold dots, so names are read from the right.

References
----------
MindSpore "Dump" documentation, releases 1.2 to 2.10: flat names up to 1.3, names of nine fields since 1.5, and of ten
since the dtype is written too. The naming rules of the vendor's comparison tools, 2022 to 2026 (msprobe), for Ascend
dump files, what is made of them, and reference tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.spellings import SCOPE, as_filed
from pytest_msdump.core.model.tensor import TensorSpec

PROTOBUF_SUFFIXES = (".pb", ".quant")
_NPY = ".npy"

# No file system allows longer names. Longer ones come from a mapping.csv; Python refuses to convert very long digits.
_MOST_DIGITS = 255
_NUMBER = f"[0-9]{{1,{_MOST_DIGITS}}}"
# Microseconds since 1970 have 15 or 16 digits: 1973 to 2286.
_FIRST_TIME_US, _END_OF_TIMES_US = 10**14, 10**16


def number(text: str) -> int | None:
    """Return the value of a text of ASCII digits, or ``None`` for any other text."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return None


def is_time(timestamp: int | None) -> bool:
    """Whether a number in a file's name can be when it was written; layers of a list are numbered, too."""
    return timestamp is not None and _FIRST_TIME_US <= timestamp < _END_OF_TIMES_US


# -- Reference tensors -----------------------------------------------------------------------------------------------

_REFERENCE = re.compile(rf"(.+)\.({_NUMBER})\.({_NUMBER})\.npy", re.DOTALL)


class ReferenceName(NamedTuple):
    """``op.slot.timestamp.npy``, an output of a reference run; with `timestamp` ``None`` it is ``op.npy``."""

    op: str
    slot: int
    timestamp: int | None

    @property
    def filename(self) -> str:
        """The file name that says this."""
        return f"{self.op}{_NPY}" if self.timestamp is None else f"{self.op}.{self.slot}.{self.timestamp}{_NPY}"


def parse_reference(name: str) -> ReferenceName | None:
    """Read ``op.index.timestamp.npy``. Where the last number is no time, all of the name is the operator's."""
    match = _REFERENCE.fullmatch(name)
    if match is None:
        return None
    timestamp = int(match[3])
    if not is_time(timestamp):
        return ReferenceName(name.removesuffix(_NPY), 0, None)
    return ReferenceName(match[1], int(match[2]), timestamp)


def parse_protobuf(name: str) -> ReferenceName | None:
    """Read ``op.index.timestamp.pb``, or ``.quant`` of a quantised model."""
    stem, dot, suffix = name.rpartition(".")
    return parse_reference(f"{stem}.npy") if dot + suffix in PROTOBUF_SUFFIXES else None


# -- Folders of iterations and ranks ---------------------------------------------------------------------------------

_NUMBERED = re.compile(rf"([a-z_]*?)[-_= ]?({_NUMBER})", re.ASCII | re.IGNORECASE)
# Scopes are numbered, too: `layers.0`, `stage_1`. These words count what a program does again.
_COUNTING = {
    **dict.fromkeys(("", "step", "steps", "global_step", "iter", "iters", "iteration", "epoch", "batch"), "iteration"),
    **dict.fromkeys(("test_data_set", "result", "sample"), "iteration"),
    "rank": "rank",
}


class NumberedFolder(NamedTuple):
    """A word, which coordinate it counts, and the number."""

    word: str
    coordinate: str
    number: int


def numbered_folder(name: str) -> NumberedFolder | None:
    """Read the name of a folder of one iteration or rank, as programs of users write them.

    >>> numbered_folder("step_12"), numbered_folder("layer_3")
    (NumberedFolder(word='step', coordinate='iteration', number=12), None)
    """
    match = _NUMBERED.fullmatch(name)
    word = match[1].lower() if match else ""
    return NumberedFolder(word, _COUNTING[word], int(match[2])) if match and word in _COUNTING else None


# -- MindSpore -------------------------------------------------------------------------------------------------------

_MINDSPORE = re.compile(
    rf"([^./]+)\.([^/]+)\.({_NUMBER})\.({_NUMBER})\.({_NUMBER})\.(input|output)\.({_NUMBER})\.([^./]+)(?:\.([^./]+))?\.npy"
)


class MindSporeName(NamedTuple):
    """``op_type.op.task.stream.timestamp.io.slot.memory_format[.dtype].npy``. `dtype` is spelled as in the file."""

    op_type: str
    op: str
    task: int
    stream: int
    timestamp: int
    io: str
    slot: int
    memory_format: str
    dtype: str | None = None

    @property
    def filename(self) -> str:
        """The file name that says this."""
        return ".".join(str(field) for field in self if field is not None) + _NPY

    @property
    def spec(self) -> TensorSpec:
        """What the name claims of the tensor. A dtype that `facts.dtypes` does not know is left to the header."""
        return _claimed(self.dtype, self.memory_format)


# A dump has very many files and few claims, which share their memory.
@lru_cache(maxsize=256)
def _claimed(dtype: str | None, memory_format: str) -> TensorSpec:
    return TensorSpec(dtype=canonical(dtype or ""), memory_format=memory_format)


def parse_mindspore(name: str) -> MindSporeName | None:
    """Read a name of a MindSpore dump, with or without the dtype field."""
    # All names of a folder are asked for each form; what each name of a form holds is sought first.
    match = _MINDSPORE.fullmatch(name) if ".output." in name or ".input." in name else None
    if match is None:
        return None
    op_type, op, task, stream, timestamp, io, slot, memory_format, dtype = match.groups()
    return MindSporeName(op_type, op, int(task), int(stream), int(timestamp), io, int(slot), memory_format, dtype)


# -- MindSpore 1.2 and 1.3 -------------------------------------------------------------------------------------------

_TENSOR = r"(?P<op>.+)_(?P<io>input|output)_(?P<slot>[0-9]{1,9})"
# Memory formats hold underscores (FRACTAL_NZ), data types do not.
_FLAT = re.compile(
    _TENSOR + r"_shape(?P<dims>(?:_[0-9]{1,19})*)_+(?P<dtype>[A-Za-z][A-Za-z0-9]*)_(?P<format>[A-Za-z]\w*)\.bin",
    re.DOTALL | re.ASCII,
)
_FLAT_NPY = re.compile(_TENSOR + r"\.npy", re.DOTALL)
_KERNEL = re.compile(r"(?P<op_type>.+)-op[0-9]+", re.DOTALL)


class FlatName(NamedTuple):
    """What a flat name says. `op` is spelled as later releases do, so that both match; `dtype` as in the file."""

    op: str
    op_type: str | None
    io: str
    slot: int
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    memory_format: str | None = None
    true_name: str | None = None

    @property
    def spec(self) -> TensorSpec:
        """What the name claims of the tensor. A dtype that `facts.dtypes` does not know is left out."""
        return TensorSpec(canonical(self.dtype or ""), self.shape, self.memory_format)


def parse_flat(name: str) -> FlatName | None:
    """Read the name of a ``.bin`` file. An operator that is not numbered as kernels are is a Parameter."""
    match = _FLAT.fullmatch(name) if "_shape" in name else None
    if match is None:
        return None
    shape = tuple(int(length) for length in match["dims"].split("_")[1:])
    return _flat_name(match)._replace(shape=shape, dtype=match["dtype"], memory_format=match["format"])


def parse_flat_npy(name: str) -> FlatName | None:
    """Read the name of an npy file of the short-lived form, which is too plain to be looked for everywhere."""
    match = _FLAT_NPY.fullmatch(name)
    return _flat_name(match) if match else None


def _flat_name(match: re.Match[str]) -> FlatName:
    scoped = match["op"]
    last = scoped.rpartition(SCOPE)[2]
    kernel = _KERNEL.fullmatch(last)
    op_type: str | None = kernel["op_type"] if kernel else PARAMETER
    if kernel and "_" in last and SCOPE not in scoped:
        # Where the scope was written with underscores, nothing shows where the type begins.
        op_type = None
    true_name = scoped.replace(SCOPE, "/") if SCOPE in scoped else None
    return FlatName(as_filed(scoped), op_type, match["io"], int(match["slot"]), true_name=true_name)


# -- Ascend dump files -----------------------------------------------------------------------------------------------

# Seconds since 1970 have ten digits, the microseconds of most writers sixteen. What may stand behind them has fewer.
_TIMESTAMP_DIGITS = 10
# The shortest name that fits is the operator's: numbers before the time are a task and a stream, where there are two.
_TIMED = re.compile(
    r"([^./]+)\.([^/]*?)\.([0-9]{1,255})(?:\.([0-9]{1,255}))?\.([0-9]{10,255})"
    r"(?:(?:\.([0-9]{1,9}))?\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9}))?",
    re.DOTALL,
)
# A short timestamp is known by its place alone: before four numbers where there are so many that they can be these.
_SHORT_EXTRAS, _SHORT_NUMBERS = 4, 6
# The first of the four numbers behind the timestamp in a file's name.
_TASK_TYPES = {0: "AICORE", 1: "AICPU", 2: "DEBUG", 3: "HCCL", 4: "FFTSPLUS"}
_FFTS = next(value for value, name in _TASK_TYPES.items() if name == "FFTSPLUS")
_SLICE = re.compile(r"_lxslice([0-9]{1,9})")
_SUBGRAPH = re.compile(r".*sgt_graph_[0-9]+_(?=.)", re.DOTALL)


class AscendName(NamedTuple):
    """``op_type.op.task[.stream].timestamp[.task_type.context.thread.device]``; `timestamp` in µs by custom."""

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
        return self.task_type is None or self.task_type in _TASK_TYPES


class SliceName(NamedTuple):
    """Name of an operator that ran in slices."""

    op: str
    origin: str
    number: int | None


def parse_ascend(name: str) -> AscendName | None:
    """Read the name of an Ascend dump file. Its timestamp has ten digits or more, or is known by its place."""
    if not "0" <= name[-1:] <= "9":
        return None
    match = _TIMED.fullmatch(name)
    if match is None:
        return _parse_by_place(name)
    op_type, op, *numbers = match.groups()
    task, stream, timestamp, *behind = (None if text is None else int(text) for text in numbers)
    return AscendName(op_type, op, task or 0, stream, timestamp or 0, *behind) if op else None


def _parse_by_place(name: str) -> AscendName | None:
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
    """Take the numbers of slices, and the subgraph's name, out of an operator's name."""
    numbers = _SLICE.findall(op)
    bare = _SLICE.sub("", op) or op
    return SliceName(bare, _SUBGRAPH.sub("", bare), int(numbers[-1]) if numbers else None)


def slice_number(parsed: AscendName) -> int:
    """Return which slice of an FFTS+ operator a file holds, by its name or else by its thread."""
    named = slice_name(parsed.op).number
    return (parsed.thread or 0) if named is None else named


def slice_numbers(paths: Iterable[Path]) -> tuple[int, ...] | None:
    """Return the number of each slice by its file's name; ``None`` when a name has another form."""
    parsed = [parse_ascend(path.name) for path in paths]
    return None if None in parsed else tuple(slice_number(one) for one in parsed if one)


# -- Made of Ascend dump files ---------------------------------------------------------------------------------------

_CONVERTED = re.compile(r"(.+)\.(input|output)\.([0-9]{1,9})(?:\.([^.]+))?\.npy", re.DOTALL)
_CONVERTED_BIN = re.compile(
    r"(.+)\.(input|output)\.([0-9]{1,9})\.([0-9]{1,18}(?:_[0-9]{1,18})*)\.([A-Za-z][A-Za-z0-9_]*)\.([A-Z][A-Za-z0-9_]*)\.bin",
    re.DOTALL,
)
_SHAPE = re.compile(r"[0-9]{1,18}(?:x[0-9]{1,18})*")
_OPDEBUG = re.compile(
    r"op_?debug\.node_op_?debug\.(?P<task>[0-9]{1,18})(?:\.(?P<stream>[0-9]{1,18}))?\.(?P<time>[0-9]{6,20})(?P<more>(?:\.[0-9]+){0,4})"
    r"(?P<json>\.output\.(?P<slot>[0-9]+)\.json)?",
    re.IGNORECASE,
)


class ConvertedName(NamedTuple):
    """Name of an array that was made of one tensor of a dump file: the file's name, and which tensor it was."""

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
        """The memory format, where the name has it."""
        return None if self.has_shape else self.form

    @property
    def spec(self) -> TensorSpec:
        """What the name claims of the tensor."""
        return TensorSpec(memory_format=self.memory_format)


class ConvertedBin(NamedTuple):
    """Name of raw bytes that were made of one tensor of a dump file; `shape` is flat where it stayed as stored."""

    dump: AscendName
    io: str
    slot: int
    shape: tuple[int, ...]
    dtype: str
    memory_format: str

    @property
    def spec(self) -> TensorSpec:
        """What the name claims of the tensor."""
        # Flat, a tensor in blocks cannot be put in order again: its lengths are lost.
        is_flat = len(self.shape) == 1 and may_be_padded(self.memory_format)
        return TensorSpec(canonical(self.dtype), self.shape, None if is_flat else self.memory_format)


class OpdebugName(NamedTuple):
    """What an overflow file's name says. Task and stream are those of the check, not of the operator it is about."""

    task: int
    stream: int | None
    timestamp: int
    is_json: bool


def parse_converted(name: str) -> ConvertedName | None:
    """Read the name of an array made of a dump file: the file's, ``.input.K`` or ``.output.K``, and ``.npy``."""
    match = _CONVERTED.fullmatch(name) if ".output." in name or ".input." in name else None
    dump = parse_ascend(match[1]) if match else None
    return ConvertedName(dump, match[2], int(match[3]), match[4]) if match and dump else None


def parse_converted_bin(name: str) -> ConvertedBin | None:
    """Read the name of raw bytes that were made of a dump file: the file's, which tensor, lengths, type and format."""
    match = _CONVERTED_BIN.fullmatch(name) if ".output." in name or ".input." in name else None
    dump = parse_ascend(match[1]) if match else None
    if match is None or dump is None:
        return None
    shape = tuple(int(length) for length in match[4].split("_"))
    return ConvertedBin(dump, match[2], int(match[3]), shape, match[5], match[6])


def run_of(parsed: MindSporeName | AscendName) -> tuple[object, ...]:
    """Identify one run of an operator. Arrays that were made of its dump share it, though their name may be shorter."""
    return (parsed.op_type, parsed.task, parsed.stream, parsed.timestamp)


def parse_opdebug(name: str) -> OpdebugName | None:
    """Read the name of an overflow dump, with or without a stream id, binary or JSON."""
    match = _OPDEBUG.fullmatch(name)
    if match is None:
        return None
    stream = None if match["stream"] is None else int(match["stream"])
    return OpdebugName(int(match["task"]), stream, int(match["time"]), match["json"] is not None)

"""What a tensor's file name says. Names are parsed from the right, because an operator's own name may hold dots.

References
----------
MindSpore "Dump" documentation, releases 1.5 to 2.10: names of nine fields, and of ten since the dtype is written too.
msprobe (Ascend) for the names of reference tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from pytest_msdump.facts.dtypes import ALIASES, DTYPES
from pytest_msdump.model.tensor import TensorSpec

__all__ = ["MindSporeName", "ReferenceName", "is_time", "may_tell_io", "number", "parse_mindspore", "parse_reference"]

_SUFFIX = ".npy"
# No file system allows longer names. Longer ones come from a mapping.csv;
# Python refuses to convert very long digits.
_MOST_DIGITS = 255
_NUMBER = f"[0-9]{{1,{_MOST_DIGITS}}}"
_REFERENCE = re.compile(rf"(.+)\.({_NUMBER})\.({_NUMBER})\.npy", re.DOTALL)
_IO = frozenset({"input", "output"})
# Microseconds since 1970 of 15 or 16 digits, as all writers of dumps have them: 1973 to 2286.
_FIRST_TIME_US, _END_OF_TIMES_US = 10**14, 10**16
# Of a MindSpore name without a dtype.
_FEWEST_FIELDS = 9


class ReferenceName(NamedTuple):
    """``op.slot.timestamp.npy``: an output of a reference run. `timestamp` is in µs since 1970.

    ``None`` stands for no time: then the name is ``op.npy``, whose last two fields are numbers of `op`.
    """

    op: str
    slot: int
    timestamp: int | None

    @property
    def filename(self) -> str:
        """The file name that says this."""
        return f"{self.op}{_SUFFIX}" if self.timestamp is None else f"{self.op}.{self.slot}.{self.timestamp}{_SUFFIX}"


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
        fields = [str(field) for field in self if field is not None]
        return ".".join(fields) + _SUFFIX

    @property
    def spec(self) -> TensorSpec:
        """What the name claims of the tensor. A dtype that `facts.dtypes` does not know is left to the header."""
        return _claimed(self.dtype, self.memory_format)


# A dump has very many files and few claims, which share their memory.
@lru_cache(maxsize=256)
def _claimed(dtype: str | None, memory_format: str) -> TensorSpec:
    word = (dtype or "").lower()
    known = ALIASES.get(word, word)
    return TensorSpec(dtype=known if known in DTYPES else None, memory_format=memory_format)


def number(text: str) -> int | None:
    """Return the value of a text of ASCII digits, or ``None`` for any other text.

    Examples
    --------
    >>> number("007"), number("-7"), number("²"), number("")
    (7, None, None, None)
    """
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return None


def is_time(timestamp: int | None) -> bool:
    """Whether a number in a file's name can be when it was written; layers of a list are numbered, too.

    Examples
    --------
    >>> is_time(1700000000000000), is_time(3), is_time(None)
    (True, False, False)
    """
    return timestamp is not None and _FIRST_TIME_US <= timestamp < _END_OF_TIMES_US


def may_tell_io(names: Iterable[str]) -> bool:
    """Whether any of these names has one of the words for inputs and outputs, as all do that tell them apart.

    A directory of very many names that do not is told by this alone, at a tenth of what it takes to read each.
    """
    # Nothing of one name and the next makes a word.
    text = "\n".join(names)
    return "output" in text or "input" in text


def parse_reference(name: str) -> ReferenceName | None:
    """Read a name of the form ``op.index.timestamp.npy``.

    Parameters
    ----------
    name : str
        A file name without its directory.

    Returns
    -------
    ReferenceName or None
        ``None`` when the name has another form. Where the last number is no time, all of the name is the operator's.

    Examples
    --------
    >>> parse_reference("layer1.0.conv.0.1700000000000000.npy")
    ReferenceName(op='layer1.0.conv', slot=0, timestamp=1700000000000000)
    >>> parse_reference("features.0.1.npy")
    ReferenceName(op='features.0.1', slot=0, timestamp=None)
    """
    match = _REFERENCE.fullmatch(name)
    if match is None:
        return None
    timestamp = int(match[3])
    if not is_time(timestamp):
        return ReferenceName(name.removesuffix(_SUFFIX), 0, None)
    return ReferenceName(match[1], int(match[2]), timestamp)


def parse_mindspore(name: str) -> MindSporeName | None:
    """Read a name of a MindSpore dump, with or without the dtype field.

    Parameters
    ----------
    name : str
        A file name without its directory; may be longer than file systems allow when a ``mapping.csv`` gave it.

    Returns
    -------
    MindSporeName or None
        ``None`` when the name has another form.

    Examples
    --------
    >>> parsed = parse_mindspore("ReLU.Default_ReLU-op0.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy")
    >>> parsed.op_type, parsed.op, parsed.io, parsed.slot, parsed.dtype
    ('ReLU', 'Default_ReLU-op0', 'output', 0, 'Float32')
    """
    # Names of other writers are told by this alone, of which there may be as many.
    if not name.endswith(_SUFFIX) or not (".output." in name or ".input." in name):
        return None
    fields = name.split(".")
    # One for the suffix and eight before it, or nine: an operator's own name may hold dots.
    if len(fields) < _FEWEST_FIELDS or "/" in name:
        return None
    # The io word is the fourth field from the right without a dtype field, the fifth with one. It cannot be both, since
    # the field after it is a number.
    dtype = None if fields[-4] in _IO else fields.pop(-2)
    op_type, *scope, task, stream, timestamp, io, slot, memory_format, _ = fields
    op = ".".join(scope)
    if io not in _IO or not (op_type and op and memory_format) or dtype == "":
        return None
    if not (task.isdigit() and stream.isdigit() and timestamp.isdigit() and slot.isdigit()):
        return None
    # Digits of other scripts are some, too, and there may be very many: only then each number is looked at.
    if not (name.isascii() and len(name) <= _MOST_DIGITS) and None in map(number, (task, stream, timestamp, slot)):
        return None
    return MindSporeName(op_type, op, int(task), int(stream), int(timestamp), io, int(slot), memory_format, dtype)

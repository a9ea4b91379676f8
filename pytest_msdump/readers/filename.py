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

from pytest_msdump.facts.dtypes import ALIASES, DTYPES
from pytest_msdump.lazy_expression import expression
from pytest_msdump.lazy_tuple import NamedTuple
from pytest_msdump.model.tensor import TensorSpec

__all__ = ["MindSporeName", "ReferenceName", "may_tell_io", "number", "parse_mindspore", "parse_reference"]

_SUFFIX = ".npy"
# No file system allows longer names. Longer ones come from a mapping.csv;
# Python refuses to convert very long digits.
_MOST_DIGITS = 255
_NUMBER = f"[0-9]{{1,{_MOST_DIGITS}}}"
_REFERENCE = expression(rf"(.+)\.({_NUMBER})\.({_NUMBER})\.npy", re.DOTALL)
_IO = frozenset({"input", "output"})
# Of a MindSpore name without a dtype.
_FEWEST_FIELDS = 9


class ReferenceName(NamedTuple):
    """``op.slot.timestamp.npy``: an output of a reference run. `timestamp` is in µs since 1970 by custom."""

    op: str
    slot: int
    timestamp: int

    @property
    def filename(self) -> str:
        """The file name that says this."""
        return f"{self.op}.{self.slot}.{self.timestamp}{_SUFFIX}"


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
        ``None`` when the name has another form.

    Examples
    --------
    >>> parse_reference("layer1.0.conv.0.1700000000000000.npy")
    ReferenceName(op='layer1.0.conv', slot=0, timestamp=1700000000000000)
    """
    match = _REFERENCE.fullmatch(name)
    return ReferenceName(match[1], int(match[2]), int(match[3])) if match else None


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

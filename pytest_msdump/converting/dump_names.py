"""Which array becomes which part of which dump file: by names alone.

================  ==================================================  =======================================
kind              array                                               dump file
================  ==================================================  =======================================
caffe, tf         ``op.index.time.npy``                               ``op.index.time.pb``
quant             ``op.index.time.npy``                               ``op.index.time.quant``
offline, sim      ``op_type.op.task[.stream].time.index.npy``, and    ``op_type.op.task[.stream].time``
                  ``….output.index[.FORMAT[.dtype]].npy``
================  ==================================================  =======================================

The time stays in the name, so that two runs never become one file; all arrays of one operator's run go into one file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.errors import MsdumpError
from pytest_msdump.model.tensor import TensorSpec
from pytest_msdump.readers.ascend_names import PROTOBUF_SUFFIXES, parse_ascend, parse_converted, parse_protobuf
from pytest_msdump.readers.filename import number, parse_mindspore, parse_reference

__all__ = ["KINDS", "ArrayName", "DumpPlan", "array_file", "array_name", "checked", "fitting_names", "plan_dumps"]

# Kind → what its dump files end in; those of a device have no ending.
KINDS = {"caffe": ".pb", "tf": ".pb", "quant": ".quant", "offline": "", "sim": ""}

_ARRAY = ".npy"
# A number of more digits is a time.
_MOST_DIGITS = 9
_ORIGINAL, _DEVICE = "OP.INDEX.TIME.npy", "OP_TYPE.OP.TASK[.STREAM].TIME[.output].INDEX.npy"


class ArrayName(NamedTuple):
    """The dump file that an array belongs to, which of its tensors it is, and what its name says of it."""

    dump: str
    op: str
    io: str
    slot: int
    timestamp: int
    spec: TensorSpec = TensorSpec()


@dataclass(frozen=True, slots=True)
class DumpPlan:
    """One dump file that is to be written, and the arrays that go into it."""

    name: str
    arrays: tuple[tuple[ArrayName, Path], ...]


def fitting_names(kind: str | None) -> str:
    """Return what the names of arrays have to look like, for a sentence."""
    if kind is None:
        return f"{_ORIGINAL} or {_DEVICE}"
    return _ORIGINAL if KINDS[kind] else _DEVICE


def array_name(name: str, kind: str | None) -> ArrayName | None:
    """Read the name of an array.

    Parameters
    ----------
    name : str
        A file name without its directory.
    kind : str, optional
        One of `KINDS`; ``None`` when the name is to tell: what is no device's becomes a ``.pb``.

    Returns
    -------
    ArrayName or None
        ``None`` when the name has another form.

    Examples
    --------
    >>> array_name("conv1.0.1600000000000001.npy", "quant").dump
    'conv1.0.1600000000000001.quant'
    >>> array_name("Conv2D.conv1.3.1600000000000001.0.npy", None)[:4]
    ('Conv2D.conv1.3.1600000000000001', 'conv1', 'output', 0)
    """
    if not name.endswith(_ARRAY) or name.startswith("."):
        return None
    if kind is None:
        return _of_device(name) or _of_original(name, KINDS["tf"])
    return _of_original(name, KINDS[kind]) if KINDS[kind] else _of_device(name)


def _of_original(name: str, suffix: str) -> ArrayName | None:
    parsed = parse_reference(name)
    if parsed is None or len(str(parsed.slot)) > _MOST_DIGITS:
        return None
    # The file's own name keeps zeros in front of its numbers.
    return ArrayName(name.removesuffix(_ARRAY) + suffix, parsed.op, "output", 0, parsed.timestamp)


def _of_device(name: str) -> ArrayName | None:
    dumped = parse_mindspore(name)
    if dumped:
        fields = (dumped.op_type, dumped.op, dumped.task, dumped.stream, dumped.timestamp)
        return ArrayName(".".join(map(str, fields)), dumped.op, dumped.io, dumped.slot, dumped.timestamp, dumped.spec)
    converted = parse_converted(name)
    if converted:
        dump, spec = converted.dump, TensorSpec(memory_format=converted.memory_format)
        file = name.rpartition(f".{converted.io}.")[0]
        return ArrayName(file, dump.op, converted.io, converted.slot, dump.timestamp, spec)
    file, _, index = name.removesuffix(_ARRAY).rpartition(".")
    slot, parsed = number(index), parse_ascend(file)
    if slot is None or parsed is None or len(index) > _MOST_DIGITS:
        return None
    return ArrayName(file, parsed.op, "output", slot, parsed.timestamp)


def plan_dumps(files: Mapping[str, Path], kind: str | None) -> tuple[Sequence[DumpPlan], Sequence[str]]:
    """Find out which dump files arrays become.

    Parameters
    ----------
    files : mapping
        An array's name, as it was before a file system shortened it → the file.
    kind : str, optional
        As of `array_name`.

    Returns
    -------
    plans
        By name of the dump file. None of them was `checked`.
    others
        Names that have another form, sorted.
    """
    found: defaultdict[str, list[tuple[ArrayName, Path]]] = defaultdict(list)
    others = []
    for name in sorted(files):
        parsed = array_name(name, kind)
        if parsed is None:
            others.append(name)
        else:
            found[parsed.dump].append((parsed, files[name]))
    return [DumpPlan(name, tuple(sorted(found[name], key=_place))) for name in sorted(found)], others


def _place(entry: tuple[ArrayName, Path]) -> tuple[str, int, str]:
    parsed, path = entry
    return parsed.io, parsed.slot, path.name


def checked(plan: DumpPlan) -> DumpPlan:
    """Return a plan whose arrays can be numbered by their place, as a dump file does.

    Raises
    ------
    MsdumpError
        An input or output is not there, or there twice.
    """
    for io in ("input", "output"):
        own = [(parsed.slot, path) for parsed, path in plan.arrays if parsed.io == io]
        for place, (slot, path) in enumerate(own):
            if slot < place:
                raise MsdumpError(
                    f"{own[place - 1][1].name} and {path.name} are both {io} {slot} of {plan.name}; leave one in"
                )
            if slot > place:
                raise MsdumpError(
                    f"{io} {place} of {plan.name} is not there, but {path.name} is; a dump file numbers its tensors by "
                    "their place: give all of them"
                )
    return plan


def array_file(dump: str, io: str, slot: int, *, outputs: int) -> str:
    """Return the name of the array that a tensor of a dump file becomes; the file's whole name stays in it.

    Parameters
    ----------
    dump : str
        Name of the dump file.
    io, slot
        Which tensor.
    outputs : int
        How many outputs the file has. The only one of an original model's is the one whose index its name tells.

    Examples
    --------
    >>> array_file("Pooling.pool1.1147.1589195081588018", "output", 0, outputs=1)
    'Pooling.pool1.1147.1589195081588018.output.0.npy'
    >>> array_file("conv1.0.1600000000000001.pb", "output", 0, outputs=1)
    'conv1.0.1600000000000001.npy'
    """
    original = parse_protobuf(dump)
    if original is None or io != "output":
        return f"{dump}.{io}.{slot}{_ARRAY}"
    if outputs > 1:
        return original._replace(slot=slot).filename
    stem, _, suffix = dump.rpartition(".")
    return f"{stem}{_ARRAY}" if f".{suffix}" in PROTOBUF_SUFFIXES else f"{dump}{_ARRAY}"

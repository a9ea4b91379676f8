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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.errors import MsdumpError
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.readers.ascend_names import parse_ascend, parse_converted
from pytest_msdump.readers.filename import number, parse_mindspore, parse_reference

__all__ = ["KINDS", "ArrayName", "DumpPlan", "Source", "array_name", "checked", "fitting_names", "plan_dumps"]

# Kind → what its dump files end in; those of a device have no ending.
KINDS = {"caffe": ".pb", "tf": ".pb", "quant": ".quant", "offline": "", "sim": ""}

_ARRAY = ".npy"
# A number of more digits is a time.
_MOST_DIGITS = 9
_ORIGINAL, _DEVICE = "OP.INDEX.TIME.npy", "OP_TYPE.OP.TASK[.STREAM].TIME[.output].INDEX.npy"


class ArrayName(NamedTuple):
    """The dump file that an array belongs to, and which of its tensors it is."""

    dump: str
    op: str
    io: str
    slot: int
    timestamp: int


class Source(NamedTuple):
    """A tensor that goes into a dump file, the name of its file as it was before it was shortened, and where to."""

    ref: TensorRef
    name: str
    folder: Path = Path()


@dataclass(frozen=True, slots=True)
class DumpPlan:
    """One dump file that is to be written: its path below the output folder, and its tensors in order."""

    path: Path
    parts: tuple[tuple[ArrayName, Source], ...]


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
    >>> array_name("Conv2D.conv1.3.1600000000000001.0.npy", None)
    ArrayName(dump='Conv2D.conv1.3.1600000000000001', op='conv1', io='output', slot=0, timestamp=1600000000000001)
    """
    # A mapping.csv may say anything; a name never leads out of the output folder.
    if not name.endswith(_ARRAY) or name.startswith(".") or "/" in name:
        return None
    if kind is None:
        return _of_device(name) or _of_original(name, KINDS["tf"])
    return _of_original(name, KINDS[kind]) if KINDS[kind] else _of_device(name)


def _of_original(name: str, suffix: str) -> ArrayName | None:
    parsed = parse_reference(name)
    if parsed is None or len(name.split(".")[-3]) > _MOST_DIGITS:
        return None
    # The file's own name keeps zeros in front of its numbers.
    return ArrayName(name.removesuffix(_ARRAY) + suffix, parsed.op, "output", 0, parsed.timestamp or 0)


def _of_device(name: str) -> ArrayName | None:
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


def plan_dumps(sources: Iterable[Source], kind: str | None) -> tuple[Sequence[DumpPlan], Sequence[str]]:
    """Find out which dump files tensors become.

    Parameters
    ----------
    sources : iterable of Source
        Tensors of arrays; without a kind of dump files, too, which stay files of their names.
    kind : str, optional
        As of `array_name`.

    Returns
    -------
    plans
        By path. None of them was `checked`.
    others
        Names that have another form, sorted.
    """
    found: defaultdict[Path, list[tuple[ArrayName, Source]]] = defaultdict(list)
    others = []
    for source in sources:
        parsed = array_name(source.name, kind)
        if kind is None and not source.name.endswith(_ARRAY):
            parsed = _of_dump(source)
        if parsed is None:
            others.append(source.name)
        else:
            found[source.folder / parsed.dump].append((parsed, source))
    return [DumpPlan(path, tuple(sorted(found[path], key=_place))) for path in sorted(found)], sorted(others)


def _of_dump(source: Source) -> ArrayName:
    key = source.ref.key
    return ArrayName(source.name, key.op.name, key.io, key.slot, source.ref.source.timestamp or 0)


def _place(entry: tuple[ArrayName, Source]) -> tuple[str, int, str]:
    parsed, source = entry
    return parsed.io, parsed.slot, source.name


def checked(plan: DumpPlan) -> DumpPlan:
    """Return a plan whose tensors can be numbered by their place, as a dump file does.

    Raises
    ------
    MsdumpError
        An input or output is not there, or there twice.
    """
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
    return plan

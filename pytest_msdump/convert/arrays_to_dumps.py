"""Tensors of any dump into dump files of a device; what one file lacks does not stop the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.convert.dump_files import DumpTensor, data_type_number, memory_format_number, write_dump
from pytest_msdump.convert.formats import Relabelled, brought
from pytest_msdump.dumps.file_names import number, parse_ascend, parse_converted, parse_mindspore, parse_reference
from pytest_msdump.errors import MsdumpError, TensorFileError, TensorShapeError
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS, may_be_padded
from pytest_msdump.layouts.blocks import format_name
from pytest_msdump.layouts.converters import Converters
from pytest_msdump.layouts.device_layout import check_fits
from pytest_msdump.model.tensor import TensorRef, TensorView

__all__ = [
    "KINDS",
    "DumpPlan",
    "Said",
    "Source",
    "array_name",
    "fitting_names",
    "plan_dumps",
    "write_planned",
]

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


# -- Tensors of any dump into dump files of a device -----------------------------------------------------------------


Shape = tuple[int, ...]
Open = Callable[[TensorRef], TensorView]


@dataclass(frozen=True, slots=True)
class Said:
    """What a caller says of tensors; it wins over what their files say.

    Parameters
    ----------
    dtype : str, optional
        What the elements are where the npy type is only how they are stored (bfloat16, float8 kinds, int4 …).
    memory_format : str, optional
        What the axes are; nothing is moved. ``ND`` where nobody says.
    shape : tuple of int, optional
        The logical shape of tensors in a padded format, for the header's `original_shape`.
    groups : int, optional
        Of a convolution, for weights.
    wanted : str, optional
        The memory format to bring tensors to; as they are by default.
    converters : mapping
        A user's functions, which win over ours on that way.

    Raises
    ------
    ConfigError
        A dump cannot say this data type or memory format.
    """

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


NOTHING_SAID = Said()


def write_planned(plan: DumpPlan, out: Path, open_view: Open, *, said: Said = NOTHING_SAID) -> Path:
    """Write one dump file.

    Parameters
    ----------
    plan : DumpPlan
        What goes into it.
    out : Path
        The output folder. A file of the same name is replaced.
    open_view : callable
        Opens a tensor in its stored axes.
    said : Said
        What the tensors are.

    Raises
    ------
    MsdumpError
        A tensor is not there, cannot be read, or is not what is said of it; the file is not written at all.
    """
    path = out / plan.path
    first, source = checked(plan).parts[0]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MsdumpError(f"{path.parent}: cannot be made: {error.strerror or error}") from error
    with ExitStack() as opened:
        tensors = []
        for parsed, one in plan.parts:
            tensor = _tensor(parsed, one, open_view, said)
            opened.callback(tensor.view.close)
            tensors.append(tensor)
        op_name = source.ref.key.op.true_name or first.op
        return write_dump(path, tensors, op_name=op_name, dump_time=first.timestamp)


def _tensor(parsed: ArrayName, source: Source, open_view: Open, said: Said) -> DumpTensor:
    dtype = said.dtype or source.ref.spec.dtype
    view = _opened(source.ref, dtype, open_view)
    try:
        name = said.memory_format or view.spec.memory_format or "ND"
        groups = said.groups or view.spec.groups
        shape = said.shape or _told(view, name)
        if said.wanted is not None:
            view, shape = _moved(view, name, shape, said)
            name = said.wanted
        original = _original_shape(view, name, shape, groups)
        return DumpTensor(view, parsed.io, dtype or view.dtype, name, original, groups)
    except BaseException:
        view.close()
        raise


def _moved(view: TensorView, name: str, shape: Shape | None, said: Said) -> tuple[TensorView, Shape | None]:
    """Bring a tensor to another memory format; return its logical shape, too, as far as it is known."""
    wanted = said.wanted or name
    told = said.memory_format is not None or said.groups is not None
    labelled = Relabelled(view, name, said.groups) if told else view
    moved = brought(labelled, wanted, shape=said.shape, converters=said.converters)
    if not may_be_padded(wanted):
        return moved, moved.shape
    return moved, shape if may_be_padded(name) else view.shape


def _opened(ref: TensorRef, dtype: str | None, open_view: Open) -> TensorView:
    """Open a tensor as what it is said to be; where it is stored as another type of number, as that."""
    try:
        return open_view(replace(ref, spec=replace(ref.spec, dtype=dtype)))
    except TensorFileError:
        if dtype is None:
            raise
        return open_view(replace(ref, spec=replace(ref.spec, dtype=None)))


def _told(view: TensorView, name: str) -> Shape | None:
    """Return the logical shape that a tensor's file gives beside its stored one."""
    told = view.spec.logical_shape
    return None if told == view.shape and may_be_padded(name) else told


def _original_shape(view: TensorView, name: str, shape: Shape | None, groups: int) -> Shape | None:
    """Return the logical shape, when the stored one can hold it."""
    known, where = format_name(name), f"{name} of shape {view.shape}"
    row = MEMORY_FORMATS.get(known or "")
    if known is None or row is None or not may_be_padded(known):
        if shape is not None and prod(shape) != view.size:
            raise TensorShapeError(f"{where} is no tensor of shape {shape}: it has {view.size} elements")
        return shape
    if "..." not in row.stored and len(row.stored) != len(view.shape):
        raise TensorShapeError(
            f"{where}: {known} has {len(row.stored)} stored axes; name what the axes of the array are, or nothing"
        )
    if shape is not None and view.size:
        check_fits(replace(view.spec, memory_format=known, shape=view.shape, logical_shape=shape, groups=groups))
    return shape

"""Tensors of any dump into dump files of a device: which file each belongs to, and writing the files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.convert.dump_files import DumpTensor, data_type_number, memory_format_number, write_dump
from pytest_msdump.convert.formats import Relabelled, bring
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
    "Overrides",
    "Source",
    "array_name",
    "fitting_names",
    "plan_dumps",
    "write_planned",
]

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


class Source(NamedTuple):
    """A tensor for a dump file, the name of its own file before it was shortened, and the folder to write to."""

    ref: TensorRef
    name: str
    folder: Path = Path()


@dataclass(frozen=True, slots=True)
class DumpPlan:
    """One dump file to write: its path below the output folder, and its tensors in order."""

    path: Path
    parts: tuple[tuple[ArrayName, Source], ...]


def fitting_names(kind: str | None) -> str:
    """Return the form that names of arrays must have, for messages."""
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
        One of `KINDS`; by default the name decides: what is no device's becomes a ``.pb``.

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
    # The file's name keeps leading zeros of its numbers.
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
    """Return the dump files that tensors become, by path, and the names that have another form.

    `kind` is as for `array_name`. Without one, tensors of dump files are taken, too, and keep the names of their files.
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
    """Return a plan whose tensors can be numbered by their place, as a dump file does; refuse gaps and doubles."""
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


# -- Writing them ----------------------------------------------------------------------------------------------------


Shape = tuple[int, ...]
Open = Callable[[TensorRef], TensorView]


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a caller says of tensors; it wins over what their files say.

    Parameters
    ----------
    dtype : str, optional
        Of the elements, where the npy type is only how they are stored (bfloat16, float8 kinds, int4 …).
    memory_format : str, optional
        What the axes are, ``ND`` by default; nothing is moved.
    shape : tuple of int, optional
        Logical shape of tensors in a padded format, for the header's `original_shape`.
    groups : int, optional
        Of a convolution, for weights.
    wanted : str, optional
        The memory format to bring tensors to; by default they stay as they are.
    converters : mapping
        A user's functions, which win over ours.

    Raises
    ------
    ConfigError
        A dump has no number for this data type or memory format.
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


NO_OVERRIDES = Overrides()


def write_planned(plan: DumpPlan, out: Path, open_view: Open, *, overrides: Overrides = NO_OVERRIDES) -> Path:
    """Write one dump file below `out`, whole or not at all; `open_view` opens a tensor in its stored axes."""
    path = out / plan.path
    first, source = checked(plan).parts[0]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MsdumpError(f"{path.parent}: cannot be made: {error.strerror or error}") from error
    with ExitStack() as opened:
        tensors = []
        for parsed, one in plan.parts:
            tensor = _tensor(parsed, one, open_view, overrides)
            opened.callback(tensor.view.close)
            tensors.append(tensor)
        op_name = source.ref.key.op.true_name or first.op
        return write_dump(path, tensors, op_name=op_name, dump_time=first.timestamp)


def _tensor(parsed: ArrayName, source: Source, open_view: Open, overrides: Overrides) -> DumpTensor:
    dtype = overrides.dtype or source.ref.spec.dtype
    view = _opened(source.ref, dtype, open_view)
    try:
        name = overrides.memory_format or view.spec.memory_format or "ND"
        groups = overrides.groups or view.spec.groups
        shape = overrides.shape or _logical_shape(view, name)
        if overrides.wanted is not None:
            view, shape = _moved(view, name, shape, overrides)
            name = overrides.wanted
        original = _original_shape(view, name, shape, groups)
        return DumpTensor(view, parsed.io, dtype or view.dtype, name, original, groups)
    except BaseException:
        view.close()
        raise


def _moved(view: TensorView, name: str, shape: Shape | None, overrides: Overrides) -> tuple[TensorView, Shape | None]:
    """Bring a tensor to another memory format; return it and its logical shape, as far as that is known."""
    wanted = overrides.wanted or name
    is_said = overrides.memory_format is not None or overrides.groups is not None
    labelled = Relabelled(view, name, overrides.groups) if is_said else view
    moved = bring(labelled, wanted, shape=overrides.shape, converters=overrides.converters)
    if not may_be_padded(wanted):
        return moved, moved.shape
    return moved, shape if may_be_padded(name) else view.shape


def _opened(ref: TensorRef, dtype: str | None, open_view: Open) -> TensorView:
    """Open a tensor as a type; where it is stored as another one, as that."""
    try:
        return open_view(replace(ref, spec=replace(ref.spec, dtype=dtype)))
    except TensorFileError:
        if dtype is None:
            raise
        return open_view(replace(ref, spec=replace(ref.spec, dtype=None)))


def _logical_shape(view: TensorView, name: str) -> Shape | None:
    """Return the logical shape that a tensor's file gives beside its stored one."""
    shape = view.spec.logical_shape
    return None if shape == view.shape and may_be_padded(name) else shape


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

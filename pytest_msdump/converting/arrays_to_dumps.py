"""Tensors of any dump into dump files of a device; what one file lacks does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from pytest_msdump.converting.dump_files import DumpTensor, write_dump
from pytest_msdump.converting.dump_header import data_type_number, memory_format_number
from pytest_msdump.converting.dump_names import ArrayName, DumpPlan, Source, checked
from pytest_msdump.converting.formats import Relabelled, brought
from pytest_msdump.errors import MsdumpError, TensorFileError, TensorShapeError
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.blocks import format_name
from pytest_msdump.memory_formats.custom import Converters
from pytest_msdump.memory_formats.stored import check_fits, is_device_format
from pytest_msdump.model.tensor import TensorRef, TensorView

__all__ = ["NOTHING_SAID", "Said", "write_planned"]

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
    if not is_device_format(wanted):
        return moved, moved.shape
    return moved, shape if is_device_format(name) else view.shape


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
    return None if told == view.shape and is_device_format(name) else told


def _original_shape(view: TensorView, name: str, shape: Shape | None, groups: int) -> Shape | None:
    """Return the logical shape, when the stored one can hold it."""
    known, where = format_name(name), f"{name} of shape {view.shape}"
    row = MEMORY_FORMATS.get(known or "")
    if known is None or row is None or not is_device_format(known):
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

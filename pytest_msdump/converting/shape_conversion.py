"""One tensor of a dump, from the memory format it is stored in to another one.

Every pair that the rows of `facts.memory_formats` give goes through the logical axes: stored → logical → stored. What
is read from blocks is cropped to the shape that the header or the caller tells. NC1HWC0 to an order of four axes keeps
whole blocks of channels, as the vendor's script does: its name tells the shape, so that scripts look for that one.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_msdump.converting.array_files import ArrayView
from pytest_msdump.errors import TensorShapeError, UnknownNameError, nearest
from pytest_msdump.facts.dtypes import DTYPES
from pytest_msdump.facts.dump_proto import MEMORY_FORMATS as DUMP_FORMATS
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.blocks import format_name
from pytest_msdump.memory_formats.custom import Converters
from pytest_msdump.memory_formats.held import held
from pytest_msdump.memory_formats.stored import NAMELESS, completed, is_device_format, logical, target
from pytest_msdump.memory_formats.storing import stored
from pytest_msdump.model.tensor import TensorView

__all__ = ["brought_to", "known_format", "source_format"]

Shape = tuple[int, ...]

_BLOCKED_CHANNELS = "NC1HWC0"
# A matrix has no axes with names; the vendor says these are its as well.
_ALSO_MATRICES = frozenset({"NCHW", "NHWC"})
# How the command line of the vendor's script spells what headers have otherwise.
_SPELLED = {"LOOKUP_": "HASHTABLE_LOOKUP_", "DECONV_SP": "FRACTAL_DECONV_SP"}
_GROUPED = "FRACTAL_Z"
_BYTE_BITS, _BYTE_BLOCK = 8, 32


def known_format(name: str) -> str:
    """Return a memory format as `facts.memory_formats` spells it, or else as headers do.

    Raises
    ------
    UnknownNameError
        For one that neither knows.

    Examples
    --------
    >>> known_format("FracZ"), known_format("LOOKUP_KEYS")
    ('FRACTAL_Z', 'HASHTABLE_LOOKUP_KEYS')
    """
    upper = name.strip().upper()
    for short, long in _SPELLED.items():
        upper = long + upper.removeprefix(short) if upper.startswith(short) else upper
    known = format_name(upper) if upper else None
    if known is not None:
        return known
    if upper not in DUMP_FORMATS.values():
        raise UnknownNameError(f"unknown memory format '{name}'; {nearest(upper, DUMP_FORMATS.values())}")
    return upper


def source_format(view: TensorView) -> str:
    """Return what a tensor is stored in. An order of four axes over another number of them says nothing: that is ND."""
    name = format_name(view.spec.memory_format) or str(view.spec.memory_format).upper()
    row = MEMORY_FORMATS.get(name)
    if row is not None and not is_device_format(name) and len(row.axes) != len(view.shape):
        return "ND"
    return name


def brought_to(
    view: TensorView, memory_format: str, *, shape: Shape | None = None, converters: Converters | None = None
) -> TensorView:
    """Bring a tensor to another memory format.

    Parameters
    ----------
    view : TensorView
        In stored axes; its `spec` names the memory format.
    memory_format : str
        Where to, in any spelling that `known_format` knows.
    shape : tuple of int, optional
        The logical one; the header's by default. Its axes are in the order asked for where the stored shape can hold
        them so, else in the usual ones.
    converters : mapping, optional
        (from, to) → a user's function; it wins over ours and may return any shape.

    Returns
    -------
    TensorView
        The view itself when the format is the same. Formats without blocks are read lazily.

    Raises
    ------
    UnknownNameError
        For a format that does not exist.
    TensorShapeError
        The two formats do not lead to each other, the shapes contradict each other, or nothing tells the logical one.
    """
    source, wanted = source_format(view), known_format(memory_format)
    told = shape or view.spec.logical_shape
    function = (converters or {}).get((source, wanted))
    if function is not None:
        arguments = [list(view.shape), list(told or ()), held(view).read(0, view.size)]
        if wanted.startswith(_GROUPED):
            arguments.append(view.spec.groups)
        return ArrayView(function(*arguments))
    if source == wanted:
        return view
    for name in (source, wanted):
        if name not in MEMORY_FORMATS:
            raise TensorShapeError(
                f"{source} to {wanted}: {_no_conversion(source, wanted, f'no row tells what {name} is')}"
            )
    found, letters = _logical(view, source, wanted, told)
    return _stored(found, letters, source, wanted)


def _no_conversion(source: str, wanted: str, why: str) -> TensorShapeError:
    return TensorShapeError(
        f"{source} to {wanted}: {why}; write format_convert/convert_{source}_to_{wanted}.py and name the folder above"
    )


def _logical(view: TensorView, source: str, wanted: str, told: Shape | None) -> tuple[TensorView, str]:
    """Return a tensor without blocks, and the letters of its axes; none where they have no names."""
    row = MEMORY_FORMATS[source]
    if not is_device_format(source):
        return view, "" if row.axes in NAMELESS else source
    if row.axes in NAMELESS:
        if told is None:
            raise _shape_missing(view, source)
        return logical(view, logical_shape=told), ""
    whole = _whole_blocks(view, source)
    if whole is not None and (told is None or (source == _BLOCKED_CHANNELS and wanted in _orders(4))):
        told, letters = whole, row.axes
    elif told is None:
        raise _shape_missing(view, source)
    else:
        told, letters = _order(view, wanted, told)
    return logical(view, logical_shape=told, logical_format=letters), letters


def _orders(axes: int) -> frozenset[str]:
    """The formats that are nothing but an order of so many axes."""
    return frozenset(
        name for name, row in MEMORY_FORMATS.items() if len(row.axes) == axes and not is_device_format(name)
    )


def _order(view: TensorView, wanted: str, told: Shape) -> tuple[Shape, str]:
    """Find out what the axes of a logical shape are."""
    shape, letters = target(replace(view.spec, logical_shape=told), rule_format=wanted, rule_shape=None)
    return (told, letters) if letters is not None else completed(shape or told, None)


def _whole_blocks(view: TensorView, source: str) -> Shape | None:
    """Return the logical shape with all that is in blocks; ``None`` where the stored axes do not tell it."""
    row = MEMORY_FORMATS[source]
    if any(len(entry.split()) > 1 for entry in row.stored) or len(row.stored) != len(view.shape):
        return None
    lengths = dict(zip(row.stored, view.shape, strict=True))
    return tuple(lengths[axis] if axis in lengths else lengths[f"{axis}1"] * lengths[f"{axis}0"] for axis in row.axes)


def _shape_missing(view: TensorView, source: str) -> TensorShapeError:
    return TensorShapeError(
        f"{source} of stored shape {view.shape} is padded, and its header does not tell its logical shape: give it, "
        "e.g. -shape 37,21"
    )


def _stored(view: TensorView, letters: str, source: str, wanted: str) -> TensorView:
    row = MEMORY_FORMATS[wanted]
    if wanted == "ND" or (not letters and wanted in _ALSO_MATRICES and is_device_format(source)):
        return view
    if sorted(letters) != sorted("NCHW" if row.axes == "NCS" else row.axes) and row.axes not in NAMELESS:
        why = f"axes {letters or 'without names'} are not {row.axes}"
        raise _no_conversion(source, wanted, why)
    if not is_device_format(wanted):
        axes = tuple(letters.index(axis) for axis in wanted)
        return view if axes == tuple(range(len(axes))) else view.permuted(axes)
    values = held(view).read(0, view.size).reshape(view.shape)
    order = "" if row.axes in NAMELESS else letters
    block = _block(view, source, wanted)
    return ArrayView(
        stored(values, wanted, logical_format=order, c0=block, groups=view.spec.groups), view.dtype, wanted
    )


def _block(view: TensorView, source: str, wanted: str) -> int | None:
    """Return the length of a block of channels: that of the source, else what a device takes; ``None``: the usual."""
    if wanted.endswith("C04"):
        return None
    if is_device_format(source) and not source.endswith("C04") and view.spec.shape:
        return view.spec.shape[-1]
    return _BYTE_BLOCK if DTYPES[view.dtype].bits == _BYTE_BITS else None

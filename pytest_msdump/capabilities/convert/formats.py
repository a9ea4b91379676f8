"""Brings a tensor as it was stored to another memory format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pytest_msdump.capabilities.ascend.dump_proto import MEMORY_FORMATS as DUMP_FORMATS
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import TensorShapeError, UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS, may_be_padded
from pytest_msdump.core.layouts.axes import FORMATS, ReshapedView
from pytest_msdump.core.layouts.blocks import format_name, held
from pytest_msdump.core.layouts.converters import Converters
from pytest_msdump.core.layouts.device_layout import NAMELESS, logical, stored, target
from pytest_msdump.core.model.tensor import ForwardingView, TensorSpec, TensorView

Shape = tuple[int, ...]

# A tensor that is brought to a device's format is in memory as a whole, some three times.
_MOST_BYTES_HELD = 2**32
# Where height and width are one stored axis.
_SPATIAL = {"NCS": "NCHW"}


# Blocks of four channels whatever the type; the others have 32 of one byte each, 16 of wider ones.
_SMALL = "C04"
# Formats whose converters get the groups of a convolution, too.
_GROUPED = "FRACTAL_Z"
_NUMBERS = "biufc"
_BYTE_BITS, _BYTE_BLOCK = 8, 32


# A tensor without padding, and what its axes are; ``None`` where that is unknown.
_Named = tuple[TensorView, str | None]


class Relabelled(ForwardingView):
    """A tensor whose memory format, or groups, are not those that its file says."""

    def __init__(self, view: TensorView, memory_format: str, groups: int | None = None) -> None:
        super().__init__(view)
        # A shape that the file gives beside its own would be that of another format.
        spec = replace(view.spec, shape=view.shape, memory_format=memory_format, logical_shape=None)
        self._spec = spec if groups is None else replace(spec, groups=groups)

    @property
    def spec(self) -> TensorSpec:
        """The file's, except for the memory format."""
        return self._spec


def known_format(name: str, *, flag: str) -> str:
    """Return the name of a memory format as the tables have it; for an unknown one, the error names `flag`."""
    known = format_name(name)
    if known is None or not name.strip():
        raise UnknownNameError(f"{flag}: unknown memory format '{name}'; {nearest(name.upper(), MEMORY_FORMATS)}")
    return known


def bring(
    view: TensorView, wanted: str, *, shape: Shape | None = None, converters: Converters | None = None
) -> TensorView:
    """Bring a tensor to a memory format; plain formats are read block by block."""
    spec = view.spec
    known = format_name(spec.memory_format)
    own = _by_user(view, known or str(spec.memory_format).upper(), wanted, shape, converters or {})
    if own is not None:
        return own
    if known is None:
        raise TensorShapeError(
            f"memory format {spec.memory_format} has no conversion that is known here; write one, convert_X_to_Y.py, "
            "and name its folder with --code"
        )
    row = MEMORY_FORMATS[known]
    if not may_be_padded(known) and row.axes and len(view.shape) != len(row.axes):
        if wanted == "ND":
            return _shaped(view, shape or _logical_shape(spec))
        raise TensorShapeError(f"shape {view.shape} has {len(view.shape)} axes, which are not those of {known}")
    if known == wanted:
        return view if may_be_padded(known) else _shaped(view, shape or _logical_shape(spec))
    if may_be_padded(wanted):
        return _to_device(_named(view, known, shape, wanted), wanted, spec.groups, _block(spec, known, wanted))
    found = _in_order(_named(view, known, shape, wanted), known, wanted)
    if shape is not None and found.shape != shape:
        raise TensorShapeError(f"the tensor has shape {found.shape}, --shape says {shape}")
    return found


def _by_user(
    view: TensorView, known: str, wanted: str, shape: Shape | None, converters: Mapping[tuple[str, str], Any]
) -> TensorView | None:
    """Convert by a user's function, which gets both shapes and all values, flat in stored order."""
    function = converters.get((known, wanted))
    if function is None:
        return None
    whole = view.read(0, view.size).copy()
    to = shape or _logical_shape(view.spec) or ()
    arguments: list[Any] = [view.shape, to, whole]
    if wanted.startswith(_GROUPED):
        arguments.append(view.spec.groups)
    values = function(*arguments)
    if values.dtype.kind not in _NUMBERS:
        raise TensorShapeError(f"the conversion of {known} to {wanted} returned {values.dtype}, not numbers")
    if to and values.ndim == len(to) and not may_be_padded(wanted):
        values = values[tuple(slice(length) for length in to)]
    same = values.dtype == whole.dtype
    return Relabelled(ArrayView(values, view.dtype if same else None), wanted)


def _logical_shape(spec: TensorSpec) -> Shape | None:
    shape = spec.logical_shape
    return None if shape == spec.shape and may_be_padded(spec.memory_format) else shape


def _named(view: TensorView, known: str, shape: Shape | None, wanted: str) -> _Named:
    """Undo the memory format, and name the axes that are left."""
    row = MEMORY_FORMATS[known]
    if known == "ND":
        return view, None
    if not may_be_padded(known):
        return view, "".join(row.stored)
    axes = _SPATIAL.get(row.axes, row.axes)
    letters: str | None = None
    if shape is not None:
        order = "".join(MEMORY_FORMATS[wanted].stored)
        letters = order if sorted(order) == sorted(axes) and len(order) == len(shape) else None
    elif _logical_shape(view.spec) is not None:
        shape, letters = target(view.spec, rule_format=None, rule_shape=None)
    else:
        shape, letters = _with_padding(view, known), axes
    if row.axes in NAMELESS:
        letters = None
    elif letters is None and shape is not None and len(shape) == len(axes):
        letters = axes
    return logical(view, logical_shape=shape, logical_format=letters), letters


def _with_padding(view: TensorView, known: str) -> Shape:
    """Return the shape with all channels of the last block, where the stored axes alone say it."""
    row = MEMORY_FORMATS[known]
    if row.axes in NAMELESS or len(view.shape) != len(row.stored) or any(" " in entry for entry in row.stored):
        raise TensorShapeError(
            f"{known} of stored shape {view.shape} is padded, and its logical shape is unknown; give it with --shape"
        )
    lengths = zip(row.stored, view.shape, strict=True)
    pieces = [(entry[0], length) for entry, length in lengths]
    return tuple(prod(length for letter, length in pieces if letter == axis) for axis in row.axes)


def _in_order(named: _Named, known: str, wanted: str) -> TensorView:
    view, letters = named
    if wanted == "ND" or (letters is None and known != "ND"):
        # A matrix has no letters: it is the same in every order.
        return view
    order = "".join(MEMORY_FORMATS[wanted].stored)
    if letters is None:
        raise TensorShapeError(
            f"{known} does not say what its axes are, so it cannot be brought to {wanted}; name them with --from-format"
        )
    if sorted(letters) != sorted(order):
        raise TensorShapeError(f"{known} has the axes {letters}, {wanted} was asked for")
    return view if letters == order else view.permuted(tuple(letters.index(letter) for letter in order))


def _shaped(view: TensorView, shape: Shape | None) -> TensorView:
    """Give a tensor whose axes stay as they are another shape with as many elements."""
    if shape is None or shape == view.shape:
        return view
    if prod(shape) != view.size:
        raise TensorShapeError(f"shape {view.shape} has {view.size} elements, shape {shape} has {prod(shape)}")
    return ReshapedView(view, shape)


def _block(spec: TensorSpec, known: str, wanted: str) -> int | None:
    """Return the length of a block of channels: the source's, else the device's for the type; ``None``: the usual."""
    if wanted.endswith(_SMALL):
        return None
    if may_be_padded(known) and not known.endswith(_SMALL) and spec.shape:
        return spec.shape[-1]
    return _BYTE_BLOCK if DTYPES[spec.dtype or ""].bits == _BYTE_BITS else None


def _to_device(named: _Named, wanted: str, groups: int, block: int | None) -> TensorView:
    view, letters = named
    axes = MEMORY_FORMATS[wanted].axes
    if axes not in NAMELESS and letters is None:
        raise TensorShapeError(
            f"nothing says what the axes of shape {view.shape} are, so it cannot be brought to {wanted}; name them "
            "with --from-format"
        )
    if view.size * 16 > _MOST_BYTES_HELD:
        raise TensorShapeError(f"shape {view.shape} is too large to be brought to {wanted}, which is done in memory")
    array = view.read(0, view.size).reshape(view.shape)
    done = stored(array, wanted, logical_format="" if axes in NAMELESS else letters or "", groups=groups, c0=block)
    return Relabelled(ArrayView(np.ascontiguousarray(done), view.dtype), wanted)


# -- As the vendor's script for shapes does it -----------------------------------------------------------------------

_KEEPS_CHANNELS = "NC1HWC0"
# Names on the command line of the vendor's script → in headers.
_LONG_NAMES = {"LOOKUP_": "HASHTABLE_LOOKUP_", "DECONV_SP": "FRACTAL_DECONV_SP"}


class Converted(NamedTuple):
    """A tensor in another memory format, and the names of both; `with_padding` when channels kept theirs."""

    view: TensorView
    source: str
    wanted: str
    with_padding: bool = False


def header_format(name: str) -> str:
    """Return a memory format as `facts.memory_formats` spells it, or else as headers do."""
    upper = _long_name(name.strip().upper())
    known = format_name(upper) if upper else None
    if known is None and upper not in DUMP_FORMATS.values():
        raise UnknownNameError(f"unknown memory format '{name}'; {nearest(upper, DUMP_FORMATS.values())}")
    return known or upper


def convert_shape(
    view: TensorView, memory_format: str, *, shape: Shape | None = None, converters: Converters | None = None
) -> Converted:
    """Bring a tensor to another memory format, in any spelling that `header_format` knows."""
    source, wanted = _source(view), header_format(memory_format)
    functions = {(_long_name(one), _long_name(other)): run for (one, other), run in (converters or {}).items()}
    by_user = functions.get((source, wanted))
    if by_user is not None:
        arguments = [list(view.shape), list(shape or view.spec.logical_shape or ()), held(view).read(0, view.size)]
        if wanted.startswith(_GROUPED):
            arguments.append(view.spec.groups)
        values = by_user(*arguments)
        if values.dtype.kind not in _NUMBERS:
            raise TensorShapeError(f"the conversion of {source} to {wanted} returned {values.dtype}, not numbers")
        return Converted(ArrayView(values), source, wanted)
    if wanted in (source, format_name(view.spec.memory_format)):
        return Converted(view, wanted, wanted)
    for name in (source, wanted):
        if name not in MEMORY_FORMATS:
            raise TensorShapeError(
                f"{source} to {wanted}: how {name} lies in memory is not known; write "
                f"format_convert/convert_{source}_to_{wanted}.py and name the folder above"
            )
    if source == _KEEPS_CHANNELS and wanted in FORMATS and shape is None:
        moved = bring(Relabelled(view, source), wanted)
        logical_shape = view.spec.logical_shape
        is_padded = logical_shape is not None and sorted(logical_shape) != sorted(moved.shape)
        return Converted(moved, source, wanted, is_padded)
    return Converted(bring(view, wanted, shape=shape), source, wanted)


def _source(view: TensorView) -> str:
    """Return the format that a tensor is stored in; ND where its number of axes is not that of its format."""
    name = format_name(view.spec.memory_format) or str(view.spec.memory_format).upper()
    row = MEMORY_FORMATS.get(name)
    if row is not None and not may_be_padded(name) and len(row.axes) != len(view.shape):
        return "ND"
    return name


def _long_name(name: str) -> str:
    for short, long in _LONG_NAMES.items():
        name = long + name.removeprefix(short) if name.startswith(short) else name
    return name

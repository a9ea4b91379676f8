"""One tensor of a dump, from the memory format it is stored in to another one, as the vendor's script has it.

What differs from `formats.brought`: NC1HWC0 to an order of four axes keeps whole blocks of channels, since the script
does and tells the shape in the file's name; and what a user's function returns is taken as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_msdump.converting.array_files import ArrayView
from pytest_msdump.converting.formats import Relabelled, brought
from pytest_msdump.errors import TensorShapeError, UnknownNameError, nearest
from pytest_msdump.facts.dump_proto import MEMORY_FORMATS as DUMP_FORMATS
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.axes import FORMATS
from pytest_msdump.memory_formats.blocks import format_name
from pytest_msdump.memory_formats.custom import Converters
from pytest_msdump.memory_formats.held import held
from pytest_msdump.memory_formats.stored import is_device_format
from pytest_msdump.model.tensor import TensorView

__all__ = ["Converted", "convert_shape", "known_format"]

Shape = tuple[int, ...]

_KEEPS_CHANNELS = "NC1HWC0"
# How the command line of the vendor's script spells what headers have otherwise.
_SPELLED = {"LOOKUP_": "HASHTABLE_LOOKUP_", "DECONV_SP": "FRACTAL_DECONV_SP"}
_GROUPED = "FRACTAL_Z"
_NUMBERS = "biufc"


class Converted(NamedTuple):
    """A tensor in another memory format, and the names of both; `with_padding` when channels kept theirs."""

    view: TensorView
    source: str
    wanted: str
    with_padding: bool = False


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
    upper = _long_name(name.strip().upper())
    known = format_name(upper) if upper else None
    if known is None and upper not in DUMP_FORMATS.values():
        raise UnknownNameError(f"unknown memory format '{name}'; {nearest(upper, DUMP_FORMATS.values())}")
    return known or upper


def convert_shape(
    view: TensorView, memory_format: str, *, shape: Shape | None = None, converters: Converters | None = None
) -> Converted:
    """Bring a tensor to another memory format.

    Parameters
    ----------
    view : TensorView
        In stored axes; its `spec` names the memory format.
    memory_format : str
        Where to, in any spelling that `known_format` knows.
    shape : tuple of int, optional
        The logical one, in the order of `memory_format`; the header's by default.
    converters : mapping, optional
        (from, to) → a user's function; it wins over ours and may return any shape.

    Returns
    -------
    Converted
        With the view itself when the format is the same.

    Raises
    ------
    UnknownNameError
        For a format that does not exist.
    TensorShapeError
        The two formats do not lead to each other, the shapes contradict each other, or nothing tells the logical one.
    """
    source, wanted = _source(view), known_format(memory_format)
    by_user = _spelled_by_user(converters or {}).get((source, wanted))
    if by_user is not None:
        arguments = [list(view.shape), list(shape or view.spec.logical_shape or ()), held(view).read(0, view.size)]
        if wanted.startswith(_GROUPED):
            arguments.append(view.spec.groups)
        values = by_user(*arguments)
        if values.dtype.kind not in _NUMBERS:
            raise TensorShapeError(f"the conversion of {source} to {wanted} returned {values.dtype}: no numbers")
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
        moved = brought(Relabelled(view, source), wanted)
        told = view.spec.logical_shape
        return Converted(moved, source, wanted, told is not None and sorted(told) != sorted(moved.shape))
    return Converted(brought(view, wanted, shape=shape), source, wanted)


def _source(view: TensorView) -> str:
    """Name what a tensor is stored in. An order of axes over another number of them says nothing: that is ND."""
    name = format_name(view.spec.memory_format) or str(view.spec.memory_format).upper()
    row = MEMORY_FORMATS.get(name)
    if row is not None and not is_device_format(name) and len(row.axes) != len(view.shape):
        return "ND"
    return name


def _spelled_by_user(converters: Converters) -> Converters:
    """Read the formats in the names of a user's files as those on the command line."""
    return {(_long_name(source), _long_name(wanted)): run for (source, wanted), run in converters.items()}


def _long_name(name: str) -> str:
    for short, long in _SPELLED.items():
        name = long + name.removeprefix(short) if name.startswith(short) else name
    return name

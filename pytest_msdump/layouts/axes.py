"""Bring the right side of a pair to the left's shape, or say what would.

The order is that of `model.pairing.Transform`: axis orders of 4-D tensors, then `transpose`, then `reshape`. What none
of these explains is an error; its sentence names the line of TOML that would explain it, if there is one.
"""

from __future__ import annotations

import inspect
import re
import runpy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import factorial, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.errors import ConfigError, TensorShapeError, UnknownNameError, nearest
from pytest_msdump.layouts.blocks import HeldView, format_name, held
from pytest_msdump.model.pairing import Transform
from pytest_msdump.model.tensor import ForwardingView, TensorSpec, TensorView
from pytest_msdump.text import Message, Parameter

__all__ = [
    "FORMATS",
    "Converters",
    "ReshapedView",
    "axes_to_nchw",
    "converted",
    "explain_shapes",
    "known_axes",
    "load_converters",
    "meet",
]

if TYPE_CHECKING:
    pass


FORMATS = ("NCHW", "NHWC", "HWCN", "CHWN")

# Which permutation to name first when dimensions repeat and several fit: channels last to channels first, and back.
_USUAL = (
    (1, 0),
    (2, 0, 1),
    (1, 2, 0),
    (0, 3, 1, 2),
    (0, 2, 3, 1),
    (3, 2, 0, 1),
    (0, 4, 1, 2, 3),
    (0, 2, 3, 4, 1),
)

Shape = tuple[int, ...]


@lru_cache(maxsize=256)
def known_axes(name: str) -> tuple[int, ...] | None:
    """Return the axes that bring a 4-D tensor of this axis order to NCHW, as `numpy.transpose` takes them.

    Returns
    -------
    tuple of int or None
        ``None`` for an axis order that is not in `FORMATS` (any case).

    Examples
    --------
    >>> known_axes("NHWC"), known_axes("NC1HWC0")
    ((0, 3, 1, 2), None)
    """
    letters = name.upper()
    return tuple(letters.index(axis) for axis in "NCHW") if letters in FORMATS else None


def axes_to_nchw(name: str) -> tuple[int, ...]:
    """Return what `known_axes` does, for a name that a user has written.

    Raises
    ------
    UnknownNameError
        (a `ConfigError`) when the axis order is not known.
    """
    axes = known_axes(name)
    if axes is None:
        raise UnknownNameError(f"unknown axis order '{name}' of 4-D tensors; {nearest(name.upper(), FORMATS)}")
    return axes


class ReshapedView(ForwardingView):
    """The values of a view, in C order, under another shape (a `model.tensor.TensorView`)."""

    def __init__(self, view: TensorView, shape: Shape) -> None:
        if prod(shape) != view.size:
            raise TensorShapeError(f"{view.shape} holds {_elements(view.shape)} and cannot be reshaped to {shape}")
        super().__init__(view)
        self._shape = shape

    @property
    def spec(self) -> TensorSpec:
        """What the file holds, with the new logical shape."""
        return replace(self._view.spec, logical_shape=self._shape)

    @property
    def shape(self) -> Shape:
        """The new shape."""
        return self._shape

    def permuted(self, axes: tuple[int, ...]) -> TensorView:
        """Refuse any but the identity: formats and `transpose` come before `reshape`.

        Raises
        ------
        TensorShapeError
            When `axes` would move anything.
        """
        if axes == tuple(range(len(self._shape))):
            return self
        raise TensorShapeError(f"axes {list(axes)} after a reshape to {self._shape}; transpose first, then reshape")


def meet(left: TensorView, right: TensorView, transform: Transform) -> tuple[TensorView, TensorView]:
    """Bring two tensors to one logical shape; reads no data.

    A side's axis order that differs from the other's is brought to NCHW (4-D tensors only; where only one side's is
    given, the other is NCHW). Then `transpose` and `reshape` act on the right side.

    Parameters
    ----------
    left, right : TensorView
        Both sides as they were opened. The views returned share their files.
    transform : Transform
        What the suite file says of this pair.

    Returns
    -------
    tuple of TensorView
        Left and right, of equal shape.

    Raises
    ------
    TensorShapeError
        When the shapes still differ, or `transpose` does not fit the right side.
    ConfigError
        For an axis order that is not known.
    """
    left_format = (transform.left_format or "NCHW").upper()
    right_format = (transform.right_format or "NCHW").upper()
    left_axes, right_axes = axes_to_nchw(left_format), axes_to_nchw(right_format)
    if left_format != right_format:
        left, right = _to_nchw(left, left_axes), _to_nchw(right, right_axes)
    applied = _permutation(transform.transpose, right.shape)
    if applied is not None:
        right = right.permuted(applied)
    if transform.reshape and left.shape != right.shape and left.size == right.size:
        right = ReshapedView(right, left.shape)
    if left.shape != right.shape:
        raise TensorShapeError(explain_shapes(left.shape, right.shape, applied=applied))
    return left, right


def _to_nchw(view: TensorView, axes: tuple[int, ...]) -> TensorView:
    if len(view.shape) != len(axes) or axes == tuple(range(len(axes))):
        return view
    return view.permuted(axes)


def _permutation(axes: tuple[int, ...] | None, shape: Shape) -> tuple[int, ...] | None:
    """Return `axes` without negative ones, for a tensor of this shape."""
    if axes is None:
        return None
    rank = len(shape)
    counted = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if sorted(counted) != list(range(rank)):
        raise TensorShapeError(
            f"`transpose = {list(axes)}` does not permute the right side's {rank} axes {shape}; "
            f"name each of 0 to {rank - 1} once"
            if rank
            else f"`transpose = {list(axes)}` on a right side without axes; leave it out"
        )
    return counted


def explain_shapes(left_shape: Shape, right_shape: Shape, *, applied: tuple[int, ...] | None = None) -> Message:
    """Say why two shapes differ, and which line of TOML would bring them together.

    Parameters
    ----------
    left_shape, right_shape : tuple of int
        Two shapes that are not equal.
    applied : tuple of int, optional
        The `transpose` that made `right_shape`; the line proposed takes its place.

    Returns
    -------
    Message
        Without the names of the tensors.

    Examples
    --------
    >>> explain_shapes((2, 3, 8, 5), (2, 8, 5, 3)).code
    'dimensions_reordered'
    """
    both: dict[str, Parameter] = {"left": left_shape, "right": right_shape}
    counts = prod(left_shape), prod(right_shape)
    if counts[0] != counts[1]:
        return Message("element_counts_differ", {**both, "n": counts[0], "m": counts[1]})
    if sorted(left_shape) == sorted(right_shape):
        return Message("dimensions_reordered", {**both, "remedy": _transposes(left_shape, right_shape, applied)})
    if _long(left_shape) == _long(right_shape):
        return Message("unit_axes_differ", both)
    return Message("grouped_differently", {**both, "n": counts[0]})


def _transposes(left: Shape, right: Shape, applied: tuple[int, ...] | None) -> Message:
    """Name the TOML line(s) for shapes of equal dimensions in another order."""
    axes = next((usual for usual in _USUAL if _fits(usual, left, right)), None) or _first_fit(left, right)
    message = Message("transpose_once", {"axes": axes})
    if applied is not None:
        line = tuple(applied[axis] for axis in axes)
        message = Message("transpose_instead", {"axes": line, "applied": applied})
    if _long(left) == _long(right):
        return Message("transpose_or_reshape", {"why": message})
    if prod(factorial(count) for length, count in Counter(left).items() if length != 1) > 1:
        return Message("other_orders_fit", {"why": message})
    return message


def _fits(axes: tuple[int, ...], left: Shape, right: Shape) -> bool:
    return len(axes) == len(left) and tuple(right[axis] for axis in axes) == left


def _first_fit(left: Shape, right: Shape) -> tuple[int, ...]:
    """Give each left axis the first unused right axis of its length."""
    unused = list(range(len(right)))
    axes = []
    for length in left:
        axis = next(axis for axis in unused if right[axis] == length)
        unused.remove(axis)
        axes.append(axis)
    return tuple(axes)


def _long(shape: Shape) -> Shape:
    return tuple(length for length in shape if length != 1)


def _elements(shape: Shape) -> str:
    count = prod(shape)
    return "1 element" if count == 1 else f"{count} elements"


# -- A user's own conversions ----------------------------------------------------------------------------------------


Converters = Mapping[tuple[str, str], Callable[..., Any]]

_FOLDER = "format_convert"
_NAME = re.compile(r"convert_([A-Za-z0-9_]+?)_to_([A-Za-z0-9_]+)\.py")
_GROUPED = "to_FRACTAL_Z"
_MOST_FILES, _MOST_BYTES, _DEEPEST = 1000, 2**20, 50


def check_code_folder(directory: Path) -> None:
    """Refuse a folder of a user's code that cannot be one.

    Raises
    ------
    ConfigError
        It is not there, has more than 1000 files, one of 1 MiB or more, or folders deeper than 50 levels.
    """
    if not directory.is_dir():
        raise ConfigError(f"{directory}: there is no such folder; name the one above {_FOLDER} and algorithm")
    for count, path in enumerate(directory.rglob("*"), 1):
        if count > _MOST_FILES or len(path.relative_to(directory).parts) > _DEEPEST:
            raise ConfigError(
                f"{directory}: more than {_MOST_FILES} files, or deeper than {_DEEPEST} levels; is it the right folder?"
            )
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path}: is a pipe or a device; take it out of {directory}")
        if path.is_file() and path.stat().st_size >= _MOST_BYTES:
            raise ConfigError(f"{path}: a file of 1 MiB or more beside code; is {directory} the right folder?")


def load_converters(directory: Path) -> tuple[Converters, tuple[Path, ...]]:
    """Load the conversions below a folder that the command line named. Runs their code.

    Parameters
    ----------
    directory : Path
        The folder above ``format_convert``.

    Returns
    -------
    converters, files
        By (from, to), as `facts.memory_formats` spells them where it knows them; and the files that ran.

    Raises
    ------
    ConfigError
        A file cannot be run, lies outside of `directory`, or has no function ``convert`` of 3 parameters (4 when it
        converts to FRACTAL_Z).
    """
    check_code_folder(directory)
    root = directory.resolve()
    found: dict[tuple[str, str], Callable[..., Any]] = {}
    files = []
    for path in sorted((directory / _FOLDER).glob("*.py")):
        match = _NAME.fullmatch(path.name)
        if match:
            if not path.resolve().is_relative_to(root):
                raise ConfigError(f"{path}: leads out of {directory}; only files within the folder you named are run")
            found[_spelled(match[1]), _spelled(match[2])] = _function(path)
            files.append(path)
    return found, tuple(files)


def _spelled(name: str) -> str:
    return format_name(name) or name.upper()


def _function(path: Path) -> Callable[..., Any]:
    try:
        function = runpy.run_path(str(path)).get("convert")
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{path}: cannot be run: {type(error).__name__}: {error}") from error
    wanted = 4 if _GROUPED in path.name else 3
    if not inspect.isfunction(function) or len(inspect.signature(function).parameters) != wanted:
        raise ConfigError(f"{path}: needs a function convert of exactly {wanted} parameters")

    def run(*arguments: Any) -> Any:
        try:
            values = function(*arguments)
        except (Exception, SystemExit) as error:
            raise TensorShapeError(f"{path} raised {type(error).__name__}: {error}") from error
        if not isinstance(values, np.ndarray):
            raise TensorShapeError(f"{path} returned a {type(values).__name__}, not an array")
        return values

    return run


def converted(
    view: TensorView, stored: str, shape: tuple[int, ...] | None, letters: str | None, converters: Converters
) -> TensorView | None:
    """Convert a tensor by a user's function; ``None`` where there is none for this pair of formats.

    The function gets the stored shape, the logical one and all values at once, decoded, in stored order; what it
    returns may still have padding behind each axis.

    Raises
    ------
    TensorShapeError
        The function raised, or what it returned does not hold the logical shape.
    """
    wanted = (letters or "ND").upper()
    function = converters.get((stored.upper(), wanted))
    if function is None or shape is None:
        return None
    whole = held(view).read(0, view.size)
    arguments: list[Any] = [view.shape, shape, whole]
    if _GROUPED in f"to_{wanted}":
        arguments.append(view.spec.groups)
    values: npt.NDArray[Any] = function(*arguments)
    if values.ndim == len(shape):
        values = values[tuple(slice(length) for length in shape)]
    if values.shape != shape:
        raise TensorShapeError(
            f"the conversion of {stored} to {wanted} returned shape {values.shape}, where {shape} was asked for"
        )
    if not np.can_cast(values.dtype, whole.dtype, "same_kind"):
        raise TensorShapeError(
            f"the conversion of {stored} to {wanted} returned {values.dtype}, which cannot stand for {whole.dtype}"
        )
    return HeldView(values.astype(whole.dtype, copy=False), view.spec, view)

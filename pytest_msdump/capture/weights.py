"""Weights across frameworks: read, save, load into another model, and check that two sides hold the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capture import weight_files
from pytest_msdump.capture.weight_pairs import NameMap, WeightPair, pairs
from pytest_msdump.capture.weight_rules import FRAMEWORKS
from pytest_msdump.capture.weight_sources import Weight, Weights, framework_of, holders, of_mapping, of_model
from pytest_msdump.capture.weight_writing import assign, fitted
from pytest_msdump.errors import ConfigError, UnknownNameError, nearest

__all__ = ["assert_same_weights", "load_weights", "read_weights", "save_weights"]

_SHOWN = 8


def read_weights(source: Any, *, framework: str = "") -> Weights:
    """Read the weights of a model, a mapping or a file.

    Parameters
    ----------
    source : model, mapping of str to array, or path
        A PyTorch module, a MindSpore cell, a built Keras model; arrays by name, where ``/`` separates like ``.`` does;
        an ``.npz`` that `save_weights` or numpy wrote.
    framework : str
        Whose names and axes a mapping or numpy's own file has: ``"torch"``, ``"mindspore"``, ``"keras"`` or
        ``"tensorflow"``. By default PyTorch's.

    Returns
    -------
    dict of str to Weight
        By neutral name: that of PyTorch (``bn1.running_mean``, where MindSpore has ``bn1.moving_mean``).

    Raises
    ------
    ConfigError
        It is none of these, or the framework is unknown.
    """
    if framework not in FRAMEWORKS:
        raise UnknownNameError(f"unknown framework '{framework}'; {nearest(framework, filter(None, FRAMEWORKS))}")
    if framework_of(source):
        return of_model(source)
    if isinstance(source, str | PathLike):
        source = weight_files.load(Path(source))
    if not isinstance(source, Mapping):
        raise ConfigError(
            f"it is not known how to read weights of a {type(source).__name__}; give a model of PyTorch, MindSpore or "
            "Keras, a mapping of names to arrays, or the path of an .npz"
        )
    if all(isinstance(value, Weight) for value in source.values()):
        return dict(source)
    return of_mapping(source, framework)


def save_weights(source: Any, path: str | PathLike[str], *, framework: str = "") -> Path:
    """Write weights to an ``.npz``, bit for bit, with the types of layers; numpy can read it, too.

    Parameters
    ----------
    source, framework
        As of `read_weights`.
    path : path
        The file, which is replaced whole or not at all.

    Raises
    ------
    ConfigError
        As `read_weights`; it cannot be written.
    """
    return weight_files.save(read_weights(source, framework=framework), Path(path))


def load_weights(
    model: Any,
    source: Any,
    *,
    map: NameMap | None = None,  # noqa: A002 - the word of the suite file
    types: Mapping[str, str] | None = None,
    ignore: str | Sequence[str] = (),
    framework: str = "",
    cast: bool = False,
) -> list[str]:
    """Give a model the weights of another one, of any framework. All of them, or none when one does not fit.

    Parameters
    ----------
    model : model
        A PyTorch module, a MindSpore cell or a built Keras model.
    source, framework
        As of `read_weights`.
    map : mapping or callable, optional
        Name in `model` → name in `source`: of weights, or of layers, which then stand for all below them. Names that
        are the same need none, and ``gamma`` and ``weight`` are.
    types : mapping of str to str, optional
        Layer of `model` → its type (``"Dense"``), where neither side tells it: whether a square matrix is to be turned
        is never guessed.
    ignore : str or sequence of str
        Globs on names, of either side, that need no partner.
    cast : bool
        Whether numbers may be rounded to the type that the model has.

    Returns
    -------
    list of str
        The names in `model` of what was loaded.

    Raises
    ------
    ConfigError
        Names without a partner, shapes that do not fit, layers of different types, numbers that would be rounded.
    """
    if not framework_of(model):
        raise ConfigError(f"a {type(model).__name__} is no model of PyTorch, MindSpore or Keras to load weights into")
    found = pairs(of_model(model), read_weights(source, framework=framework), names=map, types=types, ignore=ignore)
    values = {pair.name: fitted(pair, cast=cast) for pair in found}
    held = holders(model)
    for name, array in values.items():
        assign(framework_of(model), held[name].tensor, array)
    return list(values)


def assert_same_weights(
    left: Any,
    right: Any,
    *,
    map: NameMap | None = None,  # noqa: A002 - the word of the suite file
    types: Mapping[str, str] | None = None,
    ignore: str | Sequence[str] = (),
    framework: str = "",
) -> None:
    """Assert that two sides hold the same numbers, whatever their types, names and axes.

    Parameters
    ----------
    left, right : model, mapping of str to array, or path
        As `source` of `read_weights`; `framework` is of those that do not tell it.
    map, types, ignore
        As of `load_weights`.

    Raises
    ------
    AssertionError
        A weight differs, or has no partner.
    ConfigError
        A side that cannot be read; a map or types with names that are not there.
    """
    __tracebackhide__ = True
    sides = [read_weights(side, framework=framework) for side in (left, right)]
    try:
        found = pairs(sides[0], sides[1], names=map, types=types, ignore=ignore)
    except UnknownNameError:
        raise
    except ConfigError as error:
        raise AssertionError(str(error)) from error
    lines = [line for pair in found if (line := _difference(pair))]
    if lines:
        more = f"\n  … and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise AssertionError(f"{len(lines)} of {len(found)} weights differ\n  " + "\n  ".join(lines[:_SHOWN]) + more)


def _difference(pair: WeightPair) -> str:
    """What differs between two weights, in a line; empty when nothing does."""
    left: npt.NDArray[Any] = pair.left.numbers()
    right: npt.NDArray[Any] = pair.right_as_left(pair.right.numbers())
    differs = (left != right) & ~((left != left) & (right != right))
    if not differs.any():
        return ""
    first = tuple(int(axis) for axis in np.argwhere(differs)[0])
    return (
        f"{pair.name} ↔ {pair.right_name}: {int(differs.sum())} of {left.size} elements, the first at {first}: "
        f"{left[first]} and {right[first]}"
    )

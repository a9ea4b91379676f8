"""A user's own conversions between memory formats: files ``format_convert/convert_X_to_Y.py``."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pytest_msdump.core.errors import ConfigError, TensorShapeError
from pytest_msdump.core.layouts.blocks import HeldView, format_name
from pytest_msdump.core.model.tensor import TensorView

# (from, to), as `facts.memory_formats` spells them where it knows them.
Converters: TypeAlias = Mapping[tuple[str, str], Callable[..., Any]]

_FOLDER = "format_convert"
_NAME = re.compile(r"convert_([A-Za-z0-9_]+?)_to_([A-Za-z0-9_]+)\.py")
_GROUPED = "to_FRACTAL_Z"
_MOST_FILES, _MOST_BYTES, _DEEPEST = 1000, 2**20, 50


def _check_code_folder(directory: Path) -> None:
    """Refuse a folder that is not there, or too large to be a folder of code."""
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
    """Load the conversions in ``format_convert`` below a folder that the command line named; runs their code."""
    _check_code_folder(directory)
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
    """Run a file and return its function. What is wrong with it is raised where it is used, and nowhere else."""
    function: Any = None
    problem = "needs a function convert(shape_from, shape_to, array)"
    try:
        function = runpy.run_path(str(path)).get("convert")
    except (Exception, SystemExit) as error:
        problem = f"cannot be run: {type(error).__name__}: {error}"

    def run(*arguments: Any) -> Any:
        # The number of groups comes last, and only newer tools give it.
        for given in (arguments, arguments[:3]) if inspect.isfunction(function) else ():
            with suppress(TypeError):
                inspect.signature(function).bind(*given)
                break
        else:
            raise TensorShapeError(f"{path}: {problem}")
        try:
            values = function(*given)
        except (Exception, SystemExit) as error:
            raise TensorShapeError(f"{path} raised {type(error).__name__}: {error}") from error
        if not isinstance(values, np.ndarray):
            raise TensorShapeError(f"{path} returned a {type(values).__name__}, not an array")
        return values

    return run


def converted(
    view: TensorView, stored: str, shape: tuple[int, ...] | None, letters: str | None, converters: Converters
) -> TensorView | None:
    """Convert a tensor by a user's function; ``None`` where there is none for this pair of formats."""
    wanted = (letters or "ND").upper()
    function = converters.get((stored.upper(), wanted))
    if function is None or shape is None:
        return None
    # A copy: the view may read into the same buffer again, and a user's function may write into its arguments.
    whole = view.read(0, view.size).copy()
    groups = [view.spec.groups] if _GROUPED in f"to_{wanted}" else []
    values = function(view.shape, shape, whole, *groups)
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
    return HeldView(values.astype(whole.dtype, copy=False), view)

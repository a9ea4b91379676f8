"""Writes down the call of a function for a process of its own: where the function is, and its arguments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pytest_msdump.errors import ConfigError

__all__ = ["written_call"]

_ARRAY = "npy"
_JSON = "json"


def written_call(
    function: Callable[..., object],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    folder: Path,
    *,
    with_path: bool,
) -> Path:
    """Write the call to `folder`, for `capture.launched` to do; arrays go to files of their own.

    Parameters
    ----------
    function : callable
        At the top level of a module that has a file.
    args, kwargs
        What JSON can say, paths (as text) and numpy arrays.
    folder : Path
        Where to write to.
    with_path : bool
        Whether the process looks for modules where this one does.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ConfigError
        A function that another process cannot find; an argument that cannot be written.
    """
    module, file = _home(function)
    call = {
        "module": module,
        "file": str(file),
        "name": function.__qualname__,
        "root": str(_root(module, file)),
        "path": [entry for entry in sys.path if entry] if with_path else [],
        "args": [_written(value, f"args[{at}]", folder / f"{at}.npy") for at, value in enumerate(args)],
        "kwargs": {name: _written(value, name, folder / f"{name}.npy") for name, value in kwargs.items()},
    }
    path = folder / "call.json"
    path.write_text(json.dumps(call), "utf-8")
    return path


def _home(function: Callable[..., object]) -> tuple[str, Path]:
    name = getattr(function, "__qualname__", None)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    found: Any = module
    for part in (name or "<none>").split("."):
        found = getattr(found, part, None)
    if module is None or not file or found is not function:
        raise ConfigError(
            f"{name or function!r}: another process cannot find this function by its name; define it at the top level "
            "of a module, or give the path of a script"
        )
    return module.__name__, Path(file).absolute()


def _root(module: str, file: Path) -> Path | str:
    """Return the folder that the module's name starts from; empty when its file is elsewhere than its name says."""
    parts = module.split(".")
    named = file.with_suffix("") if file.name != "__init__.py" else file.parent
    if module == "__main__" or list(named.parts[-len(parts) :]) != parts:
        return ""
    return named.parents[len(parts) - 1]


def _written(value: Any, title: str, file: Path) -> list[Any]:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise ConfigError(f"{title}: an array of objects cannot be given to another process")
        np.save(file, value)
        return [_ARRAY, str(file)]
    try:
        return [_JSON, json.loads(json.dumps(value, default=_as_json))]
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{title}: {type(value).__name__} cannot be given to another process; give text, numbers, lists, paths or "
            "numpy arrays"
        ) from error


def _as_json(value: Any) -> Any:
    if isinstance(value, PathLike):
        return value.__fspath__()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError

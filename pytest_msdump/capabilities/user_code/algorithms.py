"""A user's own algorithms: ``algorithm/alg_NAME.py``. They run only when their folder was named on the command line.

References
----------
Ascend "Accuracy Comparison Tool", custom algorithm files (option ``-c``).
"""

from __future__ import annotations

import inspect
import re
import runpy
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.core.compare.user_code import Extras
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.layouts.converters import load_converters
from pytest_msdump.core.model.comparison import CustomResult
from pytest_msdump.core.model.tensor import TensorView

_FOLDER = "algorithm"
_NAME = re.compile(r"alg_([A-Za-z0-9_]+)\.py", re.ASCII)
_PARAMETERS = 3
_UNDEFINED = "NaN"

# A user's code may raise anything, and may think that it is alone in the process.
_FAILURES = (Exception, SystemExit)


@dataclass(frozen=True)
class Algorithm:
    """A function that compares two arrays, and the file it came from."""

    name: str
    path: Path
    function: Callable[..., Any]

    def __call__(self, left: npt.NDArray[Any], right: npt.NDArray[Any], arguments: AlgorithmArguments) -> CustomResult:
        """Run it; whatever goes wrong in it becomes NaN and a reason, and nothing else is harmed."""
        try:
            returned = self.function(left, right, arguments)
        except _FAILURES as error:
            return CustomResult(_UNDEFINED, _writable(f"{self.path.name} raised {_what(error, self.path)}"))
        if isinstance(returned, tuple) and len(returned) == 2 and all(isinstance(part, str) for part in returned):
            return CustomResult(*map(_writable, returned))
        kinds = [type(part).__name__ for part in returned] if isinstance(returned, tuple) else type(returned).__name__
        return CustomResult(_UNDEFINED, f"{self.path.name} returned {kinds}, not two texts (value, message)")


class AlgorithmArguments:
    """What an algorithm gets beside the data, as attributes and through `get` and `get_dict`.

    `values` are `my_output_dump_file` and `ground_truth_dump_file` (paths), `shape_type` (``"scalar"``, ``"vector"``,
    ``"matrix"`` or ``"tensor"``), and what the command line passed, as text.

    Examples
    --------
    >>> arguments = AlgorithmArguments({"k": "3"})
    >>> arguments.k, arguments.get("k"), arguments.get("j"), arguments.get_dict()
    ('3', '3', None, {'k': '3'})
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"no argument {name!r} was passed; pass it with -a NAME:{name}=VALUE") from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return one of the arguments, `default` when it was not passed."""
        return self._values.get(name, default)

    def get_dict(self) -> dict[str, Any]:
        """Return all of them."""
        return dict(self._values)


def load_algorithms(directory: Path) -> dict[str, Algorithm]:
    """Load the algorithms below a folder that the command line named. Runs their code.

    `directory` is the folder above ``algorithm``, whose size was checked before. Returned are functions by name, in the
    order of their names; none when there is no such folder. ConfigError where a file cannot be run, has no function
    ``compare`` of exactly 3 positional parameters, lies outside of `directory`, or has a name that cannot be asked for.

    Each file is run by itself: it may import what is installed, not the files beside it, so that the report can name
    all that ran.
    """
    return {algorithm.name: algorithm for algorithm in _load(directory)}


def _load(directory: Path) -> Iterable[Algorithm]:
    root = directory.resolve()
    for path in sorted((directory / _FOLDER).glob("alg_*.py")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise ConfigError(f"{path}: an algorithm's name is letters, digits and _ only; rename the file")
        if match[1] in METRICS:
            raise ConfigError(f"{path}: {match[1]} is the name of a built-in metric in reports; rename the file")
        if not path.resolve().is_relative_to(root):
            raise ConfigError(f"{path}: leads out of {directory}; only files within the folder you named are run")
        yield Algorithm(match[1], path, _function(path))


def _function(path: Path) -> Callable[..., Any]:
    try:
        function = runpy.run_path(str(path)).get("compare")
    except _FAILURES as error:
        raise ConfigError(
            f"{path}: cannot be run: {_what(error, path)}; mend it, or take it out of the folder"
        ) from error
    if not callable(function) or not _takes_three(function):
        raise ConfigError(f"{path}: needs a function compare(left, right, args) of exactly {_PARAMETERS} parameters")
    found: Callable[..., Any] = function
    return found


def _takes_three(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len(parameters) == _PARAMETERS and all(parameter.kind in positional for parameter in parameters)


def run_algorithms(
    algorithms: Mapping[str, Callable[..., Any]],
    left: TensorView,
    right: TensorView,
    *,
    files: tuple[Path, Path],
    arguments: Mapping[str, Mapping[str, str]],
) -> dict[str, CustomResult]:
    """Compare two tensors of one logical shape by a user's algorithms, as `load_algorithms` returns them.

    Each gets both tensors whole, 1-D in C order of the logical shape, in arrays of its own, beside their `files` and
    the `arguments` that were passed to it. Returned are numbers by name; NaN and a reason where an algorithm failed.

    This is the one place where tensors are held whole: two arrays of at least float32 for as long as it takes. Types
    are widened so that differences of small integers and of float16 do not wrap or overflow in a user's arithmetic;
    two tensors of bools stay what they are.
    """
    if not algorithms:
        return {}
    facts = {
        "my_output_dump_file": str(files[0]),
        "ground_truth_dump_file": str(files[1]),
        "shape_type": _shape_type(left.shape),
    }
    return {
        name: _run(algorithm, (left, right), AlgorithmArguments({**arguments.get(name, {}), **facts}))
        for name, algorithm in algorithms.items()
    }


def _run(
    algorithm: Callable[..., Any], sides: tuple[TensorView, TensorView], arguments: AlgorithmArguments
) -> CustomResult:
    both_bool = all(side.dtype == "bool" for side in sides)
    try:
        found: CustomResult = algorithm(*(_whole(side, both_bool) for side in sides), arguments)
    except MemoryError:
        return CustomResult(_UNDEFINED, f"{sides[0].size} elements a side are more than memory can hold at once")
    return found


def _whole(view: TensorView, as_it_is: bool) -> npt.NDArray[Any]:
    values = view.read(0, view.size)
    wanted = values.dtype if as_it_is else np.result_type(values.dtype, np.float32)
    # A copy: what a view returns may be its own buffer, and a user's code may write into its arguments.
    return values.astype(wanted, copy=True)


def _shape_type(shape: tuple[int, ...]) -> str:
    if all(length == 1 for length in shape):
        return "scalar"
    return {1: "vector", 2: "matrix"}.get(len(shape), "tensor")


def _writable(text: str) -> str:
    """A text that any file can hold: half of a surrogate pair is written as an escape."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def _what(error: BaseException, path: Path) -> str:
    """The exception, and its line in the user's file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    where = f" in line {lines[-1]}" if lines else ""
    return f"{type(error).__name__}{where}: {error}"


def load_extras(directory: Path) -> Extras:
    """Run a user's own code in a folder that was typed, never in one of a suite file or an ini key, and return it."""
    converters, converter_files = load_converters(directory)
    algorithms = load_algorithms(directory)
    files = (*converter_files, *(algorithm.path for algorithm in algorithms.values()))
    if not files:
        raise ConfigError(
            f"{directory}: holds neither format_convert/convert_FROM_to_TO.py nor algorithm/alg_NAME.py; "
            "name the folder above format_convert and algorithm"
        )
    return Extras(converters=converters, algorithms=algorithms, files=files)

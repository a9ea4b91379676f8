"""Runs programs that dump: any command, or a MindSpore script or function with a dump configuration of its own."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pytest_msdump.capabilities.programs import launched
from pytest_msdump.capabilities.record.manifest import marked_incomplete
from pytest_msdump.capabilities.record.process import DEFAULT_TIMEOUT, Ran, checked_timeout, own_folder, run_process
from pytest_msdump.core.errors import ConfigError, ProgramError
from pytest_msdump.core.model.dump import JOURNAL_FILE
from pytest_msdump.core.ports import offered
from pytest_msdump.core.storage.files import naming, read_user_file

_LARGEST_CONFIG_BYTES = 1 << 24
# All that MindSpore takes in a path.
_PLAIN = re.compile(r"[A-Za-z0-9_/-]+")
_PUT_ASIDE = ".before_msdump"
_QUESTIONS = ("does it read the configuration that was written for it?", "was it set to dump there?")
_CONFIG, DIRECTORY = "{config}", "{directory}"


def dump_directory(directory: str | PathLike[str]) -> Path:
    """Make the directory that a run dumps to, and return its absolute path; one that is not empty is refused."""
    path = Path(directory).absolute()
    with naming(path, "cannot be written to"):
        path.mkdir(parents=True, exist_ok=True)
        # An earlier run that dumped nothing has left its journal.
        occupied = next((file for file in sorted(path.iterdir()) if file.name != JOURNAL_FILE), None)
    if occupied is not None:
        raise ConfigError(
            f"{path}: is not empty (it holds e.g. '{occupied.name}'), and two runs in one folder could be taken for "
            "one; empty it, or give another folder"
        )
    return path


def plain_path(directory: Path, folder: Path) -> Path:
    """Return a path of `directory` that MindSpore takes: itself, or a link in the run's own folder."""
    if _PLAIN.fullmatch(str(directory)):
        return directory
    if not _PLAIN.fullmatch(str(folder)):
        raise ConfigError(
            f"{directory}: MindSpore dumps only to paths of letters, digits, '-', '_' and '/', and temporary folders "
            f"({folder.parent}) have no such path either; set TMPDIR, or give another directory"
        )
    link = folder / "dump"
    link.symlink_to(directory, target_is_directory=True)
    return link


def config_document(config: Mapping[str, Any] | str | PathLike[str], name: str) -> dict[str, Any]:
    """Return a copy of a configuration that is given as its keys or as a file; `name` is the argument, for errors."""
    if isinstance(config, Mapping):
        try:
            return _object(json.loads(json.dumps(dict(config), allow_nan=False)), name)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"{name}: cannot be written as JSON: {error}") from error
    path = Path(config)
    try:
        content = read_user_file(path, _LARGEST_CONFIG_BYTES, want="give a dump configuration, or its keys")
        return _object(json.loads(content), str(path))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not JSON: {error}") from error


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: a dump configuration is a JSON object of sections")
    return value


@contextmanager
def written_config(document: Mapping[str, Any], file: Path) -> Iterator[Path]:
    """Write a configuration for as long as a run takes; a file that was there before is put back."""
    aside = file.with_name(file.name + _PUT_ASIDE)
    if os.path.lexists(aside):
        raise ConfigError(
            f"{aside}: a run that was broken off left this, which is what {file.name} was before; rename it back first"
        )
    was_there = os.path.lexists(file)
    with naming(file):
        if was_there:
            file.rename(aside)
    try:
        with naming(file):
            file.write_text(json.dumps(document, indent=4) + "\n", "utf-8")
        yield file
    finally:
        with naming(file):
            file.unlink(missing_ok=True)
            if was_there:
                aside.rename(file)


def run_program(
    command: Sequence[str | PathLike[str]],
    directory: str | PathLike[str],
    *,
    acl_json: Mapping[str, Any] | str | PathLike[str] | None = None,
    dump_config: Mapping[str, Any] | str | PathLike[str] | None = None,
    config_file: str | PathLike[str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    show: Callable[[str], object] | None = None,
) -> Ran:
    """Run a program that dumps to `directory`.

    Parameters
    ----------
    command : sequence of str or path
        The program and its arguments; no shell is involved. ``{config}`` and ``{directory}`` in an argument stand for
        the configuration that is written and the directory to dump to.
    directory : path
        An empty folder, or one that will be made.
    acl_json : mapping or path, optional
        An ``acl.json``, as its keys or as a file. Its ``dump_path`` becomes `directory`.
    dump_config : mapping or path, optional
        A ``data_dump.json`` likewise; the program gets it as ``MINDSPORE_DUMP_CONFIG``.
    config_file : path, optional
        Where the program looks for its configuration by itself, relative to `cwd`. A file that is there is put aside
        while the program runs, and put back. By default a temporary file.
    timeout : float
        Seconds that the program may take.
    cwd : path, optional
        Where it runs; here by default.
    env : mapping of str to str, optional
        Variables beside those of this process.
    show : callable, optional
        Gets each piece of what the program prints; ``sys.stdout.write`` by default.

    Raises
    ------
    ConfigError
        The program cannot be started; no valid configuration; a directory that is not empty.
    ProgramError
        It failed or did not end in time; the text has the end of what it printed.
    """
    if isinstance(command, str) or not command:
        raise ConfigError(f"command is {command!r}; give a list, the program first: ['./main', '--steps', '3']")
    if acl_json is not None and dump_config is not None:
        raise ConfigError("give acl_json or dump_config, not both: a program reads one of them")
    if config_file is not None and acl_json is None and dump_config is None:
        raise ConfigError("config_file says where a configuration is written; give acl_json or dump_config too")
    limit = checked_timeout(timeout)
    argument, section, key = (
        ("dump_config", "common_dump_settings", "path") if acl_json is None else ("acl_json", "dump", "dump_path")
    )
    given = dump_config if acl_json is None else acl_json
    document = None if given is None else config_document(given, argument)
    path = dump_directory(directory)
    with own_folder() as folder:
        if document is not None:
            settings = document.setdefault(section, {})
            if not isinstance(settings, dict):
                raise ConfigError(f"{argument}: '{section}' is an object of keys")
            settings[key] = str(plain_path(path, folder) if acl_json is None else path)
        name = "acl.json" if acl_json is not None else "data_dump.json"
        file = Path(cwd or ".", config_file).absolute() if config_file is not None else folder / name
        words = [os.fspath(word).replace(_CONFIG, str(file)).replace(DIRECTORY, str(path)) for word in command]
        own = {"MINDSPORE_DUMP_CONFIG": str(file)} if dump_config is not None else {}
        with marked_incomplete(path), nullcontext() if document is None else written_config(document, file):
            return run_process(
                words,
                title=Path(words[0]).name,
                directory=path,
                timeout=limit,
                environment=variables(folder, own, env),
                cwd=cwd,
                question=_QUESTIONS[document is None],
                show=show,
            )


def variables(folder: Path, own: Mapping[str, str], env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables of a run: this process's, ours, the user's; its temporary files go to `folder`."""
    temporary = folder / "tmp"
    temporary.mkdir()
    return {**os.environ, "TMPDIR": str(temporary), **own, **(env or {})}


_QUESTION = (
    "does it run its network in graph mode or under ms.jit, in the iterations that are asked for, and do the kernels "
    "name operators? PyNative cells are recorded through hooks: give the cell itself"
)
_ABSENT = re.compile(r"No module named '?mindspore'?")


def run_mindspore(
    target: str | PathLike[str] | Callable[..., object],
    directory: str | PathLike[str],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    mode: str = "cpu",
    net: str = "Net",
    iteration: str = "all",
    kernels: Sequence[str] = (),
    outputs_only: bool = False,
    dump_config: Mapping[str, Any] | str | PathLike[str] | None = None,
    python: str | PathLike[str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Run a script, or a function of a module, that trains or runs a network in graph mode or under ``ms.jit``.

    Parameters
    ----------
    target : path or callable
        A script, or a function that a module has at its top level.
    directory : path
        An empty folder, or one that will be made.
    args : sequence
        The script's arguments, as text; or the function's: what JSON can say, paths and numpy arrays.
    kwargs : mapping, optional
        The function's named arguments, likewise.
    mode : str
        How the network runs, a name of `facts.config_keys.MODES`.
    net, iteration, kernels, outputs_only
        What is dumped; see `configs.new.new_config`.
    dump_config : mapping or path, optional
        A ``data_dump.json`` instead, as its keys or as a file. Its ``path`` becomes `directory`.
    python : path, optional
        The interpreter that has MindSpore; this one by default.
    timeout : float
        Seconds that it may take.
    cwd : path, optional
        Where it runs; here by default.
    env : mapping of str to str, optional
        Variables beside those of this process.

    Raises
    ------
    ConfigError
        No script or function that can be run; a configuration that MindSpore would refuse; MindSpore is not installed;
        a directory that is not empty.
    ProgramError
        It failed or did not end in time; the text has the end of what it printed.
    """
    configurations = offered("configurations")
    limit, how = checked_timeout(timeout), str(configurations.checked_mode(mode))
    if dump_config is not None:
        document = config_document(dump_config, "dump_config")
    else:
        document = configurations.new_config(
            path="", net=net, mode=how, iteration=iteration, kernels=kernels, outputs_only=outputs_only
        )
    interpreter = os.fspath(python) if python is not None else sys.executable
    with own_folder() as folder:
        title, words = _command(target, args, kwargs or {}, folder, same=python is None)
        path = dump_directory(directory)
        plain = str(plain_path(path, folder))
        if isinstance(common := document.get("common_dump_settings"), dict):
            common["path"] = plain
        if refused := configurations.refusal(document, how):
            raise ConfigError(f"{refused.key}: {refused.sentence}")
        own = {
            "MINDSPORE_DUMP_CONFIG": str(folder / "data_dump.json"),
            **({"ENABLE_MS_GE_DUMP": "1"} if how == "ge" else {}),
            # A crash in the framework and a hang say where they are; what was printed is not lost with the process.
            "PYTHONFAULTHANDLER": "1",
            "PYTHONUNBUFFERED": "1",
        }
        with (
            marked_incomplete(path),
            written_config(document, folder / "data_dump.json"),
            _naming_extra(interpreter),
        ):
            return run_process(
                [interpreter, *words],
                title=title,
                directory=path,
                timeout=limit,
                environment=variables(folder, own, env),
                cwd=cwd,
                question=_QUESTION,
                prints_where=True,
            )


@contextmanager
def _naming_extra(interpreter: str) -> Iterator[None]:
    """Say what to install where the program failed because MindSpore is missing."""
    try:
        yield
    except ProgramError as error:
        if _ABSENT.search(str(error)):
            raise ConfigError(
                f"MindSpore is not installed for {interpreter}: pip install 'pytest-msdump[mindspore]', or name the "
                "interpreter that has it with python=…"
            ) from error
        raise


def _command(
    target: str | PathLike[str] | Callable[..., object],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    folder: Path,
    *,
    same: bool,
) -> tuple[str, list[str]]:
    """Return what errors call the target, and the arguments of the interpreter."""
    if callable(target):
        call = _write_call(target, args, kwargs, folder, with_path=same)
        return f"{target.__qualname__}()", [str(launched.__file__), str(call)]
    script = Path(target).absolute()
    if not script.is_file():
        raise ConfigError(f"{target}: no such script")
    if kwargs:
        raise ConfigError(f"{script.name}: a script takes args=[…] as it would from the command line, no kwargs")
    wrong = next((value for value in args if not isinstance(value, str | int | float | PathLike)), None)
    if wrong is not None:
        raise ConfigError(f"{script.name}: an argument of a script is text, a number or a path, not {wrong!r}")
    return script.name, [str(script), *(os.fspath(v) if isinstance(v, PathLike) else str(v) for v in args)]


def _write_call(
    function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any], folder: Path, *, with_path: bool
) -> Path:
    """Write a call for `launched`, arrays in files of their own; `with_path`: it looks for modules where this does."""
    module, file = _home(function)
    call = {
        "module": module,
        "file": str(file),
        "name": function.__qualname__,
        "root": str(_root(module, file)),
        "path": [entry for entry in sys.path if entry] if with_path else [],
        "args": [_argument(value, f"args[{at}]", folder / f"{at}.npy") for at, value in enumerate(args)],
        "kwargs": {name: _argument(value, name, folder / f"{name}.npy") for name, value in kwargs.items()},
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


def _argument(value: Any, title: str, file: Path) -> list[Any]:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise ConfigError(f"{title}: an array of objects cannot be given to another process")
        np.save(file, value)
        return ["npy", str(file)]
    try:
        return ["json", json.loads(json.dumps(value, default=_as_json))]
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

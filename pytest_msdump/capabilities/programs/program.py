"""Runs any program that dumps: writes its configuration, ends it in time, and leaves nothing of it behind."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.record.manifest import marked_incomplete
from pytest_msdump.capabilities.record.process import DEFAULT_TIMEOUT, Ran, checked_timeout, own_folder, run_process
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import JOURNAL_FILE
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

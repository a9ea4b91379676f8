"""Where a run dumps to, and the configuration that tells the program so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.model.manifest import JOURNAL_FILE
from pytest_msdump.storage.regular import read_given

__all__ = ["config_document", "dump_directory", "plain_path", "written_config"]

_LARGEST_CONFIG_BYTES = 1 << 24
# All that MindSpore takes in a path.
_PLAIN = re.compile(r"[A-Za-z0-9_/-]+")
_PUT_ASIDE = ".before_msdump"


def dump_directory(directory: str | PathLike[str]) -> Path:
    """Make the directory that a run dumps to; absolute.

    Raises
    ------
    ConfigError
        It is not empty: two runs in one folder could be taken for one.
    MsdumpError
        It cannot be made.
    """
    path = Path(directory).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        # An earlier run that dumped nothing has left its journal.
        occupied = next((file for file in sorted(path.iterdir()) if file.name != JOURNAL_FILE), None)
    except OSError as error:
        raise MsdumpError(f"{path}: cannot be written to: {error.strerror or error}") from error
    if occupied is not None:
        raise ConfigError(
            f"{path}: is not empty (it holds e.g. '{occupied.name}'), and two runs in one folder could be taken for "
            "one; empty it, or give another folder"
        )
    return path


def plain_path(directory: Path, folder: Path) -> Path:
    """Return a path of `directory` that MindSpore takes: itself, or a link in the run's own folder.

    Raises
    ------
    ConfigError
        The run's own folder has letters that MindSpore does not take either.
    """
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


def config_document(given: Mapping[str, Any] | str | PathLike[str], name: str) -> dict[str, Any]:
    """Return a copy of a configuration that is given as its keys or as a file.

    Parameters
    ----------
    given : mapping or path
        What the user gave.
    name : str
        The argument it was given as, for errors.

    Raises
    ------
    ConfigError
        No such file, no JSON, no object.
    """
    if isinstance(given, Mapping):
        try:
            return _object(json.loads(json.dumps(dict(given), allow_nan=False)), name)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"{name}: cannot be written as JSON: {error}") from error
    path = Path(given)
    try:
        content = read_given(path, _LARGEST_CONFIG_BYTES, want="give a dump configuration, or its keys")
        return _object(json.loads(content), str(path))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is no JSON: {error}") from error


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: a dump configuration is a JSON object of sections")
    return value


@contextmanager
def written_config(document: Mapping[str, Any], file: Path) -> Iterator[Path]:
    """Write a configuration for as long as a run takes; what was there before is put back.

    Raises
    ------
    ConfigError
        A broken-off run has left the file that it had put aside.
    MsdumpError
        It cannot be written.
    """
    aside = file.with_name(file.name + _PUT_ASIDE)
    if os.path.lexists(aside):
        raise ConfigError(
            f"{aside}: a run that was broken off left this, which is what {file.name} was before; rename it back first"
        )
    was_there = os.path.lexists(file)
    with _writing(file):
        if was_there:
            file.rename(aside)
    try:
        with _writing(file):
            file.write_text(json.dumps(document, indent=4) + "\n", "utf-8")
        yield file
    finally:
        with _writing(file):
            file.unlink(missing_ok=True)
            if was_there:
                aside.rename(file)


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MsdumpError(f"{file}: cannot be written: {error.strerror or error}") from error

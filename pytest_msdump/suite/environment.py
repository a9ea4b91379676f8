"""``@env``: the directory that MindSpore's own dump configuration writes to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_msdump.errors import ConfigError
from pytest_msdump.suite.documents import read_json
from pytest_msdump.suite.values import ENV

__all__ = ["dumped_path"]

_CONFIG = "MINDSPORE_DUMP_CONFIG"
_DATA = "MS_DIAGNOSTIC_DATA_PATH"


def dumped_path(environ: Mapping[str, str], directory: Path, where: str) -> Path:
    """Return where the JSON named by ``MINDSPORE_DUMP_CONFIG`` makes MindSpore dump to.

    Parameters
    ----------
    environ : Mapping
        The environment.
    directory : Path
        What a relative ``MINDSPORE_DUMP_CONFIG`` is relative to.
    where : str
        Who asked, for the messages.

    Returns
    -------
    Path
        ``common_dump_settings.path``, or ``$MS_DIAGNOSTIC_DATA_PATH/debug_dump`` where that is empty.

    Raises
    ------
    ConfigError
        If the variable is not set, its file is not such a configuration, or the path is not absolute (which MindSpore
        refuses as well).
    """
    named = environ.get(_CONFIG)
    if not named:
        raise ConfigError(
            f"{where}: {ENV} needs the variable {_CONFIG}, which is not set; set it, or name the directory"
        )
    file = directory / named
    settings = read_json(file, name=f"{where}: {ENV}: {file}")
    common = settings.get("common_dump_settings") if isinstance(settings, dict) else None
    if not isinstance(common, dict):
        raise ConfigError(f"{where}: {ENV}: {file} has no table 'common_dump_settings'; is it a dump configuration?")
    path = common.get("path", "")
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(f"{where}: {ENV}: {file}: common_dump_settings.path must be a text that can be a path")
    if path:
        return _absolute(path, f"{where}: {ENV}: {file}: common_dump_settings.path")
    if not environ.get(_DATA):
        raise ConfigError(f"{where}: {ENV}: {file} has no common_dump_settings.path, and {_DATA} is not set")
    return _absolute(environ[_DATA], f"{where}: {ENV}: {_DATA}") / "debug_dump"


def _absolute(path: str, where: str) -> Path:
    if not Path(path).is_absolute():
        raise ConfigError(f"{where} is {path!r}; MindSpore takes absolute paths only")
    return Path(path)

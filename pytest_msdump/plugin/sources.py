"""Where a session's suites come from: the command line, a suite file, `[tool.msdump]`."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import shell_line
from pytest_msdump.settings import FIXTURE_OPTIONS, OPTIONS, TELLING_OPTIONS

if TYPE_CHECKING:
    import pytest

__all__ = [
    "Source",
    "absolute",
    "argument_paths",
    "covered",
    "find_source",
    "first_paths",
    "found_files",
    "ini_values",
    "is_given",
    "is_suite_file",
    "refuse_lost_files",
]

_SUITE_FILE = "msdump.toml"
_FILES = ("ini file", "suite file", "conftest.py files")


class Source:
    """One suite: a TOML `file`, the `table` of a pyproject ("tool.msdump"), or neither: the command line alone.

    Two are equal when file and table are; what was `parsed` of it does not count.
    """

    __slots__ = ("file", "parsed", "table")

    def __init__(self, file: Path | None, table: str | None, parsed: Mapping[str, Any] | None = None) -> None:
        self.file = file
        self.table = table
        self.parsed = parsed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and (self.file, self.table) == (other.file, other.table)

    def __hash__(self) -> int:
        return hash((self.file, self.table))

    @property
    def is_suite_file(self) -> bool:
        """Whether it is a file that pytest collects, with ids that can be typed."""
        return self.file is not None and self.table is None

    @property
    def names_a_side(self) -> bool:
        """Whether it means to be a gate: a table of settings alone names neither dump."""
        return self.parsed is None or not {"left", "right"}.isdisjoint(self.parsed)

    def title(self, rootpath: Path) -> str:
        """How messages and report folders call it."""
        if self.file is None:
            return "command line"
        try:
            return self.file.relative_to(rootpath).as_posix()
        except ValueError:
            return str(self.file)


def is_suite_file(path: Path) -> bool:
    """Whether pytest collects this file as a gate. Called for every file, so it imports nothing."""
    return path.name == _SUITE_FILE or path.name.endswith(f".{_SUITE_FILE}")


def ini_values(config: pytest.Config) -> dict[str, Any]:
    """What the ini file says, by option name."""
    said = {option.name: config.getini(option.ini) for option in OPTIONS if option.ini}
    return {name: value for name, value in said.items() if value}


def find_source(config: pytest.Config, named: str | None) -> Source | None:
    """The suite that --msdump-config names, else rootdir's msdump.toml, else pyproject's [tool.msdump]."""
    if named is not None:
        file = absolute(config, named)
        # False of a name that no file can have, where `Path.exists` raises.
        if not os.path.exists(file):  # noqa: PTH110
            raise ConfigError(f"--msdump-config: there is no file {file}; give a suite file or a pyproject.toml")
        return _from_pyproject(file) if file.name == "pyproject.toml" else Source(file, None)
    return _project_suite(config.rootpath)


def _project_suite(rootdir: Path) -> Source | None:
    """The suite that is there without an option."""
    file = rootdir / _SUITE_FILE
    if file.exists():
        if not file.is_file():
            # pytest collects files alone, and would pass this one over with all that it should judge.
            raise ConfigError(f"{file}: is not a file; put the suite file there, or take it away")
        return Source(file, None)
    file = rootdir / "pyproject.toml"
    # Asked in every run of pytest, most of which are not about dumps and must not load what reads files here.
    return _from_pyproject(file) if file.is_file() and b"msdump" in file.read_bytes() else None


def _from_pyproject(file: Path) -> Source | None:
    """The table [tool.msdump], when there is one."""
    from pytest_msdump.suite import read_toml

    tool = read_toml(file).get("tool")
    table = tool.get("msdump") if isinstance(tool, Mapping) else None
    return None if table is None else Source(file, "tool.msdump", table)


def first_paths(config: pytest.Config) -> list[Path]:
    """The files and folders that collection starts from, as far as they are known before the first conftest.py."""
    directory = config.invocation_params.dir
    typed: list[str] = config.known_args_namespace.file_or_dir
    if not typed and directory == config.rootpath:
        patterns = config.getini("testpaths")
        typed = [path for one in patterns for path in glob.iglob(one, recursive=True)]  # noqa: PTH207 - as pytest does
    return [absolute(config, argument.split("::")[0]) for argument in typed] or [directory]


def refuse_lost_files(config: pytest.Config) -> None:
    """Refuse values after a space that make pytest judge by other files than it finds without them.

    pytest looks for its ini file before it knows any option of a plugin: it takes ``DIR`` of ``--msdump-left DIR`` for
    a path of tests. With ``=`` it does not.

    Raises
    ------
    ConfigError
        The ini file, the suite file or the conftest.py files differ; says what to type.
    """
    typed = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.invocation_params.args]
    words, values = _without_values(typed)
    if not values:
        return
    for what, taken, meant in zip(
        _FILES, _files_judged_by(config, typed), _files_judged_by(config, words), strict=True
    ):
        if taken != meant:
            raise ConfigError(
                f"after a space pytest takes the value of {values[0].partition('=')[0]} for a path of tests, too, and "
                f"uses {_listed(taken)} as {what} instead of {_listed(meant)}; type {shell_line(values)}"
            )


def _without_values(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into what is left without our values that follow a space, and these with ``=``."""
    flags = {flag for option in (*OPTIONS, *FIXTURE_OPTIONS, *TELLING_OPTIONS) for flag in option.flags}
    flags -= {flag for option in TELLING_OPTIONS if option.kind == "switch" for flag in option.flags}
    rest, values, waiting = list[str](), list[str](), list(words)
    while waiting and waiting[0] != "--":
        word = waiting.pop(0)
        if word in flags and waiting and not waiting[0].startswith("-"):
            values.append(f"{word}={waiting.pop(0)}")
        else:
            rest.append(word)
    return [*rest, *waiting], values


def _files_judged_by(config: pytest.Config, words: Sequence[str]) -> tuple[set[Path], set[Path], set[Path]]:
    """The ini file, the suite file and the conftest.py files that pytest takes with such a command line."""
    from inspect import signature

    # pytest offers no other way to ask, and the parameters differ between its releases.
    from _pytest.config import get_config
    from _pytest.config.findpaths import determine_setup

    bare = get_config()
    known, unknown = bare._parser.parse_known_and_unknown_args([*words], namespace=copy(bare.option))
    asked = {
        "inifile": known.inifilename,
        "override_ini": None,
        "args": [*known.file_or_dir, *unknown],
        "rootdir_cmd_arg": known.rootdir or None,
        "invocation_dir": config.invocation_params.dir,
    }
    rootdir, ini, settings, *_ = determine_setup(
        **{name: asked[name] for name in signature(determine_setup).parameters}
    )
    suite = None
    if config.known_args_namespace.msdump_config is None:
        with suppress(ConfigError):
            suite = _project_suite(rootdir)
    cut = absolute(config, known.confcutdir) if known.confcutdir else rootdir if ini is None else ini.parent
    folders = {folder for path in first_paths(config) for folder in (path, *path.parents)} - {*cut.parents}
    # A pyproject.toml counts only where it speaks of pytest; the other files are for pytest alone.
    return (
        {ini} if ini is not None and (settings or ini.name != "pyproject.toml") else set(),
        {suite.file} if suite is not None and suite.file is not None else set(),
        {folder / "conftest.py" for folder in folders if (folder / "conftest.py").is_file()},
    )


def _listed(files: set[Path]) -> str:
    return ", ".join(sorted(map(str, files))) or "none"


def covered(config: pytest.Config, file: Path | None) -> bool:
    """Whether the paths given to pytest include this file, so that plain `pytest` runs what it says."""
    return file is not None and any(path == file or path in file.parents for path in argument_paths(config))


def found_files(config: pytest.Config, files: Sequence[Path]) -> list[Path]:
    """Of the suite files below the paths given to pytest, those that collection does not pass over."""
    given = argument_paths(config)
    reached = (file for file in files if any(path == file or path in file.parents for path in given))
    return [file for file in reached if not _is_ignored(config, file, given)]


def _is_ignored(config: pytest.Config, file: Path, given: Sequence[Path]) -> bool:
    """Whether collection passes the file over: asked as pytest asks, from the file up to what was given."""
    for path in (file, *file.parents):
        if path in given:
            return False
        if config.hook.pytest_ignore_collect(collection_path=path, config=config):
            return True
    return False


def is_given(config: pytest.Config, file: Path | None) -> bool:
    """Whether pytest was given this very file, so that collection brings it in any case."""
    return file is not None and is_suite_file(file) and file in argument_paths(config)


def argument_paths(config: pytest.Config) -> list[Path]:
    """The files and folders given to pytest, absolute."""
    return [absolute(config, argument.split("::")[0]) for argument in config.args]


def absolute(config: pytest.Config, path: str) -> Path:
    """A path as typed, from where pytest was started, without resolving links: as pytest itself does."""
    return Path(os.path.abspath(config.invocation_params.dir / path))  # noqa: PTH100 - resolve() would follow links

"""Where a session's suites come from: the command line, a suite file, `[tool.msdump]`. Needs no dump and no numpy."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

# pytest offers no other way to ask which files it would take.
from _pytest.config import get_config
from _pytest.config.findpaths import determine_setup

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.settings.options import FIXTURE_OPTIONS, OPTIONS, OUTPUT_OPTIONS, language_of, option_values
from pytest_msdump.plugin.discovery import SUITE_FILE, is_suite_file

if TYPE_CHECKING:
    from pytest_msdump.core.suite import Suite

# What the ids of items begin with that no suite file brings.
NODE_OF_COMMAND_LINE = "msdump"
OWN_NODE = f"{NODE_OF_COMMAND_LINE}::"


class FoundDumps(Protocol):
    """The dumps of a session, and the suite files that it may collect."""

    suites: list[Path]

    def add(self, dumps: Iterable[Path]) -> None:
        """Keep pytest out of more dumps."""

    def entries(self, folder: Path) -> Iterable[Path]:
        """Return what of a folder is not a dump's."""

    def dump_of(self, path: Path) -> str | None:
        """Return the dump that a path is in."""


DUMPS: pytest.StashKey[FoundDumps] = pytest.StashKey()


@dataclass(frozen=True)
class Source:
    """One suite: a TOML `file`, the `table` of a pyproject ("tool.msdump"), or neither: the command line alone."""

    file: Path | None
    table: str | None = None
    parsed: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def is_suite_file(self) -> bool:
        """Whether it is a file that pytest collects, with ids that can be typed."""
        return self.file is not None and self.table is None

    @property
    def names_a_side(self) -> bool:
        """Whether it means to be a gate: a table of settings alone names neither dump."""
        return self.parsed is None or not {"left", "right"}.isdisjoint(self.parsed)

    def title(self, rootpath: Path) -> str:
        """Return how messages and report folders call it."""
        if self.file is None:
            return "command line"
        try:
            return self.file.relative_to(rootpath).as_posix()
        except ValueError:
            return str(self.file)


def ini_values(config: pytest.Config) -> dict[str, Any]:
    """Return the values of the ini file, by option name."""
    values = {option.name: config.getini(option.ini) for option in OPTIONS if option.ini}
    return {name: value for name, value in values.items() if value}


def option_value(config: pytest.Config, name: str) -> Any:
    """Return the value of an option from the command line, else from the ini file."""
    typed = config.getoption(f"msdump_{name}")
    return (config.getini(f"msdump_{name}") or None) if typed is None else typed


def is_gate_named(config: pytest.Config) -> bool:
    """Whether an option names a dump or a suite, or the id of an item is typed that no suite file brings."""
    named = any(option_value(config, name) is not None for name in ("left", "right", "config"))
    return named or any(is_own_id(config, argument) for argument in config.args)


def is_own_id(config: pytest.Config, argument: str) -> bool:
    """Whether an argument is the id of an item that no suite file brings, as pytest prints it."""
    return argument.startswith(OWN_NODE) and not absolute(config, NODE_OF_COMMAND_LINE).exists()


def chosen_language(config: pytest.Config) -> str:
    """Return the language of this session; workers follow the controller, whose terminal it is."""
    if hasattr(config, "workerinput"):
        return str(config.workerinput["msdump_language"])
    wanted = config.option.msdump_lang or config.getini("msdump_lang")
    # sys.stdout is pytest's own, and writes anything.
    return language_of(wanted, os.environ, encoding=getattr(sys.__stdout__, "encoding", None))


def has_testpaths_only(config: pytest.Config) -> bool:
    """Whether pytest was started without paths, in a project that says where its tests are."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput["msdump_plain"])
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


def find_source(config: pytest.Config, named: str | None) -> Source | None:
    """Return the suite that --msdump-config names, else rootdir's msdump.toml, else pyproject's [tool.msdump]."""
    if named is None:
        return _project_suite(config.rootpath)
    file = absolute(config, named)
    # Path.exists raises for a name that no file can have.
    if not os.path.exists(file):  # noqa: PTH110
        raise ConfigError(f"--msdump-config: there is no file {file}; give a suite file or a pyproject.toml")
    return _from_pyproject(file) if file.name == "pyproject.toml" else Source(file)


def _project_suite(rootdir: Path) -> Source | None:
    file = rootdir / SUITE_FILE
    if file.exists():
        if not file.is_file():
            # pytest collects files alone, and would pass this one over with all that it should judge.
            raise ConfigError(f"{file}: is not a file; put the suite file there, or remove it")
        return Source(file)
    file = rootdir / "pyproject.toml"
    return _from_pyproject(file) if file.is_file() and b"msdump" in file.read_bytes() else None


def _from_pyproject(file: Path) -> Source | None:
    tool = read_suite_toml(file).get("tool")
    table = tool.get("msdump") if isinstance(tool, Mapping) else None
    return None if table is None else Source(file, "tool.msdump", table)


def read_suite_toml(file: Path) -> Mapping[str, Any]:
    """Read a file that has a suite in it; reading suites loads more than a session without one needs."""
    from pytest_msdump.core.suite import read_toml

    return read_toml(file)


def find_own_source(config: pytest.Config) -> Source | None:
    """Return the suite whose items no collected file brings: of the command line, or of the project."""
    source = find_source(config, option_value(config, "config"))
    named = is_gate_named(config)
    if source is None:
        return Source(None) if named and not suite_files_ahead(config) else None
    if source.file is not None and is_suite_file(source.file) and source.file in argument_paths(config):
        return None
    if named:
        return source
    if not _runs_by_default(config, source):
        return None
    if not source.names_a_side:
        # A table of settings alone is no gate; what is wrong in it is reported all the same.
        load_source(config, source, left=".", right=".")
        return None
    return source


def load_source(config: pytest.Config, source: Source, **more: str) -> Suite:
    """Return the suite of a source, every key of it checked; `more` stands in for options."""
    from pytest_msdump.core.suite import load_suite

    return load_suite(
        file=source.file,
        table=source.parsed,
        options={**option_values(config.option), **more},
        directory=config.invocation_params.dir,
        name=source.title(config.rootpath),
        ini=ini_values(config),
        rootdir=config.rootpath,
    )


def _runs_by_default(config: pytest.Config, source: Source) -> bool:
    """Whether the project's own suite runs although no option names it."""
    reached = source.file is not None and _is_reached(source.file, argument_paths(config))
    if source.is_suite_file:
        # Where the paths given to pytest reach the file, collection brings it; a second set of items must not be made.
        return has_testpaths_only(config) and not reached
    return reached or has_testpaths_only(config)


def suite_files_ahead(config: pytest.Config) -> list[Path]:
    """Return the suite files that collection will bring, where they have to be known before it."""
    if not is_gate_named(config) and getattr(config.option, "dist", "no") == "no":
        return []
    paths = argument_paths(config)
    reached = [file for file in config.stash[DUMPS].suites if _is_reached(file, paths)]
    return [file for file in reached if not _is_ignored(config, file, paths)]


def _is_reached(file: Path, paths: Sequence[Path]) -> bool:
    return any(path == file or path in file.parents for path in paths)


def _is_ignored(config: pytest.Config, file: Path, paths: Sequence[Path]) -> bool:
    """Whether collection passes the file over: asked as pytest asks, from the file up to what was given."""
    for path in (file, *file.parents):
        if path in paths:
            return False
        if config.hook.pytest_ignore_collect(collection_path=path, config=config):
            return True
    return False


def first_paths(config: pytest.Config) -> list[Path]:
    """Return the files and folders that collection starts from, as far as known before the first conftest.py."""
    directory = config.invocation_params.dir
    typed: list[str] = config.known_args_namespace.file_or_dir
    if not typed and directory == config.rootpath:
        patterns = config.getini("testpaths")
        typed = [path for one in patterns for path in glob.iglob(one, recursive=True)]  # noqa: PTH207 - as pytest does
    return [absolute(config, argument.split("::")[0]) for argument in typed] or [directory]


def argument_paths(config: pytest.Config) -> list[Path]:
    """Return the files and folders given to pytest, absolute."""
    return [absolute(config, argument.split("::")[0]) for argument in config.args]


def absolute(config: pytest.Config, path: str) -> Path:
    """Return a path as typed, from where pytest was started, without resolving links: as pytest itself does."""
    return Path(os.path.abspath(config.invocation_params.dir / path))  # noqa: PTH100 - resolve() would follow links


def refuse_lost_files(config: pytest.Config) -> None:
    """Refuse values after a space that make pytest judge by other files than it finds without them; say what to type.

    pytest looks for its ini file before it knows any option of a plugin: it takes ``DIR`` of ``--msdump-left DIR`` for
    a path of tests. With ``=`` it does not.
    """
    typed = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.invocation_params.args]
    words, values = _without_values(typed)
    if not values:
        return
    kinds = ("ini file", "suite file", "conftest.py files")
    for what, taken, meant in zip(kinds, _files_used(config, typed), _files_used(config, words), strict=True):
        if taken != meant:
            raise ConfigError(
                f"after a space pytest takes the value of {values[0].partition('=')[0]} for a path of tests, too, and "
                f"uses {_listed(taken)} as {what} instead of {_listed(meant)}; type {shell_line(values)}"
            )


def _without_values(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into what is left without our values that follow a space, and these with ``=``."""
    flags = {flag for option in (*OPTIONS, *FIXTURE_OPTIONS, *OUTPUT_OPTIONS) for flag in option.flags}
    flags -= {flag for option in OUTPUT_OPTIONS if option.kind in ("switch", "word") for flag in option.flags}
    rest, values, waiting = list[str](), list[str](), list(words)
    while waiting and waiting[0] != "--":
        word = waiting.pop(0)
        if word in flags and waiting and not waiting[0].startswith("-"):
            values.append(f"{word}={waiting.pop(0)}")
        else:
            rest.append(word)
    return [*rest, *waiting], values


def _files_used(config: pytest.Config, words: Sequence[str]) -> tuple[set[Path], set[Path], set[Path]]:
    """Return the ini file, the suite file and the conftest.py files that pytest takes with such a command line."""
    bare = get_config()
    known, unknown = bare._parser.parse_known_and_unknown_args([*words], namespace=copy(bare.option))
    asked = {
        "inifile": known.inifilename,
        "override_ini": None,
        "args": [*known.file_or_dir, *unknown],
        "rootdir_cmd_arg": known.rootdir or None,
        "invocation_dir": config.invocation_params.dir,
    }
    # The parameters differ between releases of pytest.
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

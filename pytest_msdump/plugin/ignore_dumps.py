"""Dumps are data from elsewhere: nothing in them is collected, and no conftest.py in them runs.

The dumps are found before pytest loads its first conftest.py: those of the options, of the ini file, and of every suite
file that this session may collect.
"""

from __future__ import annotations

import os
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.settings.options import option_values
from pytest_msdump.plugin.discovery import suite_files
from pytest_msdump.plugin.sources import (
    DUMPS,
    Source,
    argument_paths,
    find_source,
    first_paths,
    ini_values,
    read_suite_toml,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path


class IgnoreDumps:
    """A plugin object that keeps pytest out of the dumps of a session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._roots: list[str] = []
        self._real_folders: dict[str, str] = {}
        self.suites: list[Path] = []

    def add(self, dumps: Iterable[Path]) -> None:
        """Ignore these directories too."""
        is_first = not self._roots
        for dump in dumps:
            # The copy of a remote dump is where its path as text for the system leads to.
            spelled = os.path.abspath(os.fspath(dump))  # noqa: PTH100 - a link is to be ignored by its own name too
            for root in (spelled, os.path.realpath(spelled)):
                if root not in self._roots:
                    self._roots.append(root)
        if is_first and self._roots:
            self._config.pluginmanager.register(self, "msdump-ignore-dumps")
            self._replace_conftest_import()

    def __contains__(self, path: Path) -> bool:
        """Whether a path is a dump or lies in one, by its spelling or by where its links lead."""
        return self.dump_of(path) is not None

    def dump_of(self, path: Path) -> str | None:
        """Return the dump that a path is or lies in."""
        if not self._roots:
            return None
        spelled = os.path.abspath(path)  # noqa: PTH100 - as above
        return next((root for root in self._roots for one in (spelled, self._real(spelled)) if _is_in(one, root)), None)

    def _real(self, spelled: str) -> str:
        """Where a path leads to; what leads to its folder is looked up once."""
        if os.path.islink(spelled):  # noqa: PTH114 - asked of every file that is collected
            return os.path.realpath(spelled)
        folder, name = os.path.split(spelled)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        return os.path.join(self._real_folders[folder], name)  # noqa: PTH118 - as above

    def _replace_conftest_import(self) -> None:
        """Give pytest an empty module in place of a conftest.py of a dump."""
        manager: Any = self._config.pluginmanager
        load = manager._importconftest

        def import_conftest(path: Path, *args: Any, **kwargs: Any) -> ModuleType:
            return ModuleType("conftest") if path in self else load(path, *args, **kwargs)

        manager._importconftest = import_conftest

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect a folder of a dump as one with nothing in it but the suite files that may be collected."""
        if path not in self:
            return None
        return DumpFolder.from_parent(parent, path=path)

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Collect no file of a dump, though its path was given or a link elsewhere leads to it."""
        found = yield
        return [] if file_path in self and file_path not in self.suites else found

    def entries(self, folder: Path) -> Iterator[Path]:
        """Yield what is, or leads to, a suite file that may be collected, or a folder that was given to pytest."""
        given = [path for path in argument_paths(self._config) if path.is_dir()]
        below = [path.relative_to(folder).parts[0] for path in (*self.suites, *given) if folder in path.parents]
        yield from (folder / name for name in dict.fromkeys(below))


class DumpFolder(pytest.File):
    """A folder of a dump. No `pytest.Directory`: pytest looks for a conftest.py in those."""

    def collect(self) -> Iterator[pytest.Collector]:
        """Yield no more than what was asked for by its path, and suite files that a user keeps beside the tensors."""
        hooks = self.session.gethookproxy(self.path)
        for path in self.config.stash[DUMPS].entries(self.path):
            if path.is_dir():
                yield hooks.pytest_collect_directory(path=path, parent=self)
            else:
                yield from hooks.pytest_collect_file(file_path=path, parent=self)


def find_dumps(config: pytest.Config) -> IgnoreDumps:
    """Return what keeps pytest out of the dumps that are named in any place this session looks at."""
    dumps, options, ini = IgnoreDumps(config), option_values(config.known_args_namespace), ini_values(config)
    directory = config.invocation_params.dir
    dumps.add([*_sides(options, directory), *_sides(ini, config.rootpath)])
    named, source = options["config"] or ini.get("config"), None
    # Its errors are reported when all options are known.
    with suppress(MsdumpError):
        source = find_source(config, named)
    started: list[Path] = []
    if source is not None and source.file is not None:
        if source.is_suite_file and named is None:
            started = [source.file]
        else:
            dumps.add(_sides_of(source))
    paths = first_paths(config)
    found = suite_files(paths, norecurse=config.getini("norecursedirs"), stay_out=dumps.__contains__)
    typed = [path for path in paths if path in found]
    _add_suites(
        dumps, [file for file in dict.fromkeys([*started, *found]) if file in typed or file not in dumps], typed
    )
    return dumps


def _add_suites(dumps: IgnoreDumps, files: Sequence[Path], typed: Sequence[Path]) -> None:
    """Add the dumps of suite files, but not of those that lie in a dump of another one."""
    sides = {file: _sides_of(Source(file)) for file in files}
    roots = {file: [os.path.realpath(os.fspath(side)) for side in sides[file]] for file in files}

    def lies_in_dump_of(file: Path, others: Iterable[Path]) -> bool:
        real = os.path.realpath(file)
        return any(_is_in(real, root) for other in others if other != file for root in roots[other])

    kept, waiting = list(typed), [file for file in files if file not in typed]
    while waiting := [file for file in waiting if not lies_in_dump_of(file, kept)]:
        free = [file for file in waiting if not lies_in_dump_of(file, waiting)]
        if not free:
            raise ConfigError(
                f"suite files that lie in dumps of each other: {' and '.join(map(str, waiting[:2]))}; "
                "move them out of the dumps, or give pytest the path of the one to run"
            )
        kept += free
        waiting = [file for file in waiting if file not in free]
    dumps.suites += sorted(kept)
    dumps.add(side for file in kept for side in sides[file])


def _sides_of(source: Source) -> list[Path]:
    """The dumps that a suite names. What cannot be read names none; collecting it says what is wrong."""
    if source.file is None:
        return []
    table = source.parsed
    if table is None:
        with suppress(MsdumpError):
            found = read_suite_toml(source.file).get("msdump")
            table = found if isinstance(found, dict) else None
    return [] if table is None else _sides(table, source.file.parent)


def _sides(values: Any, directory: Path) -> list[Path]:
    """The dumps that options, ini keys or a table name; a remote one has no copy here yet."""
    if not any(values.get(side) for side in ("left", "right", "golden", "third")):
        return []
    from pytest_msdump.core.suite.load import named_sides

    return named_sides(values, directory)


def _is_in(path: str, folder: str) -> bool:
    return f"{path}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")

"""What the fixtures give to tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump import assertions
from pytest_msdump.causes.repeats import Repeats, repeat, repeat_lines
from pytest_msdump.comparison.indexing import index
from pytest_msdump.comparison.opening import OpenDump, open_dump
from pytest_msdump.escape import shell_line, terminal_text
from pytest_msdump.inspect.checks import Checked
from pytest_msdump.matching.pairer import pair_dumps
from pytest_msdump.model.describe import counted
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.plugin.sources import absolute
from pytest_msdump.record.recorder import Recorder, opened
from pytest_msdump.record.reference import keep_reference
from pytest_msdump.storage.files import read_regular

__all__ = ["Functions", "OpenDump", "generated_lines", "pair_dumps", "recorder", "reference_keeper", "repeater"]

_LONGEST_PATH_BYTES = 2**16


class Functions:
    """The package's functions, judging by what the marker ``msdump(profile=…, cosine=…)`` of this test says."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def compare(self, left: Any, right: Any = None, **options: Any) -> Record:
        """As `pytest_msdump.compare`, with the marker's profile and limits unless given here."""
        return assertions.compare(left, right, **{**self._options, **options})

    def assert_close(self, left: Any, right: Any = None, **options: Any) -> None:
        """As `pytest_msdump.assert_close`, with the marker's profile and limits unless given here."""
        __tracebackhide__ = True
        assertions.assert_close(left, right, **{**self._options, **options})

    def assert_dumps_close(self, left: Any, right: Any, **options: Any) -> Report:
        """As `pytest_msdump.assert_dumps_close`, with the marker's profile and limits unless given here."""
        __tracebackhide__ = True
        plain = {key: value for key, value in self._options.items() if key in ("profile", "nan")}
        limits = {key: value for key, value in self._options.items() if key not in plain}
        return assertions.assert_dumps_close(left, right, **{**plain, "limits": limits, **options})

    def check(self, dump: Any, settings: Mapping[str, float | str] | None = None) -> Checked:
        """Fail when a check of one dump alone hits: NaN, zeros, weights that stand still; see `assert_unsuspicious`."""
        __tracebackhide__ = True
        return assertions.assert_unsuspicious(dump, settings)

    def open(self, path: Any, **options: Any) -> OpenDump:
        """As `pytest_msdump.open_dump`."""
        return open_dump(path, **options)


def recorder(folder: Path) -> Recorder:
    """Return a recorder of live models, each into a new folder below a test's own."""
    return Recorder(folder / "recorded", opened=opened)


def repeater(folder: Path) -> Callable[..., Repeats]:
    """Return the value of the fixture ``msdump_repeats``."""

    def repeats(run: Callable[[Path], object], n: int = 3) -> Repeats:
        __tracebackhide__ = True

        def made(directory: Path) -> Dump:
            run(directory)
            return index(directory)

        found = repeat(made, n, folder / "repeats")
        if not found.is_equal:
            raise AssertionError("\n" + "\n".join(repeat_lines(found)))
        return found

    return repeats


def reference_keeper(config: pytest.Config, folders: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the value of the fixture ``msdump_reference``."""
    mark = _mark_folder(config, folders)

    def reference(
        name: str,
        build: Callable[[Path], object],
        *,
        key: Any = None,
        directory: str | PathLike[str] | None = None,
        save: str | None = None,
        full: Sequence[str] = (),
    ) -> Path:
        __tracebackhide__ = True
        return keep_reference(
            name,
            build,
            directory=_directory(config) if directory is None else directory,
            key=key,
            generate=config.getoption("msdump_generate"),
            mark=mark,
            root=config.rootpath,
            save=save or config.getoption("msdump_reference_save") or config.getini("msdump_reference_save") or "full",
            full=full,
        )

    return reference


def _mark_folder(config: pytest.Config, folders: pytest.TempPathFactory) -> Path:
    """Return the session's folder with a file for each reference that was made, which holds its path."""
    base = folders.getbasetemp()
    # Workers of pytest-xdist have folders of their own below the session's.
    return (base.parent if hasattr(config, "workerinput") else base) / "msdump-generated"


def generated_lines(config: pytest.Config) -> Iterator[str]:
    """Yield what ``--msdump-generate`` made, a line for each reference, and the command that uses them."""
    folders: pytest.TempPathFactory | None = getattr(config, "_tmp_path_factory", None)
    marks = [] if folders is None else _mark_folder(config, folders).glob("*")
    made = sorted(os.fsdecode(read_regular(mark, _LONGEST_PATH_BYTES)) for mark in marks)
    if not made:
        yield "--msdump-generate made nothing: no test that ran uses msdump_reference"
        return
    yield f"--msdump-generate made {counted(len(made), 'reference')}:"
    yield from (f"  {terminal_text(os.path.relpath(folder))}" for folder in made)
    words = [word for word in config.invocation_params.args if word != "--msdump-generate"]
    yield f"next: {shell_line(['pytest', *words])}"


def _directory(config: pytest.Config) -> Path:
    """Return where references are kept, when a test does not say."""
    typed = config.getoption("msdump_reference_dir")
    if typed:
        return absolute(config, typed)
    return config.rootpath / (config.getini("msdump_reference_dir") or "msdump-references")

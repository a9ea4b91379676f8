"""Fixtures for ordinary tests: the two dumps, their pairs, helpers with this test's limits, and what makes dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.plugin.session import GATE
from pytest_msdump.plugin.sources import absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike
    from pathlib import Path

    from pytest_msdump.comparison.opening import OpenDump
    from pytest_msdump.inspect.checks import Checked
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.model.record import Record
    from pytest_msdump.model.report import Report
    from pytest_msdump.record.recorder import Recorder

__all__ = ["msdump", "msdump_left", "msdump_pairs", "msdump_recorder", "msdump_reference", "msdump_right"]


class Helpers:
    """The package's helpers, judging by what the marker ``msdump(profile=…, cosine=…)`` of this test says."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def compare(self, left: Any, right: Any = None, **options: Any) -> Record:
        """As `pytest_msdump.compare`, with the marker's profile and limits unless given here."""
        from pytest_msdump import compare

        return compare(left, right, **{**self._options, **options})

    def assert_close(self, left: Any, right: Any = None, **options: Any) -> None:
        """As `pytest_msdump.assert_close`, with the marker's profile and limits unless given here."""
        __tracebackhide__ = True
        from pytest_msdump import assert_close

        assert_close(left, right, **{**self._options, **options})

    def assert_dumps_close(self, left: Any, right: Any, **options: Any) -> Report:
        """As `pytest_msdump.assert_dumps_close`, with the marker's profile and limits unless given here."""
        __tracebackhide__ = True
        from pytest_msdump import assert_dumps_close

        said = dict(self._options)
        limits = {key: said.pop(key) for key in list(said) if key not in ("profile", "nan")}
        return assert_dumps_close(left, right, **{**said, "limits": limits, **options})

    def check(self, dump: Any, settings: Mapping[str, float | str] | None = None) -> Checked:
        """Fail when a check of one dump alone hits: NaN, zeros, weights that stand still; see `assert_unsuspicious`."""
        __tracebackhide__ = True
        from pytest_msdump.assertions import assert_unsuspicious

        return assert_unsuspicious(dump, settings)

    def open(self, path: Any, **options: Any) -> OpenDump:
        """As `pytest_msdump.open_dump`."""
        from pytest_msdump import open_dump

        return open_dump(path, **options)


@pytest.fixture
def msdump(request: pytest.FixtureRequest) -> Helpers:
    """`compare`, `assert_close`, `assert_dumps_close`, `check`, `open`; judging by the test's marker ``msdump``."""
    said: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("msdump"))):
        if marker.args:
            raise ConfigError(f"marker msdump takes named values only, e.g. cosine=0.999; found {marker.args!r}")
        said |= marker.kwargs
    return Helpers(said)


@pytest.fixture(scope="session")
def msdump_left(pytestconfig: pytest.Config) -> OpenDump:
    """The run under test, as the command line or the suite file names it. Override it to bring your own."""
    from pytest_msdump.comparison.opening import OpenDump

    return OpenDump(_plan(pytestconfig).left)


@pytest.fixture(scope="session")
def msdump_right(pytestconfig: pytest.Config) -> OpenDump:
    """The reference, likewise."""
    from pytest_msdump.comparison.opening import OpenDump

    return OpenDump(_plan(pytestconfig).right)


@pytest.fixture(scope="session")
def msdump_pairs(msdump_left: OpenDump, msdump_right: OpenDump, pytestconfig: pytest.Config) -> tuple[Pair, ...]:
    """Who is compared with whom: `Pair` objects that ``msdump.assert_close`` takes, in execution order."""
    gate = pytestconfig.stash[GATE]
    known = gate.known_plan()
    if known is not None and known.left is msdump_left.dump and known.right is msdump_right.dump:
        return known.pairing.pairs
    from pytest_msdump.matching.pairer import pair_dumps

    return pair_dumps(msdump_left.dump, msdump_right.dump).pairs


@pytest.fixture
def msdump_recorder(tmp_path: Path) -> Recorder:
    """Records live models, each into a new folder below the test's `tmp_path` unless ``directory=`` says where."""
    return recorder(tmp_path)


@pytest.fixture(scope="session")
def msdump_reference(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``msdump_reference(name, build, key=…, directory=None)``: the folder of a reference that is made once and kept.

    See `record.reference.keep_reference`.
    """
    return reference_keeper(pytestconfig, tmp_path_factory)


def _plan(config: pytest.Config) -> Any:
    """The session's plan; what is wrong is one line."""
    try:
        return config.stash[GATE].plan_of_session()
    except MsdumpError as error:
        pytest.fail(str(error), pytrace=False)


# -- Making dumps inside of a test -----------------------------------------------------------------------------------


_DIRECTORY = "msdump-references"


def recorder(folder: Path) -> Recorder:
    """Return what records live models, each into a new folder below a test's own."""
    from pytest_msdump.record.recorder import Recorder, opened

    return Recorder(folder / "recorded", opened=opened)


def reference_keeper(config: pytest.Config, folders: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return what makes a reference once and keeps it; see the fixture ``msdump_reference``."""
    base = folders.getbasetemp()
    # Workers of pytest-xdist have folders of their own below the session's.
    session = base.parent if hasattr(config, "workerinput") else base

    def reference(
        name: str,
        build: Callable[[Path], object],
        *,
        key: Any = None,
        directory: str | PathLike[str] | None = None,
    ) -> Path:
        from pytest_msdump.record.reference import keep_reference

        __tracebackhide__ = True
        return keep_reference(
            name,
            build,
            directory=_directory(config) if directory is None else directory,
            key=key,
            generate=config.getoption("msdump_generate"),
            mark=session / "msdump-generated",
            root=config.rootpath,
        )

    return reference


def _directory(config: pytest.Config) -> Path:
    """Where references are kept, when a test does not say."""
    typed = config.getoption("msdump_reference_dir")
    if typed:
        return absolute(config, typed)
    return config.rootpath / (config.getini("msdump_reference_dir") or _DIRECTORY)

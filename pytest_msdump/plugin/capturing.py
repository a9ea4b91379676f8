"""Fixtures that make dumps inside of a test: record a live model, and keep the reference's dump."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_msdump.plugin.sources import absolute

if TYPE_CHECKING:
    from os import PathLike

    from pytest_msdump.capture.recorder import Recorder

__all__ = ["msdump_recorder", "msdump_reference"]

_DIRECTORY = "msdump-references"


@pytest.fixture
def msdump_recorder(tmp_path: Path) -> Recorder:
    """Records live models, each into a new folder below the test's `tmp_path` unless ``directory=`` says where."""
    from pytest_msdump.capture import Recorder
    from pytest_msdump.pipeline.recording import opened

    return Recorder(tmp_path / "recorded", opened=opened)


@pytest.fixture(scope="session")
def msdump_reference(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``msdump_reference(name, build, key=…, directory=None)``: the folder of a reference that is made once and kept.

    See `capture.reference.keep_reference`.
    """
    base = tmp_path_factory.getbasetemp()
    # Workers of pytest-xdist have folders of their own below the session's.
    session = base.parent if hasattr(pytestconfig, "workerinput") else base

    def reference(
        name: str,
        build: Callable[[Path], object],
        *,
        key: Any = None,
        directory: str | PathLike[str] | None = None,
    ) -> Path:
        __tracebackhide__ = True
        from pytest_msdump.capture.reference import keep_reference

        return keep_reference(
            name,
            build,
            directory=_directory(pytestconfig) if directory is None else directory,
            key=key,
            generate=pytestconfig.getoption("msdump_generate"),
            mark=session / "msdump-generated",
            root=pytestconfig.rootpath,
        )

    return reference


def _directory(config: pytest.Config) -> Path:
    """Where references are kept, when a test does not say."""
    typed = config.getoption("msdump_reference_dir")
    if typed:
        return absolute(config, typed)
    return config.rootpath / (config.getini("msdump_reference_dir") or _DIRECTORY)

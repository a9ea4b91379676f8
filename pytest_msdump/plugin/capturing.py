"""Making dumps inside of a test: where a recording of a live model goes, and the references that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.capture import Recorder
from pytest_msdump.capture.reference import keep_reference
from pytest_msdump.pipeline.recording import opened
from pytest_msdump.plugin.sources import absolute

if TYPE_CHECKING:
    from os import PathLike

    import pytest

__all__ = ["recorder", "reference_keeper"]

_DIRECTORY = "msdump-references"


def recorder(folder: Path) -> Recorder:
    """Return what records live models, each into a new folder below a test's own."""
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

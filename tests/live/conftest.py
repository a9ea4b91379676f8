"""Where ``MSDUMP_LIVE`` is set, a skipped live test is a failure: a lane that lost its framework must not pass."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pytest_msdump.cli import main
from pytest_msdump.record import Recorder

ASKED = bool(os.environ.get("MSDUMP_LIVE"))
Made = TypeVar("Made", pytest.CollectReport, pytest.TestReport)


def _demanded(report: Made) -> Made:
    if ASKED and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and MSDUMP_LIVE asks for it: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, Any]:
    """A module whose framework cannot be imported."""
    return _demanded((yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, Any]:
    """A test whose framework is somewhere else, or nowhere."""
    return _demanded((yield))


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Records into a folder of the test."""
    return Recorder(tmp_path)


@pytest.fixture
def msdump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in the folder of the test; in this process, which has loaded its framework already."""
    monkeypatch.chdir(tmp_path)

    def msdump(*words: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = main(words)
        return subprocess.CompletedProcess(words, code, *capsys.readouterr())

    return msdump

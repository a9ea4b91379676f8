"""The golden cases, each in a folder of its own where a command may write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "data" / "ascend_golden"


@pytest.fixture
def in_case(tmp_path, monkeypatch) -> Callable[[str], Path]:
    """Copy a case, go there, and return its folder."""

    def go(name: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(GOLDEN / name, folder, ignore=shutil.ignore_patterns("expected"))
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "200")
        return folder

    return go

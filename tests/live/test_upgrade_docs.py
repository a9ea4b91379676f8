"""The page on upgrades does what it says, with two releases of ONNX Runtime. Needs onnx, and a package index."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_pages import ROOT, follow_live

pytest.importorskip("onnx")
pytestmark = pytest.mark.live

PAGE = ROOT / "docs/howto/was_it_the_upgrade.md"


def test_an_upgrade_changes_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSDUMP_ENVIRONMENTS", str(tmp_path / "environments"))
    assert follow_live(PAGE, {"onnxruntime"}, tmp_path, tmp_path, apart_from="^msdump upgrade: .* s$") == 1

"""The page on recording MindSpore does what it says.

Needs MindSpore in an environment of its own, whose interpreter MSDUMP_MINDSPORE_PYTHON names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from docs_pages import ROOT, follow_live

from pytest_msdump.capabilities.programs.program import run_mindspore

PAGE = ROOT / "docs/howto/record_a_mindspore_script.md"

pytestmark = pytest.mark.live


@pytest.mark.skipif(not os.environ.get("MSDUMP_MINDSPORE_PYTHON"), reason="MSDUMP_MINDSPORE_PYTHON is not set")
def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    assert follow_live(PAGE, {"mindspore"}, tmp_path, tmp_path, apart_from=r"[\d.]+ s;") == 2


def test_every_option_of_the_page_exists() -> None:
    told = {
        name
        for cell in re.findall(r"^\| (`.+?`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }
    assert told == {*(run_mindspore.__kwdefaults__ or {}), "directory"}

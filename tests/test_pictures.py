"""The picture of a terminal shows what the command on it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_pages import docs_module


@pytest.mark.e2e
@pytest.mark.full
def test_the_picture_of_a_terminal_shows_what_is_printed(tmp_path: Path) -> None:
    pictures = docs_module("pictures")
    shown = pictures.lines_of(pictures.TERMINAL.read_text("utf-8"))
    printed = [line for line in pictures.printed(tmp_path) if line]
    assert shown == [f"$ {pictures.COMMAND}", *printed], "make it anew: python docs/pictures.py"
    assert "http:" not in pictures.TERMINAL.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")

"""What people read says what a program does, and what to do: a program or a file does not tell, and is not a who."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from string import Formatter

import pytest

import pytest_msdump
from pytest_msdump.capabilities.html.words import PAGE
from pytest_msdump.core.text.phrases import catalogue
from pytest_msdump.plugin import fixtures
from pytest_msdump.plugin.hooks import MARKERS

EN = catalogue("en")
PACKAGE = Path(pytest_msdump.__file__).parent
ROOT = PACKAGE.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BANNED = re.compile(r"\b(?:tell|tells|told|who|whom|nobody|whoever)\b", re.IGNORECASE)


def said(template: str) -> str:
    """Return a template without its fields, whose names are not read."""
    return " ".join(literal for literal, *_ in Formatter().parse(template))


@pytest.mark.parametrize("code", EN)
def test_no_message_has_such_a_word(code: str) -> None:
    template = EN[code]
    for one in (template,) if isinstance(template, str) else template:
        assert not BANNED.search(said(one))


def test_the_page_has_no_such_word() -> None:
    assert [key for key, (english, _) in PAGE.items() if BANNED.search(said(english))] == []


def test_pytest_s_lists_of_markers_and_fixtures_have_no_such_word() -> None:
    tree = ast.parse(Path(fixtures.__file__).read_text("utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in fixtures.__all__]
    assert len(functions) == len(fixtures.__all__)
    shown = [*MARKERS, *(ast.get_docstring(function) or "" for function in functions)]
    assert [text for text in shown if not text or BANNED.search(text)] == []


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_help_and_no_error_has_such_a_word(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    firsts = (node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body)
    docstrings = {id(first.value) for first in firsts if isinstance(first, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    texts = [node.value for node in constants if isinstance(node.value, str)]
    # A single word is a key. The catalogue, whose fields have names, is above.
    sentences = [text for text in texts if " " in text.strip() and file.parent.name != "text"]
    assert [text for text in sentences if BANNED.search(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_has_such_a_word(page: Path) -> None:
    lines = enumerate(page.read_text("utf-8").splitlines(), 1)
    assert [f"line {number}: {line}" for number, line in lines if BANNED.search(line)] == []

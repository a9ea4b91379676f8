"""`docs/reference/commands.md` has every command of `msdump`; it, or a page that it links, has every flag."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest
from docs_pages import ROOT, docs_module

from pytest_msdump import cli

PAGE = ROOT / "docs" / "reference" / "commands.md"
tables = docs_module("tables")
# Markdown's own signs are escaped in a table that is made.
TEXT = re.sub(r"\\(?![|\\])", "", tables.expand(PAGE.read_text(encoding="utf-8")))
# A bar within a cell of a table.
BAR = r"\|"


def _parsers(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of a command, and those of its verbs."""
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not verbs:
        yield name, parser
    for action in verbs:
        for verb, own in action.choices.items():
            yield from _parsers(own, f"{name} {verb}")


def _commands() -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for name in cli.COMMANDS:
        parsers = _parsers(cli._parser([name]), "msdump")
        found |= {words: parser for words, parser in parsers if words.split()[1] == name}
    return found


def _rows(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The row of each argument, by its last name."""
    rows = {}
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            takes = f" {action.metavar}" if action.metavar and action.option_strings else ""
            names = action.option_strings or [str(action.metavar)]
            spelled = ", ".join(f"`{name}{takes}`" for name in names)
            meaning = ((action.help or "") % vars(action)).replace("|", BAR)
            rows[names[-1]] = f"| {spelled.replace('|', BAR)} | {meaning} |\n"
    return rows


def _section(heading: str) -> str:
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_every_command_has_its_own_words() -> None:
    found = dict(re.findall(r"^\| `msdump (\w+)` \| (.+?) \|", TEXT, flags=re.MULTILINE))
    assert found == {name: summary for name, (_, summary, *_) in cli.COMMANDS.items()}


def _linked(name: str) -> str:
    """The pages that a command's row and its section link."""
    row = re.findall(rf"^\| `{name}` .+$", TEXT, flags=re.MULTILINE)
    pages = {
        PAGE.parent / link.partition("#")[0] for link in re.findall(r"\]\((\S+?\.md)", row[0] + _section(f"`{name}`"))
    }
    return "".join(tables.expand(page.read_text(encoding="utf-8")) for page in pages)


@pytest.mark.parametrize("command", _commands())
def test_every_flag_of_a_command_is_on_its_page_or_one_that_it_links(command: str) -> None:
    name = " ".join(command.split()[:2])
    words = TEXT.partition("\n## ")[0] + _section(f"`{name}`") + _linked(name)
    flags = [flag for flag in _rows(_commands()[command]) if flag.startswith("-")]
    assert [flag for flag in flags if not re.search(rf"(?<![\w-]){flag}(?![\w-])", words)] == []


def test_every_flag_on_the_page_is_one_of_a_command() -> None:
    rows = {row for parser in _commands().values() for row in _rows(parser).values()}
    shown = {f"| {row}\n" for row in re.findall(r"^\| (`(?!msdump ).+)$", TEXT, flags=re.MULTILINE)}
    assert shown
    assert shown <= rows

"""`docs/reference/commands.md` has every command of `msdump`, and every flag of those that no other page has."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest
from docs_pages import ROOT

from pytest_msdump import cli

TEXT = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")

# A bar within a cell of a table.
BAR = r"\|"
# The others have pages of their own.
ON_THIS_PAGE = ("init", "match", "inspect", "convert", "overflow", "config")


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
    assert found == cli.COMMANDS


@pytest.mark.parametrize("command", [name for name in _commands() if name.split()[1] in ON_THIS_PAGE])
def test_every_flag_of_a_command_is_there_in_its_own_words(command: str) -> None:
    compare = _rows(_commands()["msdump compare"])
    own = _section(f"`{' '.join(command.split()[:2])}`")

    def is_explained_by_compare(name: str, row: str) -> bool:
        return f"`{name}`" in own and compare.get(name, "").partition(" | ")[2] == row.partition(" | ")[2]

    lacking = {
        row
        for name, row in _rows(_commands()[command]).items()
        if row not in own and not is_explained_by_compare(name, row)
    }
    assert not lacking, f"under {command} commands.md should hold\n{''.join(lacking)}"


def test_every_flag_on_the_page_is_one_of_a_command() -> None:
    rows = {row for parser in _commands().values() for row in _rows(parser).values()}
    shown = {f"| {row}\n" for row in re.findall(r"^\| (`(?!msdump ).+)$", TEXT, flags=re.MULTILINE)}
    assert shown
    assert shown <= rows

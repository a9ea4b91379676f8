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
# The others' flags are told by pages of their own.
TOLD_HERE = ("match", "inspect", "convert", "overflow", "config")


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


def _rows(parser: argparse.ArgumentParser) -> str:
    rows = ""
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            takes = f" {action.metavar}" if action.metavar and action.option_strings else ""
            names = action.option_strings or [str(action.metavar)]
            spelled = ", ".join(f"`{name}{takes}`" for name in names)
            told = (action.help or "").replace("|", BAR)
            rows += f"| {spelled.replace('|', BAR)} | {told} |\n"
    return rows


def test_every_command_is_told_in_its_own_words() -> None:
    found = dict(re.findall(r"^\| `msdump (\w+)` \| (.+?) \|", TEXT, flags=re.MULTILINE))
    assert found == cli.COMMANDS


@pytest.mark.parametrize("command", [name for name in _commands() if name.split()[1] in TOLD_HERE])
def test_the_flags_of_a_command_are_its_own(command: str) -> None:
    told = TEXT.partition(f"\n## `{command}`\n")[2].partition("\n## ")[0]
    rows = _rows(_commands()[command])
    assert rows in told, f"under {command} commands.md should hold\n{rows}"

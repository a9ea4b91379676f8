"""``--help`` of every command, as a stranger reads it in a terminal of 80 columns."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from pytest_msdump import cli


def parsers(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, own in action.choices.items():
                yield from parsers(own, *words, verb)


CALLS = [(), *(words for name in cli.COMMANDS for words in parsers(cli._parser([name])) if words[:1] == (name,))]


@pytest.mark.parametrize("words", CALLS, ids=lambda words: " ".join(words) or "msdump")
def test_it_fits_says_what_is_done_and_names_no_flag_of_pytest(words, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        cli.main([*words, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    usage, said, *_ = text.split("\n\n")
    assert max(map(len, text.splitlines())) <= 80
    assert usage.startswith(" ".join(("usage: msdump", *words)))
    # A description, not yet the list of arguments.
    assert not said.startswith(("positional", "options"))
    assert "--msdump-" not in text

"""``--help`` of every command, as a stranger reads it in a terminal of 80 columns."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from pytest_msdump import cli
from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.ports import rows


def parsers(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, own in action.choices.items():
                yield from parsers(own, *words, verb)


CALLS = [(), *(words for name in rows("COMMANDS") for words in parsers(cli._parser([name])) if words[:1] == (name,))]


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


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", ["compare", "match", "init", "inspect", "convert"])
def test_options_of_long_commands_stand_under_headings(command, width, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    headings = re.findall(r"^(\S.*):$", text, flags=re.MULTILINE)
    assert headings[:2] == ["options", "inputs"]
    assert "output" in headings
    assert headings[-1] == "examples"
    # Only --help itself is under the heading of argparse.
    assert re.findall(
        r"^  (-\S+)", text.partition("\noptions:\n")[2].partition("\ninputs:\n")[0], flags=re.MULTILINE
    ) == ["-h,"]


def test_names_that_are_allowed_are_listed(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main(["compare", "--help"])
    text = capsys.readouterr().out
    for flag, names in {
        "--io": ("output", "input", "all"),
        "--show": ("causes", "failing", "all"),
    }.items():
        assert f"{flag} {{{','.join(names)}}}" in text
    # Too many for the width of a terminal.
    assert f"named limits: {', '.join(PROFILES)} (default: default)" in " ".join(text.split())


# Where the seed has its flag for a file, quiet is --quiet alone.
OF_A_FILE = {"compare", "match"}


@pytest.mark.parametrize("command", rows("COMMANDS"))
def test_q_is_the_file_of_quantisation_where_the_seed_has_it_and_quiet_elsewhere(command, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    if command in OF_A_FILE:
        # Python 3.13 writes FILE once.
        assert re.search(r"-q(?: FILE)?, --quant-fusion FILE", text)
        assert "\n  --quiet " in text
    else:
        assert not re.search(r"-q(?: FILE)?, --quant-fusion", text)
        assert ("-q, --quiet" in text) == ("--quiet" in text)

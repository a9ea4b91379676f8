"""The page on object storage: its commands run, on a storage in memory, and its numbers are the program's."""

from __future__ import annotations

import shlex

import pytest
from docs_pages import ROOT, blocks

from pytest_msdump.capabilities.remote.listings import FIRST_BYTES, MOST_BYTES
from pytest_msdump.cli import main

PAGE = ROOT / "docs/howto/compare_dumps_on_object_storage.md"
COMMANDS = [
    command.text
    for block in blocks(PAGE)
    if block.kind == "console"
    for command in block.commands()
    if "s3://" in command.text
]


@pytest.fixture
def bucket(put, lenet) -> None:
    put(lenet / "target", name="dumps/port")
    put(lenet / "target_bad", name="dumps/reference")


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(pytester, capsys, command):
    program, *words = shlex.split(command.replace("s3://", "memory://"))
    if program == "pytest":
        result = pytester.runpytest(*words)
        assert result.ret == 1
        result.stdout.fnmatch_lines(["*memory://dumps/port*", "*DRIFT  Default/conv2*"])
        return
    assert program == "msdump"
    assert main(words) == (1 if words[0] == "compare" else 0)
    assert "memory://dumps/port" in capsys.readouterr().out


def test_the_page_says_what_is_fetched_at_once():
    text = PAGE.read_text("utf-8")
    assert f"headers, {FIRST_BYTES // 2**10} KiB each" in text
    assert f"parts of at most {MOST_BYTES // 2**20} MiB" in text

"""What all of the vendor's programs have in common here."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys

import pytest

from pytest_msdump.capabilities import compat

PROGRAMS = sorted(
    module.name
    for module in pkgutil.iter_modules(compat.__path__)
    if hasattr(importlib.import_module(f"pytest_msdump.compat.{module.name}"), "main")
)
VERBS = {"msaccucmp": ["compare", "convert", "overflow", "file_compare"]}
CALLS = [[name, *([verb] if verb else [])] for name in PROGRAMS for verb in VERBS.get(name, [""])]


def test_there_are_as_many_as_the_vendor_has_scripts() -> None:
    assert {"compare_vector", "inplace_layer_process", "msaccucmp", "mscmp_advisor"} <= set(PROGRAMS)


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_help_fits_the_terminal_and_says_what_the_exit_code_means(call: list[str], monkeypatch, capsys) -> None:
    name, *verb = call
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        importlib.import_module(f"pytest_msdump.compat.{name}").main([*verb, "--help"])
    assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"usage: python -m pytest_msdump.compat.{' '.join(call)} OPTIONS"
    assert max(map(len, lines)) <= 80
    assert "Exit code" in " ".join(lines)


def test_help_without_a_command_tells_the_commands(capsys) -> None:
    assert importlib.import_module("pytest_msdump.compat.msaccucmp").main(["--help"]) == 0
    out = capsys.readouterr().out
    assert (
        re.findall(r"^usage: python -m pytest_msdump\.compat\.msaccucmp (\w+)", out, re.MULTILINE) == VERBS["msaccucmp"]
    )


@pytest.mark.e2e
def test_a_reader_that_has_seen_enough_gets_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_msdump.compat.msaccucmp", "compare", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1

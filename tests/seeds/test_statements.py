"""What the vendor's documents say, statement by statement: each has a command here, and what must come of it.

The tables are beside this file, one for each document. A row is ``[statement, given, command, expected…]``. `given`
names builders. `command` is a line of ``msdump`` or of a program of `pytest_msdump.compat`, or ``=`` and an expression
that must be true; `` ; `` stands between several, and ``environment NAME=VALUE`` may come first. Each of `expected` is
a piece of what is printed, ``!`` and a piece that must not be, ``?`` and an expression that must be true, or ``#`` and
the exit code (default: 0). A row with ``-`` for a command cannot be checked without what its `expected` begins with.
"""

from __future__ import annotations

import csv
import shlex
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from seeds import builders

import pytest_msdump
from pytest_msdump.cli import main as msdump
from pytest_msdump.core.model.tensor import TensorRef

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
NEEDS = ("a device", "CANN", "MindInsight", "TensorFlow 1", "Caffe")


class Row(NamedTuple):
    """A statement of a document's section."""

    seed: str
    section: str
    statement: str
    given: str
    command: str
    expected: list[str]


def rows() -> list[Row]:
    tables = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(HERE.glob("*.toml"))}
    return [
        Row(seed, section, row[0], row[1], row[2], row[3:])
        for seed, table in tables.items()
        for section, listed in table.items()
        for row in listed
    ]


ROWS = rows()
CHECKED = [row for row in ROWS if row.command != "-"]
# How many statements of a document are checked, how many cannot be here, and its sections.
DOCUMENTS = tomllib.loads((HERE / "sections/documents.toml").read_text("utf-8"))


def load(pattern: str) -> np.ndarray:
    """The one array whose path fits."""
    (path,) = Path().rglob(pattern)
    return np.load(path)


def table(pattern: str) -> list[dict[str, str]]:
    """Rows of the one table of commas, or of spaces, whose path fits."""
    (path,) = Path().rglob(pattern)
    lines = path.read_text("utf-8-sig").splitlines()
    return list(csv.DictReader(lines, delimiter="," if "," in lines[0] else " "))


def names(pattern: str) -> list[str]:
    return sorted(path.name for path in Path().rglob(pattern))


def ref(address: str) -> TensorRef:
    """A tensor of the dump in ``run``."""
    return pytest_msdump.open_dump("run")[address]


NAMES: dict[str, Any] = {
    name: getattr(module, name)
    for module, listed in ((builders, "A C C5 CONV TIME FORMATS"), (pytest_msdump, "open_dump"))
    for name in listed.split()
}
NAMES |= {"np": np, "Path": Path, "load": load, "table": table, "names": names, "ref": ref}


def run(command: str) -> object:
    """What a line or an expression gives."""
    if command.startswith("="):
        return eval(command[1:], dict(NAMES))
    program, *words = shlex.split(command)
    return (msdump if program == "msdump" else import_module(f"pytest_msdump.compat.{program}").main)(words)


NAMES["run"] = run


@pytest.mark.parametrize("row", CHECKED, ids=lambda row: f"{row.seed}-{row.statement}")
def test_statement(row, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("MINDSPORE_DUMP_CONFIG", "MS_DIAGNOSTIC_DATA_PATH", "ENABLE_MS_GE_DUMP"):
        monkeypatch.delenv(name, raising=False)
    builders.build(row.given)
    *before, last = row.command.split(" ; ")
    for command in before:
        if command.startswith("environment "):
            monkeypatch.setenv(*command.replace("{here}", str(tmp_path)).split(" ")[1].split("="))
        else:
            assert run(command) == 0
    result = run(last)
    told = " ".join(" ".join(capsys.readouterr()).split())
    code = next((int(text[1:]) for text in row.expected if text.startswith("#")), 0)
    assert result == (True if last.startswith("=") else code), told
    for text in row.expected:
        if text.startswith("?"):
            assert eval(text[1:], NAMES | {"told": told}), told
        elif text.startswith("!"):
            assert text[1:] not in told
        elif not text.startswith("#"):
            assert text in told


def test_every_section_has_its_statements():
    """What cannot be checked is counted, with what it needs; a row that expects nothing is an expression."""
    assert len({(row.seed, row.section, row.statement) for row in ROWS}) == len(ROWS), "a statement stands twice"
    assert all(row.expected or "=" in (row.command[0], row.command.rpartition(" ; ")[2][0]) for row in ROWS)
    assert all(row.expected[0].startswith(NEEDS) for row in ROWS if row.command == "-")
    counts = Counter((row.seed, row.command != "-") for row in ROWS)
    for seed, document in DOCUMENTS.items():
        assert (counts[seed, True], counts[seed, False]) == (document["checked"], document["unchecked"]), seed
        assert {row.section for row in ROWS if row.seed == seed} == set(document["sections"]), seed
    assert {row.seed for row in ROWS} == DOCUMENTS.keys()
    assert len(CHECKED) >= 160

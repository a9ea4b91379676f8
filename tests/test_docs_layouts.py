"""The tables of `docs/reference/layouts.md`, held to the program that reads the directories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_pages import ROOT

from pytest_msdump.dumps.dump_tree import mindspore_place

TEXT = (ROOT / "docs" / "reference" / "layouts.md").read_text(encoding="utf-8")
GENERATIONS = ROOT / "tests" / "data" / "generations"
VALUES = {
    "NET": "Lenet",
    "MODEL": "resnet",
    "TIME": "20260131235959",
    "OP": "Add_1",
    "STEP": "11",
    "ID": "12",
    "D": "3",
    "R": "4",
    "G": "5",
    "I": "7",
}


def _rows(heading: str) -> list[list[str]]:
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def _path(form: str) -> tuple[str, ...]:
    """Put a value in the place of each of a form's words."""
    filled = re.sub(r"(?<![A-Za-z])(NET|MODEL|TIME|OP|STEP|ID|[DRGI])(?![A-Za-z])", lambda word: VALUES[word[1]], form)
    return tuple(filled.strip("/").split("/"))


def _value(cell: str) -> str | None:
    return None if cell == "–" else VALUES.get(cell, cell)


@pytest.mark.parametrize("row", _rows("Coordinates"), ids=lambda row: row[0].strip("`"))
def test_a_directory_has_the_coordinates_of_the_table(row: list[str]) -> None:
    form, *cells, _ = row
    place = mindspore_place(Path("/dump"), _path(form.strip("`")))
    assert place is not None
    at = place.at
    found = [None if value is None else str(value) for value in (at.rank, at.net, at.graph, at.iteration)]
    assert found == list(map(_value, cells))


def test_every_directory_has_its_coordinates() -> None:
    forms = {form for row in _rows("Directories") for form in re.findall("`([^`]+/)`", row[2])}
    assert len(forms) == 8
    assert forms | {"rank_R/NET/G/constants/"} == {row[0].strip("`") for row in _rows("Coordinates")}


def test_every_generation_that_is_checked_in_has_its_row() -> None:
    trees = {path.name.partition("_")[0] for path in GENERATIONS.iterdir() if path.is_dir()} - {"converted", "mixed"}
    assert {row[0].lower() for row in _rows("Directories")} == trees


@pytest.mark.parametrize("row", _rows("File names"), ids=lambda row: row[0])
def test_an_example_of_a_name_is_that_of_a_file(row: list[str]) -> None:
    assert any(GENERATIONS.rglob(row[2].strip("`")))

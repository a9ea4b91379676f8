"""The tables of `docs/reference/layouts.md`, held to the program that reads the directories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_pages import ROOT

from pytest_msdump.core.dumps.dump_tree import mindspore_place

TEXT = (ROOT / "docs" / "reference" / "layouts.md").read_text(encoding="utf-8")
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


def _at(form: str, coordinate: str) -> str | None:
    """What the page says of a coordinate: the first of its words that the directory has."""
    (words,) = re.findall(rf"^\* {coordinate}: (.+?)(?:;|$)", TEXT, re.MULTILINE)
    held = [word for word in re.findall("`(.+?)`", words) if re.search(rf"(?<![A-Za-z]){word}(?![A-Za-z])", form)]
    return VALUES[held[0]] if held else None


FORMS = {form: row[0] for row in _rows("Directories") for form in re.findall("`([^`]+/)`", row[2])}


@pytest.mark.parametrize("form", [*FORMS, "rank_R/NET/G/constants/"])
def test_a_directory_has_the_coordinates_that_the_page_says(form: str) -> None:
    assert form in TEXT
    place = mindspore_place(Path("/dump"), _path(form))
    assert place is not None
    at = place.at
    found = [None if value is None else str(value) for value in (at.rank, at.net, at.graph, at.iteration)]
    iteration = "0" if FORMS.get(form) == "G7b" else _at(form, "iteration")
    assert found == [_at(form, "rank"), _at(form, "net"), _at(form, "graph"), iteration]


def test_the_page_has_every_directory() -> None:
    assert len(FORMS) == 8

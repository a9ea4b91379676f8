"""The vendor's single-operator files: ours have the same names and numbers, but for cells listed with a reason.

`tests/data/ascend_golden`: small dumps, and what msaccucmp (mindstudio-probe 26.2.0) wrote for them. Item N is section
9 of the facts collected about that tool, INTERFACE the project's own contract. Each command line runs as it is.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from test_dtypes_low_precision import e4m3fn, e5m2, hifloat8

from pytest_msdump.capabilities.compat import compare_vector, msaccucmp

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
MAIN = {"msaccucmp": msaccucmp.main, "compare_vector": compare_vector.main}
KINDS = ("summary.txt", "absolute_error_topn.csv", "relative_error_topn.csv", ".npy", ".csv")
# Half of the last digit that is printed.
PRINTED = 5.01e-7

HALVES = "item 6: differences of float16 are rounded to float16"
WRAPS = "item 6: differences of unsigned integers wrap"
HIDDEN = "item 6: NaN and Inf are turned into 0 in Min and Max, and so are last in the lists"
INFINITE = (
    "item 6; INTERFACE 5, NaN and Inf are classes of their own; `-` stands where the right side is 0, which it is not"
)
ZERO_RIGHT = "item 4: relative errors are 0.000000 where the right side is 0; INTERFACE 5: undefined is never 0"
FEWER = "item 15: the last entry is dropped when the tensor has fewer elements than the list"
TRUTHS = "INTERFACE 5, Worst elements: what differs goes first; the vendor lists the first elements of bools"
PADDING = (
    "INTERFACE 5, Shape: padding is explained by the dump itself; the vendor lists it, in the five axes of the device"
)
NO_AXES = "INTERFACE 5, two empty tensors of equal shape: the vendor's empty array has lost its axes"
TITLES = "section 9, differences between seed 003 and 26.2.0: LeftOp and RightOp, Left and Right"

# Cells: label, kind of file, row, titles, reason. A row is its number in the lists, the element's number in the files
# with every element, and a title in the summary.
LISTED: list[tuple[str, str, str, str, str]] = [
    ("detail_legacy", ".csv", "Titles", "NPUDump GroundTruth", TITLES),
    ("detail_legacy", "absolute_error_topn.csv", "Titles", "NPUDump GroundTruth", TITLES),
    ("detail_legacy", "relative_error_topn.csv", "Titles", "NPUDump GroundTruth", TITLES),
    ("detail_legacy", "summary.txt", "NPUDump", "Title", TITLES),
    ("detail_legacy", "summary.txt", "GroundTruth", "Title", TITLES),
    ("detail_conv1", ".csv", "*", "*", PADDING),
    ("detail_conv1", ".npy", "Array", "Shape Values", PADDING),
    ("detail_conv1", "absolute_error_topn.csv", "*", "Index Coordinates", PADDING),
    ("detail_conv1", "relative_error_topn.csv", "*", "Index Coordinates", PADDING),
    ("detail_conv1", "absolute_error_topn.csv", "2", "RelativeError", HALVES),
    ("detail_conv1", "relative_error_topn.csv", "*", "RelativeError", HALVES),
    ("detail_conv1", "summary.txt", "TotalCount", "Value", PADDING),
    ("detail_conv1", "summary.txt", "MaxRelativeError", "Value", HALVES),
    ("detail_uint8", ".csv", "*", "AbsoluteError RelativeError", WRAPS),
    ("detail_uint8", "absolute_error_topn.csv", "*", "*", WRAPS),
    ("detail_uint8", "relative_error_topn.csv", "*", "*", WRAPS),
    ("detail_uint8", "summary.txt", "Max*Error", "Value", WRAPS),
    ("detail_bool", "absolute_error_topn.csv", "*", "*", TRUTHS),
    ("detail_bool", "relative_error_topn.csv", "*", "*", TRUTHS),
    ("detail_nan_right", ".csv", "1", "RelativeError", INFINITE),
    ("detail_nan_right", "absolute_error_topn.csv", "*", "*", HIDDEN),
    ("detail_nan_right", "relative_error_topn.csv", "*", "*", HIDDEN),
    ("detail_nan_right", "summary.txt", "M*Error", "Value", HIDDEN),
    ("detail_inf_left", ".csv", "1", "AbsoluteError RelativeError", INFINITE),
    ("detail_inf_left", "absolute_error_topn.csv", "*", "*", HIDDEN),
    ("detail_inf_left", "relative_error_topn.csv", "*", "*", HIDDEN),
    ("detail_inf_left", "summary.txt", "Max*Error", "Value", HIDDEN),
    ("detail_zeros_right", "relative_error_topn.csv", "*", "*", ZERO_RIGHT),
    ("detail_zeros_right", "summary.txt", "M*RelativeError", "Value", ZERO_RIGHT),
    ("detail_empty", ".npy", "Array", "Shape", NO_AXES),
    ("big_ml", ".csv", "*", "RelativeError", HALVES),
    ("big_ml", "absolute_error_topn.csv", "*", "*", HALVES),
    ("big_ml", "relative_error_topn.csv", "*", "RelativeError", HALVES),
    ("big_ml", "summary.txt", "MaxRelativeError", "Value", HALVES),
    ("small", "absolute_error_topn.csv", "6", "*", FEWER),
    ("small", "relative_error_topn.csv", "6", "*", FEWER),
]

# What the verdict makes of it; the vendor's own codes say whether its program was content with the files.
CODES = {
    "detail_conv_output": 0,
    "detail_conv_input0": 0,
    "detail_split_out1": 0,
    "detail_fc_nz": 0,
    "detail_scalar": 1,
    "detail_legacy": 0,
    "detail_bad_index": 4,
    "detail_conv1": 0,
    "detail_uint8": 1,
    "detail_bool": 1,
    "detail_nan_right": 1,
    "detail_inf_left": 1,
    "detail_zeros_right": 1,
    "detail_empty": 0,
    "big_ml": 0,
    "small": 0,
    "five_dims": 1,
}


class Line(NamedTuple):
    """One command of a case: its label, the program, and what follows it."""

    case: str
    label: str
    program: str
    words: list[str]


class Cell(NamedTuple):
    """Where a number is."""

    kind: str
    row: str
    title: str


def lines() -> dict[str, Line]:
    found = {}
    for file in sorted(GOLDEN.glob("*/command.txt")):
        for label, line in re.findall(r"^\[(\w+)\].*\n((?:msaccucmp|compare_vector) .*)$", file.read_text(), re.M):
            program, *words = line.split()
            if "-op" in words or (program == "compare_vector" and "-d" in words):
                found[label] = Line(file.parent.name, label, program, words)
    return found


LINES = lines()


def kind_of(path: Path) -> str:
    name = path.name.removesuffix(".trimmed")
    return next(kind for kind in KINDS if name.endswith(kind))


def cells_of(path: Path) -> Iterator[tuple[Cell, str]]:
    kind = kind_of(path)
    if kind == "summary.txt":
        for number, line in enumerate(path.read_text().splitlines()):
            title, _, value = line.partition(":")
            place = ("TotalCount", "NPUDump", "GroundTruth")[number] if number < 3 else title
            yield Cell(kind, place, "Title"), title
            yield Cell(kind, place, "Value"), value
        return
    if kind == ".npy":
        array = np.load(path)
        yield Cell(kind, "Array", "Shape"), str((array.dtype, array.shape))
        yield Cell(kind, "Array", "Values"), str(array.ravel().tolist())
        return
    text = path.read_text()
    assert text.endswith("\n")
    titles, *rows = [line for line in csv.reader(text.splitlines()) if not line[0].startswith("...")]
    names = ["Index", "Coordinates", "NPUDump", "GroundTruth", "AbsoluteError", "RelativeError"]
    yield from ((Cell(kind, "Titles", name), title) for name, title in zip(names, titles, strict=True))
    for number, row in enumerate(rows):
        place = row[0] if kind == ".csv" else str(number)
        yield from ((Cell(kind, place, name), cell) for name, cell in zip(names, row, strict=True))


def read(folder: Path) -> dict[Cell, str]:
    return {cell: text for path in sorted(folder.iterdir()) if path.is_file() for cell, text in cells_of(path)}


def same(ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    if ours.endswith("\t") != theirs.endswith("\t"):
        return False
    try:
        one, other = float(ours), float(theirs)
    except ValueError:
        return False
    return abs(one - other) <= PRINTED or (math.isnan(one) and math.isnan(other))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run a line in a copy of its case, once; return exit code and folder."""
    from shutil import copytree, ignore_patterns

    @cache
    def run(label: str) -> tuple[int, Path]:
        line = LINES[label]
        folder = tmp_path_factory.mktemp(label)
        copytree(GOLDEN / line.case, folder, ignore=ignore_patterns("expected"), dirs_exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            code = MAIN[line.program](line.words)
        return code, folder / "expected" / label / "out"

    return run


def differing(ours: Path, label: str) -> set[Cell]:
    theirs = read(GOLDEN / LINES[label].case / "expected" / label / "out")
    mine = read(ours)
    trimmed = {kind_of(path) for path in (GOLDEN / LINES[label].case / "expected" / label / "out").glob("*.trimmed")}
    wanted = {cell for cell in mine if cell in theirs or cell.kind not in trimmed} | set(theirs)
    return {cell for cell in wanted if not same(mine.get(cell), theirs.get(cell))}


def covers(entry: tuple[str, str, str, str, str], cell: Cell) -> bool:
    _, kind, row, titles, _ = entry
    return kind == cell.kind and fnmatchcase(cell.row, row) and (titles == "*" or cell.title in titles.split())


def test_every_line_is_here():
    assert set(LINES) == set(CODES)
    assert {label for label, *_ in LISTED} <= set(LINES)


@pytest.mark.parametrize("label", CODES)
@pytest.mark.full
def test_a_line_gives_the_vendors_files_and_numbers(label, runs):
    code, out = runs(label)
    assert code == CODES[label]
    theirs = GOLDEN / LINES[label].case / "expected" / label / "out"
    if code == 4:
        assert not out.exists() or not [path for path in out.iterdir() if path.is_file()]
        return
    names = {path.name.removesuffix(".trimmed") for path in theirs.iterdir()}
    assert {path.name for path in out.iterdir()} == names | {"msdump-report"}
    entries = [entry for entry in LISTED if entry[0] == label]
    found = differing(out, label)
    assert {cell for cell in found if not any(covers(entry, cell) for entry in entries)} == set()
    assert [entry for entry in entries if not any(covers(entry, cell) for cell in found)] == []


def test_every_element_that_is_no_padding_is_in_the_vendors_list_of_the_device_axes(runs):
    _, out = runs("detail_conv1")
    ours = {cell.row: text for cell, text in read(out).items() if cell.kind == ".csv" and cell.title == "NPUDump"}
    folder = GOLDEN / "b_npu_vs_npu" / "expected" / "detail_conv1" / "out"
    theirs = read(folder)
    checked = 0
    for cell, place in theirs.items():
        if cell.kind != ".csv" or cell.title != "Coordinates" or cell.row == "Titles":
            continue
        n, block, h, w, inner = map(int, place.split())
        if block * 16 + inner < 19:
            index = ((n * 19 + block * 16 + inner) * 5 + h) * 7 + w
            assert same(ours[str(index)], theirs[Cell(".csv", cell.row, "NPUDump")])
            checked += 1
    assert checked > 10


@pytest.mark.parametrize(
    ("operator", "decoder"), [("fp8_e4m3_all", e4m3fn), ("fp8_e5m2_all", e5m2), ("hif8_all", hifloat8)]
)
def test_fault_09_codes_of_8_bit_floats_are_shown_as_the_numbers_they_are(operator, decoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sides = [str(GOLDEN / "d2_values_dump" / side) for side in ("left", "right")]
    msaccucmp.main(["compare", "-m", sides[0], "-g", sides[1], "-out", "out", "-op", operator, "-n", "1"])
    with Path("out", f"{operator}_output_0_0.csv").open(newline="") as file:
        told = [row[2] for row in csv.reader(file)][1:]
    assert len(told) == 256
    assert [code for code in range(256) if not same(told[code], f"{float(decoder(code)):.6f}\t")] == []

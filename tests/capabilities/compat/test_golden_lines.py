"""Every comparing command line that the vendor's program was run with is taken by ours."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_msdump.capabilities.compat import compare_vector, msaccucmp

GOLDEN = Path(__file__).parents[2] / "data" / "ascend_golden"
MAIN = {"msaccucmp": msaccucmp.main, "compare_vector": compare_vector.main}
# One operator in detail: tests/semantics/test_vendor_details.py runs these.
SINGLE = {"-op", "-d"}
OURS = ("Verdict", "Reason")

# What is not 1: nothing drifts there. The vendor's own codes say whether its program was content with the files.
CODES = {
    ("a_fusion_nchw", "mapping"): 0,
    ("a_fusion_nchw", "select"): 0,
    ("b2_names", "default"): 0,
    ("b2_names", "empty_mapping"): 0,
    ("g2_pb_right", "default"): 0,
    ("i_l1_and_multi", "default"): 0,
    ("i_l1_and_multi", "legacy_txt"): 0,
    ("j2_name_matching", "default"): 0,
    ("l_ffts", "default"): 0,
    ("l_ffts", "ffts_flag"): 0,
    ("m_nano", "compare"): 0,
}


class Line(NamedTuple):
    """One command of a case: its label, the program, and what follows it."""

    case: str
    label: str
    program: str
    words: list[str]


def lines() -> list[Line]:
    found = []
    for file in sorted(GOLDEN.glob("*/command.txt")):
        for label, line in re.findall(
            r"^\[(\w+)\].*\n((?:msaccucmp compare|compare_vector) .*)$", file.read_text(), re.M
        ):
            program, *words = line.split()
            if not SINGLE & set(words):
                found.append(Line(file.parent.name, label, program, words))
    return found


def code_of(line: Line) -> int:
    return CODES.get((line.case, line.label), 1)


LINES = lines()


def test_the_list_of_codes_has_no_line_that_is_gone():
    assert len(LINES) >= 25
    assert set(CODES) <= {(line.case, line.label) for line in LINES}


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.case}-{line.label}")
def test_a_line_of_the_vendors_runs_as_it_is(line, in_case):
    folder = in_case(line.case)
    if line.label == "empty_mapping":
        (folder / "left" / "mapping.csv").write_text("")
    code = MAIN[line.program](line.words)
    assert code == code_of(line)
    out = folder / "expected" / line.label / "out"
    (written,) = (path for path in out.iterdir() if path.suffix in (".csv", ".txt") and "advisor" not in path.name)
    golden = GOLDEN / line.case / "expected" / line.label / "out" / re.sub(r"_\d{14}", "", written.name)
    if golden.exists() and written.suffix == ".csv" and line.program == "msaccucmp":
        assert without_ours(titles(written)) == titles(golden)


def titles(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return next(csv.reader(file))


def without_ours(found: list[str]) -> list[str]:
    return [title for title in found if title not in OURS]


def test_the_mapping_is_the_vendors(in_case):
    in_case("a_fusion_nchw")
    assert msaccucmp.main(["compare", "-m", "left", "-g", "right", "-f", "fusion.json", "-out", "out", "-map"]) == 0
    (written,) = Path("out").glob("mapping_*.csv")
    expected = mapped(GOLDEN / "a_fusion_nchw" / "expected" / "mapping" / "out" / "mapping.csv")
    # An operator of a group that only passes values on has no partner, hence no row.
    expected = [row for row in expected if not row[4].startswith("sm_part_a:")]
    assert mapped(written) == expected


def mapped(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return [[*row[:5], Path(row[5]).name, Path(row[6]).name] for row in csv.reader(file)][1:]


@pytest.mark.parametrize(
    ("words", "sequences", "code"), [(["-r", "3,9,2"], {"3", "5", "7", "9"}, 1), (["-s", "4,8,77"], {"4", "8"}, 0)]
)
def test_chosen_operators_are_the_vendors(words, sequences, code, in_case, capsys):
    in_case("a_fusion_nchw")
    assert msaccucmp.main(["compare", "-m", "left", "-g", "right", "-f", "fusion.json", "-out", "out", *words]) == code
    (written,) = Path("out").glob("result_*.csv")
    with written.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["OpSequence"] for row in rows} == sequences
    label = "range" if words[0] == "-r" else "select"
    with (GOLDEN / "a_fusion_nchw" / "expected" / label / "out" / "result.csv").open(newline="") as file:
        theirs = [(row["Index"], row["OpSequence"], row["TensorIndex"]) for row in csv.DictReader(file)]
    assert [(row["Index"], row["OpSequence"], row["TensorIndex"]) for row in rows] == theirs
    assert ("no operator has the number 77" in capsys.readouterr().err) == (label == "select")

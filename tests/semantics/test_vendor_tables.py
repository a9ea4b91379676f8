"""The vendor's own answers: our table equals its result, cell by cell, but for the cells that are listed with a reason.

`tests/data/ascend_golden`: small dumps, and what msaccucmp (mindstudio-probe 26.2.0) wrote for them. Reasons are our
sentences, so of that column only "is there one" is compared. Item N is section 9 of the facts collected about that
tool, INTERFACE the project's own contract.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_msdump.capabilities.overflow.device import with_overflow
from pytest_msdump.capabilities.vendor_tables.table import columns_for, vendor_table
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.compare.user_code import NO_EXTRAS, Extras
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.base import write_kind
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"

NUMBERS = frozenset(str(fact.vendor_title) for fact in METRICS.values() if fact.vendor_title)
SOME = ("cosine_similarity", "max_absolute_error", "mean_relative_error")
RULES = {"fusion": "fusion.json", "quant_fusion": "quant.json"}


class Case(NamedTuple):
    """One table of the vendor, and what asks for the same of us: command.txt has its command line."""

    columns: Mapping[str, object] = {}
    sequences: frozenset[int] | None = None
    first: int | None = None


CASES = {
    "a_fusion_nchw/default": Case(),
    "a_fusion_nchw/legacy_csv": Case(),
    "a_fusion_nchw/legacy_txt": Case(),
    "a_fusion_nchw/overflow_adv": Case({"overflow": True}),
    "a_fusion_nchw/alg_select": Case({"algorithms": SOME}),
    "a_fusion_nchw/alg_select_int": Case({"algorithms": SOME}),
    "a_fusion_nchw/range": Case({"sequence": True}, frozenset({3, 5, 7, 9})),
    "a_fusion_nchw/select": Case({"sequence": True}, frozenset({4, 8, 77})),
    "a_fusion_nchw/max_cmp_size": Case(first=100),
    "b_npu_vs_npu/default": Case(),
    "b_npu_vs_npu/overflow": Case({"overflow": True}),
    "b_npu_vs_npu/legacy_txt": Case(),
    "b2_names/default": Case(),
    "b5_broken_files/default": Case(),
    "b6_one_bad_op_aborts/default": Case(),
    "c_caffe_quant/default": Case(),
    "d2_values_dump/default": Case(),
    "d2_values_dump/overflow": Case({"overflow": True}),
    "g2_pb_right/default": Case(),
    "i_l1_and_multi/default": Case(),
    "i_l1_and_multi/legacy_txt": Case(),
    "j2_name_matching/default": Case(),
    "l_ffts/default": Case(),
    "m_nano/compare": Case(),
}

# Tables of the vendor that none of ours is compared with.
LEFT_OUT = {
    "a_fusion_nchw/mapping": "no comparison: the mapping alone",
    "l_ffts/ffts_flag": "-ffts is not among our flags: slices are joined (issue 3, Containers)",
}

TIMES = "item 12: with names of more fields the vendor's order is arbitrary; it takes the last field for the time"
SCALAR = "item 3: the cosine of one element is 1.000000 whatever the values; INTERFACE 5: it does not apply"
CHANNELS = "item 1: channels of an NHWC original are cut off"
PADDING = "item 31: between devices the vendor falls to raw padded data in silence"
COUNTS = "item 30: an operator of which one side has more outputs loses all its rows"
SILENT = "item 30: rows without a reason"
SHORT = "item 8: data shorter than its shape is compared as far as it goes"
ABORTED = "item 16: one operator whose lengths differ ends the whole run"
NAMES = "item 28: names with a dot, a colon or a space never match"
SHARED = "item 11: two operators share one file; the newest wins for both"
INT4 = "INTERFACE 5, dtype: the header says int4, which issue 3 asks for; the vendor cannot read it"
NAMES_ONLY = "INTERFACE 3: what has no partner is unmatched only; its file is not opened, so its shape is not known"
NOT_FINITE = "INTERFACE 5, Undefined: where one side alone has a NaN or Inf every number is nan"
UNDEFINED = "INTERFACE 5, Undefined: never 0, 1 or a passing string, and the reason is said"
FLOAT32 = "item 5: everything is cast to float32 first"
COMPLEX = "item 5: imaginary parts are ignored; INTERFACE 5, Complex: errors by modulus, KLD undefined"
DECODED = "item 9: NaN and Inf of these data types are read as numbers, or numbers wrongly"

ABSOLUTE = "MaxAbsoluteError MeanAbsoluteError RootMeanSquareError"
RELATIVE = "AccumulatedRelativeError MaxRelativeError MeanRelativeError"
ERRORS = f"{ABSOLUTE} {RELATIVE} RelativeEuclideanDistance"
EVERY = f"CosineSimilarity KullbackLeiblerDivergence StandardDeviation {ERRORS}"
BUT_SHAPE = f"CosineSimilarity StandardDeviation {ERRORS}"
NO_TABLE = "DataType DataType' Shape CompareFailReason"

# Cells: case, tables, row, titles, reason. A row is NPUDump|TensorIndex, or NPUDump|GroundTruth without a tensor; the
# title "*" is a row that only one of the two tables has. Of a table that lacks a row or column, the others are meant.
FUSION = "default legacy_csv legacy_txt overflow_adv alg_select alg_select_int range select max_cmp_size"
LISTED: list[tuple[str, str, str, str, str]] = [
    ("a_fusion_nchw", FUSION, "loss|loss:output:0", "CosineSimilarity", SCALAR),
    ("b_npu_vs_npu", "default overflow legacy_txt", "nhwc_origin|nhwc_origin:output:0", EVERY, CHANNELS),
    ("b_npu_vs_npu", "default overflow legacy_txt", "pad_no_ori|pad_no_ori:output:0", "*", PADDING),
    ("b_npu_vs_npu", "default overflow legacy_txt", "pad_no_ori|pad_no_ori", "*", PADDING),
    (
        "b_npu_vs_npu",
        "default overflow legacy_txt",
        "c3d|c3d:output:0",
        "StandardDeviation MeanAbsoluteError RootMeanSquareError MeanRelativeError",
        PADDING,
    ),
    ("b_npu_vs_npu", "default overflow legacy_txt", "count_mismatch|count_mismatch", "*", COUNTS),
    ("b_npu_vs_npu", "default overflow legacy_txt", "count_mismatch|count_mismatch:output:0", "*", COUNTS),
    ("b_npu_vs_npu", "default overflow legacy_txt", "count_mismatch|count_mismatch:output:1", "*", COUNTS),
    ("b2_names", "default", "ffts_like|ffts_like:output:0", "Index", TIMES),
    ("b2_names", "default", "no_stream|no_stream:output:0", "Index", TIMES),
    ("b2_names", "default", "with_stream|with_stream:output:0", "Index", TIMES),
    ("b2_names", "default", "order", "*", TIMES),
    ("b2_names", "default", "bad name|bad name:output:0", "*", NAMES),
    ("b2_names", "default", "a_very_long_name|a_very_long_name:output:0", "Index", NAMES),
    ("b5_broken_files", "default", "trunc|trunc", "CompareFailReason", SILENT),
    ("b5_broken_files", "default", "shortdata|shortdata:output:0", "*", SHORT),
    ("b5_broken_files", "default", "shortdata|shortdata", "*", SHORT),
    ("b5_broken_files", "default", "int4|int4", "*", INT4),
    ("b5_broken_files", "default", "int4|int4:output:0", "*", INT4),
    ("b6_one_bad_op_aborts", "default", "good_first|good_first:output:0", "*", ABORTED),
    ("b6_one_bad_op_aborts", "default", "perm_same_dims|perm_same_dims", "*", ABORTED),
    ("b6_one_bad_op_aborts", "default", "good_last|good_last:output:0", "*", ABORTED),
    ("c_caffe_quant", "default", "data_quant_layer|data_quant_layer:output:0", "Shape", NAMES_ONLY),
    ("d2_values_dump", "default overflow", "zeros_both|zeros_both:output:0", "CosineSimilarity", UNDEFINED),
    ("d2_values_dump", "default overflow", "zeros_both|zeros_both:output:0", "RelativeEuclideanDistance", UNDEFINED),
    ("d2_values_dump", "default overflow", "zeros_both|zeros_both:output:0", "CompareFailReason", UNDEFINED),
    ("d2_values_dump", "default overflow", "zeros_right|zeros_right:output:0", "RelativeEuclideanDistance", UNDEFINED),
    ("d2_values_dump", "default overflow", "nan_left|nan_left:output:0", "StandardDeviation", NOT_FINITE),
    ("d2_values_dump", "default overflow", "nan_right|nan_right:output:0", f"StandardDeviation {RELATIVE}", NOT_FINITE),
    ("d2_values_dump", "default overflow", "inf_left|inf_left:output:0", f"StandardDeviation {ERRORS}", NOT_FINITE),
    (
        "d2_values_dump",
        "default overflow",
        "inf_right|inf_right:output:0",
        f"StandardDeviation {ABSOLUTE} {RELATIVE}",
        NOT_FINITE,
    ),
    ("d2_values_dump", "default overflow", "int32_big|int32_big:output:0", ABSOLUTE, FLOAT32),
    ("d2_values_dump", "default overflow", "scalar_111|scalar_111:output:0", "CosineSimilarity", SCALAR),
    ("d2_values_dump", "default overflow", "complex64|complex64:output:0", f"{EVERY} CompareFailReason", COMPLEX),
    ("d2_values_dump", "default overflow", "fp8_e4m3_all|fp8_e4m3_all:output:0", "StandardDeviation", DECODED),
    ("d2_values_dump", "default overflow", "fp8_e5m2_all|fp8_e5m2_all:output:0", EVERY, f"{DECODED}; {NOT_FINITE}"),
    ("d2_values_dump", "default overflow", "hif8_all|hif8_all:output:0", EVERY, f"{DECODED}; {NOT_FINITE}"),
    ("d2_values_dump", "default overflow", "scalar_noshape|scalar_noshape:output:0", "CosineSimilarity", SCALAR),
    ("j2_name_matching", "default", "a.dot|a.dot:output:0", f"{NO_TABLE} {EVERY}", NAMES),
    ("j2_name_matching", "default", "sp ace|sp ace", "*", NAMES),
    ("j2_name_matching", "default", "sp ace|sp ace:output:0", "*", NAMES),
    ("j2_name_matching", "default", "onnx::node:1|onnx::node_1", "*", NAMES),
    ("j2_name_matching", "default", "onnx::node:1|onnx::node:1:output:0", "*", NAMES),
    ("j2_name_matching", "default", "collide/x|collide/x:output:0", "*", SHARED),
    ("j2_name_matching", "default", "collide/x|collide/x", "*", SHARED),
    ("j2_name_matching", "default", "collide_x|collide_x:output:0", f"{NO_TABLE} {EVERY}", SHARED),
    *(
        ("d2_values_dump", "default overflow", f"{name}|{name}:output:0", title, UNDEFINED)
        for name in ("empty", "empty_2_0")
        for title in ("CosineSimilarity", "AccumulatedRelativeError", "RelativeEuclideanDistance")
    ),
]


# Cells and rows that are compared in all tables together, and how many of them are listed.
COMPARED, IN_LIST = 6250, 248


class Table(NamedTuple):
    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def keyed(self) -> dict[str, Mapping[str, str]]:
        """Rows by name and tensor; the second of the same gets a stroke, as does a title that is there twice."""
        found: dict[str, Mapping[str, str]] = {}
        titles = [title + "'" * self.titles[:place].count(title) for place, title in enumerate(self.titles)]
        for row in self.rows:
            cells = dict(zip(titles, row, strict=True))
            key = (
                f"{cells['NPUDump']}|{cells['GroundTruth'] if cells['TensorIndex'] == 'NaN' else cells['TensorIndex']}"
            )
            while key in found:
                key += "'"
            found[key] = cells
        return found


@cache
def report_of(folder: str, first: int | None, *, overflow: bool) -> Report:
    """The whole gate over a case, but for the files it writes."""
    directory = GOLDEN / folder
    rules = {key: name for key, name in RULES.items() if (directory / name).exists()}
    options = {"left": "left", "right": "right", "io": "all", **rules}
    planned = plan(load_suite(file=None, options=options, directory=directory, environ={}), newest_only=True)
    planned = replace(planned, extras=NO_EXTRAS if first is None else Extras(first=first))
    report = build_report(planned, compare_plan(planned))
    return with_overflow(planned, report) if overflow else report


def ours(label: str) -> Table:
    case = CASES[label]
    report = report_of(label.split("/")[0], case.first, overflow="overflow" in case.columns)
    columns = replace(columns_for(report), verdict=False, **case.columns)
    return Table(*vendor_table(report, columns, right_alone=False, sequences=case.sequences))


def theirs(label: str) -> Table:
    folder, name = label.split("/")
    (file,) = (GOLDEN / folder / "expected" / name / "out").glob("result.*")
    lines = file.read_text(encoding="utf-8").splitlines()
    if file.suffix == ".txt":
        # The tool leaves the reasons out of its text, but not their title.
        titles, *rows = (line.split(" ") for line in lines)
        return Table(tuple(titles[:-1]), [tuple(row) for row in rows])
    titles, *rows = csv.reader(lines)
    # Item 26: where nothing could be compared, the cell of OverFlow is missing.
    place = titles.index("OverFlow") if "OverFlow" in titles else 0
    return Table(tuple(titles), [tuple(_padded(row, len(titles), place)) for row in rows])


def _padded(row: Sequence[str], length: int, place: int) -> Sequence[str]:
    return row if len(row) == length else [*row[:place], "NaN", *row[place:]]


def agree(title: str, mine: str, other: str) -> bool:
    """Within the vendor's float32 rounding: 1e-5 relative, or one unit of the last printed digit."""
    if title == "CompareFailReason":
        return bool(mine) is bool(other)
    if mine == other or title not in NUMBERS:
        return mine == other
    if not_a_number(mine) and not_a_number(other):
        return True
    unit = 1e-3 if title == "StandardDeviation" else 1e-6
    numbers = [[float(text) for text in re.findall(r"[^;(),]+", cell)] for cell in (mine, other)]
    return len(numbers[0]) == len(numbers[1]) and all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=1.000001 * unit) for a, b in zip(*numbers, strict=True)
    )


def not_a_number(cell: str) -> bool:
    """Whether all of a cell is NaN; the vendor writes `nan` for what it computed and `NaN` for what it could not."""
    return all(math.isnan(float(text)) for text in re.findall(r"[^;(),]+", cell))


def cells(label: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Each cell of the vendor's table: row, title, ours, theirs. Title "*": a row that only one of the two has."""
    mine, other = ours(label).keyed(), theirs(label).keyed()
    for key, row in other.items():
        if key not in mine:
            yield key, "*", None, "a row"
            continue
        for title, cell in row.items():
            yield key, title, mine[key][title], cell
    for key in mine.keys() - other.keys():
        yield key, "*", "a row", None
    both = [[key for key in table if key in mine and key in other] for table in (mine, other)]
    if both[0] != both[1]:
        yield "order", "*", " ".join(both[0]), " ".join(both[1])


def differing(label: str) -> dict[tuple[str, str], str]:
    return {
        (key, title): f"ours {mine!r}, theirs {other!r}"
        for key, title, mine, other in cells(label)
        if mine is None or other is None or not agree(title.rstrip("'"), mine, other)
    }


def listed(label: str) -> dict[tuple[str, str], str]:
    """The cells of one table that are known to be others, each with its reason."""
    table, (folder, name) = theirs(label), label.split("/")
    rows = table.keyed().keys() | ours(label).keyed().keys()
    return {
        (row, title): reason
        for case, names, row, titles, reason in LISTED
        if case == folder and name in names.split() and (row in rows or row == "order")
        for title in titles.split()
        if title.rstrip("'") in ("*", *table.titles)
    }


@pytest.mark.parametrize("label", CASES)
def test_each_cell_of_the_vendor_s_table_is_ours_or_listed_with_its_reason(label: str) -> None:
    known, found = listed(label), differing(label)
    assert {place: what for place, what in found.items() if place not in known} == {}
    assert known.keys() - found.keys() == set(), "listed, but the cells agree"


@pytest.mark.parametrize("label", CASES)
def test_the_titles_are_the_vendor_s(label: str) -> None:
    assert ours(label).titles[: len(theirs(label).titles)] == theirs(label).titles


def test_every_entry_of_the_list_is_of_some_table_and_names_its_source() -> None:
    used = {(label.split("/")[0], *place, reason) for label in CASES for place, reason in listed(label).items()}
    entries = {(case, row, title, why) for case, _, row, titles, why in LISTED for title in titles.split()}
    assert entries == used
    assert all(re.match(r"item \d+: |INTERFACE \d", why) for *_, why in LISTED)


def test_every_table_of_the_golden_cases_is_compared_or_left_out_for_a_reason() -> None:
    there = {f"{file.parts[-5]}/{file.parts[-3]}" for file in GOLDEN.glob("*/expected/*/out/*") if is_table(file)}
    assert there == CASES.keys() | LEFT_OUT.keys()


def is_table(file: Path) -> bool:
    return file.name in ("result.csv", "result.txt", "mapping.csv")


def test_as_many_cells_are_compared_and_as_few_listed_as_are_told() -> None:
    """A row that gets lost on either side changes these numbers; so does a table without its rows."""
    count = {label: (sum(1 for _ in cells(label)), len(listed(label))) for label in CASES}
    assert tuple(map(sum, zip(*count.values(), strict=True))) == (COMPARED, IN_LIST), count


@pytest.mark.parametrize("folder", sorted({label.split("/")[0] for label in CASES}))
def test_ops_csv_is_the_vendor_s_table_and_then_what_it_leaves_out(folder: str, tmp_path: Path) -> None:
    report = report_of(folder, None, overflow=False)
    titles, *rows = csv.reader(write_kind("csv", [report], tmp_path)[0].read_text(encoding="utf-8").splitlines())
    vendors = [list(row) for row in vendor_table(report, right_alone=False)[1]]
    assert (titles[-2:], rows[: len(vendors)]) == (["Verdict", "Reason"], vendors)
    assert {row[-2] for row in rows[len(vendors) :]} <= {"unmatched", "missing"}
    told = {row[titles.index("TensorIndex")] for row in rows} | {
        row[titles.index(title)] for row in rows for title in ("NPUDump", "GroundTruth") if row[-3]
    }
    addresses = [record.left.address for record in report.records] + [one.tensor.address for one in report.unmatched]
    lost = [address for address in addresses if address not in told and address.rsplit(":", 2)[0] not in told]
    assert lost == []

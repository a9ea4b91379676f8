"""ops.csv is the vendor's table, column by column, with ours after it."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report import samples

from pytest_msdump.capabilities.vendor_tables.table import Columns, titles_of, vendor_table
from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.escape import csv_line
from pytest_msdump.core.model.comparison import Measurement
from pytest_msdump.core.report.base import write_kind
from pytest_msdump.core.text import plain_text

TITLES = titles_of(Columns())


def a_report(records, unmatched_left=(), unmatched_right=(), names=("a", "b", "c")):
    left, right = samples.dumps(names)
    pairing = samples.pairing([samples.pair()], unmatched_left, unmatched_right)
    return assemble(left, right, pairing, records, profile="default")


def cells(record):
    (row,) = vendor_table(a_report([record]))[1]
    return dict(zip(TITLES, row, strict=True))


def with_numbers(**values):
    numbers = {metric: Measurement(metric, value) for metric, value in values.items()}
    return samples.drifted(comparison=samples.measured(measurements=numbers, vendor={}))


def test_a_row_is_written_as_the_vendor_writes_it():
    # The vendor's row for a one-element tensor of -7.5 against 1.25, whose right cosine is not ours to print.
    record = with_numbers(
        max_absolute_error=8.75,
        accumulated_relative_error=7.0,
        relative_euclidean_distance=7.0,
        kl_divergence=0.0,
        standard_deviation=(-7.5, 0.0, 1.25, 0.0),
        mean_absolute_error=8.75,
        root_mean_square_error=8.75,
        max_relative_error=7.0,
        mean_relative_error=7.0,
    )
    (row,) = vendor_table(a_report([record]))[1]
    assert row[:8] == (
        "4", "BiasAdd", "Default/conv2-Conv2d/BiasAdd-op0", "float32", "conv2", "float32",
        "Default/conv2-Conv2d/BiasAdd-op0:output:0", "[1,12,7,7]",
    )  # fmt: skip
    assert row[8:18] == (
        "NaN", "8.750000", "7.000000", "7.000000", "0.000000", "(-7.500;0.000),(1.250;0.000)",
        "8.750000", "8.750000", "7.000000", "7.000000",
    )  # fmt: skip


def test_an_undefined_number_is_nan_and_has_its_reason():
    reason = "all elements of the right side are 0"
    numbers = {
        "cosine_similarity": Measurement("cosine_similarity", undefined=plain_text(reason)),
        "relative_euclidean_distance": Measurement("relative_euclidean_distance", undefined=plain_text(reason)),
        "max_absolute_error": Measurement("max_absolute_error", 1.0),
    }
    row = cells(samples.drifted(comparison=samples.measured(measurements=numbers, vendor={})))
    assert (row["CosineSimilarity"], row["MaxAbsoluteError"]) == ("NaN", "1.000000")
    assert row["CompareFailReason"] == f"CosineSimilarity and RelativeEuclideanDistance: {reason}"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a,b", "a,b"),
        ('say "x"', 'say "x"'),
        ("名前", "名前"),
        ("conv1-Conv2d/BiasAdd-op0", "conv1-Conv2d/BiasAdd-op0"),
        ("-1", "-1"),
        ("=1+2", "'=1+2"),
        ("-conv", "'-conv"),
        ("+conv", "'+conv"),
        ("@a", "'@a"),
        ("%s", "%s"),
        ("＝a", "'＝a"),
        ("two\nlines", r"two\nlines"),
        ("caf\udce9 \ud800-\udfff", r"caf\udce9 \ud800-\udfff"),
    ],
)
def test_any_name_is_one_cell_that_is_no_formula_and_stops_no_later_row(tmp_path, name, shown):
    """Fault 17 of the vendor's tool: such a name ends the file midway."""
    pair = samples.pair(left=samples.left_ref(name))
    records = [samples.drifted(pair=pair), samples.passed()]
    content = write_kind("csv", [a_report(records)], tmp_path)[0].read_bytes()
    text = content.decode("utf-8")
    titles, first, second = csv.reader(io.StringIO(text, newline=""))
    assert tuple(titles) == TITLES
    assert first[2] == shown
    assert second[-2] == "pass"


def cell(name, value):
    """One number as the vendor writes it."""
    if value is None:
        return "NaN"
    if name == "standard_deviation":
        a, b, c, d = ["0.000" if abs(float(one)) < 0.001 else f"{float(one):.3f}" for one in value]
        return f"({a};{b}),({c};{d})"
    return f"{value}.000000" if isinstance(value, int) else f"{float(value):.6f}"


def by_csv(rows):
    """The rows as the standard library writes them."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


CELLS = st.text(st.sampled_from('," ;a=名'), max_size=4).filter(lambda cell: cell[:1] != "=")


@given(st.lists(CELLS, min_size=1, max_size=4))
def test_a_line_is_that_of_the_standard_library(cells):
    assert csv_line(cells) + "\n" == by_csv([cells])

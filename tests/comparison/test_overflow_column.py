"""Which left tensors hold an overflow: what the vendor's column OverFlow is made of."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.capabilities.overflow.device import with_overflow
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite


def marks(folder, left, right):
    """Write both sides, compare them, and return what is marked: address → overflow."""
    for side, tensors in (("left", left), ("right", right)):
        (folder / side).mkdir()
        for number, (name, values) in enumerate(tensors.items()):
            np.save(folder / side / f"{name}.0.{1600000000000000 + number}.npy", values)
    options = {"left": "left", "right": "right"}
    planned = plan(load_suite(file=None, options=options, directory=folder, environ={}))
    report = build_report(planned, compare_plan(planned))
    marked = with_overflow(planned, report)
    assert [one.side for one in marked.unmatched] == [one.side for one in report.unmatched]
    assert all(record.right.has_overflow is None for record in marked.records)
    found = {record.left.address: record.left.has_overflow for record in marked.records}
    found |= {one.tensor.address: one.tensor.has_overflow for one in marked.unmatched}
    return {address.split(":")[0]: overflow for address, overflow in found.items() if overflow is not None}


def half(*values):
    return np.array(values, dtype=np.float16)


@pytest.mark.parametrize(
    ("values", "overflow"),
    [
        (half(1, 65472), False),
        (half(1, 65504), True),
        (half(-65504, 1), True),
        (half(np.inf), True),
        (half(np.nan, 0), True),
    ],
)
def test_largest_numbers_infinities_and_nan_are_overflow(tmp_path, values, overflow):
    """Also where the reference has the same; the vendor's tool does not see a NaN (INTERFACE 5, Overflow)."""
    assert marks(tmp_path, {"a": values}, {"a": values}) == {"a": overflow}


def test_other_data_types_are_not_read(tmp_path):
    values = {"a": np.array([np.inf], dtype=np.float32)}
    assert marks(tmp_path, values, values) == {}


def test_a_file_that_cannot_be_read_is_not_marked(tmp_path):
    folder = tmp_path / "left"
    folder.mkdir()
    (tmp_path / "right").mkdir()
    np.save(folder / "a.0.1600000000000000.npy", half(1, 2))
    np.save(tmp_path / "right" / "a.0.1600000000000000.npy", half(1, 2))
    options = {"left": "left", "right": "right"}
    planned = plan(load_suite(file=None, options=options, directory=tmp_path, environ={}))
    report = build_report(planned, {0: compare_plan(planned)[0]})
    (folder / "a.0.1600000000000000.npy").write_bytes(b"no tensor")
    assert with_overflow(planned, report).records[0].left.has_overflow is None

"""A dump against its own statistics."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_mindspore
from semantics.ascend_made import device, nc1hwc0
from semantics.statistic_files import ALL, COUNTED, DIGESTS, cell, write_statistics

from pytest_msdump.capabilities.inspect.survey import verify
from pytest_msdump.core.compare.opening import index

RANDOM = np.random.default_rng(5)
TENSORS = {
    "a": RANDOM.standard_normal((7, 9)).astype("f4"),
    "b": RANDOM.standard_normal((3,)).astype("f2"),
    "c": RANDOM.integers(-5, 5, (2, 2)),
    "d": np.array(True),
    "e": np.array([1, np.nan, -np.inf], "f4"),
    "f": np.full((2, 2), np.nan, "f4"),
    "g": np.zeros((0, 3), "f4"),
    "h": np.zeros((4,), "f8"),
}
COLUMNS = tuple(dict.fromkeys((*DIGESTS, *COUNTED)))


def dump(root, saved, told, columns=COLUMNS):
    write_mindspore(root, [("Add", f"Default/{op}", "output", 0, array) for op, array in saved.items()])
    write_statistics(root, [(f"Default_{op}", array) for op, array in told.items()], columns)
    return index(root)


def test_a_dump_agrees_with_its_own_statistics(tmp_path):
    found = dump(tmp_path, TENSORS, TENSORS)
    assert len(verify(found).refs) == len(TENSORS)
    assert verify(found).differences == ()
    assert found.unexplained == ()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("Max Value",), {"maximum"}),
        (("Min Value", "Count"), set()),
        (("MD5",), {"md5"}),
        (ALL, {"maximum", "mean", "l2_norm"}),
        (("Positive Zero Count",), set()),
    ],
)
def test_one_element_that_was_changed_is_found_by_what_tells_of_it(tmp_path, columns, expected):
    changed = TENSORS["a"].copy()
    changed[np.unravel_index(changed.argmax(), changed.shape)] *= 1.001
    found = verify(dump(tmp_path, {"a": changed}, {"a": TENSORS["a"]}, columns)).differences
    assert {difference.what for difference in found} == expected


def test_a_difference_names_tensor_line_and_both_numbers(tmp_path):
    first, second = (np.array(values, "f4") for values in ([1, 2], [1, 2.5]))
    found = dump(tmp_path, {"b": TENSORS["b"], "a": first}, {"b": TENSORS["b"], "a": second}, ("Max Value",))
    (only,) = verify(found).differences
    assert only.sentence == "Default/a:output:0: max is 2.5 in statistic.csv line 3, but 2.0 in the tensor"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (np.zeros((9, 7), "f4"), ("shape", "(9, 7)", "(7, 9)")),
        (np.zeros((7, 9), "f8"), ("data type", "float64", "float32")),
    ],
)
def test_shape_and_type_come_before_numbers(tmp_path, told, expected):
    found = verify(dump(tmp_path, {"a": TENSORS["a"]}, {"a": told})).differences
    assert [(one.what, one.saved, one.computed) for one in found] == [expected]


def test_a_tensor_that_cannot_be_read_is_a_difference(tmp_path):
    found = dump(tmp_path, {"a": TENSORS["a"]}, {"a": TENSORS["a"]})
    found.refs[0].source.path.write_bytes(b"")
    (only,) = verify(found).differences
    assert only.what == "tensor"
    assert str(found.refs[0].source.path) in only.sentence


@pytest.mark.parametrize("padded", [False, True])
def test_tensors_of_a_device_are_taken_as_their_row_describes_them(tmp_path, padded):
    values = RANDOM.uniform(1, 2, (1, 20, 4, 4)).astype("f2")
    stored = nc1hwc0(values)
    device(tmp_path, "Conv2D", "conv", stored, memory_format="NC1HWC0", original=values.shape)
    told = stored if padded else values
    # What pads here is NaN, so a mistake in either direction is seen.
    cells = ",".join(cell(title, told) for title in COUNTED)
    about = f"Output,0,{told.nbytes},DT_FLOAT16,{'NC1HWC0' if padded else 'NCHW'},{'x'.join(map(str, told.shape))}"
    header = "Input/Output,Index,Data Size,Data Type,Format,Shape"
    table = f"{header},{','.join(COUNTED)}\n{about},{cells}\n"
    (tmp_path / "Conv2D.conv.1.1.1600000000000000.csv").write_text(table)
    found = index(tmp_path)
    verified = verify(found)
    assert (len(verified.refs), verified.differences) == (1, ())


def test_cells_that_were_left_empty_and_rows_or_tensors_alone_are_no_difference(tmp_path):
    path = write_statistics(tmp_path, [("Default_a", TENSORS["a"]), ("Default_x", TENSORS["b"])], ("Max Value",))
    write_mindspore(tmp_path, [("Add", f"Default/{op}", "output", 0, TENSORS["a"]) for op in ("a", "y")])
    text = path.read_text()
    path.write_text(text.replace(f"{TENSORS['a'].max():g}", "null"))
    assert path.read_text() != text
    found = index(tmp_path)
    verified = verify(found)
    assert ([ref.key.address for ref in verified.refs], verified.differences) == (["Default/a:output:0"], ())


@pytest.mark.parametrize(("cell", "agrees"), [("nan", True), ("inf", False)])
def test_extremes_of_a_device_may_be_those_of_its_nan(tmp_path, cell, agrees):
    path = write_statistics(tmp_path, [("Default_a", np.array([1, np.nan], "f4"))], ("Max Value",))
    path.write_text(path.read_text().replace(",1,\n", f",{cell},\n"))
    write_mindspore(tmp_path, [("Add", "Default/a", "output", 0, np.array([1, np.nan if agrees else 2], "f4"))])
    assert (verify(index(tmp_path)).differences == ()) is agrees

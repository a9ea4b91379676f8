"""Two dumps whose manifests name different inputs or weights: the header says so before anything else."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump import assert_dumps_close, open_dump
from pytest_msdump.comparison.manifests import different_origins
from pytest_msdump.record import DumpWriter
from pytest_msdump.testing.builder import write_mindspore

X = np.arange(6, dtype="float32").reshape(2, 3)


def dump(folder, inputs=None, weights=None):
    with DumpWriter(folder) as writer:
        writer.describe(inputs=inputs, weights=weights)
        writer.write("a", np.ones(2))
    return folder


def said(tmp_path, left, right, kind="inputs"):
    sides = [open_dump(dump(tmp_path / name, **{kind: side})).dump for name, side in (("l", left), ("r", right))]
    return different_origins(*sides)


def test_equal_inputs_are_no_news(tmp_path):
    assert said(tmp_path, {"x": X}, {"x": X.copy()}) == ()


def test_axes_in_another_order_are_the_same_numbers(tmp_path):
    assert said(tmp_path, {"w": X}, {"w": X.T}, "weights") == ()


@pytest.mark.parametrize("kind", ["inputs", "weights"])
def test_different_numbers_are_named_with_both_values(tmp_path, kind):
    (sentence,) = said(tmp_path, {"x": X, "y": X}, {"x": X, "y": X + 1}, kind)
    assert f"different {kind}" in sentence
    assert "y (left " in sentence
    assert "x (left" not in sentence


def test_one_element_that_differs_is_seen_also_beyond_a_block(tmp_path):
    large = np.zeros(300_000, "float32")
    other = large.copy()
    other[-1] = 1e-30
    assert said(tmp_path, {"x": large}, {"x": other})


def test_names_of_one_side_alone_are_not_compared_while_others_meet(tmp_path):
    assert said(tmp_path, {"x": X, "more": X + 5}, {"x": X}) == ()


def test_without_a_common_name_the_numbers_are_compared(tmp_path):
    assert said(tmp_path, {"x": X}, {"input0": X}) == ()
    (sentence,) = said(tmp_path / "2", {"x": X}, {"input0": X + 1})
    assert "none of the right side's is the left's x" in sentence


def test_a_side_without_a_manifest_has_nothing_said_of_it(tmp_path):
    write_mindspore(tmp_path / "l", [("A", "a", "output", 0, [1.0, 1.0])])
    left, right = open_dump(tmp_path / "l").dump, open_dump(dump(tmp_path / "r", {"x": X})).dump
    assert different_origins(left, right) == ()


def test_the_note_is_the_left_sides_first(tmp_path):
    dump(tmp_path / "l", {"x": X})
    next((tmp_path / "l").glob("a.*")).rename(tmp_path / "l/b.0.1700000000000005.npy")
    np.save(tmp_path / "l/a.0.1700000000000006.npy", np.ones(2))
    report = assert_dumps_close(tmp_path / "l", dump(tmp_path / "r", {"x": X + 1}), allow_incomplete=True)
    assert "different inputs" in report.left.notes[0]
    assert "incomplete" in report.left.notes[1]


def test_a_manifest_beside_a_frameworks_own_dump_tells_of_it(tmp_path):
    write_mindspore(tmp_path / "l", [("A", "a", "output", 0, [1.0, 1.0])])
    with DumpWriter(tmp_path / "m", framework="mindspore", version="2.10.0", device="CPU") as writer:
        writer.describe(inputs={"x": X})
    (tmp_path / "m/msdump.json").rename(tmp_path / "l/msdump.json")
    left = open_dump(tmp_path / "l").dump
    assert (left.reader, left.unexplained) == ("mindspore", ())
    assert dict(left.labels)["framework"] == "mindspore 2.10.0"
    (sentence,) = different_origins(left, open_dump(dump(tmp_path / "r", {"x": X + 1})).dump)
    assert "different inputs" in sentence

"""Pairs by their sketches: what is surely beyond a limit fails, what surely is not passes, what may be is a warning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump.capabilities.causes.growth import drift_of
from pytest_msdump.capabilities.statistics.count_sketch import sketch_of
from pytest_msdump.capabilities.statistics.reader import READER
from pytest_msdump.cli import main
from pytest_msdump.core.compare.comparing import compare_pair
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.model.tensor import OpKey, Pair, TensorKey, TensorRef, TensorSource, TensorSpec, Transform
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.record import DumpWriter

SHAPE = (8, 16, 20, 25)
SLICE = "worst_slice_error"


class Held:
    """An array as a view."""

    def __init__(self, array):
        self.array, self.dtype, self.shape, self.size = array, str(array.dtype), array.shape, array.size

    def blocks(self, count):
        flat = self.array.reshape(-1)
        return (flat[start : start + count] for start in range(0, flat.size, count))


def sketched(array, *, digests=("md5",)):
    spec = TensorSpec(str(array.dtype), array.shape)
    statistics = sketch_of(Held(array), digests=digests)
    return TensorRef(KEY, spec, TensorSource.of(Path("tensors.npz")), READER, statistics=statistics)


KEY = TensorKey(OpKey("conv"), "output", 0)


def saved(tmp_path, array):
    write_reference(tmp_path / "saved", {"conv": array})
    (path,) = (tmp_path / "saved").glob("*.npy")
    return TensorRef(KEY, TensorSpec(), TensorSource.of(path), "npy-folder")


def compared(left, right, transform=None, **policy):
    pair = Pair(left, right, "name", transform=transform or Transform())
    return compare_pair(pair, Policy(**policy))


def drifted(size, seed=0):
    draw = np.random.default_rng(seed)
    right = draw.standard_normal(SHAPE).astype("f4")
    noise = draw.standard_normal(SHAPE)
    noise *= size * np.linalg.norm(right) / np.linalg.norm(noise)
    return (right + noise).astype("f4"), right


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_sides_of_quite_other_magnitudes_have_a_verdict(scale):
    right = drifted(0)[1].astype("f8")
    record = compared(sketched(right * scale), sketched(right), thresholds={"cosine_similarity": 0.9, SLICE: 0.1})
    assert record.verdict.outcome == "fail"


@pytest.mark.parametrize("unseen", ["left", "right"])
def test_a_saved_tensor_is_read_in_the_order_in_which_the_other_one_was_sketched(tmp_path, unseen):
    left, right = drifted(1e-5)
    channels_last = np.ascontiguousarray(right.transpose(0, 2, 3, 1))
    sides = (
        (sketched(left), saved(tmp_path, channels_last))
        if unseen == "left"
        else (saved(tmp_path, left), sketched(channels_last))
    )
    record = compared(*sides, Transform(transpose=(0, 3, 1, 2)))
    assert record.verdict.outcome == "pass"
    assert record.statistics.intervals["relative_euclidean_distance"].value == pytest.approx(1e-5, rel=0.1)


def test_sketches_of_two_orders_say_nothing_of_each_other():
    left, right = drifted(1e-5)
    channels_last = np.ascontiguousarray(right.transpose(0, 2, 3, 1))
    record = compared(sketched(left), sketched(channels_last), Transform(transpose=(0, 3, 1, 2)))
    assert record.statistics.intervals == {}


# -- norms of slices


def one_channel_halved(factor=0.5):
    right = drifted(0)[1]
    right[:, 3] *= 0.01
    left = right.copy()
    left[:, 3] *= factor
    return left, right


def said_of_slices(record):
    """The verdict, the findings about slices, and whether the record says that they were not judged."""
    findings = [finding for finding in record.verdict.findings if finding.metric == SLICE]
    notes = [
        f.message.parameters["listed"] for f in record.verdict.findings if f.message.code == "statistics_do_not_tell"
    ]
    return record.verdict.outcome, findings, any(SLICE in listed for listed in notes)


@pytest.mark.parametrize("unseen", ["left", "right", "both"])
def test_norms_fail_a_slice_and_say_which(tmp_path, unseen):
    left, right = one_channel_halved()
    sides = [sketched(left), sketched(right)]
    if unseen != "both":
        other = {"left": 1, "right": 0}[unseen]
        sides[other] = saved(tmp_path, (left, right)[other])
    # The whole tensor differs by too little for any other limit.
    record = compared(*sides, profile="default", thresholds={SLICE: 0.4})
    outcome, (finding,), is_unjudged = said_of_slices(record)
    assert (outcome, finding.outcome, is_unjudged) == ("fail", "fail", False)
    exact = np.linalg.norm((left - right)[:, 3]) / np.linalg.norm(right[:, 3])
    assert exact * (1 - 1e-5) < finding.value <= exact
    assert (finding.message.parameters["first"], finding.message.parameters["last"]) == (3, 3)
    assert finding.message.parameters["right"] == pytest.approx(np.linalg.norm(right[:, 3].astype("f8")), rel=1e-6)
    (check,) = [check for check in record.checks if check.metric == SLICE]
    assert (check.outcome, check.value) == ("fail", finding.value)


def test_a_slice_whose_norm_is_within_the_limit_is_not_judged_and_never_passes():
    left, right = one_channel_halved(factor=-1.0)
    # Twice as far as its own size, and of equal norms.
    _, findings, is_unjudged = said_of_slices(compared(sketched(left), sketched(right), thresholds={SLICE: 0.4}))
    assert (findings, is_unjudged) == ([], True)
    left, right = one_channel_halved()
    record = compared(sketched(left), sketched(right), thresholds={SLICE: 0.6})
    assert said_of_slices(record)[1:] == ([], True)
    assert SLICE not in {check.metric for check in record.checks}
    assert SLICE not in record.statistics.at_least


def test_norms_are_of_the_axis_that_was_sketched(tmp_path):
    left, right = one_channel_halved()
    limits = {"thresholds": {SLICE: 1e-3}}
    last = sketched(np.ascontiguousarray(right.transpose(0, 2, 3, 1)))
    transposed = compared(saved(tmp_path, left), last, Transform(transpose=(0, 3, 1, 2)), **limits)
    reshaped = compared(sketched(left), sketched(right.reshape(8, -1)), Transform(reshape=True), **limits)
    channels_last = {"left_logical_format": "NHWC", "left_logical_shape": SHAPE}
    stated = compared(sketched(left), sketched(right), Transform(**channels_last), **limits)
    for record in (transposed, reshaped, stated):
        assert record.statistics.intervals
        assert said_of_slices(record)[1:] == ([], True)


def test_norms_are_of_no_axis_of_a_device_format():
    right = drifted(0)[1].reshape(8, 1, 20, 25, 16)
    sides = [sketched(array) for array in (1.5 * right, right)]
    assert said_of_slices(compared(*sides, thresholds={SLICE: 0.4}))[1]
    sides = [replace(ref, spec=replace(ref.spec, memory_format="NC1HWC0")) for ref in sides]
    assert said_of_slices(compared(*sides, thresholds={SLICE: 0.4}))[1:] == ([], True)


def test_norms_say_nothing_where_an_element_is_not_finite():
    left, right = one_channel_halved()
    left[0, 0, 0, 0] = right[0, 0, 0, 0] = np.nan
    assert said_of_slices(compared(sketched(left), sketched(right), thresholds={SLICE: 0.4}))[1:] == ([], True)


@pytest.mark.parametrize("sides", [("left", "right"), ("right",)])
@pytest.mark.parametrize("factor", [1e30, 4.0, 0.1])
@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_norm_that_was_edited_clears_nothing(tmp_path, sides, factor, all_of_it):
    for side, values in zip(("left", "right"), drifted(5e-3), strict=True):
        with DumpWriter(tmp_path / side, save="sketch") as writer:
            writer.write("x", values)
    for side in sides:
        file = tmp_path / side / "msdump.json"
        document = json.loads(file.read_text("utf-8"))
        (entry,) = document["tensors"].values()
        entry["norm"] *= factor
        if all_of_it:
            entry["statistics"]["l2_norm"] *= factor
        file.write_text(json.dumps(document), "utf-8")
    assert main(["compare", str(tmp_path / "left"), str(tmp_path / "right"), "--report-dir", str(tmp_path / "r")]) == 1
    (record,) = read_json(tmp_path / "r" / "results.json")["tensors"]
    # A norm below the largest element's reach is no contradiction, and makes the distance larger.
    assert record["verdict"] == ("fail" if all_of_it and factor < 1 else "error")


@pytest.mark.parametrize("mask", [-1e4, -1e9, -3.4e38])
def test_what_a_mask_leaves_of_others_no_sketch_can_judge(mask):
    where = np.random.default_rng(8).random(SHAPE) < 0.4
    left, right = (np.where(where, np.float32(mask), drifted(1, seed)[1]) for seed in (1, 2))
    record = compared(sketched(left), sketched(right))
    assert record.verdict.outcome in ("undefined", "fail")
    assert drift_of(record) is None or record.verdict.outcome == "fail"
    assert compared(sketched(right), sketched(right)).verdict.outcome == "pass"

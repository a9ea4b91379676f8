"""Dropout that drew different masks on each side: shares and kept elements are judged, nothing passes in silence."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite

DROPOUT = "Default/network-N/drop-Dropout/Dropout-op0"


def dropped(values, p, seed, *, factor=None, shape=None):
    """Dropout in training; with `shape` whole channels or samples go."""
    keep = np.random.default_rng(seed).random(shape or values.shape) >= p
    return np.where(keep, values * (factor or 1 / (1 - p)), 0).astype(np.float32)


def verdict(tmp_path, left, right, *, op_type="Dropout", profile="default"):
    write_mindspore(tmp_path / "run", [(op_type, DROPOUT.replace("Dropout-op", f"{op_type}-op"), "output", 0, left)])
    write_reference(tmp_path / "ref", {"drop": right})
    options = {"left": str(tmp_path / "run"), "right": str(tmp_path / "ref"), "profile": profile, "min_coverage": 0}
    planned = plan(load_suite(file=None, options=options, directory=tmp_path))
    (found,) = build_report(planned, compare_plan(planned)).records
    codes = [one.message.code for one in found.verdict.findings if one.message.code.startswith("random_masks")]
    return found.verdict.outcome, *codes


VALUES = np.random.default_rng(1).standard_normal((64, 96))
BEHIND_RELU = np.maximum(VALUES, 0)
AGREE, DIFFER, SWAPPED = "random_masks", "random_masks_differ", "random_masks_swapped"


@pytest.mark.parametrize("values", [VALUES, BEHIND_RELU], ids=["dense", "behind ReLU"])
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (0.1, 0.1, ("warn", AGREE)),
        (0.5, 0.5, ("warn", AGREE)),
        (0.1, 0.2, ("fail", DIFFER)),
        (0.1, 0.9, ("fail", SWAPPED)),
        (0.7, 0.3, ("fail", SWAPPED)),
        (0.1, 0.0, ("fail", DIFFER)),
        (0.0, 0.5, ("fail", DIFFER)),
    ],
)
def test_shares_of_dropped_elements_decide(tmp_path, values, left, right, expected):
    assert verdict(tmp_path, dropped(values, left, 1), dropped(values, right, 2)) == expected


@pytest.mark.parametrize("profile", ["default", "strict", "ascend", "torch"])
def test_masks_warn_in_every_profile_but_bitwise(tmp_path, profile):
    ours, theirs = dropped(VALUES, 0.2, 1), dropped(VALUES, 0.2, 2)
    assert verdict(tmp_path / "a", ours, theirs, profile=profile) == ("warn", AGREE)
    assert verdict(tmp_path / "b", ours, theirs, profile="bitwise")[0] == "fail"


@pytest.mark.parametrize("change", [{"factor": 1.0}, {"factor": 0.9}])
def test_a_wrong_factor_on_what_both_kept_fails(tmp_path, change):
    assert verdict(tmp_path, dropped(VALUES, 0.2, 1, **change), dropped(VALUES, 0.2, 2)) == (
        "fail",
        "random_masks_kept_differ",
    )


def test_other_values_under_equal_masks_are_no_matter_of_chance(tmp_path):
    assert verdict(tmp_path, dropped(VALUES, 0.2, 1) * np.float32(1.1), dropped(VALUES, 0.2, 1)) == ("fail",)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        # Too few elements for a share, a few zeros that are no mask, and NaN.
        (dropped(VALUES[0, :12], 0.2, 1), dropped(VALUES[0, :12], 0.2, 2)),
        (np.where(np.arange(96) == 5, 0, VALUES[0]).astype("f4"), VALUES[0].astype("f4")),
        (np.where(np.arange(96) % 48 == 5, 0, VALUES).astype("f4"), VALUES.astype("f4")),
    ],
)
def test_what_shows_no_masks_fails_as_anything_else(tmp_path, left, right):
    assert verdict(tmp_path, left, right)[0] == "fail"


def test_whole_channels_vary_more(tmp_path):
    """What is within chance of 512 channels is not of their elements."""
    values = np.random.default_rng(3).standard_normal((16, 32, 10, 10))
    left, right = (dropped(values, 0.5, seed, shape=(16, 32, 1, 1)) for seed in (14, 5))
    assert abs((left == 0).mean() - (right == 0).mean()) > 5 * np.sqrt(0.5 / left.size)
    assert verdict(tmp_path / "a", left, right, op_type="Dropout2D")[1] == AGREE
    assert verdict(tmp_path / "b", left, right, op_type="Dropout") == ("fail", DIFFER)


@pytest.mark.parametrize("seed", range(40))
def test_sound_masks_are_no_false_alarm(tmp_path, seed):
    p = (0.1, 0.2, 0.3, 0.5)[seed % 4]
    ours, theirs = (dropped(VALUES[:, :48], p, 1000 + seed * 2 + side) for side in (0, 1))
    assert verdict(tmp_path, ours, theirs) == ("warn", AGREE)

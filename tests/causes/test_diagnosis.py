"""What a drift looks like is told when it is sure, and the most specific name is used."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.capabilities.diagnosis.claim import Fit, Sides, confidence_of
from pytest_msdump.capabilities.diagnosis.diagnose import diagnose
from pytest_msdump.capabilities.diagnosis.text import DIAGNOSES
from pytest_msdump.core.compare.opening import ArrayView

X = np.random.default_rng(7).normal(size=(4, 32, 10, 12)).astype(np.float32)
M = np.random.default_rng(8).normal(size=(48, 64)).astype(np.float32)


def told(left, right, dtype=None):
    return diagnose(ArrayView(left, dtype), ArrayView(right))


def sure(left, right, dtype=None):
    return [entry.id for entry in told(left, right, dtype) if entry.confidence == "high"]


def nc1hwc0(x):
    n, c, h, w = x.shape
    return x.reshape(n, c // 16, 16, h, w).transpose(0, 1, 3, 4, 2).reshape(x.shape)


def fractal_nz(x):
    rows, columns = x.shape
    return x.reshape(rows // 16, 16, columns // 16, 16).transpose(2, 0, 1, 3).reshape(x.shape)


def with_zeros_behind(x, first):
    out = x.copy()
    out[..., first:] = 0
    return out


def one_channel(x, value):
    out = x.copy()
    out[:, 5] = value
    return out


# What was done → (left, the most specific kind). The kinds behind it in brackets describe the same.
SPECIFIC = {
    "times -1 [a scale]": (-X, "sign_flipped"),
    "times -1, with rounding": ((-X * 1.0003).astype(np.float16).astype(np.float32), "sign_flipped"),
    "times -2": (-2 * X, "scaled"),
    "times 0 [a scale]": (0 * X, "constant"),
    "one value [clipped at both ends]": (np.full_like(X, 3), "constant"),
    "rolled [a permutation]": (np.roll(X.reshape(-1), 1).reshape(X.shape), "shifted_by_one"),
    "rolled along an axis [a permutation]": (np.roll(X, -1, 2), "shifted_by_one"),
    "shifted along two axes, zeros first [a shift]": (np.pad(X, [(0, 0)] * 2 + [(1, 0)] * 2)[..., :-1, :-1], "padding"),
    "columns are zero [slices]": (with_zeros_behind(X, 8), "padding"),
    "one column is zero [padding]": (with_zeros_behind(X, 11), "one_slice"),
    "one channel is zero": (one_channel(X, 0), "one_slice"),
    "axes exchanged [a permutation]": (X.transpose(0, 2, 3, 1).reshape(X.shape), "transposed"),
    "NC1HWC0 [a permutation]": (nc1hwc0(X), "memory_format"),
    "channels in another order": (X[:, ::-1], "permuted"),
    "read backwards": (X.reshape(-1)[::-1].reshape(X.shape), "permuted"),
    "steps [clipped, flushed to zero]": (np.clip(np.rint(X / 0.05), -50, 50) * np.float32(0.05), "rounded"),
    "float16, small values become 0 [flushed]": ((X * 1e-6).astype(np.float16).astype(np.float32) * 1e6, "rounded"),
    "clipped at both ends": (np.clip(X, -0.5, 1.25), "clipped"),
    "ReLU is missing on the right": (np.maximum(X, 0), "clipped"),
    "small values are 0": (np.where(np.abs(X) < 0.2, 0, X), "flushed_to_zero"),
    "plus a constant": (X + 0.25, "offset"),
}


@pytest.mark.parametrize("done", SPECIFIC)
def test_the_most_specific_kind_is_told(done):
    left, kind = SPECIFIC[done]
    right = X if "float16" not in done else X * np.float32(1e-6) * np.float32(1e6)
    assert sure(np.ascontiguousarray(left, np.float32), right) == [kind]


def test_a_more_general_kind_is_known_and_never_covers_a_specific_one():
    for name, fact in DIAGNOSES.items():
        assert fact.within <= set(DIAGNOSES)
        assert not any(name in DIAGNOSES[general].within for general in fact.within)


@pytest.mark.parametrize(
    ("left", "details"),
    [
        (X * 1.5, {"factor": pytest.approx(1.5)}),
        (X + 0.5, {"offset": pytest.approx(0.5)}),
        (np.minimum(X, 1), {"high": 1.0}),
        (np.where(np.abs(X) < 0.2, 0, X), {"below": pytest.approx(0.2, abs=0.001)}),
        (one_channel(X, 9), {"index": {"1": 5}}),
        (np.roll(X, 1, 3), {"axis": 3, "by": 1}),
        (np.roll(X, -1, 0), {"axis": 0, "by": -1}),
        (np.roll(X.reshape(-1), -1).reshape(X.shape), {"axis": None, "by": -1}),
        (X.transpose(0, 2, 3, 1).reshape(X.shape), {"axes": [0, 2, 3, 1], "of": "right"}),
        (X.reshape(4, 10, 12, 32).transpose(0, 3, 1, 2), {"axes": [0, 2, 3, 1], "of": "left"}),
        (nc1hwc0(X), {"memory_format": "NC1HWC0", "block": 16, "of": "left"}),
        (with_zeros_behind(X, 8), {"inside": {"3": (0, 8)}}),
        (X.astype(np.float16).astype(np.float32), {"grid": "float16"}),
    ],
)
def test_the_numbers_of_a_diagnosis_are_those_of_the_drift(left, details):
    (found,) = told(np.ascontiguousarray(left, np.float32), X)
    assert found.confidence == "high"
    assert dict(found.details) == details


def test_a_matrix_in_fractal_nz_and_a_transposed_one_are_told_apart():
    assert sure(fractal_nz(M), M) == ["memory_format"]
    assert sure(np.ascontiguousarray(M.T).reshape(M.shape), M) == ["transposed"]


def test_a_factor_and_a_constant_that_explain_as_much_are_both_only_likely():
    right = 1000 + np.random.default_rng(2).uniform(0, 0.5, 200).astype(np.float32)
    found = {entry.id: entry.confidence for entry in told(right + 1, right)}
    assert found == {"scaled": "medium", "offset": "medium"}


def test_one_outlier_is_no_wrong_channel():
    left = X.copy()
    left[1, 5, 3, 3] += 100
    assert told(left, X) == ()


@pytest.mark.parametrize(
    ("change", "confidence"),
    [
        ({}, "high"),
        ({"residual": 0.05}, "medium"),
        ({"residual": 0.11}, None),
        ({"explained": 97}, "medium"),
        ({"explained": 89}, None),
        ({"elements": 200, "agreed": 95}, "medium"),
        ({"elements": 200, "agreed": 89}, None),
        ({"active": 6, "explained": 6, "elements": 6}, "medium"),
        ({"drift": float("inf")}, None),
        ({"elements": 100, "of": 1000}, "medium"),
    ],
)
def test_energy_elements_agreement_and_number_all_have_to_speak_for_a_claim(change, confidence):
    numbers = {"elements": 100, "active": 100, "explained": 100, "drift": 1.0, "residual": 0.001}
    numbers.update(change)
    elements = numbers.pop("of", 100)
    assert confidence_of(Fit(**numbers), elements=elements) == confidence


@pytest.mark.parametrize("curve", [np.tanh, lambda x: x / (1 + np.exp(-x)), lambda x: 0.8 * x + 0.02 * x**3])
def test_a_curve_is_no_factor(curve):
    assert sure(curve(X).astype(np.float32), X) == []


def test_a_constant_that_grows_with_the_values_is_not_sure():
    assert sure(1.03 * X + 0.5, X) == []
    assert sure(X + 0.5, X) == ["offset"]


LARGE = {
    "transposed": (lambda x: x.transpose(0, 3, 1, 2).reshape(x.shape), {"axes": [0, 3, 1, 2], "of": "right"}),
    "memory_format": (nc1hwc0, {"memory_format": "NC1HWC0", "block": 16, "of": "left"}),
    "one_slice": (lambda x: one_channel(x, 0), {"index": {"1": 5}}),
    "shifted_by_one": (lambda x: np.roll(x, 1, 1), {"axis": 1, "by": 1}),
    "scaled": (lambda x: 2 * x, {"factor": 2.0}),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_tensor_too_large_to_be_held_is_told_the_same_of(kind, monkeypatch):
    monkeypatch.setattr("pytest_msdump.capabilities.diagnosis.claim._HELD_ELEMENTS", 100)
    monkeypatch.setattr("pytest_msdump.capabilities.diagnosis.claim._SAMPLE_BLOCK_ELEMENTS", 100)
    monkeypatch.setattr("pytest_msdump.capabilities.diagnosis.claim.BLOCK_ELEMENTS", 1000)
    change, details = LARGE[kind]
    found = told(np.ascontiguousarray(change(X)), X)
    assert [(entry.id, entry.confidence, dict(entry.details)) for entry in found] == [(kind, "high", details)]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (X, X),
        (np.empty((0, 3), np.float32), np.empty((0, 3), np.float32)),
        (np.full((4, 5), np.nan, np.float32), np.ones((4, 5), np.float32)),
        (X.astype(np.complex64), X.astype(np.complex64) * 2),
        (np.float32(3.0), np.float32(4.0)),
        (X * np.float32(1e-30), X * np.float32(1e-30) + np.float32(1e-44)),
    ],
    ids=["equal", "empty", "all NaN", "complex", "one number", "tiny"],
)
def test_where_nothing_can_be_known_nothing_is_told(left, right):
    assert told(left, right) == ()


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_numbers_beyond_the_squares_of_float64_do_not_disturb(size):
    right = M.astype(np.float64) * size
    assert sure(right * 2, right) in ([], ["scaled"])


def test_a_sample_alone_is_never_sure():
    """The sample of a large tensor is scaled; most of what lies between is not."""
    right = np.random.default_rng(9).normal(size=400_000).astype(np.float32)
    left = right + np.random.default_rng(10).normal(size=right.size).astype(np.float32)
    sides = Sides(ArrayView(left), ArrayView(right))
    assert len(sides.sample_ranges) > 1
    for start, stop in sides.sample_ranges:
        left[start:stop] = 2 * right[start:stop]
    assert sure(left, right) == []


def test_a_channel_that_the_sample_misses_is_found():
    right = np.random.default_rng(9).normal(size=(1, 500, 40, 40)).astype(np.float32)
    sides = Sides(ArrayView(right), ArrayView(right))
    seen = {channel for start, stop in sides.sample_ranges for channel in range(start // 1600, (stop - 1) // 1600 + 1)}
    missed = next(channel for channel in range(500) if channel not in seen)
    left = right.copy()
    left[0, missed] = 0
    (found,) = told(left, right)
    assert (found.id, found.confidence, dict(found.details)) == ("one_slice", "high", {"index": {"1": missed}})

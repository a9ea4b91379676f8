"""Fingerprints do not depend on where values stand; disagreement does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.suggest.fingerprint import distances, fingerprint
from pytest_msdump.core.compare.opening import ArrayView


def print_of(values):
    return fingerprint(ArrayView(np.asarray(values)))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["float64", "float32", "float16", "int32"]))
def test_a_transposed_tensor_has_the_same_fingerprint(seed, dtype):
    values = (np.random.default_rng(seed).standard_normal((3, 5, 7)) * 40).astype(dtype)
    assert distances(print_of(values), [print_of(values.T.copy()), print_of(values.ravel())]).max() < 1e-12


def test_quantiles_are_those_of_numpy_to_a_bin():
    values = np.random.default_rng(0).standard_normal(300_000)
    expected = np.quantile(values, np.linspace(0, 1, 33), method="inverted_cdf")
    assert np.abs(print_of(values).values[3:] - expected).max() <= np.ptp(values) / 2048 * 1.01
    assert print_of(values).scale == pytest.approx(np.sqrt(np.mean(values**2)), rel=1e-12)
    assert print_of(values).values[:2] == pytest.approx([values.mean(), np.abs(values).mean()], abs=1e-12)


def test_drift_moves_it_little_and_other_values_move_it_far():
    draw = np.random.default_rng(1)
    values = draw.standard_normal(5000)
    drifted = values * (1 + 1e-3 * draw.standard_normal(5000))
    near, scaled, relu = distances(
        print_of(values), [print_of(drifted), print_of(values * 1.5), print_of(np.maximum(values, 0))]
    )
    assert near < 0.01
    assert min(scaled, relu) > 0.1


@pytest.mark.parametrize("values", [np.zeros(20), np.full(20, np.nan), np.ones(3), np.arange(20) % 2, np.zeros(0)])
def test_what_many_tensors_hold_tells_nothing(values):
    assert not print_of(values).is_distinctive

"""A float file whose values are all of a coarser type is recognised, and nothing else is taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import EACH

from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics.measure import measure

RNG = np.random.default_rng(11)
PLAIN = RNG.normal(size=5000).astype(np.float32)


def cut(values, bits):
    """Values of which the last bits of float32 are 0, by the bits alone."""
    return (values.astype(np.float32).view(np.uint32) & np.uint32(2**32 - 2**bits)).view(np.float32)


def found(values, *, block_elements=None):
    view = ArrayView(np.asarray(values))
    return measure(view, view, block_elements=block_elements).coarser


ROUNDED = {
    "bfloat16": cut(PLAIN, 16),
    "bfloat16, of any size": cut(PLAIN * np.exp(20 * RNG.normal(size=5000)), 16),
    "bfloat16, behind a ReLU": np.maximum(cut(PLAIN, 16), 0),
    "bfloat16, with NaN and Inf": np.concatenate([cut(PLAIN, 16), np.array([np.nan, np.inf, -np.inf], np.float32)]),
    "bfloat16, few": cut(PLAIN[:40], 16),
    "float16": PLAIN.astype(np.float16).astype(np.float32),
    "float16, or TF32 within its range": cut(PLAIN, 13),
    "float16, with subnormal numbers": (PLAIN * 1e-3).astype(np.float16).astype(np.float32),
    "tf32, of any size": cut(PLAIN * np.exp(20 * RNG.normal(size=5000)), 13),
    "tf32, beyond float16": cut(PLAIN * 1e9, 13),
}


@pytest.mark.parametrize("what", ROUNDED)
@pytest.mark.parametrize("block_elements", [None, 7, 4096])
def test_values_that_were_rounded_to_a_type_are_recognised_whatever_the_blocks(what, block_elements):
    kind = what.split(",")[0]
    assert found(ROUNDED[what], block_elements=block_elements) == (kind, kind)
    assert found(ROUNDED[what].astype(np.float64), block_elements=block_elements) == (kind, kind)


@pytest.mark.parametrize("kernel", EACH)
def test_one_value_that_needs_more_decides_wherever_it_stands(kernel, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    for place in (0, 1, 63, 64, 2500, 4999):
        values = cut(PLAIN, 16)
        values[place] = np.float32(0.1)
        assert found(values) == (None, None)
        assert found(values, block_elements=1000) == (None, None)


def test_a_mixture_is_of_the_finer_type_only_where_enough_values_need_it():
    values = cut(PLAIN, 16)
    values[4000] = np.float32(1 + 2**-10)
    for block_elements in (None, 10, 1000):
        assert found(values, block_elements=block_elements) == (None, None)
    values[4000:] = cut(PLAIN[4000:], 13)
    for block_elements in (None, 10, 1000):
        assert found(values, block_elements=block_elements) == ("float16", "float16")


ORDINARY = {
    "zeros": np.zeros(100, np.float32),
    "ones": np.ones(100, np.float32),
    "a constant": np.full(100, 0.15625, np.float32),
    "a one-hot mask": np.eye(30, dtype=np.float32),
    "small whole numbers": np.arange(-100, 100, dtype=np.float32),
    "an image of bytes": RNG.integers(0, 256, 5000).astype(np.float32),
    "a scaled image of bytes": RNG.integers(0, 256, 5000).astype(np.float32) / 256,
    "whole numbers of 11 bits": RNG.integers(0, 2048, 5000).astype(np.float32),
    "halves": RNG.integers(-20, 20, 500).astype(np.float32) / 2,
    "powers of two": np.float32(2.0) ** np.arange(-60, 60, dtype=np.float32),
    "few values, often": cut(PLAIN[:6], 16).repeat(1000),
    "few values": cut(PLAIN[:6], 16),
    "numbers of a multiplication table": np.outer(np.arange(16), np.arange(16)).astype(np.float32),
    "float32": PLAIN,
    "float64": RNG.normal(size=5000),
    "empty": np.zeros(0, np.float32),
    "NaN": np.full(100, np.nan, np.float32),
}


@pytest.mark.parametrize("what", ORDINARY)
def test_values_that_any_type_holds_prove_nothing(what):
    assert found(ORDINARY[what]) == (None, None)
    if ORDINARY[what].dtype == np.float32 and what != "float32":
        assert found(ORDINARY[what].astype(np.float64)) == (None, None)

"""Blocks of numbers become the text that Python prints of each of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_msdump.capabilities.elements.cells import decimals, integers, joined, texts, words

# As in the vendor's files, and in ours.
SMALLEST = (5.0000001e-7, 0.1)
RNG = np.random.default_rng(5)


def printed(values: np.ndarray, smallest: float) -> list[str]:
    return joined([decimals(values, smallest=smallest), b"\n"], values.size).decode().splitlines()


def expected(values: np.ndarray, smallest: float) -> list[str]:
    return [f"{one:.6e}" if 0 < abs(one) < smallest else f"{one:.6f}" for one in values.tolist()]


@pytest.mark.parametrize("smallest", SMALLEST)
@given(values=arrays(np.float64, st.integers(0, 30), elements=st.floats(width=64)))
@settings(max_examples=150, deadline=None)
def test_every_float_is_printed_as_python_does(smallest, values):
    assert printed(values, smallest) == expected(values, smallest)


@pytest.mark.parametrize("smallest", SMALLEST)
@pytest.mark.parametrize(
    "values",
    [
        np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64),
        RNG.standard_normal(20_000).astype(np.float32).astype(np.float64),
        10.0 ** RNG.uniform(-320, 308, 20_000) * RNG.choice([-1, 1], 20_000),
        10.0 ** np.arange(-320.0, 309.0),
        RNG.integers(0, 2**20, 20_000) / 2.0 ** RNG.integers(0, 20, 20_000),
        (RNG.integers(0, 10**7, 20_000) + 0.5) * 10.0 ** RNG.integers(-20, 0, 20_000),
        np.nextafter((RNG.integers(0, 10**6, 20_000) + 0.5) / 1e6, RNG.choice([0.0, 9.0], 20_000)),
        np.array([9.9999995, 9.9999995e-3, 0.1, np.nextafter(0.1, 0), 4e9, 3999999999.9999999, 5e-7, -5e-7, 5e-324]),
    ],
    ids=["float16", "float32", "magnitudes", "powers", "binary halves", "decimal halves", "beside halves", "edges"],
)
def test_halves_and_edges_are_rounded_as_python_does(values, smallest):
    assert printed(values, smallest) == expected(values, smallest)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_are_exact_up_to_both_ends(dtype):
    bounds = np.iinfo(dtype)
    values = np.array([bounds.min, bounds.max, 0, 1, 9, 10, 99, 100, bounds.max // 3], dtype)
    cells = integers(values)
    assert joined([cells, b"\n"], values.size).decode().split() == [str(value) for value in values.tolist()]
    assert joined([integers(values[:0]), b"\n"], 0) == b""


def test_columns_are_joined_row_by_row_with_what_stands_between_them():
    columns = [texts(["a", "bcd", ""]), b"\t,", words(np.array([1, 0, 1]), ["no", "yes"]), b"\n"]
    assert joined(columns, 3) == b"a\t,yes\nbcd\t,no\n\t,yes\n"

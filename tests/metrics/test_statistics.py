from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_msdump.capabilities.statistics import tensor_statistics as statistics
from pytest_msdump.capabilities.statistics.tensor_statistics import quick_digest, statistics_of
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import UnknownNameError
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.metrics.kernel import VARIABLE

ARRAYS = st.sampled_from(["<f2", "<f4", "<f8", "i1", "<i8", "<u8", "u1", "?", ">f4"]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
)


def oracle(array):
    """The same numbers one by one, in exact arithmetic."""
    numbers = [element.item() for element in array.ravel()]
    finite = [int(x) if isinstance(x, bool) else x for x in numbers if math.isfinite(x)]
    exact = [Fraction(x) for x in finite]
    odd = [x for x in numbers if not math.isfinite(x)]
    if any(math.isnan(x) for x in odd):
        norm = math.nan
    elif odd:
        norm = math.inf
    else:
        norm = root(sum(x * x for x in exact))
    return {
        "maximum": max(finite, default=None),
        "minimum": min(finite, default=None),
        "mean": float(sum(exact) / len(exact)) if exact else None,
        "l2_norm": norm,
        "count": array.size,
        "negative_count": sum(x < 0 for x in finite),
        "positive_count": sum(x > 0 for x in finite),
        "zero_count": sum(x == 0 for x in finite),
        "nan_count": sum(math.isnan(x) for x in odd),
        "negative_inf_count": sum(x == -math.inf for x in odd),
        "positive_inf_count": sum(x == math.inf for x in odd),
    }


def root(square):
    """A root to the last bits, of what no float64 holds as well."""
    if not square:
        return 0.0
    shift = max(0, 140 - (square.numerator.bit_length() - square.denominator.bit_length())) // 2 * 2
    whole = math.isqrt(int(square * 2**shift))
    try:
        return float(Fraction(whole, 2 ** (shift // 2)))
    except OverflowError:
        return math.inf


def close(value, expected, scale):
    if value is None or expected is None or isinstance(expected, int):
        return value == expected and type(value) is type(expected)
    if not math.isfinite(expected):
        return repr(value) == repr(expected)
    return abs(value - expected) <= 1e-12 * scale + 1e-12 * abs(expected)


@given(ARRAYS, st.integers(1, 7))
@settings(max_examples=150, deadline=None)
def test_statistics_are_those_of_exact_arithmetic(array, block_elements):
    found = statistics_of(ArrayView(array), block_elements=block_elements)
    expected = oracle(array)
    scale = max((abs(x) for x in (expected["maximum"], expected["minimum"]) if x is not None), default=0)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert close(value, expected[name], scale if name == "mean" else 0), (name, value, expected[name])


@pytest.mark.parametrize("values", [[1e200, -1e200, 3e200], [1e-200, 2e-200], [5e-324], [1.7e308, 1.7e308]])
def test_nothing_overflows_or_underflows(values):
    found = statistics_of(ArrayView(np.array(values)))
    assert found["l2_norm"] == pytest.approx(math.hypot(*values), rel=1e-14)
    assert found["mean"] == pytest.approx(float(sum(map(Fraction, values)) / len(values)), rel=1e-14)


def test_extremes_of_wide_integers_are_exact():
    found = statistics_of(ArrayView(np.array([2**63 - 1, -(2**63), 2**53 + 1])))
    assert (found["maximum"], found["minimum"]) == (2**63 - 1, -(2**63))


def test_all_statistics_of_the_table_are_there():
    digests = [name for name, fact in STATISTICS.items() if fact.kind == "digest"]
    found = statistics_of(ArrayView(np.ones(3)), digests=digests)
    # No run saves the L1 norm of a tensor that it saves as well.
    without = {"l1_norm"} | ({"xxh3_128"} if find_spec("xxhash") is None else set())
    assert found.keys() == STATISTICS.keys() - without


def test_the_digest_is_the_one_that_a_run_saves():
    # From MindSpore's own tests: float32 1 to 6.
    array = np.arange(1, 7, dtype="<f4").reshape(2, 3)
    assert statistics_of(ArrayView(array), digests=["md5"])["md5"] == "fa85978152c7dfb5f1322082915cb050"
    assert statistics_of(ArrayView(array.astype(">f4")), digests=["md5"])["md5"] == "fa85978152c7dfb5f1322082915cb050"
    assert "md5" not in statistics_of(ArrayView(array))


@given(ARRAYS, st.integers(1, 7))
@settings(max_examples=50, deadline=None)
def test_digests_are_over_the_tensors_bytes_in_c_order(array, block_elements):
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    for view in (ArrayView(array), ArrayView(array.transpose()).permuted(tuple(range(array.ndim))[::-1])):
        found = statistics_of(view, digests=("md5", "sha1"), block_elements=block_elements)
        assert found["md5"] == hashlib.md5(little).hexdigest()
        assert found["sha1"] == hashlib.sha1(little).hexdigest()


def test_digests_of_bfloat16_are_over_two_bytes_each():
    values = np.array([1.5, -2.25, np.inf, 0.0], "<f4")
    bits = np.array([0x3FC0, 0xC010, 0x7F80, 0x0000], "<u2")
    found = statistics_of(ArrayView(values, "bfloat16"), digests=["sha1"], block_elements=3)
    assert found["sha1"] == hashlib.sha1(bits.tobytes()).hexdigest()


@pytest.mark.parametrize(("values", "dtype"), [(np.ones(2, "f4"), "float8_e5m2"), (np.ones(2, "i1"), "int4")])
def test_there_is_no_digest_of_what_a_view_does_not_give_back_bit_by_bit(values, dtype):
    found = statistics_of(ArrayView(values, dtype), digests=["md5"])
    assert "md5" not in found
    assert found["count"] == 2


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        statistics_of(ArrayView(np.ones(1)), block_elements=0)
    with pytest.raises(UnknownNameError, match="did you mean 'md5'"):
        statistics_of(ArrayView(np.ones(1)), digests=["md4"])
    with pytest.raises(UnknownNameError):
        statistics_of(ArrayView(np.ones(1)), digests=["maximum"])


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<i8", "?", "<c16"])
def test_xxhash_is_given_the_little_endian_bytes_of_the_tensor(monkeypatch, dtype):
    seen = []

    class Hash:
        """Its part of xxhash's interface."""

        def update(self, block):
            seen.append(bytes(memoryview(block)))

        def hexdigest(self):
            return "seen"

    monkeypatch.setattr(statistics, "_xxhash", lambda: SimpleNamespace(xxh3_128=Hash))
    monkeypatch.setenv(VARIABLE, "numpy")
    assert quick_digest() == "xxh3_128"
    values = np.arange(9).astype(dtype)
    found = statistics_of(ArrayView(values), digests=("xxh3_128",), block_elements=4)
    assert found["xxh3_128"] == "seen"
    assert b"".join(seen) == values.astype(values.dtype.newbyteorder("<")).tobytes()

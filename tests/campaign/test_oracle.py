"""A sample of what ``python tests/campaign/oracle.py`` tries."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from campaign import oracle
from kernels import EACH

from pytest_msdump.core.metrics import exact_moments, numpy_kernel


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.full
def test_each_kernel_agrees_with_exact_arithmetic(kernel: str) -> None:
    told: list[str] = []
    assert oracle.run(150, 20, kernels=(kernel,), tell=told.append) == 0, told


def test_all_data_types_and_draws_are_met() -> None:
    drawn = list(oracle.pairs(600, 20))
    assert {pair.dtypes for pair in drawn} >= {(one, one) for one in oracle.DTYPES}
    assert {dtype for pair in drawn for dtype in pair.dtypes} == set(oracle.DTYPES)
    assert {name for pair in drawn for name in pair.told.split(", ")[2].split(" and ")} == {
        style.__name__ for style in oracle.STYLES
    }


def test_a_number_that_is_off_by_more_than_a_billionth_is_seen() -> None:
    assert oracle.agrees("root_mean_square_error", 3.0 * (1 + 5e-10), Fraction(3))
    assert not oracle.agrees("root_mean_square_error", 3.0 * (1 + 2e-9), Fraction(3))
    assert not oracle.agrees("left mean", 0.0, Fraction(1, 10**30))
    assert not oracle.agrees("cosine_similarity", 1.0, 1 - Fraction(2, 10**9))


@pytest.mark.parametrize("broken", ["means", "differences"])
@pytest.mark.full
def test_a_kernel_that_rounds_twice_is_seen(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "means":
        monkeypatch.setattr(exact_moments, "with_exact_moments", lambda partial, _: partial)
    else:
        exact = numpy_kernel.differences
        monkeypatch.setattr(
            numpy_kernel,
            "differences",
            lambda *given: exact(*given)._replace(doubles=np.float32(exact(*given).doubles).astype(float)),
        )
    assert oracle.run(100, 1, kernels=("numpy",), tell=lambda _: None) > 0

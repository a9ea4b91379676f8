"""Error out over error in."""

from __future__ import annotations

from math import inf, nan

import pytest

from pytest_msdump.causes.localise import amplification


def test_the_largest_input_counts() -> None:
    assert amplification(0.5, [0.001, None, 0.25]) == 2.0


@pytest.mark.parametrize(
    ("output", "inputs"),
    [(None, [0.1]), (0.1, []), (0.1, [None]), (0.1, [0.0]), (nan, [0.1]), (0.1, [0.1, inf]), (1e300, [1e-300])],
)
def test_without_finite_numbers_nothing_is_said(output: float | None, inputs: list[float | None]) -> None:
    assert amplification(output, inputs) is None

"""Distances of logits held against scipy's softmax on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax

from pytest_msdump import compare

MASKS = ["none", "right", "both"]


def table(rng: np.random.Generator, *, mask: str, dtype: str, rows: int, width: int) -> tuple[Any, Any]:
    right = rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-2, 3)
    left = right + rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-8, 1)
    hidden = rng.random((rows, width)) < 0.3
    # Each row keeps an id.
    hidden[:, rng.integers(width)] = False
    if mask != "none":
        right[hidden] = -np.inf
    if mask == "both":
        left[hidden] = -np.inf
    return left.astype(dtype), right.astype(dtype)


def expected(left: Any, right: Any) -> Any:
    left, right = left.astype(np.float64), right.astype(np.float64)
    p, q = softmax(right, axis=-1), softmax(left, axis=-1)
    direct = rel_entr(p, q).sum(-1)
    # Where p and q are nearly equal the sum of differences of logarithms has fewer rounding errors.
    with np.errstate(invalid="ignore"):
        by_logs = np.where(p > 0, p * (log_softmax(right, axis=-1) - log_softmax(left, axis=-1)), 0.0).sum(-1)
    return np.where(np.isfinite(by_logs), by_logs, direct)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("mask", MASKS)
def test_kl_is_that_of_the_softmax_in_float64(mask: str, dtype: str) -> None:
    rng = np.random.default_rng([MASKS.index(mask), len(dtype)])
    for number in range(200 // 9 + 1):
        width = int(rng.choice([1, 2, 5, 6, 300]))
        left, right = table(rng, mask=mask, dtype=dtype, rows=int(rng.integers(1, 9)), width=width)
        record = logits_metrics(left, right)
        kl = expected(left, right)
        scale = max(1.0, float(kl.max()))
        assert abs(record["softmax_kl"] - kl.mean()) <= 1e-12 * scale, (number, left, right)
        assert abs(record["max_softmax_kl"] - kl.max()) <= 1e-12 * scale
        assert record["top1_agreement"] == (left.argmax(-1) == right.argmax(-1)).mean()
        # Stable sorting of the negative: of equal values the lowest ids.
        best = [np.argsort(-side, axis=-1, kind="stable")[:, :5] for side in (left, right)]
        shared = [
            len({*one} & {*other}) / min(5, width) for one, other in zip(*map(np.ndarray.tolist, best), strict=True)
        ]
        assert record["top5_overlap"] == pytest.approx(np.mean(shared), abs=1e-15)


def logits_metrics(left: Any, right: Any) -> Any:
    return compare(left, right, softmax_kl=1e-3).metrics


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_without_a_softmax_has_no_kl(value: float) -> None:
    right = np.zeros((2, 3), np.float32)
    left = right.copy()
    left[1, 0] = value
    record = compare(left, right, softmax_kl=1e-3)
    assert {"softmax_kl", "max_softmax_kl"}.isdisjoint(record.metrics)
    assert record.verdict.outcome == "undefined"
    assert "row [1] has NaN or +Inf" in next(
        one.sentence for one in record.verdict.findings if one.metric == "softmax_kl"
    )


def test_a_limit_makes_a_tensor_logits_and_a_profile_alone_does_not() -> None:
    rng = np.random.default_rng(5)
    right = rng.standard_normal((4, 50))
    left = right + 1e-5 * rng.standard_normal((4, 50))
    assert "softmax_kl" not in compare(left, right).metrics
    assert compare(left, right, softmax_kl=1e-3, rel_euclid=1e-3).metrics["softmax_kl"] == pytest.approx(
        expected(left, right).mean(), rel=1e-9
    )
    failing = compare(left, right, max_softmax_kl=1e-30)
    assert "max_softmax_kl" in {finding.metric for finding in failing.verdict.findings if finding.outcome == "fail"}

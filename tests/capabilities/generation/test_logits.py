"""Distances of logits held against scipy's softmax on whole arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax

from pytest_msdump import compare
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json, report_from

MASKS = ["none", "right", "both"]
DTYPES = ["float64", "float32", "float16", "bfloat16"]
# Of each of the twelve kinds, so that there are 2,004.
TABLES = 167


def table(rng: np.random.Generator, *, mask: str, dtype: str, rows: int, width: int) -> tuple[Any, Any]:
    right = rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-2, 5)
    left = right + rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-8, 2)
    if dtype == "bfloat16":
        # What bfloat16 holds exactly.
        left, right = ((one.astype("f4").view("u4") & 0xFFFF0000).view("f4") for one in (left, right))
    dtype = "float32" if dtype == "bfloat16" else dtype
    hidden = rng.random((rows, width)) < 0.3
    # Each row keeps an id.
    hidden[:, rng.integers(width)] = False
    # A vocabulary that is padded on both sides.
    padded = int(rng.integers(0, width)) if rng.random() < 0.3 else 0
    hidden[:, width - padded :] &= width > padded + 1
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


def agrees(found: float, wanted: float) -> bool:
    """Whether two numbers agree to 1e-12, absolute or relative."""
    return found == wanted or abs(found - wanted) <= 1e-12 * max(1.0, abs(wanted))


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", MASKS)
def test_every_distance_is_that_of_the_softmax_in_float64(mask: str, dtype: str) -> None:
    rng = np.random.default_rng([MASKS.index(mask), DTYPES.index(dtype)])
    for number in range(TABLES):
        width = int(rng.choice([1, 2, 5, 6, 300]))
        left, right = table(rng, mask=mask, dtype=dtype, rows=int(rng.integers(1, 9)), width=width)
        record = compare(left, right, softmax_kl=1e-3).metrics
        kl = expected(left, right)
        logs = [log_softmax(side.astype(np.float64), axis=-1) for side in (left, right)]
        token = right.argmax(-1)[:, None]
        wanted = {
            "softmax_kl": kl.mean(),
            "p99_softmax_kl": np.quantile(kl, 0.99) if np.isfinite(kl).all() else np.inf,
            "max_softmax_kl": kl.max(),
            "log_probability_error": np.abs(np.subtract(*(np.take_along_axis(one, token, -1) for one in logs))).mean(),
        }
        for metric, value in wanted.items():
            assert agrees(record[metric], value), (number, metric, record[metric], value)
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
    assert {"softmax_kl", "max_softmax_kl", "p99_softmax_kl", "log_probability_error"}.isdisjoint(record.metrics)
    assert record.verdict.outcome == "undefined"
    assert "row [1] has NaN or +Inf" in next(
        one.sentence for one in record.verdict.findings if one.metric == "softmax_kl"
    )


def test_a_token_that_the_left_masks_is_infinitely_far_and_one_that_both_do_is_not() -> None:
    right = np.array([[1.0, 2.0, -np.inf], [-900.0, 0.0, 1.0]], np.float64)
    assert logits_metrics(right - 1, right)["max_softmax_kl"] == 0
    left = right.copy()
    # Its probability is 0 on the right in float64, and so is its part of the KL.
    left[1, 0] = -np.inf
    assert logits_metrics(left, right)["max_softmax_kl"] == 0
    left[0, 1] = -np.inf
    found = logits_metrics(left, right)
    assert found["max_softmax_kl"] == found["log_probability_error"] == np.inf


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


SUITE = '[msdump]\nleft = "left"\nright = "right"\nprofile = "generation"\n'
LOGITS = '[[msdump.rule]]\nmatch = "logits"\nlogits = true\n'


def compared(folder: Path, left: dict[str, Any], right: dict[str, Any], rules: str) -> Any:
    """The report of two dumps of arrays, gated as a suite."""
    for side, tensors in (("left", left), ("right", right)):
        (folder / side).mkdir(parents=True)
        for number, (name, values) in enumerate(tensors.items()):
            np.save(folder / side / f"{name}.0.{1_700_000_000_000_000 + number}.npy", values)
    (folder / "msdump.toml").write_text(SUITE + rules)
    arguments = ["compare", "--config", str(folder / "msdump.toml"), "--report", "json,html"]
    assert main([*arguments, "--report-dir", str(folder / "report")]) in (0, 1)
    return report_from(read_json(folder / "report" / "results.json"))


def test_a_padded_vocabulary_is_cropped_to_the_ids_that_both_sides_have(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    right = rng.standard_normal((2, 7, 50)).astype(np.float32)
    left = (right + 1e-3 * rng.standard_normal(right.shape)).astype(np.float32)
    padded = np.concatenate([left, np.full((2, 7, 14), 99.0, np.float32)], -1)
    entry = '[[msdump.map]]\nleft = "logits"\nright = "logits"\ncrop = 2\n'
    report = compared(tmp_path, {"logits": padded}, {"logits": right}, LOGITS + entry)
    assert agrees(report.records[0].metrics["softmax_kl"], expected(left, right).mean())
    assert len(report.parts["generation"].tensors[0].kl) == 14


def test_log_probabilities_are_of_the_tokens_that_the_reference_chose(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    right = rng.standard_normal((3, 8, 20)).astype(np.float32)
    left = (right + 0.01 * rng.standard_normal(right.shape)).astype(np.float32)
    # Sampled: they are not the largest.
    ids = rng.integers(0, 20, (3, 8))
    rule = '[[msdump.rule]]\nmatch = "ids"\nties = "logits"\n'
    report = compared(tmp_path, {"logits": left, "ids": ids}, {"logits": right, "ids": ids}, LOGITS + rule)
    logs = [np.take_along_axis(log_softmax(one.astype("f8"), -1), ids[..., None], -1)[..., 0] for one in (left, right)]
    logits = next(one for one in report.records if one.left.address.startswith("logits"))
    assert agrees(logits.metrics["log_probability_error"], np.abs(logs[0] - logs[1]).mean())
    rows = report.parts["generation"].tensors[0].rows
    assert [row[3] for row in rows] == ids.ravel().tolist()
    assert [row[5] for row in rows] == pytest.approx(logs[0].ravel(), rel=1e-3)


def test_values_of_bfloat16_are_read_as_they_are(tmp_path: Path) -> None:
    from pytest_msdump.capabilities.record.writer import DumpWriter
    from pytest_msdump.core.dtypes.arrays import RawArray

    rng = np.random.default_rng(8)
    sides = table(rng, mask="both", dtype="bfloat16", rows=6, width=40)
    for name, values in zip(("left", "right"), sides, strict=True):
        bits = (values.view("u4") >> 16).astype("u2")
        with DumpWriter(tmp_path / name) as writer:
            writer.write("logits", RawArray(bits, bits.shape, "bfloat16"))
    (tmp_path / "msdump.toml").write_text(SUITE + LOGITS)
    main(["compare", "--config", str(tmp_path / "msdump.toml"), "--report-dir", str(tmp_path / "report")])
    record = report_from(read_json(tmp_path / "report" / "results.json")).records[0]
    assert record.judged_as == "bfloat16"
    assert agrees(record.metrics["softmax_kl"], expected(*sides).mean())

"""Elements that dominate all others: what counts as such, and what the others alone are held to."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kernels import EACH

from pytest_msdump import compare
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.report.record_json import checked_record, to_json
from pytest_msdump.core.text import say

Array = npt.NDArray[Any]
SHAPE = (4, 16, 16)


def scores(seed: int, scale: float = 3.0) -> Array:
    return np.random.default_rng(seed).normal(0, scale, SHAPE).astype(np.float32)


def upper(share: float = 0.5) -> Array:
    return np.random.default_rng(9).random(SHAPE) < share


def filled(values: Array, mask: float, where: Array) -> Array:
    return np.where(where, np.float32(mask), values)


def sound(values: Array) -> Array:
    return values * np.float32(1 + 2e-6)


def codes(record: Record) -> list[str]:
    return [one.message.code for one in record.verdict.findings]


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("block", [None, 1, 7, 256, 1000])
def test_the_others_are_measured_by_themselves(kernel: str, block: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, kernel)
    where, left, right = upper(), scores(1), scores(2)
    sides = [ArrayView(filled(one, -1e9, where)) for one in (left, right)]
    (found,) = measure(*sides, block_elements=block).dominated
    a, b = left[~where].astype(np.float64), right[~where].astype(np.float64)
    expected = {
        "cosine_similarity": a @ b / np.linalg.norm(a) / np.linalg.norm(b),
        "relative_euclidean_distance": np.linalg.norm(a - b) / np.linalg.norm(b),
        "root_mean_square_error": np.sqrt(((a - b) ** 2).mean()),
        "normalized_max_error": np.abs(a - b).max() / np.abs(b).max(),
        "signal_to_noise_ratio": 20 * np.log10(np.linalg.norm(b) / np.linalg.norm(a - b)),
    }
    assert found.values == pytest.approx(expected, rel=1e-12)
    assert (found.code, found.elements) == ("dominated", where.sum())


MASKED = {
    "one constant": ((-1e9, -1e9), 0.5),
    "the lowest number": ((-3.4028234e38, -3.4028234e38), 0.5),
    "a constant for each side": ((-1e4, -3.4e38), 0.5),
    "one in fifty": ((-1e4, -1e4), 0.02),
    "nearly everywhere": ((-65504.0, -65504.0), 0.99),
}


@pytest.mark.parametrize(("constants", "share"), MASKED.values(), ids=MASKED)
def test_unrelated_scores_below_a_mask_fail_and_sound_ones_do_not(constants: Any, share: float) -> None:
    where = upper(share)
    right = filled(scores(2), constants[1], where)
    limits = {"cosine": 0.99, "rel_euclid": 1e-3} if constants[0] == constants[1] else {}
    wrong = compare(filled(scores(1), constants[0], where), right, **limits)
    assert wrong.fails
    assert "dominated" in codes(wrong)
    if constants[0] == constants[1]:
        assert "of the" in say(wrong.verdict.findings[0].message)
        right_one = compare(filled(sound(scores(2)), constants[0], where), right)
        assert right_one.verdict.outcome == "pass"
        assert "dominated" in codes(right_one)


def test_two_levels_of_masks_hide_nothing() -> None:
    far, near = upper(), np.random.default_rng(3).random(SHAPE) < 0.3
    left, right = (filled(filled(one, -1e9, near), -3.4e38, far) for one in (scores(1), scores(2)))
    assert compare(left, right).fails
    same = filled(filled(sound(scores(2)), -1e9, near), -3.4e38, far)
    assert compare(same, right).verdict.outcome == "pass"


def test_a_mask_with_both_signs_hides_nothing() -> None:
    where, signs = upper(), np.where(upper(0.4), -1, 1).astype(np.float32)
    assert compare(*(filled(one, -1e9, where) * signs for one in (scores(1), scores(2)))).fails


def test_large_wrong_scores_that_fill_the_gap_of_one_side_hide_nothing() -> None:
    where, left = upper(0.9), scores(2)
    left.flat[np.flatnonzero(~where)[:20]] = 1100
    record = compare(filled(left, -65504.0, where), filled(scores(2), -65504.0, where), rel_euclid=0.05, norm_max=0.05)
    assert record.fails


def test_a_mask_that_is_missing_in_one_place_fails_by_any_limit_on_a_norm() -> None:
    where = upper()
    left, right = filled(scores(2), -1e9, where), filled(scores(2), -1e9, where)
    left.flat[np.flatnonzero(where)[5]] = 1.5
    assert codes(compare(left, right, cosine=0.99, rel_euclid=0.9, norm_max=2))[0] in ("below_limit", "above_limit")


def test_a_mask_alone_is_not_judged_apart() -> None:
    mask = filled(np.zeros(SHAPE, np.float32), -1e4, upper())
    record = compare(mask * np.float32(1 + 1e-6), mask)
    assert (record.verdict.outcome, codes(record)) == ("pass", ["dominated_zeros"])


def test_a_few_outliers_are_told_and_not_judged_apart() -> None:
    left, right = scores(1), scores(2)
    for one in (left, right):
        one.flat[::200] = 1e6
    record = compare(left, right)
    assert codes(record) == ["outliers"]


@pytest.mark.parametrize(("infinite", "outcome"), [(True, "fail"), (False, "pass")])
def test_a_mask_of_two_constants_is_one_share(infinite: bool, outcome: str) -> None:
    left, right = scores(1), scores(2)
    for one in (left, right):
        one.flat[::200] = -1e9
        if infinite:
            one.flat[1::200] = -np.inf
    assert compare(left, right).verdict.outcome == outcome


@pytest.mark.parametrize(
    "values",
    [np.random.default_rng(1).lognormal(0, 4, 5000), np.arange(5000.0), np.full(5000, 2e4), np.geomspace(1, 1e9, 5000)],
    ids=["lognormal", "ramp", "constant", "geometric"],
)
def test_ordinary_large_values_have_no_gap(values: Array) -> None:
    assert measure(ArrayView(values * (1 + 1e-9)), ArrayView(values)).dominated == ()


def test_the_record_survives_workers_and_files() -> None:
    where = upper()
    record = compare(filled(scores(1), -1e9, where), filled(scores(2), -1e9, where))
    assert pickle.loads(pickle.dumps(record)) == record
    again = checked_record(to_json(record), place="results.json")
    assert again.comparison is not None
    assert record.comparison is not None
    assert again.comparison.dominated == record.comparison.dominated
    assert to_json(record)["dominated"][0]["elements"] == where.sum()
    zh = say(next(one.message for one in record.verdict.findings if one.message.code == "dominated"), "zh")
    assert "-1e9" in zh

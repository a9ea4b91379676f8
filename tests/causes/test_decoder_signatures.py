"""Mistakes of small decoders, by the benchmark: what is said of the first tensor that differs, and of sound runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pytest_msdump.capabilities.diagnosis.diagnose import diagnose
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.text import say

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "decoders.py"
X = np.random.default_rng(4).normal(size=(2, 10, 32)).astype("f4")
HEADS = X.reshape(2, 10, 4, 8)


@pytest.fixture(scope="module")
def decoders() -> ModuleType:
    spec = importlib.util.spec_from_file_location("decoders_benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def told(left: np.ndarray, right: np.ndarray = X, operator: str = "layers.0.attention.wo") -> list[str]:
    """What is sure of two tensors."""
    found = diagnose(ArrayView(np.ascontiguousarray(left)), ArrayView(np.ascontiguousarray(right)), operator=operator)
    return [say(one.evidence) for one in found if one.confidence == "high"]


def changed(*at: object) -> np.ndarray:
    """Other values at some places."""
    left = X.copy()
    left[at] += np.random.default_rng(5).normal(size=left[at].shape)
    return left


@pytest.mark.full
def test_no_sure_sentence_about_a_decoder_is_wrong_and_most_point_to_the_mistake(decoders):
    given = list(decoders.answers(3))
    assert not [(one.name, kind, answer) for kind, one, _, answer in given if answer is not None and answer.is_wrong]
    pointed = sum(answer is not None and answer.is_right for *_, answer in given)
    assert pointed >= 0.8 * sum(bool(one.codes) for _, one, _, _ in given) > 120


@pytest.mark.full
def test_nothing_is_said_of_where_sound_runs_are_rounded(decoders):
    assert list(decoders.false_alarms(3)) == []


ALL = slice(None)
WHERE = {
    "axis 1 from index 1 on; if axis 1 is the tokens, look at positions": (ALL, slice(1, None)),
    "axis 1 from index 5 on; if axis 1 is the tokens, look at what changes there: cache": (ALL, slice(5, None)),
    "index 1 of axis 0, axis 1 from index 5 on": (1, slice(5, None)),
    "index 1 of axis 0, 0–2 of axis 1; if rows are padded there": (1, slice(3)),
    "0–8 of axis 1; if axis 1 is the tokens, look at the mask": (ALL, slice(9)),
    "along axis 2 block 1, 2 of 4, of 8 each; those are the heads": (ALL, ALL, slice(8, 24)),
    "along axis 2 block 3 of 4, of 8 each": (ALL, ALL, slice(24, None)),
    "every index 1 + 2n of axis 2": (ALL, ALL, slice(1, None, 2)),
    "of axis 1 the first [2, 4], by row of axis 0; if rows are padded": (
        np.array([[0]] * 10 + [[1]] * 10)[[0, 1, *range(10, 14)]].ravel(),
        np.array([0, 1, 0, 1, 2, 3]),
    ),
}


@pytest.mark.parametrize("sentence", WHERE)
def test_the_part_that_differs_is_named_by_its_axes(sentence):
    (said,) = told(changed(*WHERE[sentence]))
    assert said.startswith(f"only this differs: {sentence}")


def test_outside_of_attention_a_part_accuses_nothing():
    (said,) = told(changed(ALL, slice(1, None)), operator="conv1")
    assert said == "only this differs: axis 1 from index 1 on"


def test_a_part_is_not_named_where_the_rest_agrees_only_roughly_or_the_difference_is_small():
    left = changed(ALL, slice(5, None))
    left[:, :5] *= 1.001
    assert told(left) == []
    left = X.copy()
    left[:, 5:] *= 1 + 1e-4 * np.random.default_rng(6).normal(size=left[:, 5:].shape).astype("f4")
    assert told(left) == []


def test_a_huge_element_does_not_hide_that_a_slice_differs():
    right = X.copy()
    right[:, 0, 0] = 1e6
    left = right.copy()
    left[:, :, 1:] += np.random.default_rng(7).normal(size=left[:, :, 1:].shape)
    assert not any("axis 1" in said for said in told(left, right))


ORDERS = {
    "along axis 2 in blocks of 8, numbers 1 and 2 are exchanged": HEADS[:, :, [0, 2, 1, 3]],
    "along axis 2, the halves of each 8 are exchanged": np.roll(HEADS, 4, 3),
    "along axis 2, what stands in pairs on the right stands in halves": HEADS.reshape(2, 10, 4, 4, 2).swapaxes(3, 4),
    "along axis 2, what stands in halves on the right stands in pairs": HEADS.reshape(2, 10, 4, 2, 4).swapaxes(3, 4),
    "along axis 2, the left has the right's blocks of 8 in the order [2, 0, 1, 3]": HEADS[:, :, [2, 0, 1, 3]],
    "the last two axes were made of 4 heads of 8 before": HEADS.swapaxes(1, 2),
}


@pytest.mark.parametrize("sentence", ORDERS)
@pytest.mark.parametrize("noise", [0, 1e-3])
def test_heads_in_another_order_are_named(sentence, noise):
    left = ORDERS[sentence].reshape(X.shape)
    left = left * (1 + noise * np.random.default_rng(8).normal(size=X.shape)).astype("f4")
    (said,) = told(left)
    assert said.startswith(sentence)


def test_an_order_that_nothing_makes_stays_a_permutation():
    (said,) = told(X[:, :, np.random.default_rng(9).permutation(32)])
    assert said.startswith("both sides have the same 640 values")


def test_heads_repeated_in_turn_are_told_from_heads_in_a_row():
    keys = HEADS[:, :, :2].swapaxes(1, 2)
    turn, row = np.tile(keys, (1, 2, 1, 1)), np.repeat(keys, 2, 1)
    assert "repeat against repeat_interleave" in told(turn, row)[0]
    assert "repeat_interleave against repeat;" in told(row, turn)[0]

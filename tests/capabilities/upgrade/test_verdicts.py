"""Pairs of environments that differ in one line of a package: the verdict, and the operators that it is due to.

The truth is which line was changed, and which operators of the network run it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from upgrades.pairs import PLACES, Upgrade, judged, upgrades

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SAMPLE = [one for one, _ in zip(upgrades(random.Random(3)), range(6), strict=False)]
CODES = {"wrong": 1, "code": 1, "kernel": 0, "nondeterministic": 0}


@pytest.mark.parametrize("upgrade", SAMPLE, ids=[one.kind for one in SAMPLE])
def test_each_kind_of_change_has_its_verdict_at_the_operators_that_run_the_changed_line(
    upgrade: Upgrade, tmp_path: Path
) -> None:
    code, found = judged(tmp_path, upgrade, seed=11)
    assert found == dict.fromkeys(upgrade.operators, upgrade.verdict)
    if upgrade.verdict in CODES:
        assert code == CODES[upgrade.verdict]


def test_environments_that_compute_alike_show_nothing(tmp_path: Path) -> None:
    same = Upgrade("nothing", "a @ b  # matmul", "(a @ b)  # matmul", "", ())
    assert judged(tmp_path, same, seed=5) == (0, {})


def test_a_second_kernel_that_changed_does_not_hide_behind_the_first(tmp_path: Path) -> None:
    """What is added up otherwise feeds a sum of two that is rounded otherwise, within a unit."""
    total = "np.add.accumulate(exp[..., ::-1], axis=-1)[..., -1:]"
    softmax = Upgrade("first", "exp.sum(axis=axis, keepdims=True)  # softmax", total, "kernel", PLACES["softmax"])
    add = Upgrade("second", "x + y  # add", "np.nextafter(x + y, np.float32(9e9))", "kernel", PLACES["add"])
    expected = dict.fromkeys(PLACES["softmax"] + PLACES["add"], "kernel")
    assert judged(tmp_path, softmax, add, seed=5) == (0, expected)


def test_a_wrong_kernel_is_not_excused_by_the_precision_of_the_other_side(tmp_path: Path) -> None:
    """The old side was coarse, and said so; the new one is as coarse, and says that it is not."""
    said = Upgrade("said", '{"precision": precision}', '{"precision": "highest"}', "", ())
    coarse = Upgrade("coarse", 'precision = "highest"', 'precision = "high"', "wrong", PLACES["matmul"])
    order = Upgrade("order", "a @ b  # matmul", "(a[:, ::2] @ b[::2] + a[:, 1::2] @ b[1::2])", "", ())
    code, found = judged(tmp_path, said, coarse, order, seed=5, before=(coarse,))
    assert (code, found) == (1, dict.fromkeys(PLACES["matmul"], "wrong"))


def test_a_wrong_kernel_is_not_excused_by_a_setting_that_changed_with_it(tmp_path: Path) -> None:
    said = Upgrade("said", '"precision": precision', '"precision": "medium"', "", ())
    wrong = Upgrade("epsilon", "np.float32(epsilon)", "np.float32(10 * epsilon)", "wrong", PLACES["layer_norm"])
    assert judged(tmp_path, said, wrong, seed=5) == (1, dict.fromkeys(PLACES["layer_norm"], "wrong"))

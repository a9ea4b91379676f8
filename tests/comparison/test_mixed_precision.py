"""A run with mixed precision is judged by the type it computed in, whatever type its files have; others are not."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter

X = np.random.default_rng(2).standard_normal((16, 16)).astype(np.float32)
# Within 5e-2 (bfloat16) and 1e-2 (float16), and beyond 1e-3 (float32), by relative Euclidean distance; and so on.
NEAR, FAR = X * np.float32(1.004), X * np.float32(1.03)


def dump(folder, values, policy="", name="fc", op_type="Linear"):
    with DumpWriter(folder) as writer:
        writer.describe(dtype_policy=policy)
        writer.write(name, values, op_type=op_type)
    return folder


def record(left, right, profile="default"):
    options = {"left": str(left), "right": str(right), "profile": profile}
    planned = plan(load_suite(file=None, options=options, directory=left.parent))
    (found,) = build_report(planned, compare_plan(planned)).records
    return found


@pytest.mark.parametrize("policy", ["autocast bfloat16", "mixed_bfloat16", "amp O2 bfloat16"])
@pytest.mark.parametrize("side", [0, 1])
def test_the_type_of_the_policy_chooses_the_limits_on_either_side(tmp_path, policy, side):
    policies = [policy if one == side else "" for one in (0, 1)]
    found = record(dump(tmp_path / "l", FAR, policies[0]), dump(tmp_path / "r", X, policies[1]))
    assert (found.verdict.outcome, found.judged_as) == ("pass", "bfloat16")
    (note,) = found.verdict.findings
    assert note.sentence == (
        f"the {('left', 'right')[side]} file is float32, but was computed in bfloat16, as its manifest says; "
        "judged as bfloat16"
    )


def test_the_limits_are_those_of_the_type_and_no_wider(tmp_path):
    right = dump(tmp_path / "r", X)
    assert record(dump(tmp_path / "near", NEAR, "autocast float16"), right).verdict.outcome == "pass"
    assert record(dump(tmp_path / "far", FAR, "autocast float16"), right).verdict.outcome == "fail"
    assert record(dump(tmp_path / "wrong", X * np.float32(1.2), "autocast bfloat16"), right).fails


@pytest.mark.parametrize("policy", ["", "amp", "amp O1", "float32", "autocast float8_e8m0", "autocast int8", "x" * 199])
def test_a_run_without_mixed_precision_is_never_loosened(tmp_path, policy):
    found = record(dump(tmp_path / "l", NEAR, policy), dump(tmp_path / "r", X, policy))
    assert (found.verdict.outcome, found.judged_as, found.remarks) == ("fail", "float32", ())


@pytest.mark.parametrize(("name", "op_type"), [("fc.weight", PARAMETER), ("fc.weight/updated", "Optimizer")])
def test_weights_keep_their_own_limits(tmp_path, name, op_type):
    sides = [
        dump(tmp_path / str(one), values, "autocast bfloat16", name, op_type) for one, values in enumerate((NEAR, X))
    ]
    assert (record(*sides).verdict.outcome, record(*sides).judged_as) == ("fail", "float32")


def test_values_that_are_all_of_the_type_need_no_hint(tmp_path):
    coarse = (X.view(np.uint32) & 0xFFFF0000).view(np.float32)
    found = record(dump(tmp_path / "l", coarse, "autocast bfloat16"), dump(tmp_path / "r", X))
    assert [one.message.code for one in found.verdict.findings] == ["judged_as_computed"]

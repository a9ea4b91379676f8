"""Every fault of the table ends in exit code 1, with the right tensor named first and no other blamed."""

from __future__ import annotations

import pytest
from faults.faults import CONV2, FAULTS, judged, made

# These put two tensors wrong: the swapped files both, a later run only the one.
BLAMED_TOO = {"two files swapped": {"Default/relu2-ReLU/ReLU-op0:output:0"}}


def test_there_are_enough_of_them():
    assert len(FAULTS) >= 30
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_without_a_fault_the_dump_passes(tmp_path):
    outcome = judged(None, tmp_path)
    assert outcome.code == 0
    assert outcome.failing == ()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_gate_fails_and_names_the_tensor(fault, tmp_path):
    outcome = judged(fault, tmp_path)
    assert outcome.code == 1
    assert outcome.named == fault.named
    assert set(outcome.failing) == {fault.named} | BLAMED_TOO.get(fault.name, set())
    assert outcome.sentence


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
@pytest.mark.parametrize("name", ["all signs", "one NaN", "last byte missing", "file missing", "one element wrong"])
def test_pytest_says_the_same(pytester, name, workers, tmp_path):
    fault = next(fault for fault in FAULTS if fault.name == name)
    left, right = made(fault, tmp_path)
    result = pytester.runpytest_subprocess(
        f"--msdump-left={left}", f"--msdump-right={right}", "--msdump-io=all", "--msdump-min-coverage=100", *workers
    )
    assert result.ret == 1
    result.assert_outcomes(failed=1, passed=23)
    result.stdout.fnmatch_lines([f"*{CONV2}*"])

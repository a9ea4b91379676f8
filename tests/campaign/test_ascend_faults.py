"""Every fault of a device dump ends in exit code 1, with the right tensor named first and no other blamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign.ascend_faults import ASCEND_FAULTS, CONTROLS, AscendFault
from campaign.ascend_trials import ADDRESSES, AscendTrial
from campaign.trials import by_command, by_helper, by_pytest

BY_NAME = {fault.what: fault for fault in ASCEND_FAULTS}

# A value, a memory format, slots, a file of either side, a rule.
BY_PYTEST = (
    "sign of one NC1HWC0 channel",
    "header says no groups",
    "inputs swapped",
    "file cut by one byte",
    "reference's file missing",
    "rules name another layer",
)


def trial_of(fault: AscendFault, root: Path) -> AscendTrial:
    trial = AscendTrial(root, settings=fault.settings)
    fault.inject(trial)
    return trial


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_faults_are_different() -> None:
    assert len(BY_NAME) == len(ASCEND_FAULTS)


@pytest.mark.parametrize("change", CONTROLS.values(), ids=CONTROLS)
def test_what_is_no_fault_passes(change, tmp_path: Path) -> None:
    trial = AscendTrial(tmp_path, settings={"min_coverage": 0.7})
    change(trial)
    outcome = by_command(trial)
    assert (outcome.code, outcome.named) == (0, ""), outcome.text
    assert f"{len(ADDRESSES)} tensors: {len(ADDRESSES)} pass" in outcome.text
    assert by_helper(trial) is None


@pytest.mark.parametrize("fault", ASCEND_FAULTS, ids=lambda fault: fault.what)
def test_a_fault_fails_the_gate_and_is_named(fault: AscendFault, tmp_path: Path) -> None:
    trial = trial_of(fault, tmp_path)
    outcome = by_command(trial)
    assert (outcome.code, outcome.named) == (1, fault.named)
    assert outcome.failing in (frozenset(), {fault.named} | fault.too)
    assert "Traceback" not in outcome.text
    said = by_helper(trial)
    assert said is not None
    for text in (outcome.text, said):
        assert fault.named.rsplit(":", 2)[0] in one_line(text)
        assert fault.says.lower() in one_line(text).lower()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("what", "workers"),
    [*((what, ()) for what in BY_PYTEST), (BY_PYTEST[2], ("-n", "2"))],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "one process",
)
def test_pytest_says_the_same(what: str, workers: tuple[str, ...], tmp_path: Path) -> None:
    if workers:
        pytest.importorskip("xdist")
    fault = BY_NAME[what]
    trial = trial_of(fault, tmp_path)
    outcome = by_pytest(trial, *workers)
    assert (outcome.code, outcome.named) == (1, fault.named)
    assert outcome[1:3] == by_command(trial)[1:3]
    assert "Traceback" not in outcome.text
    assert fault.says.lower() in one_line(outcome.text).lower()

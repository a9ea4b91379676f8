"""Every fault of the table ends in exit code 1, with the right tensor named first and no other blamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.faults import FAULTS, Fault
from faults.trials import Trial, by_command, by_helper, by_pytest

BY_NAME = {fault.what: fault for fault in FAULTS}

# One of each way to fail: a value, a class, a shape, a file, a missing tensor, the map, names, coverage.
BY_PYTEST = (
    "scaled by 1.01",
    "NaN at one place",
    "transposed",
    "file cut by one byte",
    "file missing",
    "bool flipped",
    "a wrong run into the same directory",
    "an iteration missing",
)


def trial_of(fault: Fault, root: Path) -> Trial:
    trial = Trial(root, fault.by, fault.settings)
    fault.inject(trial)
    return trial


def one_line(text: str) -> str:
    """Text is wrapped to the terminal's width; a word of it is looked for without."""
    return " ".join(text.split())


def test_the_faults_are_many_and_different() -> None:
    assert len(FAULTS) >= 30
    assert len(BY_NAME) == len(FAULTS)


@pytest.mark.parametrize("settings", [{}, {"profile": "strict"}, {"min_coverage": 1.0}])
def test_the_map_passes_without_a_fault(tmp_path: Path, settings: dict[str, object]) -> None:
    trial = Trial(tmp_path, "map", settings)
    outcome = by_command(trial)
    assert (outcome.code, outcome.named) == (0, "")
    assert "10 tensors: 10 pass" in outcome.text
    assert by_helper(trial) is None


@pytest.mark.parametrize("settings", [{}, {"profile": "bitwise"}, {"min_coverage": 1.0}])
def test_the_names_pass_without_a_fault(tmp_path: Path, settings: dict[str, object]) -> None:
    trial = Trial(tmp_path, "names", settings)
    outcome = by_command(trial)
    assert (outcome.code, outcome.named) == (0, "")
    assert "53 tensors: 53 pass" in outcome.text
    assert by_helper(trial) is None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_fails_the_gate_and_is_named(fault: Fault, tmp_path: Path) -> None:
    trial = trial_of(fault, tmp_path)
    outcome = by_command(trial)
    assert outcome.code == 1
    assert outcome.named == fault.named
    assert outcome.failing in (frozenset(), {fault.named} | fault.too)
    assert "Traceback" not in outcome.text
    said = by_helper(trial)
    assert said is not None
    for text in (outcome.text, said):
        assert fault.named.rsplit(":", 2)[0] in one_line(text)
        assert fault.says.lower() in one_line(text).lower()


@pytest.mark.parametrize(
    ("what", "workers"),
    [*((what, ()) for what in BY_PYTEST), *((what, ("-n", "2")) for what in BY_PYTEST[:2] + BY_PYTEST[-2:])],
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
    assert f"{1 + len(fault.too)} failed" in outcome.text
    assert "Traceback" not in outcome.text
    assert fault.says.lower() in one_line(outcome.text).lower()

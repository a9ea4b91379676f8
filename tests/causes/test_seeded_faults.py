"""Faults put into a network of 60 operators: what is called a cause is one."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from causes.networks import SIZE, above, computed, network, write, write_ge, write_graph
from two_dumps import reported

from pytest_msdump.capabilities.causes.roles import reason_of
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.text import ENGLISH


def roles(report: Report, name: str) -> list[str]:
    """Operators that have this role, in execution order."""
    return [record.left.true_name for record in report.records if record.role == name]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.full
def test_the_cause_is_the_operator_with_the_fault(tmp_path: Path, seed: int) -> None:
    ops = network(seed)
    fault = random.Random(seed).choice(ops).name
    write(tmp_path / "left", ops, computed(ops, seed, np.float32, [fault]))
    write(tmp_path / "right", ops, computed(ops, seed, np.float64))
    by = "graph" if seed % 2 else "fusion"
    if by == "graph":
        write_graph(tmp_path, ops)
    report = reported(tmp_path, **({} if by == "graph" else {"fusion": str(write_ge(tmp_path / "ge.json", ops))}))
    failing = [record for record in report.records if record.verdict.outcome == "fail"]
    assert len(ops) == len(report.records) == SIZE
    assert report.localised_by == by
    assert roles(report, "cause") == [fault]
    assert len(roles(report, "inherited")) == len(failing) - 1
    assert all(record.causes == (f"{fault}:output:0",) for record in failing if record.role == "inherited")
    for record in failing:
        assert fault in above(ops, record.left.true_name)


@pytest.mark.parametrize("seed", range(20, 25))
def test_two_independent_faults_are_both_causes(tmp_path: Path, seed: int) -> None:
    ops, choice = network(seed), random.Random(seed)
    names = [op.name for op in ops]
    independent = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if a not in above(ops, b)]
    faults = choice.choice(independent)
    write(tmp_path / "left", ops, computed(ops, seed, np.float32, faults))
    write(tmp_path / "right", ops, computed(ops, seed, np.float64))
    write_graph(tmp_path, ops)
    report = reported(tmp_path)
    assert roles(report, "cause") == list(faults)
    for record in report.records:
        if record.role == "inherited":
            reached = {f"{fault}:output:0" for fault in faults if fault in above(ops, record.left.true_name)}
            assert set(record.causes) == reached


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("seed", range(30, 36))
@pytest.mark.full
def test_with_operators_missing_no_innocent_operator_is_called_a_cause(tmp_path: Path, seed: int, side: str) -> None:
    ops, choice = network(seed), random.Random(seed)
    fault = choice.choice(ops[:40]).name
    missing = set(choice.sample([op.name for op in ops], 20)) - {fault}
    if seed % 2:
        missing.add(fault)
    for name, values in (
        ("left", computed(ops, seed, np.float32, [fault])),
        ("right", computed(ops, seed, np.float64)),
    ):
        write(tmp_path / name, ops, values, without=missing if name == side else ())
    write_graph(tmp_path, ops)
    report = reported(tmp_path)
    failing = [record for record in report.records if record.verdict.outcome == "fail"]
    assert failing
    assert set(roles(report, "cause")) <= {fault} - missing
    producers = next(op.feeds for op in ops if op.name == fault)
    if fault not in missing and not missing & set(producers):
        assert roles(report, "cause") == [fault]
    if not roles(report, "cause"):
        unknown = [record for record in failing if record.role == "unknown"]
        # The fault is named as what was not compared, or it is itself one that may have inherited.
        told = {name for record in unknown for name in [record.left.true_name, *record.suspects]}
        assert fault in told
        assert all(record.suspects and record.suspects[0] in reason_of(record, ENGLISH) for record in unknown)

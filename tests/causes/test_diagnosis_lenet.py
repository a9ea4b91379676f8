"""Real wrong ports: what a wrong padding or pooling does looks like nothing simple, and must not be said to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_msdump.core.compare.comparing import comparer_of
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.model.comparison import FAILING
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.suite import load_suite

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def planned(lenet: Path, run: str, mapping: str) -> Plan:
    entries = tomllib.loads((lenet / mapping).read_text("utf-8"))["entries"]
    pairs = [{"left": entry["target_op"], "right": entry["reference"]} for entry in entries]
    table = {"left": run, "right": "reference", "map": pairs}
    return plan(load_suite(file=None, table=table, options={}, directory=lenet))


def explained(made: Plan) -> list[Record]:
    compare = comparer_of(made, explains=True).compare
    return [compare(pair) for pair in made.pairing.pairs]


@pytest.mark.parametrize(
    ("run", "mapping", "failing"), [("target_bad", "mapping.toml", 7), ("target_bad2", "mapping_bad2.toml", 5)]
)
def test_a_wrong_padding_or_pooling_gets_no_confident_diagnosis(lenet, run, mapping, failing):
    made = planned(lenet, run, mapping)
    records = explained(made)
    failed = [record for record in records if record.verdict.outcome in FAILING]
    assert len(failed) == failing
    assert not [entry for record in failed for entry in record.diagnosis]


def test_pairs_that_pass_are_not_diagnosed(lenet):
    made = planned(lenet, "target", "mapping.toml")
    assert all(not record.diagnosis for record in explained(made))

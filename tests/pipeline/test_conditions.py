"""The records of many pairs: each is that of its own files as they are now, whatever the others are."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import EACH
from readers.dumpmade import FLOAT, FRACTAL_Z, NC1HWC0, dump2, message, op_output, put

from pytest_msdump.compiled import VARIABLE
from pytest_msdump.memory_formats.storing import stored
from pytest_msdump.pipeline.conditions import conditions_of, entries_of, entry_of
from pytest_msdump.pipeline.gathering import measured, put_together
from pytest_msdump.pipeline.planning import Plan, plan
from pytest_msdump.reporting.csv_report import csv_content
from pytest_msdump.reporting.vendor_table import nine_columns, vendor_table
from pytest_msdump.reporting.written import line_of
from pytest_msdump.suite import load_suite
from pytest_msdump.testing.builder import write_reference


@pytest.fixture(autouse=True, params=EACH)
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, request.param)


def network(folder: Path, **more: Any) -> Plan:
    """Four pairs of device weights against an original's, which pass, and more of plain arrays."""
    rng = np.random.default_rng(1)
    right = dict(more)
    for number in range(4):
        values = rng.normal(size=(2, 20, 3, 2)).astype("float32")
        lying = stored(values, "NC1HWC0", logical_format="NCHW")
        told = op_output(FLOAT, lying.shape, lying.nbytes, memory_format=NC1HWC0, original=values.shape)
        put(
            folder / "left",
            f"Conv2D.op{number}.{number}.1.{1_600_000_000_000_000 + number}",
            dump2(message(outputs=[told]), lying.tobytes()),
        )
        right[f"op{number}"] = values
    write_reference(folder / "right", right)
    table = {"left": str(folder / "left"), "right": str(folder / "right")}
    return plan(load_suite(file=None, table=table, options={}, directory=folder))


def test_each_pair_has_its_own_record_in_order(tmp_path: Path) -> None:
    found = network(tmp_path)
    conditions = conditions_of(found)
    lines = [line_of(entry) for entry in entries_of(found.pairing.pairs, conditions)]
    assert lines == [line_of(entry_of(pair, conditions)) for pair in found.pairing.pairs]
    assert [json.loads(line)["left"]["name"] for line in lines] == ["op0", "op1", "op2", "op3"]


def test_a_file_that_changed_since_the_dump_was_listed_is_read_as_it_is(tmp_path: Path) -> None:
    found = network(tmp_path)
    conditions = conditions_of(found)
    assert [entry["verdict"] for entry in entries_of(found.pairing.pairs, conditions)] == ["pass"] * 4
    first, second, third, fourth = found.pairing.pairs
    path = Path(first.left.source.path)
    path.write_bytes(path.read_bytes()[:-1])
    assert entry_of(first, conditions)["verdict"] == "error"
    path.unlink()
    assert "cannot be opened" in entry_of(first, conditions)["findings"][0]["sentence"]
    right = Path(second.right.source.path)
    right.write_bytes(right.read_bytes() + b"x")
    assert "too many" in entry_of(second, conditions)["findings"][0]["sentence"]
    os.truncate(third.right.source.path, 40)
    assert entry_of(third, conditions)["verdict"] == "error"
    lying = stored(np.full((2, 20, 3, 2), 5, "float32"), "NC1HWC0", logical_format="NCHW")
    told = op_output(FLOAT, lying.shape, lying.nbytes, memory_format=NC1HWC0, original=(2, 20, 3, 2))
    Path(fourth.left.source.path).write_bytes(dump2(message(outputs=[told]), lying.tobytes()))
    assert entry_of(fourth, conditions)["verdict"] == "fail"


def test_a_grouped_weight_in_another_order_of_axes_stops_no_other_pair(tmp_path: Path) -> None:
    weight = np.random.default_rng(5).normal(size=(3, 3, 5, 6)).astype("float32")
    lying = stored(weight, "FRACTAL_Z", logical_format="HWCN", groups=2)
    told = op_output(FLOAT, lying.shape, lying.nbytes, memory_format=FRACTAL_Z, original=weight.shape, groups=2)
    put(tmp_path / "left", "Conv2D.weight.1.1.1600000000000000", dump2(message(outputs=[told]), lying.tobytes()))
    found = network(tmp_path, weight=weight)
    entries = entries_of(found.pairing.pairs, conditions_of(found))
    verdicts = {entry["left"]["name"]: entry["verdict"] for entry in entries}
    assert verdicts == dict.fromkeys(["weight", "op0", "op1", "op2", "op3"], "pass")


def test_the_vendor_s_table_of_records_as_text_is_that_of_their_values(tmp_path: Path) -> None:
    found = network(tmp_path)
    spoilt = found.pairing.pairs[1].right.source.path
    np.save(spoilt, -np.load(spoilt))
    records = [*measured(found).values()]
    report = put_together(found, dict(enumerate(records)))
    values = replace(report, records=tuple(json.loads(line_of(record)) for record in records))
    assert csv_content(report) == csv_content(values)
    assert vendor_table(report) == vendor_table(values)
    assert nine_columns(report) == nine_columns(values)

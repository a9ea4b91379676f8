"""The records of many pairs: each is that of its own files as they are now, whatever the others are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_builder import write_reference
from dumps.dumpmade import FLOAT, FRACTAL_Z, NC1HWC0, dump2, message, op_output, put
from kernels import EACH

from pytest_msdump.core.compare.comparing import comparer_of
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.layouts.device_layout import stored
from pytest_msdump.core.metrics.kernel import VARIABLE
from pytest_msdump.core.suite import load_suite


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
    records = [comparer_of(found).compare(pair) for pair in found.pairing.pairs]
    assert [record.order for record in records] == [pair.order for pair in found.pairing.pairs]
    assert [record.left.name for record in records] == ["op0", "op1", "op2", "op3"]


def test_a_file_that_changed_since_the_dump_was_listed_is_read_as_it_is(tmp_path: Path) -> None:
    found = network(tmp_path)
    compare = comparer_of(found).compare
    assert [compare(pair).verdict.outcome for pair in found.pairing.pairs] == ["pass"] * 4
    first, second, third, fourth = found.pairing.pairs
    path = Path(first.left.source.path)
    path.write_bytes(path.read_bytes()[:-1])
    assert compare(first).verdict.outcome == "error"
    path.unlink()
    assert "cannot be opened" in compare(first).verdict.findings[0].sentence
    right = Path(second.right.source.path)
    right.write_bytes(right.read_bytes() + b"x")
    assert "too many" in compare(second).verdict.findings[0].sentence
    os.truncate(third.right.source.path, 40)
    assert compare(third).verdict.outcome == "error"
    lying = stored(np.full((2, 20, 3, 2), 5, "float32"), "NC1HWC0", logical_format="NCHW")
    told = op_output(FLOAT, lying.shape, lying.nbytes, memory_format=NC1HWC0, original=(2, 20, 3, 2))
    Path(fourth.left.source.path).write_bytes(dump2(message(outputs=[told]), lying.tobytes()))
    assert compare(fourth).verdict.outcome == "fail"


def test_a_grouped_weight_in_another_order_of_axes_stops_no_other_pair(tmp_path: Path) -> None:
    weight = np.random.default_rng(5).normal(size=(3, 3, 5, 6)).astype("float32")
    lying = stored(weight, "FRACTAL_Z", logical_format="HWCN", groups=2)
    told = op_output(FLOAT, lying.shape, lying.nbytes, memory_format=FRACTAL_Z, original=weight.shape, groups=2)
    put(tmp_path / "left", "Conv2D.weight.1.1.1600000000000000", dump2(message(outputs=[told]), lying.tobytes()))
    found = network(tmp_path, weight=weight)
    records = map(comparer_of(found).compare, found.pairing.pairs)
    verdicts = {record.left.name: record.verdict.outcome for record in records}
    assert verdicts == dict.fromkeys(["weight", "op0", "op1", "op2", "op3"], "pass")

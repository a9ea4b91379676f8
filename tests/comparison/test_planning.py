"""A plan reads names only, and names its items as people can type them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.suite import load_suite


def planned(left: Path, right: Path, **table):
    suite = load_suite(file=None, table={"left": str(left), "right": str(right), **table}, options={}, directory=left)
    return plan(suite)


def names(left: Path, **table) -> list[str]:
    return [group.name for group in planned(left, left, **table).groups]


def run(root: Path, *ops: str, **where) -> Path:
    values = np.ones(3, np.float32)
    write_mindspore(root, [("Add", op, "output", 0, values) for op in ops], **where)
    return root


def test_a_loop_names_its_occurrences():
    loop = Path(__file__).parents[1] / "data" / "hazards" / "while_loop"
    found = names(loop, iteration="0")
    assert [name for name in found if "Less" in name] == [
        f"Default/Less-op0[graph0-iter0-occ{number}]" for number in range(4)
    ]


def test_two_types_of_one_name_get_their_types(tmp_path):
    values = np.ones(2, np.float32)
    write_mindspore(
        tmp_path / "run",
        [("Add", "fc1", "output", 0, values), ("Parameter", "fc1", "output", 0, values)],
        execution_order=False,
    )
    assert sorted(names(tmp_path / "run")) == ["Add.fc1", "Parameter.fc1"]


def test_the_digest_knows_files_and_options(lenet, tmp_path):
    shutil.copytree(lenet / "reference", tmp_path / "right")
    before = planned(lenet / "target", tmp_path / "right").digest
    assert planned(lenet / "target", tmp_path / "right").digest == before
    assert planned(lenet / "target", tmp_path / "right", profile="strict").digest != before
    file = next((tmp_path / "right").iterdir())
    file.chmod(0o600)
    file.write_bytes(file.read_bytes() + b"\0")
    assert planned(lenet / "target", tmp_path / "right").digest != before


def test_an_execution_order_kept_elsewhere_gives_names(tmp_path):
    run(tmp_path / "run", "Default/b", "Default/a", execution_order=False)
    order = tmp_path / "ms_execution_order_graph_0.csv"
    order.write_text("NodeExecutionOrder-FullNameWithScope\nDefault/a\nDefault/b\n", "utf-8")
    assert names(tmp_path / "run", graph_files=[str(order)]) == ["Default/a", "Default/b"]


@pytest.mark.parametrize("name", ["trace_code_graph_0.ir", "ms_execution_order_graph_0.csv"])
def test_a_graph_file_that_cannot_be_used_is_refused(tmp_path, name):
    run(tmp_path / "run", "Default/a")
    with pytest.raises(ConfigError, match="graph_files"):
        names(tmp_path / "run", graph_files=[str(tmp_path / name)])


GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"


def test_another_rule_file_makes_another_plan(tmp_path):
    rules = tmp_path / "rules.json"
    text = (GOLDEN / "a_fusion_nchw" / "fusion.json").read_text()
    sides = (GOLDEN / "a_fusion_nchw" / "left", GOLDEN / "a_fusion_nchw" / "right")
    rules.write_text(text)
    before = planned(*sides, fusion=str(rules)).digest
    rules.write_text(text + "\n")
    assert planned(*sides, fusion=str(rules)).digest != before

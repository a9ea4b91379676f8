"""Lines of the program in failures, in results.json and in selections, by the graphs of a run of MindSpore 2.10."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from semantics.gate import ask

SAMPLE = Path(__file__).parents[1] / "data" / "ir" / "odd"
# The graph calls it so; its files are named Default_Concat-op0.
LINE_13 = {"Default/Concat-op1:output:0"}
LINE_14 = {
    "Default/Flatten-op0:output:0",
    "Default/StridedSlice-op0:output:0",
    "Default/Mul-op0:output:0",
}


def run_of(root: Path, *, graphs: bool = True, bad: str = "") -> Path:
    """The tree of the sample's run with numbers of ours; a file whose name has `bad` in it drifts."""
    for folder, pattern in (("graphs", "ms_output_*"), ("execution_order", "ms_execution_*")):
        if graphs or folder != "graphs":
            (root / "rank_0" / folder).mkdir(parents=True)
            for path in SAMPLE.glob(pattern):
                shutil.copy(path, root / "rank_0" / folder)
    for number, line in enumerate((SAMPLE / "npy_listing.txt").read_text().splitlines()):
        path = root / "rank_0" / "Net" / line
        path.parent.mkdir(parents=True, exist_ok=True)
        dtype = line.rsplit(".", 2)[-2].lower()
        values = np.random.default_rng(number).uniform(1, 100, (2, 3)).astype(dtype)
        np.save(path, -values if bad and bad in line else values)
    return root


def selected(results: dict) -> set[str]:
    return {record["left"]["address"] for record in results["tensors"]}


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    return run_of(tmp_path / "run", bad="Concat-op0"), run_of(tmp_path / "reference", graphs=False)


def test_a_failure_names_the_line_that_made_the_operator(sides):
    code, text, results = ask(*sides)
    assert (code, "made by /srv/demo/net.py:13 y = ops.concat((b, a), 1)" in text) == (1, True)
    assert "DRIFT Default/Concat-op1:output:0" in text
    records = {record["left"]["address"]: record for record in results["tensors"]}
    (address,) = LINE_13
    expected = {"file": "/srv/demo/net.py", "line": 13, "text": "y = ops.concat((b, a), 1)"}
    assert records[address]["source"] == expected
    assert "source" not in records[address]["right"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("net.py:13", LINE_13),
        ("demo/net.py:14", LINE_14),
        ("y = ops.flatten(y)[:, :16] * self.table", LINE_14),
        ("ops.concat((b, a), 1)", LINE_13),
    ],
)
def test_operators_are_selected_by_a_line_of_the_program(sides, where, expected):
    code, _, results = ask(*sides, "--select", f"line:{where}")
    assert (code, selected(results)) == (int(expected == LINE_13), expected)


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (0, "no operator of either side was made by it; there are /srv/demo/net.py:12, /srv/demo/net.py:13"),
        (1, "neither side has a graph with lines of the program; name one with graph_files"),
    ],
)
def test_a_line_that_made_nothing_is_a_usage_error(sides, left, expected):
    code, text, _ = ask(sides[left], sides[1], "--select", "line:net.py:99")
    assert code == 4
    assert f"line:net.py:99: {expected}" in " ".join(text.split())

"""Arrays dumped without trans_flag, in a device's memory format: whose word their logical shape is, and that padding
is never compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from semantics.gate import Answer, ask

SAMPLE = Path(__file__).parents[1] / "data" / "ir" / "odd"
CONV = "Conv2D.Default_conv-Conv2d_Conv2D-op0.0.0.1795253606655065.output.0"
# The host line of the graph says so.
LOGICAL = (2, 2, 4, 4)
VALUES = np.random.default_rng(7).uniform(1, 2, LOGICAL).astype("float32")


def blocks(values: np.ndarray, padding: float) -> np.ndarray:
    """NC1HWC0 by its definition: channel c is in block c // 16, at place c % 16."""
    count, channels, height, width = values.shape
    stored = np.full((count, -(-channels // 16), height, width, 16), padding, values.dtype)
    for channel in range(channels):
        stored[:, channel // 16, :, :, channel % 16] = values[:, channel]
    return stored


def tree(root: Path, values: np.ndarray, memory_format: str, *, graphs: bool) -> Path:
    folder = root / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)
    np.save(folder / f"{CONV}.{memory_format}.Float32.npy", values)
    if graphs:
        (root / "rank_0" / "graphs").mkdir()
        shutil.copy(SAMPLE / "ms_output_trace_code_graph_0.ir", root / "rank_0" / "graphs")
    return root


def compared(tmp_path: Path, *, left_graph: bool, right_graph: bool, right: str, drift: float = 0.0) -> Answer:
    left_side = tree(tmp_path / "left", blocks(VALUES + np.float32(drift), 9e9), "NC1HWC0", graphs=left_graph)
    values = VALUES if right == "DefaultFormat" else blocks(VALUES, -7.0)
    return ask(left_side, tree(tmp_path / "right", values, right, graphs=right_graph), "--profile", "bitwise")


@pytest.mark.parametrize("drift", [0.0, 0.5])
@pytest.mark.parametrize(
    ("left_graph", "right_graph", "right"),
    [(True, True, "NC1HWC0"), (False, True, "NC1HWC0"), (True, False, "NC1HWC0"), (True, False, "DefaultFormat")],
)
def test_one_sides_graph_is_enough_to_tell_the_shape(tmp_path, left_graph, right_graph, right, drift):
    answer = compared(tmp_path, left_graph=left_graph, right_graph=right_graph, right=right, drift=drift)
    assert (answer.code, answer.record["elements"]) == (int(drift > 0), VALUES.size)
    assert answer.record["left"]["logical_shape"] == list(LOGICAL)


def test_without_anybody_to_tell_the_shape_it_is_an_error(tmp_path):
    answer = compared(tmp_path, left_graph=False, right_graph=False, right="NC1HWC0")
    assert (answer.code, answer.record["verdict"], answer.record["elements"]) == (1, "error", None)
    assert "its logical shape is unknown" in answer.sentences


def test_a_graph_that_contradicts_the_file_is_an_error(tmp_path):
    graph = SAMPLE / "ms_output_trace_code_graph_0.ir"
    wide = blocks(np.ones((2, 2, 5, 4), "float32"), 9e9)
    left, right = (tree(tmp_path / side, wide, "NC1HWC0", graphs=True) for side in ("left", "right"))
    assert graph.is_file()
    answer = ask(left, right)
    assert (answer.code, answer.record["verdict"]) == (1, "error")
    assert "(2, 2, 4, 4)" in answer.sentences

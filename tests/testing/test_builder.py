from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore

HAZARDS = Path(__file__).parents[1] / "data" / "hazards"


def files(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_a_tree_is_written_as_mindspore_writes_it(tmp_path):
    tensors = [
        ("Add", "Default/a.b c/Add-op0", "input", 2, np.array([True])),
        ("Add", "Default/a.b c/Add-op0", "output", 0, np.array([1], np.uint16)),
        ("Parameter", "fc.weight", "output", 0, np.float64(2)),
    ]
    write_mindspore(tmp_path, tensors, rank=1, net="N", graph=2, iteration=3, start=10)
    folder = "rank_1/N/2/3"
    assert files(tmp_path) == [
        f"{folder}/Add.Default_a_b_c_Add-op0.0.0.10.input.2.DefaultFormat.Bool.npy",
        f"{folder}/Add.Default_a_b_c_Add-op0.0.0.110.output.0.DefaultFormat.UInt16.npy",
        f"{folder}/Parameter.fc_weight.0.0.210.output.0.DefaultFormat.Float64.npy",
        "rank_1/execution_order/ms_execution_order_graph_2.csv",
    ]
    order = (tmp_path / "rank_1/execution_order/ms_execution_order_graph_2.csv").read_text()
    assert order == "NodeExecutionOrder-FullNameWithScope\nDefault/a.b c/Add-op0\n"


def test_a_second_iteration_lists_its_operators_once(tmp_path):
    for iteration in (0, 1):
        write_mindspore(tmp_path, [("A", "A-op0", "output", 0, 1.0)], iteration=iteration)
    order = tmp_path / "rank_0/execution_order/ms_execution_order_graph_0.csv"
    assert order.read_text().splitlines()[1:] == ["A-op0"]


def test_bfloat16_files_equal_those_of_mindspore(tmp_path):
    theirs = next(HAZARDS.glob("bf16/**/*op0*.output.0.*BFloat16.npy")).read_bytes()
    source = np.load(next(HAZARDS.glob("bf16/**/*op0*.input.0.*Float32.npy")))
    write_mindspore(tmp_path, [("Cast", "c", "output", 0, source)], dtype="bfloat16")
    (path,) = tmp_path.glob("rank_0/Net/0/0/*.BFloat16.npy")
    ours = path.read_bytes()
    count = 2 * source.size
    assert ours[-count:] == theirs[-count:]
    assert ours[:8] == theirs[:8]
    assert b"'<E2'" in ours[:128]
    assert b"'<E2'" in theirs[:128]


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x3F800000, 0x3F80),  # 1
        (0x3F808000, 0x3F80),  # half way, to even: down
        (0x3F818000, 0x3F82),  # half way, to even: up
        (0x3F808001, 0x3F81),
        (0x7F7FFFFF, 0x7F80),  # the largest float32 becomes infinite
        (0xFF800000, 0xFF80),
        (0x7FFFFFFF, 0x7FFF),  # NaN, not carried over into the sign
        (0x7F800001, 0x7FC0),  # a NaN whose payload is in the lower half stays a NaN
    ],
)
def test_bfloat16_rounds_to_the_nearest_even(tmp_path, bits, expected):
    value = np.array([bits], "<u4").view("<f4")
    write_mindspore(tmp_path, [("A", "a", "output", 0, value)], dtype="bfloat16", execution_order=False)
    (path,) = tmp_path.rglob("*.npy")
    assert int.from_bytes(path.read_bytes()[-2:], "little") == expected


def test_names_too_long_for_the_file_system_go_to_the_mapping(tmp_path):
    tensors = [("A", f"Default/{'x' * 280}/A-op{number}", "output", 0, number) for number in (0, 1)]
    write_mindspore(tmp_path, [*tensors, ("A", "short", "output", 0, 2)], execution_order=False)
    folder = tmp_path / "rank_0/Net/0/0"
    rows = dict(line.split(",") for line in (folder / "mapping.csv").read_text().splitlines())
    assert Counter(path.suffix for path in folder.iterdir()) == {".npy": 3, ".csv": 1}
    for short, original in rows.items():
        assert np.load(folder / short) == int(original.split("A-op")[1][0])
    assert len(rows) == 2

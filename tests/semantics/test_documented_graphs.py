"""The two graph excerpts of MindSpore's own manual (1.3 to 1.5, and master): line, operator, file, and back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from dumps.dumpmade import one_output

pytestmark = pytest.mark.e2e

EXCERPTS = Path(__file__).parents[1] / "data" / "alexnet"
SCOPE = "Default/network-WithLossCell/_backbone-AlexNet/conv3-Conv2d"
FLAT, DATED = SCOPE.replace("/", "--"), "0/20210608115000/0/Net/0/0"
MANGLED = SCOPE.replace("/", "_")
GRAPH = "ms_output_trace_code_graph_0.ir"


class Manual(NamedTuple):
    """A place that the manual shows, and the one file that it says to look for."""

    excerpt: str
    graph: str
    file: str
    line: str
    operator: str


MANUAL = {
    "r1.3": Manual(
        "r1.ir",
        f"Net/device_0/graphs/{GRAPH}",
        f"Net/device_0/iteration_0/{FLAT}--Conv2D-op107_output_0_shape_32_12_13_13_16_Float16_NC1HWC0.bin",
        "alexnet.py:58",
        f"{SCOPE}/Conv2D-op107",
    ),
    "r1.5": Manual(
        "r1.ir",
        f"rank_0/graphs/{GRAPH}",
        "rank_0/Net/0/0/Conv2D.Conv2D-op107.2.2.1623124369613540.output.0.DefaultFormat.npy",
        "alexnet.py:58",
        f"{SCOPE}/Conv2D-op107",
    ),
    # With another spelling of the type than the graph's, as the manual has it.
    "master": Manual(
        "master.ir",
        f"rank_0/graphs/{GRAPH}",
        "rank_0/Net/0/0/Conv2d.Conv2D-op12.0.0.1623124369613540.output.0.DefaultFormat.float16.npy",
        "tain_alexnet.py:175",
        f"{SCOPE}/Conv2D-op12",
    ),
    "master, O2": Manual(
        "master.ir",
        GRAPH,
        f"{DATED}/Conv2D.{MANGLED}_Conv2D-op12.2.7.161243956333802",
        "tain_alexnet.py:175",
        f"{SCOPE}/Conv2D-op12",
    ),
    "master, converted": Manual(
        "master.ir",
        GRAPH,
        f"{DATED}/Conv2D.{MANGLED}_Conv2D-op12.2.7.161243956333802.output.0.32x384x13x13.npy",
        "tain_alexnet.py:175",
        f"{SCOPE}/Conv2D-op12",
    ),
}


def write(path: Path) -> None:
    path.parent.mkdir(parents=True)
    if path.suffix == ".bin":
        path.write_bytes(bytes(32 * 12 * 13 * 13 * 16 * 2))
    elif path.suffix == ".npy":
        np.save(path, np.zeros((32, 384, 13, 13), "<f4" if "32x384" in path.name else "<f2"))
    else:
        path.write_bytes(one_output(np.zeros((32, 384, 13, 13), "<f4")))


def inspect(*arguments: str | Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest_msdump", "inspect", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(params=MANUAL)
def manual(request: pytest.FixtureRequest) -> Manual:
    return MANUAL[request.param]


@pytest.fixture
def tree(manual: Manual, tmp_path: Path) -> tuple[Path, list[str | Path]]:
    """The dump, and how its graph is named on the command line where it is not found by itself."""
    root = tmp_path / "dump"
    write(root / manual.file)
    is_beside = "/" in manual.graph
    graph = (root if is_beside else tmp_path) / manual.graph
    graph.parent.mkdir(parents=True, exist_ok=True)
    graph.write_text("# IR entry: @kernel_graph_0\n" + (EXCERPTS / manual.excerpt).read_text())
    return root, [] if is_beside else ["--graph", graph]


@pytest.mark.parametrize("by", ["line", "code"])
def test_a_line_leads_to_its_operators_and_files(manual: Manual, tree: tuple[Path, list[str | Path]], by: str) -> None:
    root, more = tree
    told: dict[str, Any] = json.loads(
        inspect(root, "--line", manual.line if by == "line" else "x = self.conv3(x)", "--json", *more)
    )
    operators = told["operators"]
    assert [one["name"] for one in operators] == [
        manual.operator,
        *([f"{SCOPE}/BiasAdd-op105"] if manual.excerpt == "r1.ir" else []),
    ]
    text = json.dumps(operators[0])
    assert Path(manual.file).name in text
    assert "NC1HWC0" in text
    assert Path(manual.file).name not in json.dumps(operators[1:])


def test_a_file_leads_back_to_its_operator_and_line(manual: Manual, tree: tuple[Path, list[str | Path]]) -> None:
    root, more = tree
    text = inspect(root / manual.file, *more)
    assert manual.operator in text
    assert f"{manual.line}\n" in text or f"{manual.line} " in text
    assert "x = self.conv3(x)" in text


@pytest.mark.parametrize("saved", ["<f4", "<f2"])
def test_where_network_and_device_differ_in_type_the_file_tells_which_was_saved(tmp_path: Path, saved: str) -> None:
    """The first input is float32 in the network and float16 on the device."""
    root = tmp_path / "dump"
    path = root / "rank_0/Net/0/0/Conv2D.Conv2D-op107.2.2.1623124369613540.input.0.DefaultFormat.npy"
    path.parent.mkdir(parents=True)
    np.save(path, np.ones((32, 128, 13, 13), saved))
    (root / "rank_0/graphs").mkdir()
    (root / "rank_0/graphs" / GRAPH).write_text("# IR entry: @g\n" + (EXCERPTS / "r1.ir").read_text())
    assert f"{np.dtype(saved)} (32, 128, 13, 13)" in inspect(path)

"""The graphs of a run are found beside its dump; those of a user are read whatever they are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from graphs.samples import ROOT, read
from graphs.test_ge_text import ONNX, PROTO

from pytest_msdump.capabilities.graphs.execution_order import find_irs
from pytest_msdump.capabilities.graphs.graph_files import is_graph_file, read_graph, read_graphs, read_named_graphs
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.tensor import Coordinates

ODD = ROOT / "odd" / "ms_output_trace_code_graph_0.ir"


def touch(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def found(root: Path) -> dict[Coordinates, str]:
    return {at: os.path.relpath(path, root) for at, path in find_irs(root).items()}


def test_graphs_of_ranks_are_found_and_the_ir_is_preferred(tmp_path: Path) -> None:
    graphs = "graphs/ms_output_trace_code_graph_"
    touch(tmp_path, f"rank_0/{graphs}0.ir", f"rank_0/{graphs}0.pb", f"rank_0/{graphs}12.pb", f"rank_3/{graphs}0.ir")
    touch(tmp_path, "rank_0/graphs/other.ir", "rank_x/graphs/ms_output_trace_code_graph_0.ir", "rank_0/Net/0/0/a.npy")
    assert found(tmp_path) == {
        Coordinates(rank=0, graph=0): f"rank_0/{graphs}0.ir",
        Coordinates(rank=0, graph=12): f"rank_0/{graphs}12.pb",
        Coordinates(rank=3, graph=0): f"rank_3/{graphs}0.ir",
    }


@pytest.mark.parametrize("below", ["rank_3", "rank_3/Net", "rank_3/Net/0", "rank_3/Net/0/0"])
def test_graphs_are_found_from_further_down(tmp_path: Path, below: str) -> None:
    touch(tmp_path, "rank_3/graphs/ms_output_trace_code_graph_0.ir", "rank_3/Net/0/0/a.npy")
    assert list(find_irs(tmp_path / below)) == [Coordinates(rank=3, graph=0)]


@pytest.mark.parametrize("device", ["device_2", "2"])
def test_graphs_of_the_first_releases_are_found_by_net_and_device(tmp_path: Path, device: str) -> None:
    graph = "graphs/ms_output_trace_code_graph_1.ir"
    touch(tmp_path, f"Net/{device}/{graph}", f"Net/{device}/iteration_0/a.bin", f"{device}/{graph}")
    assert found(tmp_path) == {
        Coordinates(rank=2, graph=1): f"{device}/{graph}",
        Coordinates(rank=2, net="Net", graph=1): f"Net/{device}/{graph}",
    }
    assert list(find_irs(tmp_path / "Net" / device / "iteration_0")) == [Coordinates(rank=2, graph=1)]


def test_a_file_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    onnx = tmp_path / "ge_onnx_00000007_graph_1_Build.pbtxt"
    onnx.write_text(ONNX)
    proto = tmp_path / "ge_proto_00000007_graph_1_PreRunBegin.txt"
    proto.write_text(PROTO)
    front = tmp_path / "trace_code_graph_1"
    shutil.copy(ODD, front)
    assert [len(read_graph(path).operators) for path in (onnx, proto, front, ODD.with_suffix(".pb"), ODD)] == [
        4,
        3,
        8,
        8,
        8,
    ]
    assert [read_graph(path).is_final for path in (onnx, proto, front, ODD.with_suffix(".pb"), ODD)] == [
        True,
        False,
        False,
        True,
        True,
    ]


def test_a_users_graphs_are_placed_by_the_number_in_their_names(tmp_path: Path) -> None:
    names = ("trace_code_graph_7", "hwopt_pm_7_getitem_tuple.ir", "hwopt_d_end_graph_1_0533.ir", "ir_graph12.ir")
    for name in names:
        shutil.copy(ODD, tmp_path / name)
    graphs = read_named_graphs(tmp_path / name for name in names)
    assert [at for at, _ in graphs] == [
        Coordinates(graph=7),
        Coordinates(),
        Coordinates(graph=1),
        Coordinates(graph=12),
    ]
    assert [graph.source for _, graph in graphs] == list(names)


@pytest.mark.parametrize("name", ["a.ir", "a.pb", "ge_proto_1.txt", "ge_onnx_1.pbtxt", "trace_code_graph_0", "A.IR"])
def test_names_of_graph_files(name: str) -> None:
    assert is_graph_file(Path(name))


@pytest.mark.parametrize("name", ["ms_execution_order_graph_0.csv", "a.npy", "fusion.json"])
def test_other_files_are_none(name: str) -> None:
    assert not is_graph_file(Path(name))


def test_a_graph_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.ir"
    with pytest.raises(ConfigError, match=r"a\.ir: there is no such file"):
        read_graph(path)
    path.write_text("hello")
    with pytest.raises(ConfigError, match=r"^a\.ir: not an IR"):
        read_named_graphs([path])


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    size = ODD.stat().st_size
    monkeypatch.setattr("pytest_msdump.capabilities.graphs.graph_files._MAX_BYTES", size)
    assert read_graph(ODD).operators
    monkeypatch.setattr("pytest_msdump.capabilities.graphs.graph_files._MAX_BYTES", size - 1)
    with pytest.raises(ConfigError, match=r"graph_0\.ir: cannot be read: it is larger than 13032 bytes"):
        read_graph(ODD)


def test_graphs_of_a_run_are_read_as_far_as_they_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "rank_0" / "graphs"
    folder.mkdir(parents=True)
    stem = "ms_output_trace_code_graph_"
    shutil.copy(ODD, folder / f"{stem}0.ir")
    shutil.copy(ODD.with_suffix(".pb"), folder / f"{stem}0.pb")
    (folder / f"{stem}1.ir").write_text("version https://git-lfs.github.com/spec/v1")
    (folder / f"{stem}2.ir").write_text("")
    shutil.copy(ODD.with_suffix(".pb"), folder / f"{stem}2.pb")
    graphs, notes = read_graphs(find_irs(tmp_path))
    assert [(at.graph, graph.source) for at, graph in graphs] == [(0, f"{stem}0.ir"), (2, f"{stem}2.pb")]
    assert graphs[0][1].operators == read(ODD).operators
    (note,) = notes
    assert note.startswith(f"{stem}1.ir: not an IR of MindSpore")
    assert note.endswith("source lines and shapes of graph 1 are not known")

"""What is easily misread where a graph and its files speak of one operator, and what a killed run leaves behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore
from semantics.gate import ask

from pytest_msdump import open_dump

TRAINING = Path(__file__).parents[1] / "data" / "training"
NET = "Default/network-Loss/net-Cnn"


def test_the_line_of_an_operator_is_the_graphs_whatever_its_scope_says() -> None:
    """To the compiler both gradients of a bias are one function, which has the scope of the dense layer."""
    lines = {ref.key.op.label: ref.line.text for ref in open_dump(TRAINING).refs if ref.line}
    scope = f"Gradients/{NET}/head-Dense/Grad_BiasAdd/BiasAddGrad"
    assert lines[f"{scope}-op0"].startswith("return self.head(x)")
    assert lines[f"{scope}-op1"].startswith("x = self.conv(image)")


@pytest.mark.parametrize("lacking", [(), ("graphs",), ("graphs", "execution_order"), ("execution_order",)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_files_meet_their_copies_whatever_the_other_side_tells_of_names(
    tmp_path: Path, lacking: tuple[str, ...], side: str
) -> None:
    other = shutil.copytree(TRAINING, tmp_path / "other")
    for folder in lacking:
        shutil.rmtree(other / "rank_0" / folder)
    sides = (other, TRAINING) if side == "left" else (TRAINING, other)
    answer = ask(*sides, "--min-coverage", "100")
    assert answer.code == 0, answer.text
    for record in answer.results["tensors"]:
        assert Path(record["left"]["file"]).name == Path(record["right"]["file"]).name
    assert answer.results["counts"]["pass"] == len(list(TRAINING.rglob("*.npy")))


def view_pair(folder: Path, shape: tuple[int, ...], *, graphs: bool = True, swapped: bool = False) -> dict:
    """The record of a Reshape, which the file has as (2, 4, 3, 3) and the graph as (2, 36), and a reference of it."""
    run = shutil.copytree(TRAINING, folder / "run")
    if not graphs:
        shutil.rmtree(run / "rank_0" / "graphs")
    (file,) = run.glob("rank_0/Net/0/0/Reshape.Default_network-Loss_net-Cnn_Reshape-op0.*")
    (folder / "reference").mkdir()
    np.save(folder / "reference" / "flat.0.1700000000000001.npy", np.load(file).reshape(shape))
    sides, names = ["run", "reference"], ["Reshape.Default_network-Loss_net-Cnn_Reshape-op0", "flat"]
    if swapped:
        sides, names = sides[::-1], names[::-1]
    (folder / "msdump.toml").write_text(
        f'[msdump]\nleft = "{sides[0]}"\nright = "{sides[1]}"\n'
        f'[[msdump.map]]\nleft = "{names[0]}"\nright = "{names[1]}"\n'
    )
    answer = ask(folder / sides[0], folder / sides[1], "--config", str(folder / "msdump.toml"))
    (record,) = [one for one in answer.results["tensors"] if "flat" in (one["left"]["name"], one["right"]["name"])]
    return record


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("shape", "graphs", "verdict"),
    [
        ((2, 36), True, "pass"),
        ((2, 4, 3, 3), True, "pass"),
        ((2, 4, 3, 3), False, "pass"),
        # Axes that one side merges meet.
        ((2, 36), False, "pass"),
        # As many elements, and neither the file's shape nor the graph's.
        ((36, 2), True, "error"),
    ],
)
def test_a_view_operator_is_compared_in_the_shape_that_the_graph_tells(
    tmp_path: Path, swapped: bool, shape: tuple[int, ...], graphs: bool, verdict: str
) -> None:
    assert view_pair(tmp_path, shape, graphs=graphs, swapped=swapped)["verdict"] == verdict


def test_two_files_of_a_view_operator_that_differ_in_shape_meet_in_the_graphs(tmp_path: Path) -> None:
    """One run's backend reshaped the file, the other's did not; both graphs tell the same."""
    left, right = (shutil.copytree(TRAINING, tmp_path / side) for side in ("left", "right"))
    (file,) = left.glob("rank_0/Net/0/0/Reshape.Default_network-Loss_net-Cnn_Reshape-op0.*")
    values = np.load(file)
    file.unlink()
    np.save(file, values.reshape(72))
    answer = ask(left, right)
    (record,) = [one for one in answer.results["tensors"] if one["left"]["shape"] == [72]]
    assert (answer.code, record["verdict"]) == (0, "pass")
    assert record["left"]["logical_shape"] == record["right"]["logical_shape"] == [2, 36]


def test_an_input_that_its_operator_writes_to_is_said_to_be_dumped_after_it_ran(tmp_path: Path) -> None:
    """MindSpore 2.10 on CPU: ApplyMomentum's inputs 0 and 1 hold the updated weight and accumulation."""
    runs = [tmp_path / side for side in ("left", "right")]
    for run, weight in zip(runs, (1.0, 2.0), strict=True):
        momentum = ("ApplyMomentum", "Default/optimizer/ApplyMomentum-op0")
        write_mindspore(
            run,
            [
                (*momentum, "input", 0, np.full(3, weight, "<f4")),
                (*momentum, "input", 3, np.full(3, 0.5, "<f4")),
                (*momentum, "output", 0, np.full(3, weight, "<f4")),
            ],
        )
    answer = ask(*runs, "--io", "all", "--show", "all")
    told = {record["left"]["address"].partition(":")[2]: record["notes"] for record in answer.results["tensors"]}
    told = {port: [note for note in notes if "overwrites" in note] for port, notes in told.items()}
    sentence = "ApplyMomentum overwrites its input 0, which the {} run may have dumped only afterwards"
    assert told == {
        "input:0": ["; ".join(sentence.format(side) for side in ("left", "right"))],
        "input:3": [],
        "output:0": [],
    }
    assert sentence.format("left") in answer.text

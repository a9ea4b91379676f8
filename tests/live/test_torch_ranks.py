"""Two real processes of one run, recorded into one folder. Needs PyTorch."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import open_dump
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import open_logical

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.live, pytest.mark.e2e]

PROGRAM = Path(__file__).parent / "two_ranks.py"


def run(folder, fault="none"):
    """Run both processes into a folder, and return their exit codes."""
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [
        subprocess.Popen([sys.executable, PROGRAM, str(rank), str(port), folder, fault], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    try:
        return [process.wait(120) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("ranks")
    assert [run(base / name, fault) for name, fault in (("first", "none"), ("again", "none"), ("wrong", "relu"))] == [
        [0, 0],
        [0, 0],
        [0, 0],
    ]
    return base


def arrays(dump, name):
    """What each rank recorded under a name."""
    found = {}
    for ref in dump.refs:
        if ref.key.op.label == name and ref.key.io == "output":
            view = open_logical(ref)
            found[ref.key.op.at.rank] = view.read(0, view.size).reshape(view.shape)
    return found


def weights():
    torch.manual_seed(0)
    return [
        one.detach().numpy() for layer in (torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)) for one in layer.parameters()
    ]


def given(rank):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(rank)).numpy()


def test_both_ranks_are_there_with_what_each_computed(runs):
    dump = open_dump(runs / "first/dp")
    up, bias, down, last = weights()
    found = arrays(dump, "down")
    for rank in range(2):
        np.testing.assert_allclose(found[rank], np.maximum(given(rank) @ up.T + bias, 0) @ down.T + last, rtol=1e-5)
    assert {ref.key.op.at.rank for ref in dump.refs} == {0, 1}
    updated = arrays(dump, "down.weight/updated")
    np.testing.assert_array_equal(updated[0], updated[1])
    assert dump.dump.incomplete == ""


def test_named_dimensions_of_the_mesh_are_in_the_manifest(runs):
    said = {rank: one.distributed for rank, one in open_dump(runs / "first/dp").dump.ranks.items()}
    assert {rank: one.groups for rank, one in said.items()} == {
        0: {"dp": (0, 1), "pp": (0,)},
        1: {"dp": (0, 1), "pp": (1,)},
    }
    assert {(one.rank, one.world_size) for one in said.values()} == {(0, 2), (1, 2)}


def test_of_distributed_weights_each_rank_has_its_part_and_their_mesh(runs):
    dump = open_dump(runs / "first/tp")
    up, bias, down, last = weights()
    parts = arrays(dump, "up.weight")
    np.testing.assert_array_equal(np.concatenate([parts[0], parts[1]]), up)
    # Rank by rank `down` is a part of a sum; what the model gives back is the whole.
    for found in arrays(dump, "Net").values():
        np.testing.assert_allclose(found, np.maximum(np.ones((4, 8)) @ up.T + bias, 0) @ down.T + last, rtol=1e-5)
    assert [one.distributed.groups for one in dump.dump.ranks.values()] == [{"tp": (0, 1)}] * 2


def test_a_second_run_passes_and_a_fault_is_named_with_its_rank(runs, capsys):
    for kind in ("dp", "tp"):
        assert main(["compare", str(runs / "again" / kind), str(runs / "first" / kind), "--profile", "bitwise"]) == 0
    # Gradients are averaged, so that weights fail on rank 0, too, after the step.
    assert main(["compare", str(runs / "wrong/dp"), str(runs / "first/dp")]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"DRIFT act:output:0 cause.* op 20 of 36; rank 1", told)
    assert "1 cause, 16 inherited, 4 unknown" in told
    updated = ", ".join(f"{name}/updated (rank 0)" for name in ("up.weight", "up.bias", "down.weight"))
    assert f"unknown {updated} and 1 more: its input comes" in told

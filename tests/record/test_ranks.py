"""Recordings of the processes of one run: each in its own folder, and one dump when all of them are there."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from pytest_msdump import assert_dumps_close, open_dump
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.dumps.manifest import parse_manifest
from pytest_msdump.core.errors import ConfigError, IncompleteRecordingError
from pytest_msdump.core.model.dump import DistributedRank
from pytest_msdump.record import DumpWriter, this_rank

VARIABLES = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("RANK_ID", "RANK_SIZE"),
]
SIZE = 64


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in [name for names in VARIABLES for name in names]:
        monkeypatch.delenv(name, raising=False)


def record(folder, *, ranks=(0, 1), size=2, wrong=(), weights=None, **options):
    """Record `ranks` of a run; of those that are `wrong`, operator b gives something else."""
    for rank in ranks:
        groups = {"tp": list(range(size)), "dp": [rank]}
        with DumpWriter(folder, framework="numpy", distributed=DistributedRank(rank, size, groups), **options) as made:
            made.describe(weights={"b.weight": np.full(3, (weights or {}).get(rank, rank))}, seeds={"numpy": rank})
            values = np.arange(SIZE, dtype="float32") + 100 * rank + 1
            made.write("a", values)
            made.write("b", values[::-1] if rank in wrong else values)
    return folder


def change(folder, rank, **values):
    path = folder / f"rank_{rank}/msdump.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refused(folder):
    with pytest.raises(IncompleteRecordingError) as error:
        open_dump(folder)
    return str(error.value)


@pytest.mark.parametrize(("rank", "size"), VARIABLES)
def test_a_launcher_says_which_process_this_is(monkeypatch, rank, size):
    monkeypatch.setenv(rank, "3")
    assert this_rank() is None
    monkeypatch.setenv(size, "8")
    assert this_rank() == DistributedRank(3, 8)


@pytest.mark.parametrize(("rank", "size"), [("0", "1"), ("", "2"), ("x", "2"), ("-1", "2"), ("2", "2"), ("0", "²")])
def test_what_a_launcher_would_not_say_is_one_process(monkeypatch, rank, size):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    assert this_rank() is None


@pytest.mark.parametrize("options", [{}, {"iterations": True}, {"save": "sketch"}])
def test_every_rank_has_a_folder_and_together_they_are_one_dump(tmp_path, options):
    dump = open_dump(record(tmp_path / "d", **options))
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["rank_0", "rank_1"]
    assert [(ref.key.op.at.rank, ref.key.op.name, ref.place) for ref in dump.refs] == [
        (0, "a", 0),
        (0, "b", 1),
        (1, "a", 0),
        (1, "b", 1),
    ]
    assert [open_logical(ref).read(0, 1)[0] for ref in dump.refs] == [1.0, 1.0, 101.0, 101.0]
    assert dump.dump.labels == (("framework", "numpy"),)
    assert (dump.dump.unexplained, dump.dump.notes, dump.dump.incomplete) == ((), (), "")
    groups = {rank: one.distributed.groups for rank, one in dump.dump.ranks.items()}
    assert groups == {0: {"tp": (0, 1), "dp": (0,)}, 1: {"tp": (0, 1), "dp": (1,)}}


def test_the_folder_of_one_rank_is_a_dump_of_that_rank(tmp_path):
    dump = open_dump(record(tmp_path / "d") / "rank_1")
    assert [ref.key.op.at.rank for ref in dump.refs] == [1, 1]
    assert_dumps_close(tmp_path / "d/rank_1", tmp_path / "d", profile="bitwise")


def test_each_rank_meets_its_own(tmp_path, capsys):
    left, right = record(tmp_path / "l", wrong=[1]), record(tmp_path / "r")
    assert main(["compare", str(left), str(right)]) == 1
    told = capsys.readouterr().out
    assert "4 tensors: 3 pass, 1 fail" in told
    assert "DRIFT  b:output:0" in told
    assert main(["compare", str(right), str(left), "--rank", "0"]) == 0


def test_weights_that_another_rank_spoiled_through_averaged_gradients_are_no_cause(tmp_path, capsys):
    for folder, values in (("l", {0: [0, 9], 1: [9, 9]}), ("r", {0: [0, 0], 1: [0, 0]})):
        for rank, (layer, updated) in values.items():
            with DumpWriter(tmp_path / folder, distributed=DistributedRank(rank, 2)) as made:
                made.write("layer", np.full(SIZE, layer, "float32"))
                made.write("layer.weight/updated", np.full(SIZE, updated, "float32"), op_type="Optimizer")
    assert main(["compare", str(tmp_path / "l"), str(tmp_path / "r")]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "1 cause, 2 unknown" in told
    assert "cause layer (rank 1) (op 3 of 4)" in told


def test_ranks_meet_one_that_has_none_and_others_by_arrows(tmp_path, capsys):
    left, right = record(tmp_path / "l"), tmp_path / "r"
    with DumpWriter(right) as writer:
        for name in "ab":
            writer.write(name, np.arange(SIZE, dtype="float32") + 1)
    assert main(["compare", str(left), str(right)]) == 1
    assert "4 tensors: 2 pass, 2 fail" in capsys.readouterr().out
    alone = left / "rank_0"
    assert main(["compare", str(left), str(alone), "--align", "rank=1->0"]) == 1
    assert "4 tensors: 2 pass, 2 fail" in capsys.readouterr().out


def test_weights_of_ranks_are_compared_with_those_of_one_process(tmp_path, capsys):
    left = record(tmp_path / "l")
    with DumpWriter(tmp_path / "r") as writer:
        writer.describe(weights={"b.weight": np.full(3, 1)})
        writer.write("b", np.arange(SIZE, dtype="float32") + 101)
    assert main(["compare", str(left), str(tmp_path / "r")]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "rank 0 b.weight (left " in told
    assert "rank 1 b.weight" not in told


def test_a_rank_without_a_recording_is_missing(tmp_path):
    assert "2 of 4 ranks have no recording, e.g. rank_1;" in refused(record(tmp_path / "d", ranks=(0, 3), size=4))
    shutil.rmtree(tmp_path / "d/rank_0")
    (tmp_path / "d/rank_0").mkdir()
    assert "3 of 4 ranks have no recording, e.g. rank_0;" in refused(tmp_path / "d")
    dump = open_dump(tmp_path / "d", allow_incomplete=True).dump
    assert dump.notes[0] == "incomplete: 3 of 4 ranks have no recording, e.g. rank_0"


def test_a_rank_that_was_broken_off_makes_the_run_incomplete(tmp_path):
    change(record(tmp_path / "d"), 1, complete=False)
    assert "rank_1: the recording has not ended" in refused(tmp_path / "d")


def test_a_file_that_is_gone_makes_the_run_incomplete(tmp_path):
    next(record(tmp_path / "d").glob("rank_1/b.*")).unlink()
    assert "rank_1: msdump.json names 1 file that is not there" in refused(tmp_path / "d")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "rank_1/msdump.json does not say that it is of rank 1"),
        ({"rank": 0, "world_size": 2}, "rank_1/msdump.json does not say that it is of rank 1"),
        ({"rank": 1, "world_size": 3}, "rank_0 is of a run of 2 ranks, rank_1 of one of 3"),
        ({"rank": 1}, "rank_0 is of a run of 2 ranks, rank_1 of one of None"),
    ],
)
def test_ranks_that_do_not_belong_together_are_no_whole_run(tmp_path, said, why):
    change(record(tmp_path / "d"), 1, distributed=said)
    assert why in refused(tmp_path / "d")


@pytest.mark.parametrize(
    "said",
    [
        "rank 0",
        [0, 2],
        {},
        {"rank": True, "world_size": 2},
        {"rank": 0.0, "world_size": 2},
        {"rank": -1, "world_size": 2},
        {"rank": 2, "world_size": 2},
        {"rank": 0, "world_size": "2"},
        {"rank": 0, "world_size": 2, "groups": {"x" * 201: [0]}},
        {"rank": 0, "world_size": 2, "groups": {"": [0]}},
        {"rank": 0, "world_size": 10**400},
        {"rank": 0, "world_size": 2, "groups": {str(axis): [0] for axis in range(65)}},
    ],
)
def test_a_rank_that_cannot_be_meant_is_left_out_with_a_note(said):
    manifest, notes = parse_manifest(json.dumps({"schema_version": 1, "distributed": said}))
    assert manifest.distributed is None
    assert notes == ("msdump.json has an invalid rank, left out",)


@pytest.mark.parametrize(
    "group", [0, "0", [], [1], [0, 0], [0, 2], [0, -1], [0, True], [0, [1]], [0, None], {"0": 0}, [0, 10**400]]
)
def test_a_group_that_cannot_be_meant_is_left_out_with_its_rank(group):
    said = {"rank": 0, "world_size": 2, "groups": {"dp": [1, 0]}}
    manifest, notes = parse_manifest(json.dumps({"schema_version": 1, "distributed": said}))
    assert (manifest.distributed, notes) == (DistributedRank(0, 2, {"dp": (1, 0)}), ())
    said["groups"]["tp"] = group
    manifest, notes = parse_manifest(json.dumps({"schema_version": 1, "distributed": said}))
    assert (manifest.distributed, notes) == (None, ("msdump.json has an invalid rank, left out",))


def test_folders_of_ranks_inside_of_one_another_end_nowhere(tmp_path):
    folder = record(tmp_path / "d")
    deepest = folder / "rank_0"
    for _ in range(300):
        deepest /= "rank_0"
        deepest.mkdir()
        shutil.copy(folder / "rank_0/msdump.json", deepest)
    assert len(open_dump(folder).refs) == 4


def test_files_beside_the_ranks_are_unexplained(tmp_path):
    folder = record(tmp_path / "d")
    (folder / "log.txt").touch()
    (folder / "rank_0/log.txt").touch()
    (folder / "logs").mkdir()
    (folder / "logs/a.0.1700000000000000.npy").touch()
    dump = open_dump(folder).dump
    assert [path.as_posix() for path in dump.unexplained] == [
        "log.txt",
        "logs/a.0.1700000000000000.npy",
        "rank_0/log.txt",
    ]
    assert len(dump.refs) == 4


def test_a_run_that_is_going_on_is_not_whole(tmp_path):
    (record(tmp_path / "d") / "msdump.journal").touch()
    assert "the recording has not ended" in refused(tmp_path / "d")


def test_a_second_run_and_one_process_do_not_get_into_the_folder_of_a_run(tmp_path):
    folder = record(tmp_path / "d")
    for rank in (None, DistributedRank(0, 2)):
        with pytest.raises(ConfigError, match="is not empty"):
            DumpWriter(folder, distributed=rank)
    DumpWriter(tmp_path / "one").close()
    with pytest.raises(ConfigError, match="holds a recording of one process"):
        DumpWriter(tmp_path / "one", distributed=DistributedRank(0, 2))
    assert open_dump(tmp_path / "one").dump.incomplete == ""


def test_sketches_of_a_run_have_a_folder_for_each_rank(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    left, right = record(tmp_path / "l", wrong=[1]), record(tmp_path / "r")
    assert main(["sketch", "l", "-o", "sketches"]) == 0
    assert "4 tensors in sketches" in capsys.readouterr().out
    dump = open_dump("sketches").dump
    assert {rank: one.distributed.world_size for rank, one in dump.ranks.items()} == {0: 2, 1: 2}
    assert [one.seeds["numpy"] for one in dump.ranks.values()] == [0, 1]
    assert sorted(path.name for path in (tmp_path / "sketches").iterdir()) == ["rank_0", "rank_1"]
    assert main(["compare", "sketches", str(right)]) == 1
    assert "DRIFT  b:output:0" in capsys.readouterr().out
    assert main(["compare", "sketches", str(left)]) == 0
    assert main(["sketch", "l", "-o", "sketches"]) == 4
    assert "sketches: is not empty" in capsys.readouterr().err


def test_sketches_that_were_broken_off_between_two_ranks_are_not_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = record(tmp_path / "d")
    next(folder.glob("rank_1/b.*")).write_bytes(b"no array")
    assert main(["sketch", "d", "-o", "sketches"]) == 1
    assert "rank_1/b.0." in capsys.readouterr().err
    shutil.rmtree("sketches/rank_1")
    assert "the recording has not ended" in refused(tmp_path / "sketches")


KILLED = """
import os, signal, sys
import numpy as np
from pytest_msdump.record import DumpWriter, this_rank
with DumpWriter(sys.argv[1], distributed=this_rank()) as writer:
    writer.write("a", np.ones(3, "float32"))
    if this_rank().rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.e2e
def test_a_run_of_which_one_process_was_killed_is_refused(tmp_path, capsys):
    """Processes that are given one folder at once do not get in each other's way; a killed one spoils the run."""
    folder = str(tmp_path / "d")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", KILLED, folder], env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"}
        )
        for rank in range(2)
    ]
    assert [process.wait(60) for process in started] == [0, -signal.SIGKILL]
    assert main(["compare", folder, folder]) == 4
    assert "rank_1: the recording has not ended" in capsys.readouterr().err
    assert main(["inspect", folder, "--allow-incomplete"]) == 0

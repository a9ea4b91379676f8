"""Dumps of any format as trees of msprobe, recordings and sketches, and back: every value bit by bit."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump import cli
from pytest_msdump.core.compare.opening import index, open_logical

DATA = Path(__file__).parents[2] / "data"


def convert(*words: object) -> int:
    return cli.main(["convert", *map(str, words), "-q"])


def contents(root: Path) -> dict[tuple[object, ...], tuple[str, bytes]]:
    """Type and bytes of each tensor by mangled name and coordinates."""
    found = {}
    for ref in index(root).refs:
        at = ref.key.op.at
        key = (ref.key.op.name, at.rank, at.iteration, at.occurrence, ref.key.io, ref.key.slot)
        if ref.is_unseen:
            found[key] = (str(ref.spec.dtype), repr(ref.statistics and sorted(ref.statistics.values.items())).encode())
        else:
            with closing(open_logical(ref)) as view:
                found[key] = (view.dtype, view.read(0, view.size).tobytes())
    return found


DUMPS = [
    "msprobe/tensor_L0", "msprobe/mindspore_mix", "msprobe/debug", "hooks/sglang_dumper", "hooks/sglang_passes",
    "hooks/debug_tree",
]  # fmt: skip


@pytest.mark.parametrize("name", DUMPS)
def test_a_tree_of_msprobe_holds_every_tensor_bit_by_bit(name: str, tmp_path: Path) -> None:
    assert convert(DATA / name, "--to", "msprobe", "--out", tmp_path / "tree") == 0
    dump = index(tmp_path / "tree")
    assert (dump.reader, dump.unexplained, dump.notes) == ("msprobe", (), ())
    assert contents(tmp_path / "tree") == contents(DATA / name)


@pytest.mark.parametrize("name", DUMPS)
def test_there_and_back_through_a_recording(name: str, tmp_path: Path) -> None:
    assert convert(DATA / name, "--to", "recording", "--out", tmp_path / "recording") == 0
    assert convert(tmp_path / "recording", "--to", "msprobe", "--out", tmp_path / "tree") == 0
    found, wanted = contents(tmp_path / "tree"), contents(DATA / name)
    assert len(found) == len(wanted)
    assert sorted(found.values()) == sorted(wanted.values())


def test_arrays_beside_each_other_are_what_numpy_reads(tmp_path: Path) -> None:
    assert convert(DATA / "msprobe/tensor_L0", "--to", "msprobe", "--out", tmp_path / "tree") == 0
    seen = np.load(DATA / "msprobe/values.npz")["tensor_L0/step0/rank1/head.0/1"]
    file = tmp_path / "tree/step0/rank1/dump_tensor_data/Cell.head.0.Linear.forward.1.output.0.npy"
    np.testing.assert_array_equal(np.load(file), seen)
    document = json.loads((tmp_path / "tree/step0/rank1/dump.json").read_text())
    (leaf,) = document["data"]["Cell.head.0.Linear.forward.1"]["output"]
    assert (leaf["dtype"], leaf["shape"], leaf["data_name"]) == ("Float32", [2, 4], file.name)
    assert (leaf["Max"], leaf["Min"]) == (seen.max(), seen.min())
    lines = {ref.line.place for ref in index(tmp_path / "tree").refs if ref.line}
    assert lines == {ref.line.place for ref in index(DATA / "msprobe/tensor_L0").refs if ref.line}


def test_statistics_stay_statistics(tmp_path: Path) -> None:
    root = DATA / "msprobe/statistics_mix"
    assert convert(root, "--to", "msprobe", "--out", tmp_path / "tree") == 0
    assert contents(tmp_path / "tree") == contents(root)
    assert not list((tmp_path / "tree").rglob("*.npy"))


def test_a_sketch_of_a_tree_is_held_to_the_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_reference(tmp_path / "run", {"conv1": np.linspace(0, 1, 100_000, dtype="f4")})
    assert convert(tmp_path / "run", "--to", "msprobe", "--out", tmp_path / "tree") == 0
    assert convert(tmp_path / "tree", "--to", "sketch", "--out", tmp_path / "sketch") == 0
    assert sum(path.stat().st_size for path in (tmp_path / "sketch").rglob("*")) < 100_000
    words = ["compare", tmp_path / "sketch", tmp_path / "tree", "--report-dir", tmp_path / "report"]
    assert cli.main(list(map(str, words))) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--memory-format", "NCHW"], "--memory-format is for files"),
        (["--jobs", "2"], "--jobs is for files"),
        (["--select", "nothing"], "nothing was selected"),
        ([str(DATA / "msprobe/debug")], "for one dump, and there are 2"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(DATA / "msprobe/tensor_L0", *words, "--to", "msprobe", "--out", tmp_path / "tree") == 4
    assert said in capsys.readouterr().err


def test_a_folder_that_is_not_empty_and_gaps_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/notes.txt").write_text("")
    assert convert(DATA / "msprobe/debug", "--to", "msprobe", "--out", tmp_path / "tree") == 4
    assert "is not empty" in capsys.readouterr().err
    words = ("--select", "result:output:1", "--to", "msprobe", "--out", tmp_path / "gap")
    assert convert(DATA / "msprobe/debug", *words) == 4
    assert "does not follow" in capsys.readouterr().err

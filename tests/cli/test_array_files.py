"""The command on files of named arrays: whole dumps, whose tensors never take each other's files."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.cli import main

ARRAYS = {"net.conv2": np.arange(6.0).reshape(2, 3), "net.conv10": np.ones(5, np.float32)}


@pytest.fixture
def archive(tmp_path):
    np.savez(tmp_path / "a.npz", **ARRAYS)
    return tmp_path / "a.npz"


def ran(*words):
    return main([str(word) for word in words])


def test_a_drift_in_one_of_two_archives_is_found_by_name(archive, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez_compressed("b.npz", **{**ARRAYS, "net.conv10": np.full(5, 2, np.float32)})
    assert ran("compare", archive, "b.npz", "--report", "json") == 1
    text = capsys.readouterr().out
    assert "DRIFT  net.conv10:output:0" in text
    assert "2 tensors: 1 pass, 1 fail" in text
    # Nothing says which of them ran first, now or from the saved result.
    assert "op 2 of 2 in name order" in text
    assert ran("check", "msdump-report/results.json") == 1
    assert "op 2 of 2 in name order" in capsys.readouterr().out
    assert ran("compare", archive, archive) == 0


@pytest.mark.parametrize("damaged", ["a.npz", "a.safetensors", "a.pt", "a.pth"])
@pytest.mark.parametrize("words", [["compare", "{}", "{}"], ["match", "{}", "{}"], ["inspect", "{}"]])
def test_a_damaged_file_is_one_line_and_4(damaged, words, tmp_path, capsys):
    (tmp_path / damaged).write_bytes(b"no such thing")
    assert ran(*(word.format(tmp_path / damaged) for word in words)) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"msdump: {tmp_path / damaged}: ")


@pytest.mark.parametrize("to", ["npy", "npz"])
def test_two_names_that_become_one_file_are_not_written_over_each_other(tmp_path, capsys, to):
    np.savez(
        tmp_path / "a.npz", **{"a/b": np.ones(1), "a_b": np.zeros(1), "../../up": np.ones(2), "\x1b[2J\n": np.ones(3)}
    )
    assert ran("convert", tmp_path / "a.npz", "--to", to, "--out", tmp_path / "out") == 1
    assert "a_b:output:0: another array of it becomes a_b, too" in capsys.readouterr().err
    if to == "npy":
        names = ["%1B[2J%0A.npy", ".._.._up.npy", "a_b.npy"]
        assert [path.name for path in sorted((tmp_path / "out").glob("*.npy"))] == names
        assert np.load(tmp_path / "out" / "a_b.npy").tolist() == [1.0]
    else:
        assert sorted(np.load(tmp_path / "out" / "a.npz").files) == ["%1B[2J%0A", ".._.._up", "a_b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "out"]
    assert ran("inspect", tmp_path / "a.npz", "--save-txt", tmp_path / "text") == 1
    assert "two arrays of" in capsys.readouterr().err

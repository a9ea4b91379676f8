"""What is no dump is called what it is, with what makes one of it; commands that are named are run here."""

from __future__ import annotations

import pickle
import re
import shlex
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import open_dump
from pytest_msdump.core.dumps.base import index_dump
from pytest_msdump.core.errors import UnknownDumpFormatError

HDF5, PNG, MP4 = b"\x89HDF\r\n\x1a\n", b"\x89PNG\r\n\x1a\n", b"\0\0\0\x20ftypisom"


def put(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def refusal(path: Path) -> str:
    with pytest.raises(UnknownDumpFormatError) as caught:
        index_dump(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("weights.h5", HDF5, "a file of HDF5; make an archive of it: python"),
        ("weights.bin.old", HDF5, "a file of HDF5"),
        ("clip.mp4", MP4, "a film or a sound; give a dump"),
        ("a.png", PNG, "a picture; give a dump"),
        ("dump.zip", b"PK\x03\x04", "a zip archive; name it .npz or .pt if"),
        ("dump.tar.gz", b"\x1f\x8b\x08", "an archive; unpack it"),
        ("llama.gguf", b"GGUF\x03", "a model of llama.cpp; give the checkpoint"),
        ("data.tfrecord", bytes(20), "a file of records of TensorFlow"),
        ("model.ckpt-1.data-00000-of-00001", bytes(20), "part of a checkpoint of TensorFlow"),
        ("model.onnx", b"\x08\x08", "a model, and no tensors that it computed; run the model"),
        ("saved_model.pb", b"\x08\x01\x12\x02\x0a\x00", "a model, and no tensors"),
        ("state.pkl", pickle.dumps({}), "a pickle, which is never loaded"),
        ("state", pickle.dumps({}), "a pickle, which is never loaded"),
        ("conv", b"\x93NUMPY\x01\0", "an array of numpy whose name does not end in .npy"),
        ("events.out.tfevents.17.host", bytes(20), "a log of TensorBoard"),
        ("x.parquet", b"PAR1", "a file of another program; save its arrays"),
        ("weights.what", b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
        ("steps.jsonl", b"{}\n{}\n", "a JSON file"),
        ("nothing.dat", b"", "empty (0 bytes)"),
    ],
)
def test_a_file_is_called_what_it_is(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    assert refusal(put(tmp_path, {name: content}) / name).startswith(f"is {said}")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({f"{number}.png": PNG for number in range(12)}, "holds no dump but 12 pictures (0.png); give a dump"),
        ({"a.h5": HDF5, "b.hdf5": HDF5}, "holds no dump but 2 files of HDF5 (a.h5); make an archive"),
        ({"a.png": PNG, "b.png": PNG, "c.log": b"text"}, "but 2 pictures (a.png), a text file (c.log); give a dump"),
        (
            {"checkpoint": b"x", "m-1.index": b"x", "m-1.data-00000-of-00001": b"x"},
            "is a checkpoint of TensorFlow; make",
        ),
        ({"saved_model.pb": b"\x08\x01\x12\x00", "variables/variables.index": b"x"}, "is a model, and no tensors"),
        (
            {"a/conv.0.1700000000000000.npy": b"", "b/conv.0.1700000000000000.npy": b""},
            "but has 2 below it; give one of",
        ),
        ({"c.log": b"text", "strange.xyz": b"\0\1"}, "no known format has names like 'c.log'"),
    ],
)
def test_a_folder_is_called_by_what_is_in_it(files: dict[str, bytes], said: str, tmp_path: Path) -> None:
    assert said in refusal(put(tmp_path, files))


def test_the_dump_that_is_named_below_a_folder_is_one(tmp_path: Path) -> None:
    put(tmp_path, {"run 1/deep/conv.0.1700000000000000.npy": b"", "notes.txt": b""})
    named = re.search(r"e\.g\. (.+) \(reader (.+)\)", refusal(tmp_path))
    assert named is not None
    dump = index_dump(Path(*shlex.split(named[1])))
    assert (len(dump.refs), dump.reader) == (1, named[2])


def test_the_archive_that_is_proposed_of_a_pickle_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my state.pkl"
    path.write_bytes(pickle.dumps({"a.b": np.arange(3.0), "c": np.ones(2)}))
    command = shlex.split(refusal(path).partition("make an archive of it: ")[2])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["-c", *command[3:]])
    exec(command[2])
    dump = open_dump(tmp_path / "my state.npz")
    assert {address: dump.read(address).tolist() for address in dump} == {
        "a.b:output:0": [0.0, 1.0, 2.0],
        "c:output:0": [1.0, 1.0],
    }


def test_the_archive_that_is_proposed_of_objects_is_read(tmp_path: Path, monkeypatch, capsys) -> None:
    """A dict that was saved as one array, as reprod_log does, is refused by `init`, too."""
    monkeypatch.chdir(tmp_path)
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "f.npy", {"linear": np.ones(3)}, allow_pickle=True)
    assert main(["init", "left", "right"]) == 4
    said = " ".join(capsys.readouterr().err.split())
    assert "no pair of 1 can be read" in said
    assert not Path("msdump.toml").exists()
    line = re.search(r"in Python: (np\.savez\(.+\.item\(\)\))", said)
    assert line is not None
    monkeypatch.chdir(tmp_path / "left")
    exec(line[1])
    assert open_dump("f.npz").read("linear").tolist() == [1.0, 1.0, 1.0]


def test_a_suite_for_pairs_of_which_some_cannot_be_read_says_so(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "f.npy", {"linear": np.ones(3)}, allow_pickle=True)
        np.save(tmp_path / side / "g.npy", np.ones(3))
    main(["init", "left", "right"])
    assert "1 of 2 pairs cannot be read, e.g." in " ".join(capsys.readouterr().out.split())


def test_no_refusal_names_a_format_that_reads_the_file(tmp_path: Path) -> None:
    """A zip archive of numpy under another name is told which name it needs, and then it is read."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive, archive.open("conv.npy", "w") as member:
        np.save(member, np.ones(3))
    assert "name it .npz" in refusal(tmp_path / "a.zip")
    (tmp_path / "a.zip").rename(tmp_path / "a.npz")
    assert open_dump(tmp_path / "a.npz").read("conv").tolist() == [1.0, 1.0, 1.0]

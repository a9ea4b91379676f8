"""A file of a tensor is there whole or not at all, and holds the tensor's values."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_msdump.capabilities.arrays.writer import remove_leftovers, whole_file, write_npz, write_view
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import MsdumpError, TensorFileError

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0)])
def test_numpy_reads_back_what_was_written(dtype, shape, tmp_path):
    values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    found = np.load(write_view(ArrayView(values), tmp_path / "a.npy"))
    assert (found.dtype, found.shape) == (values.dtype, values.shape)
    assert np.array_equal(found, values)


def test_a_tensor_of_many_blocks_is_whole(tmp_path):
    values = np.arange(300_000, dtype=np.int32).reshape(3, -1)
    assert np.array_equal(np.load(write_view(ArrayView(values), tmp_path / "a.npy")), values)


def test_a_permuted_tensor_is_written_in_its_new_order(tmp_path: Path) -> None:
    path = write_view(ArrayView(VALUES).permuted((2, 0, 1)), tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(path), VALUES.transpose(2, 0, 1))


def test_raw_bytes_are_those_of_the_logical_type(tmp_path: Path) -> None:
    path = write_view(ArrayView(np.array([1.0, -2.0], np.float32), "bfloat16"), tmp_path / "a.bin", to="bin")
    assert path.read_bytes() == bytes.fromhex("803f 00c0")


def test_text_is_flat(tmp_path: Path) -> None:
    path = write_view(ArrayView(VALUES), tmp_path / "a.txt", to="txt")
    lines = path.read_text().splitlines()
    assert lines[:2] == ["0.000000000000000000e+00", "1.428571492433547974e-01"]
    np.testing.assert_array_equal(np.loadtxt(path, dtype=np.float32), VALUES.reshape(-1))


def test_text_of_complex_numbers_is_what_numpy_writes(tmp_path: Path) -> None:
    values = np.array([1 - 2j, complex(0, np.inf)])
    path = write_view(ArrayView(values), tmp_path / "a.txt", to="txt")
    np.savetxt(tmp_path / "numpy.txt", values)
    assert path.read_text().splitlines() == (tmp_path / "numpy.txt").read_text().splitlines()


def test_an_archive_holds_its_arrays_by_name_and_is_the_same_each_time(tmp_path: Path) -> None:
    views = [("input.0", ArrayView(VALUES)), ("output.0", ArrayView(VALUES[0]))]
    first = write_npz(views, tmp_path / "a.npz").read_bytes()
    assert write_npz(views, tmp_path / "b.npz").read_bytes() == first
    with np.load(tmp_path / "a.npz") as archive:
        assert archive.files == ["input.0", "output.0"]
        np.testing.assert_array_equal(archive["output.0"], VALUES[0])


class _Broken(ArrayView):
    def blocks(self, block_elements: int) -> Iterator[Any]:
        yield self.read(0, block_elements)[:2]
        raise TensorFileError("the file has shrunk")


def test_a_tensor_that_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_view(ArrayView(VALUES), tmp_path / "a.npy")
    before = path.read_bytes()
    with pytest.raises(TensorFileError):
        write_view(_Broken(VALUES), path)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["a.npy"]


def test_a_folder_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(MsdumpError, match=r"a\.npy: cannot be written: No such file or directory"):
        write_view(ArrayView(VALUES), tmp_path / "no" / "a.npy")


def test_a_file_that_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a.bin") as stream:
        stream.write(b"half")
        remove_leftovers(tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"half"


@pytest.mark.e2e
def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.part").write_text("kept")
    (tmp_path / ".msdump-convert-notes.txt").write_text("kept")
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from pytest_msdump.capabilities.arrays.writer import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as stream:\n"
        "    stream.write(b'half'); stream.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.npy")], check=False)
    assert len(names(tmp_path)) == 3
    assert not (tmp_path / "a.npy").exists()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".msdump-convert-notes.txt", "mine.part"]


def test_a_link_with_such_a_name_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / ".msdump-convert-0.part").symlink_to(target)
    remove_leftovers(tmp_path)
    assert len(names(tmp_path)) == 2
    assert target.read_text() == "kept"


def test_a_file_locked_by_someone_else_stays(tmp_path: Path) -> None:
    path = tmp_path / ".msdump-convert-0.part"
    with path.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        remove_leftovers(tmp_path)
        assert path.exists()
    remove_leftovers(tmp_path)
    assert not path.exists()

"""Small files are read by compiled code as Python reads them; what is unusual in one is left to Python."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from unittest import mock

import pytest
from kernels import needs_kernel

from pytest_msdump.errors import TensorFileError
from pytest_msdump.readers import stored_file
from pytest_msdump.readers.stored_file import FileState, glimpse, small_file

MOST = stored_file._SMALL_BYTES

# Where the kernel was built, this was; where it was not, that is a failure.
pytestmark = needs_kernel


@pytest.fixture(autouse=True)
def start(monkeypatch):
    """Compiled code, also where numpy was chosen for this process."""
    module = importlib.import_module("pytest_msdump.readers._start")
    monkeypatch.setattr(stored_file, "_COMPILED", module)
    return module.start


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except TensorFileError as error:
        return str(error)


def by_python(read, *arguments):
    with mock.patch.object(stored_file, "_COMPILED", None):
        return outcome(read, *arguments)


@pytest.fixture(params=["empty", "one", "most", "more", "name", "link", "folder", "pipe", "nothing", "nowhere", "nul"])
def path(request, tmp_path):
    """A file of each kind, and what is none."""
    kind, found = request.param, tmp_path / request.param
    sizes = {"empty": 0, "one": 1, "most": MOST, "more": MOST + 1}
    if kind in sizes:
        found.write_bytes(os.urandom(sizes[kind]))
    elif kind == "name":
        found = tmp_path / os.fsdecode("größe 算子".encode())
        found.write_bytes(b"12345")
    elif kind == "link":
        (tmp_path / "one").write_bytes(b"1")
        found.symlink_to(tmp_path / "one")
    elif kind == "folder":
        found.mkdir()
    elif kind == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("no pipes here")
        os.mkfifo(found)
    elif kind == "nowhere":
        found.symlink_to(tmp_path / "gone")
    elif kind == "nul":
        return f"{found}\0"
    return str(found)


def test_a_file_is_read_as_python_reads_it(path):
    assert outcome(small_file, path) == by_python(small_file, path)
    assert outcome(small_file, Path(path)) == by_python(small_file, Path(path))
    for count in (0, 1, 3, 4096, MOST + 1):
        found = outcome(glimpse, path, count)
        assert found == by_python(glimpse, path, count)


def test_what_is_told_is_what_the_system_says(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    # Before 1970, and with nanoseconds.
    os.utime(path, ns=(1, -1_234_567_891))
    status = path.stat()
    state = FileState(5, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    for read in (small_file(str(path)), by_python(small_file, str(path)), glimpse(str(path), 5)):
        assert read == (state, b"12345")
        assert type(read[0]) is FileState
    assert status.st_mtime_ns == -1_234_567_891


def test_compiled_code_reads_what_is_usual(tmp_path):
    """Or the tests above compare the same with the same."""
    (tmp_path / "a").write_bytes(b"12345")
    with mock.patch.object(stored_file.os, "open", side_effect=AssertionError):
        assert small_file(str(tmp_path / "a"))[1] == b"12345"
        assert glimpse(str(tmp_path / "a"), 2)[1] == b"12"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing lists what is open here")
def test_nothing_stays_open(path, start):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for whole in (False, True):
        start(path, MOST, whole, FileState)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("arguments", [(), ("a",), ("a", 1, True, int), ("a", 1, True, 5), (5.5, 1, True, tuple)])
def test_what_makes_no_sense_is_refused(arguments, start):
    with pytest.raises(TypeError):
        start(*arguments)


@pytest.mark.parametrize("most", [-1, 2**80])
def test_no_number_of_bytes_breaks_it(tmp_path, most, start):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    try:
        _, content = start(str(path), most, False, FileState)
    except OverflowError:
        assert most > sys.maxsize
    else:
        assert content == b""


def test_who_listens_hears_of_it(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    heard = []
    sys.addaudithook(lambda event, arguments: heard.append(arguments) if event == "open" and heard != [None] else None)
    try:
        small_file(str(tmp_path / "a"))
        assert (str(tmp_path / "a"), None, stored_file._FLAGS) in heard
    finally:
        # A hook stays for ever.
        heard[:] = [None]

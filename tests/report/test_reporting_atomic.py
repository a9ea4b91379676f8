"""Report files are whole or absent, and their directory stays out of version control."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.storage.files import write_file


def test_a_new_directory_ignores_itself(tmp_path):
    target = write_file(tmp_path / "deep" / "report", "a.txt", b"new")
    assert target.read_bytes() == b"new"
    assert (tmp_path / "deep" / "report" / ".gitignore").read_text() == "*\n"
    assert not (tmp_path / "deep" / ".gitignore").exists()


def fails(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def cut_short():
    yield b"ne"
    fails()


@pytest.mark.parametrize("step", ["write", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    write_file(tmp_path, "a.txt", b"old")
    if step == "replace":
        monkeypatch.setattr(Path, step, fails)
    with pytest.raises(MsdumpError, match="No space left on device"):
        write_file(tmp_path, "a.txt", cut_short() if step == "write" else b"newer")
    monkeypatch.undo()
    assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path, monkeypatch):
    write_file(tmp_path, "a.txt", b"old")
    seen = []
    moved = Path.replace

    def watched(path, target):
        seen.append((path.parent, path.read_bytes(), Path(target).read_bytes()))
        return moved(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    write_file(tmp_path, "a.txt", b"new")
    assert seen == [(tmp_path, b"new", b"old")]
    assert (tmp_path / "a.txt").read_bytes() == b"new"


def test_a_directory_in_the_way_of_the_file_is_an_error(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(MsdumpError, match=r"a\.txt cannot be written"):
        write_file(tmp_path, "a.txt", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    target = write_file(tmp_path, "a.txt", b"new")
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode

"""Suite files below given paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.plugin.discovery import is_suite_file, suite_files


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[msdump]\n", encoding="utf-8")


def found(root: Path, *paths: str, norecurse: tuple[str, ...] = ()) -> list[str]:
    files = suite_files([root / path for path in paths or (".",)], norecurse=norecurse)
    return [file.relative_to(root).as_posix() for file in files]


@pytest.mark.parametrize("name", ["msdump.toml", "lenet.msdump.toml", "a.b.msdump.toml", ".msdump.toml"])
def test_a_suite_file_is_known_by_its_name(name: str) -> None:
    assert is_suite_file(Path("x") / name)


def test_hidden_and_excluded_folders_are_not_entered_unless_given(tmp_path: Path) -> None:
    make(
        tmp_path,
        ".hidden/msdump.toml",
        "build/msdump.toml",
        "x.egg/msdump.toml",
        "a/build/msdump.toml",
        "ok/msdump.toml",
    )
    assert found(tmp_path, norecurse=("build", "*.egg")) == ["ok/msdump.toml"]
    assert found(tmp_path, "build", ".hidden", norecurse=("build",)) == [".hidden/msdump.toml", "build/msdump.toml"]


def test_a_pattern_with_a_separator_is_matched_against_the_path(tmp_path: Path) -> None:
    make(tmp_path, "a/build/msdump.toml", "b/build/msdump.toml")
    assert found(tmp_path, norecurse=("a/build",)) == ["b/build/msdump.toml"]


def test_a_link_that_leads_back_up_ends_there(tmp_path: Path) -> None:
    make(tmp_path, "a/msdump.toml")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    assert found(tmp_path) == ["a/msdump.toml"]


def test_a_linked_folder_is_followed_and_a_real_path_is_preferred(tmp_path: Path) -> None:
    make(tmp_path, "out/msdump.toml", "in/z/msdump.toml")
    (tmp_path / "in" / "a").symlink_to(tmp_path / "in" / "z")
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "out")
    assert found(tmp_path, "in") == ["in/linked/msdump.toml", "in/z/msdump.toml"]


def test_a_folder_that_cannot_be_read_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a/msdump.toml", "b/msdump.toml")
    scandir = os.scandir

    def refuse(folder: Path) -> Any:
        if folder.name == "a":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert found(tmp_path) == ["b/msdump.toml"]

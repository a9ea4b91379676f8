"""Names in a directory: as the system lists them, in order, and of one moment while they are kept."""

import pytest

from pytest_msdump.core.storage import files
from pytest_msdump.core.storage.files import folders_in, names_in, names_kept

NAMES = ["rank", "rank_", "rank_0", "rank_1\U0010ffff", "rank_10", "rank_é", "ranks", "rank`", "z"]


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / name).touch()
    (tmp_path / "rank_7").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "rank_7", target_is_directory=True)
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    return tmp_path


def test_names_are_kept_for_as_long_as_asked_and_no_longer(folder, monkeypatch):
    looked = []
    original = files.os.scandir
    monkeypatch.setattr(files.os, "scandir", lambda place: looked.append(place) or original(place))
    with names_kept():
        before = list(names_in(folder))
        (folder / "rank_99").mkdir()
        assert (list(names_in(folder)), list(folders_in(folder))) == (before, ["link", "rank_7"])
    assert looked == [folder]
    assert list(folders_in(folder)) == ["link", "rank_7", "rank_99"]

"""What lies in a room's folder is found, and nothing is forgotten."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pytest_msdump import registry
from pytest_msdump.model.dump import Dump
from pytest_msdump.readers.base import Reader


class ForeignReader(Reader):
    name = "foreign"
    looks_for = "a foreign dump"

    def recognises(self, root: Path) -> bool:  # noqa: ARG002
        return False

    def index(self, root: Path) -> Dump:  # noqa: ARG002
        raise AssertionError

    def open(self, ref):  # noqa: ARG002
        raise AssertionError


def test_every_reader_in_the_folder_is_found():
    assert set(registry.load("readers", "Reader")) == {
        "ascend",
        "converted",
        "mindspore",
        "npy-file",
        "npy-folder",
        "proto-folder",
        "statistics",
    }


def test_every_reader_says_what_it_looks_for():
    for name, reader in registry.load("readers", "Reader").items():
        assert reader.name == name
        assert reader.looks_for


def test_another_package_adds_a_reader_by_an_entry_point(monkeypatch):
    point = EntryPoint("foreign", f"{__name__}:ForeignReader", "pytest_msdump.readers")
    monkeypatch.setattr(EntryPoint, "load", lambda _: ForeignReader)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == "pytest_msdump.readers" else [])
    assert isinstance(registry.load("readers", "Reader")["foreign"], ForeignReader)


def test_every_reader_is_found_by_its_name():
    for name, reader in registry.load("readers", "Reader").items():
        assert type(registry.find("readers", "Reader", name)) is type(reader)


def test_a_reader_of_another_package_is_found_by_its_name(monkeypatch):
    point = EntryPoint("foreign", f"{__name__}:ForeignReader", "pytest_msdump.readers")
    monkeypatch.setattr(EntryPoint, "load", lambda _: ForeignReader)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == "pytest_msdump.readers" else [])
    assert isinstance(registry.find("readers", "Reader", "foreign"), ForeignReader)


def test_a_name_that_nobody_has_is_an_error():
    with pytest.raises(KeyError, match="nobody"):
        registry.find("readers", "Reader", "nobody")

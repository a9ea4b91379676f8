"""What lies in a room's folder is found, and nothing is forgotten."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import import_module, metadata
from importlib.metadata import EntryPoint
from inspect import isabstract
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

import pytest_msdump
from pytest_msdump.core import ports, registry
from pytest_msdump.core.dumps import base
from pytest_msdump.core.dumps.base import Reader, reader
from pytest_msdump.core.model.dump import Dump


class ForeignReader(Reader):
    name = "foreign"
    looks_for = "a foreign dump"

    def recognises(self, root: Path) -> bool:  # noqa: ARG002
        return False

    def index(self, root: Path) -> Dump:  # noqa: ARG002
        raise AssertionError

    def open(self, ref):  # noqa: ARG002
        raise AssertionError


def test_every_reader_of_ours_has_a_row_that_says_what_its_class_is():
    for path in Path(pytest_msdump.__file__).parent.rglob("*.py"):
        if "Reader" in path.read_text("utf-8"):
            import_module(".".join(path.relative_to(Path(pytest_msdump.__file__).parents[1]).with_suffix("").parts))
    waiting, kinds = [Reader], set()
    while waiting:
        kinds.update(below := waiting.pop().__subclasses__())
        waiting += below
    ours = {kind for kind in kinds if kind.__module__.startswith("pytest_msdump.") and not isabstract(kind)}
    rows = ports.rows("READERS")
    assert {(kind.name, kind.precedence) for kind in ours} == {(name, row[1]) for name, row in rows.items()}
    assert all(type(reader(kind.name)) is kind and kind.looks_for for kind in ours)


@pytest.mark.parametrize("name", [name for name, row in ports.rows("READERS").items() if row[2]])
def test_a_reader_is_only_asked_where_a_name_ends_as_its_row_says(name, tmp_path):
    """What its row leaves out, its class does not recognise: a folder whose names have any other end."""
    others = {end for _, _, ends in ports.rows("READERS").values() for end in ends} - {*ports.rows("READERS")[name][2]}
    for end in others:
        (tmp_path / f"Add.conv1.0.1.1700000000000000.output.0.DefaultFormat{end}").touch()
        (tmp_path / f"conv1.0.1700000000000000{end}").touch()
        (tmp_path / f"rank_0{end}").touch()
        assert not reader(name).recognises(tmp_path / f"conv1.0.1700000000000000{end}")
    assert not reader(name).recognises(tmp_path)


def test_another_package_adds_a_reader_by_an_entry_point(monkeypatch):
    point = EntryPoint("foreign", f"{__name__}:ForeignReader", "pytest_msdump.dumps")
    monkeypatch.setattr(EntryPoint, "load", lambda _: ForeignReader)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == "pytest_msdump.dumps" else [])
    base._foreign.cache_clear()
    assert isinstance(reader("foreign"), ForeignReader)
    base._foreign.cache_clear()


def test_a_name_that_no_reader_has_is_an_error():
    with pytest.raises(KeyError, match="unknown"):
        reader("unknown")


INSTALLED = """
[pytest_msdump.dumps]
foreign = foreign_reader:ForeignReader
"""
FOREIGN = """
from pytest_msdump.core import dumps as core_dumps
from pytest_msdump.core.dumps.base import Reader
class ForeignReader(Reader):
    name, looks_for = "foreign", "a foreign dump"
    def recognises(self, root): return False
    def index(self, root): raise AssertionError
    def open(self, ref): raise AssertionError
"""
# What a package is asked by whom nobody has asked yet.
ASKING = """
import sys
sys.path.insert(0, sys.argv[1])
from pytest_msdump import registry
print("foreign" in registry.entries("dumps"), "importlib.metadata" in sys.modules)
"""


def asked(folder: Path) -> str:
    return subprocess.run([sys.executable, "-c", ASKING, folder], capture_output=True, text=True, check=True).stdout


@pytest.mark.e2e
@pytest.mark.parametrize("place", ["one-1.dist-info", "One-1.Dist-Info", "one.egg-info", "one.egg/EGG-INFO"])
def test_a_package_is_found_wherever_it_was_installed(tmp_path, place):
    (tmp_path / "foreign_reader.py").write_text(FOREIGN)
    told = tmp_path / place
    told.mkdir(parents=True)
    (told / "entry_points.txt").write_text(INSTALLED)
    (told / ("METADATA" if "dist" in place.lower() else "PKG-INFO")).write_text("Name: one\nVersion: 1\n")
    folder = tmp_path
    if place.startswith("one.egg/"):
        folder = tmp_path / "one.egg"
        (tmp_path / "foreign_reader.py").rename(folder / "foreign_reader.py")
    assert asked(folder) == "True True\n"


@pytest.mark.e2e
def test_nobody_is_asked_where_no_package_names_the_group(tmp_path):
    assert asked(tmp_path) == "False False\n"


@pytest.mark.e2e
def test_a_package_in_an_archive_is_found(tmp_path):
    archive = tmp_path / "one.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("foreign_reader.py", FOREIGN)
        file.writestr("one-1.dist-info/entry_points.txt", INSTALLED)
        file.writestr("one-1.dist-info/METADATA", "Name: one\nVersion: 1\n")
    assert asked(archive) == "True True\n"


@pytest.mark.parametrize("in_archive", [False, True])
def test_modules_of_a_package_are_those_that_the_standard_library_lists(tmp_path: Path, in_archive: bool) -> None:
    """`pkgutil` knows, and loads `inspect` to tell."""
    room = tmp_path / "room"
    for name in ("__init__.py", "one.py", "two.pyc", "three.abi3.so", "one.pyc", "a.b.py", "four.txt", "five"):
        (room / name).parent.mkdir(exist_ok=True)
        (room / name).touch()
    for name in ("whole/__init__.py", "bare/module.py", "dotted.name/__init__.py", "__pycache__/one.cpython-311.pyc"):
        (room / name).parent.mkdir()
        (room / name).touch()
    if in_archive:
        with zipfile.ZipFile(tmp_path / "room.zip", "w") as archive:
            for path in sorted(room.rglob("*")):
                archive.write(path, path.relative_to(tmp_path))
        room = tmp_path / "room.zip" / "room"
    package = ModuleType("room")
    package.__path__ = [str(room), str(tmp_path / "nowhere"), str(room)]
    assert registry._modules_of(package).keys() == {info.name for info in iter_modules(package.__path__)}
    assert set(registry._modules_of(package).values()) == {str(room)}


def test_modules_of_every_room_are_those_that_the_standard_library_lists() -> None:
    for room in {path.parent.name for path in Path(registry.__file__).parent.glob("*/__init__.py")}:
        package = import_module(f"pytest_msdump.core.{room}")
        assert list(registry._modules_of(package)) == [info.name for info in iter_modules(package.__path__)]

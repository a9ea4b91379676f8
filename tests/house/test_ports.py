"""Capabilities are found in their folders, in the order of what they need, without being loaded."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_msdump.core import ports, registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of capabilities of its own, in place of the package's."""
    import pytest_msdump.capabilities as package

    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    monkeypatch.setattr(registry, "entry_points_of", lambda _: ())
    for cached in (ports.capabilities, ports.rows, ports.values, ports.steps):
        cached.cache_clear()
    yield tmp_path
    for cached in (ports.capabilities, ports.rows, ports.values, ports.steps):
        cached.cache_clear()


def write(folder: Path, name: str, rows: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("raise AssertionError('loaded')\n", "utf-8")
    (folder / name / "hooks.py").write_text(rows, "utf-8")


def test_a_capability_comes_after_what_it_needs_and_otherwise_by_name(folder: Path) -> None:
    write(folder, "a", 'NEEDS = ("m",)')
    write(folder, "b", 'AFTER = ("z", "not_there")')
    write(folder, "m", "")
    write(folder, "z", "")
    (folder / "no_hooks").mkdir()
    assert [one.name for one in ports.capabilities()] == ["m", "a", "z", "b"]
    assert not [
        name
        for name in sys.modules
        if name.startswith("pytest_msdump.capabilities.m.") or name.endswith(".capabilities.m")
    ]


def test_a_need_that_is_not_there_is_named(folder: Path) -> None:
    write(folder, "causes", 'NEEDS = ("graphs",)')
    with pytest.raises(ports.BrokenCapabilityError, match="causes needs graphs"):
        ports.capabilities()


def test_a_circle_is_named(folder: Path) -> None:
    write(folder, "a", 'NEEDS = ("b",)')
    write(folder, "b", 'AFTER = ("a",)')
    write(folder, "c", "")
    with pytest.raises(ports.BrokenCapabilityError, match="capabilities a, b: each waits"):
        ports.capabilities()


def test_rows_of_all_capabilities_are_merged_and_no_name_is_given_twice(folder: Path) -> None:
    write(folder, "a", 'COMMANDS = {"one": ("m.one", "first")}\nOPTIONS = (1,)')
    write(folder, "b", 'COMMANDS = {"two": ("m.two", "second")}')
    assert list(ports.rows("COMMANDS"))[-2:] == ["one", "two"]
    assert ports.values("OPTIONS") == {"a": (1,)}
    write(folder, "c", 'COMMANDS = {"one": ("m.three", "third")}')
    ports.capabilities.cache_clear()
    ports.rows.cache_clear()
    with pytest.raises(ports.BrokenCapabilityError, match="c: another one has COMMANDS 'one'"):
        ports.rows("COMMANDS")


def test_steps_are_listed_in_order_and_loaded_when_bound(folder: Path) -> None:
    write(folder, "b", 'STAGES = {"judged": ("json:loads", "failing")}')
    write(folder, "c", 'STAGES = {"judged": "json:dumps", "indexed": "not.there:at_all"}')
    assert [(one.capability, one.when) for one in ports.steps("judged")] == [("b", "failing"), ("c", "")]
    assert [function.__name__ for function in ports.bound("judged")] == ["dumps"]
    assert [function.__name__ for function in ports.bound("judged", ("", "failing"))] == ["loads", "dumps"]
    with pytest.raises(ModuleNotFoundError, match="not"):
        ports.bound("indexed")


@pytest.mark.parametrize(
    "path",
    sorted(Path(registry.__file__).parents[1].glob("capabilities/*/hooks.py")),
    ids=lambda path: path.parent.name,
)
def test_rows_are_literals_so_that_reading_them_runs_nothing(path: Path) -> None:
    _, *rows = ast.parse(path.read_text("utf-8")).body
    for row in rows:
        assert isinstance(row, ast.Assign), ast.unparse(row)
        ast.literal_eval(row.value)

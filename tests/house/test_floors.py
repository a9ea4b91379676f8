"""Rooms import only from lower floors; rooms of one floor never import each other; modules stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_msdump

ROOT = Path(pytest_msdump.__file__).parent

# Room → floor, as docs/explanation/architecture.md draws it.
FLOORS = {
    "lazy_names": 0,
    "text": 0,
    "facts": 1,
    "errors": 1,
    "escape": 1,
    "compiled": 2,
    "model": 2,
    "dtypes": 2,
    "pages": 2,
    "registry": 2,
    "settings": 2,
    "storage": 2,
    "readers": 3,
    "memory_formats": 3,
    "graphs": 3,
    "matching": 3,
    "metrics": 3,
    "judging": 3,
    "reporting": 3,
    "configuring": 3,
    "suite": 4,
    "testing": 4,
    "checking": 4,
    "capture": 4,
    "converting": 4,
    "detailing": 4,
    "localising": 4,
    "pipeline": 5,
    "scheduling": 6,
    "cli": 7,
    "plugin": 7,
    "": 7,
    "__main__": 8,
    "compat": 8,
}
MODULES = sorted(ROOT.rglob("*.py"))
# Errors are words of every floor; dtypes is a table that model's values name.
FORBIDDEN_AT_IMPORT = {"scipy", "rich", "torch", "mindspore", "tensorflow", "onnxruntime", "pandas", "pickle"}
WITHOUT_NUMPY = {
    "text",
    "facts",
    "errors",
    "compiled",
    "model",
    "registry",
    "settings",
    "storage",
    "matching",
    "judging",
    "reporting",
    "suite",
    "plugin",
    "cli",
    "compat",
    "graphs",
    "configuring",
    "",
}


def room_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_import(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(ast.Module([node], []))


def rooms_imported(tree: ast.AST) -> set[str]:
    found = set()
    for name in imports(tree):
        parts = name.split(".")
        if parts[0] == "pytest_msdump" and len(parts) > 1 and parts[1] in FLOORS:
            found.add(parts[1])
    return found


def test_every_room_has_a_floor():
    assert {room_of(path) for path in MODULES} == set(FLOORS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_room_imports_only_from_lower_floors(path):
    room = room_of(path)
    allowed = {name for name, floor in FLOORS.items() if floor < FLOORS[room]} | {room}
    assert rooms_imported(ast.parse(path.read_text("utf-8"))) <= allowed


def test_only_the_pipeline_and_above_ask_the_registry():
    askers = {room_of(path) for path in MODULES if "registry" in rooms_imported(ast.parse(path.read_text("utf-8")))}
    assert {FLOORS[room] for room in askers} <= {5, 6, 7, 8}
    assert askers


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_heavy_modules_are_not_imported_at_the_top(path):
    room = room_of(path)
    heavy = FORBIDDEN_AT_IMPORT | ({"numpy"} if room in WITHOUT_NUMPY else set())
    # Conformance tests prove that values can be pickled; the command prints through rich, in a module loaded late.
    heavy -= {"pickle"} if room == "testing" else set()
    heavy -= {"rich"} if path.name == "telling.py" and room == "cli" else set()
    top = {name.split(".")[0] for name in at_import(ast.parse(path.read_text("utf-8")))}
    assert not top & heavy


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_stay_small_and_named(path):
    assert len(path.read_text("utf-8").splitlines()) <= 600
    assert not {"utils", "util", "helpers", "helper", "common", "misc", "constants"} & set(path.with_suffix("").parts)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_evaluates_or_unpickles(path):
    tree = ast.parse(path.read_text("utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec"}
    assert "allow_pickle=True" not in path.read_text("utf-8")


def test_names_are_made_safe_in_one_module():
    """Each room that quotes for a shell, a page or a table by itself forgets what the next name may hold."""
    by_hand = re.compile(r"shlex\.(join|quote)|shlex import|unicode_escape|html import|html\.escape|csv\.writer")
    found = {path.relative_to(ROOT).as_posix() for path in MODULES if by_hand.search(path.read_text("utf-8"))}
    # mapping.csv holds the names of hashed files as they are: it is read back.
    assert found - {"detailing/files.py"} == {"escape.py"}

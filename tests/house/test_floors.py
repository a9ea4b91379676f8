"""Rooms import only from lower floors; rooms of one floor never import each other; modules stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from house.ratchet import structure

import pytest_msdump

ROOT = Path(pytest_msdump.__file__).parent

# Room → floor, as docs/explanation/architecture.md draws it.
FLOORS = {
    "lazy_names": 0,
    "text": 0,
    "escape": 0,
    "facts": 1,
    "errors": 1,
    "dtypes": 2,
    "model": 2,
    "pages": 2,
    "processes": 2,
    "registry": 0,
    "settings": 2,
    "storage": 2,
    "dumps": 3,
    "layouts": 3,
    "limits": 3,
    "matching": 3,
    "metrics": 3,
    "configs": 4,
    "diagnosis": 4,
    "suite": 4,
    "comparison": 5,
    "calibrate": 6,
    "causes": 6,
    "convert": 6,
    "elements": 6,
    "inspect": 6,
    "record": 6,
    "replay": 7,
    "report": 7,
    "scheduling": 8,
    "assertions": 9,
    "": 10,
    "cli": 11,
    "plugin": 11,
    "testing": 11,
    "__main__": 12,
    "compat": 12,
}
MODULES = sorted(ROOT.rglob("*.py"))
# Errors are words of every floor; dtypes is a table that model's values name.
FORBIDDEN_AT_IMPORT = {"scipy", "rich", "torch", "mindspore", "tensorflow", "onnxruntime", "pandas", "pickle"}
WITHOUT_NUMPY = {
    "text",
    "facts",
    "errors",
    "model",
    "registry",
    "settings",
    "storage",
    "matching",
    "limits",
    "report",
    "suite",
    "plugin",
    "cli",
    "compat",
    "configs",
    "",
}


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


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


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_a_room_imports_only_from_lower_floors():
    wrong = []
    for path in MODULES:
        room = room_of(path)
        allowed = {name for name, floor in FLOORS.items() if floor < FLOORS[room]} | {room}
        wrong += [f"{_name(path)} imports {other}" for other in rooms_imported(_tree(path)) - allowed]
    assert not wrong


def test_no_imports_run_in_a_circle():
    assert structure()[1] == []


def test_only_comparing_and_above_ask_the_registry():
    askers = {room_of(path) for path in MODULES if "registry" in rooms_imported(_tree(path))}
    assert askers
    # Metrics of other packages have to be in the table before any option is read.
    assert min(FLOORS[room] for room in askers - {"facts"}) >= FLOORS["comparison"]


def test_heavy_modules_are_not_imported_at_the_top():
    wrong = []
    for path in MODULES:
        room = room_of(path)
        heavy = FORBIDDEN_AT_IMPORT | ({"numpy"} if room in WITHOUT_NUMPY else set())
        # Conformance tests prove that values can be pickled, and worker processes get theirs so; the command prints
        # through rich, in a module loaded late.
        heavy -= {"pickle"} if room in ("testing", "processes") else set()
        heavy -= {"rich"} if _name(path) == "cli/output.py" else set()
        top = {name.split(".")[0] for name in at_import(_tree(path))}
        wrong += [f"{_name(path)} imports {other}" for other in top & heavy]
    assert not wrong


def test_modules_stay_small_and_named():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "constants"}
    assert [_name(path) for path in MODULES if len(path.read_text("utf-8").splitlines()) > 600] == []
    assert [_name(path) for path in MODULES if vague & set(path.relative_to(ROOT).with_suffix("").parts)] == []


def test_nothing_evaluates_or_unpickles():
    wrong = []
    for path in MODULES:
        calls = (node.func for node in ast.walk(_tree(path)) if isinstance(node, ast.Call))
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        if called & {"eval", "exec"} or "allow_pickle=True" in path.read_text("utf-8"):
            wrong.append(_name(path))
    assert not wrong


def test_names_are_made_safe_in_one_module():
    """Each room that quotes for a shell, a page or a table by itself forgets what the next name may hold."""
    by_hand = re.compile(r"shlex\.(join|quote)|shlex import|unicode_escape|html import|html\.escape|csv\.writer")
    found = {_name(path) for path in MODULES if by_hand.search(path.read_text("utf-8"))}
    # mapping.csv holds the names of hashed files as they are: it is read back.
    assert found - {"elements/files.py"} == {"escape.py"}

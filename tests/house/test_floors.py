"""The core imports no capability, rooms only from lower floors; modules stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from house.ratchet import edges_of_modules, structure

import pytest_msdump
from pytest_msdump.core.ports import capabilities

ROOT = Path(pytest_msdump.__file__).parent

# Room of the core → floor, as docs/explanation/architecture.md draws it.
FLOORS = {
    "lazy_names": 0,
    "escape": 0,
    "registry": 0,
    "hooks": 0,
    "text": 1,
    "facts": 2,
    "errors": 2,
    "forms": 3,
    "ports": 3,
    "dtypes": 4,
    "model": 4,
    "pages": 4,
    "processes": 4,
    "settings": 4,
    "storage": 4,
    "dumps": 5,
    "layouts": 5,
    "limits": 5,
    "matching": 5,
    "metrics": 5,
    "suite": 6,
    "compare": 7,
    "report": 9,
    "scheduling": 10,
    "gate": 11,
}
MODULES = sorted(ROOT.rglob("*.py"))
# Errors are words of every floor; dtypes is a table that model's values name.
FORBIDDEN_AT_IMPORT = {"scipy", "rich", "torch", "mindspore", "tensorflow", "onnxruntime", "pandas", "pickle"}
WITHOUT_NUMPY = {
    "text",
    "facts",
    "forms",
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
    """Name the room of a module: of the core, a capability, or what has no folder there yet."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    inner = parts[1:] if parts[0] in ("core", "capabilities") else parts
    return "" if inner[:1] in ((), ("__init__",)) else inner[0]


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


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_room_of_the_core_has_a_floor():
    assert {room_of(path) for path in MODULES if path.is_relative_to(ROOT / "core")} - {""} == set(FLOORS)


def test_a_room_of_the_core_imports_only_from_lower_floors():
    wrong = []
    for module, others in edges_of_modules().items():
        for other in others:
            rooms = [name.split(".")[2] for name in (module, other) if name.startswith("pytest_msdump.core.")]
            if len(rooms) == 2 and rooms[0] != rooms[1] and FLOORS[rooms[0]] <= FLOORS[rooms[1]]:
                wrong.append(f"{module} imports {other}")
    assert not wrong


def test_the_core_imports_nothing_beside_it():
    wrong = [
        f"{module} imports {other}"
        for module, others in edges_of_modules().items()
        for other in others
        if module.startswith("pytest_msdump.core") and not other.startswith("pytest_msdump.core")
    ]
    assert not wrong


def test_a_capability_is_imported_only_by_those_that_need_it():
    def capability(module: str) -> str:
        _, _, inner = module.partition("pytest_msdump.capabilities.")
        return inner.partition(".")[0]

    needs = {one.name: {one.name, *one.rows.get("NEEDS", ())} for one in capabilities()}
    wrong = [
        f"{module} imports {other}"
        for module, others in edges_of_modules().items()
        for other in others
        if capability(other) and capability(other) not in needs.get(capability(module), ())
    ]
    assert not wrong


def test_no_imports_run_in_a_circle():
    assert structure()[0] == []


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
        calls = [node for node in ast.walk(_tree(path)) if isinstance(node, ast.Call)]
        called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        given = {keyword.arg: ast.unparse(keyword.value) for call in calls for keyword in call.keywords}
        if called & {"eval", "exec"} or given.get("allow_pickle", "False") != "False":
            wrong.append(_name(path))
    assert not wrong


def test_names_are_made_safe_in_one_module():
    """Each room that quotes for a shell, a page or a table by itself forgets what the next name may hold."""
    by_hand = re.compile(r"shlex\.(join|quote)|shlex import|unicode_escape|html import|html\.escape|csv\.writer")
    found = {_name(path) for path in MODULES if by_hand.search(path.read_text("utf-8"))}
    # mapping.csv holds the names of hashed files as they are: it is read back.
    assert found - {"capabilities/elements/writing.py"} == {"core/escape.py"}

"""Files that this package did not write are opened in one way: `storage.files`, which no pipe or device can hang."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_msdump

ROOT = Path(pytest_msdump.__file__).parent

# Where else something is opened for reading, and why no pipe or device can be there.
ALLOWED = {
    "core/metrics/kernel.py": "the source of the kernel, which is part of this package",
    "core/layouts/converters.py": "code of the user's, in a folder that was looked through for what is no file",
    "capabilities/user_code/algorithms.py": "code of the user's, in a folder that was looked through",
    "plugin/sources.py": "pyproject.toml in every run of pytest, after is_file(), which pytest itself reads before",
    "capabilities/programs/launched.py": "what programs.program has just written; runs without this package",
    "capabilities/record/process.py": "files of /proc about processes of one's own",
    "capabilities/weights/weights.py": "an archive in a stream that storage.files has opened",
    "capabilities/record/writer.py": "an output of the recording that goes on, which the writer has written",
    "capabilities/replay/forcing.py": "arrays that the replay has just written into a temporary folder",
    "capabilities/programs/functions.py": "code of the user's, in a file that was typed",
    "core/registry.py": "modules of this package and what installed packages say of themselves",
    "capabilities/html/page.py": "assets of this package",
    "capabilities/cache/cache.py": "modules of this package",
    "core/storage/files.py": "the way itself",
    "testing/conformance.py": "reports that the test has just written",
}
_METHODS = {"read_text", "read_bytes"}
# Functions of other packages that open a path by themselves.
_LOADERS = {
    ("np", "load"),
    ("np", "loadtxt"),
    ("np", "genfromtxt"),
    ("np", "fromfile"),
    ("np", "memmap"),
    ("numpy", "load"),
    ("numpy", "fromfile"),
    ("numpy", "memmap"),
    ("onnx", "load"),
    ("linecache", "getline"),
    ("linecache", "getlines"),
    ("io", "open"),
    ("fileinput", "input"),
    ("runpy", "run_path"),
}


def _is_mode_of_reading(arguments: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    """Whether `path.open(...)` reads; a first argument that is no constant is no mode, as in `reader.open(ref)`."""
    modes = [keyword.value for keyword in keywords if keyword.arg == "mode"] or arguments[:1]
    if not modes:
        return True
    mode = modes[0]
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and not set(mode.value) & set("wxa")


def readings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every call that opens a file for reading, as far as the syntax shows it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name):
            is_written = len(node.args) > 1 and not _is_mode_of_reading(node.args[1:], [])
            if function.id == "open" and not is_written:
                yield node.lineno, "open()"
        elif isinstance(function, ast.Attribute):
            owner = function.value.id if isinstance(function.value, ast.Name) else ""
            if function.attr in _METHODS and not (function.attr == "read_bytes" and len(node.args) == 2):
                yield node.lineno, f".{function.attr}()"
            elif (owner, function.attr) == ("os", "open"):
                if "O_RDONLY" in ast.unparse(node) or not {"O_WRONLY", "O_RDWR"} & _names(node):
                    yield node.lineno, "os.open()"
            elif (owner, function.attr) == ("zipfile", "ZipFile"):
                if len(node.args) < 2 or _is_mode_of_reading(node.args[1:], []):
                    yield node.lineno, "zipfile.ZipFile()"
            elif (owner, function.attr) in _LOADERS:
                yield node.lineno, f"{owner}.{function.attr}()"
            elif function.attr == "open" and _is_mode_of_reading(node.args, node.keywords):
                yield node.lineno, ".open()"


def _names(node: ast.AST) -> set[str]:
    return {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


@pytest.mark.full
def test_files_of_others_are_opened_in_one_way_only() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(readings(ast.parse(path.read_text("utf-8"))))
        for path in sorted(ROOT.rglob("*.py"))
    }
    elsewhere = [f"{name}:{line}: {what}" for name, ways in found.items() if name not in ALLOWED for line, what in ways]
    assert not elsewhere, "read these with storage.files, or say here why they need not be"
    assert not [name for name in ALLOWED if not found.get(name)], "nothing is opened there any more"


@pytest.mark.parametrize(
    "code",
    [
        "path.open()",
        "path.open('rb')",
        "path.open(mode='r')",
        "path.open(encoding='utf-8')",
        "open(path)",
        "open(path, 'rb')",
        "path.read_text()",
        "path.read_bytes()",
        "os.open(path, os.O_RDONLY)",
        "os.open(path, flags)",
        "np.load(path)",
        "np.memmap(path)",
    ],
)
def test_the_search_sees(code: str) -> None:
    assert list(readings(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "path.open('wb')",
        "open(path, 'w')",
        "reader.open(ref)",
        "batch.open(f'{name}.csv')",
        "self._file.read_bytes(start, length)",
        "os.open(path, os.O_CREAT | os.O_WRONLY)",
    ],
)
def test_the_search_leaves_alone(code: str) -> None:
    assert not list(readings(ast.parse(code)))

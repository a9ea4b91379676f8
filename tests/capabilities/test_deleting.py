"""Without a capability's folder all others import and gate as before, and what it added is refused on one line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

import pytest_msdump
from pytest_msdump.core.ports import capabilities

PACKAGE = Path(pytest_msdump.__file__).parent
LENET = Path(__file__).parents[2] / "example_suites/01_lenet_port"
TESTS = Path(__file__).parents[1]
NAMES = [one.name for one in capabilities()]

# Capability → a command line that asks for it, and what its refusal names.
ASKING = {
    "cache": ("compare a.npy a.npy --cache files", "--cache"),
    "ci": ("compare a.npy a.npy --report gitlab", "gitlab"),
    "cluster": ("compare a.npy a.npy --scheduler=tcp://localhost:1", "--scheduler"),
    "compat": ("-m pytest_msdump.compat.msaccucmp", "msaccucmp"),
    "config": ("config check a.json", "config"),
    "convert": ("convert a.npy --out b", "convert"),
    "diff": ("diff a b", "diff"),
    "elements": ("compare a.npy a.npy --detail=2", "--detail"),
    "html": ("compare a.npy a.npy --report html", "html"),
    "inspect": ("inspect a.npy", "inspect"),
    "overflow": ("overflow a.npy", "overflow"),
    "three_way": ("compare a.npy a.npy --golden a.npy", "--golden"),
    "vendor_tables": ("compare a.npy a.npy --report csv", "csv"),
}

ROOMS = ("layouts", "limits", "matching", "metrics", "storage", "suite")
# They ask for what a capability adds.
WITH_CAPABILITIES = {"test_load.py", "test_refusals.py", "test_storage_urls.py"}
BESIDE_THE_CORE = re.compile(r"capabilities|pytest_msdump\.(record|metrics)|assertions|build_report|cli|rulemade")

IMPORT_ALL = """
import sys
from importlib import import_module
from pathlib import Path
root = Path(sys.argv[1])
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    if parts[-1] == "__main__":
        continue
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        # Frameworks are optional.
        if error.name.startswith("pytest_msdump"):
            print(f"{name}: {error}")
assert Path(sys.modules["pytest_msdump"].__file__).parent == root
"""


def without(folder: Path, names: Collection[str]) -> Path:
    """Copy the package without some capabilities and those that need them; return the folder to import it from."""
    gone = set(names)
    for one in capabilities():
        if gone & set(one.rows.get("NEEDS", ())):
            gone.add(one.name)

    def left_out(place: str, _entries: list[str]) -> set[str]:
        return {"__pycache__"} | (gone if Path(place) == PACKAGE / "capabilities" else set())

    shutil.copytree(PACKAGE, folder / "site/pytest_msdump", ignore=left_out)
    return folder / "site"


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, *words], cwd=site.parent, env=environment, capture_output=True, text=True, check=False
    )


def verdicts(site: Path) -> list[tuple[str, str]]:
    """Gate LeNet, and return the verdict of each tensor, by its mangled name: without graphs there is no other."""
    ran = python(site, "-m", "pytest_msdump", "compare", "--config", str(LENET / "msdump.toml"), "--report-dir=out")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document = json.loads((site.parent / "out/results.json").read_text("utf-8"))
    return [(one["left"]["address"].replace("/", "_"), one["verdict"]) for one in document["tensors"]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "site").mkdir()
    return verdicts(folder / "site")


def stands_alone(site: Path, whole: list[tuple[str, str]]) -> None:
    """Check that every module imports, LeNet is gated as before, and the help is printed."""
    ran = python(site, "-c", IMPORT_ALL, str(site / "pytest_msdump"))
    assert (ran.stdout, ran.returncode) == ("", 0), ran.stdout + ran.stderr
    assert verdicts(site) == whole
    assert python(site, "-m", "pytest_msdump", "--help").returncode == 0


@pytest.mark.e2e
@pytest.mark.parametrize("name", NAMES)
def test_the_rest_imports_and_gates(name: str, tmp_path: Path, whole: list[tuple[str, str]]) -> None:
    site = without(tmp_path, [name])
    stands_alone(site, whole)
    if name in ASKING:
        np.save(tmp_path / "a.npy", np.ones(3))
        words, named = ASKING[name]
        first = [] if words.startswith("-m") else ["-m", "pytest_msdump"]
        ran = python(site, *first, *words.split())
        assert ran.returncode == (1 if first == [] else 4)
        *_, said = ran.stderr.splitlines()
        assert named in said
        assert "Traceback" not in ran.stderr


@pytest.mark.e2e
def test_the_core_imports_and_gates_without_any(tmp_path: Path, whole: list[tuple[str, str]]) -> None:
    stands_alone(without(tmp_path, NAMES), whole)


@pytest.mark.e2e
def test_tests_of_the_core_pass_without_any(tmp_path: Path) -> None:
    files = [
        str(file)
        for room in ROOMS
        for file in sorted((TESTS / room).glob("test_*.py"))
        if file.name not in WITH_CAPABILITIES and not BESIDE_THE_CORE.search(file.read_text("utf-8"))
    ]
    assert len(files) > 20
    words = ["-q", "-m", "not full", "-p", "no:cacheprovider", "-c", str(TESTS.parent / "pyproject.toml")]
    ran = python(without(tmp_path, NAMES), "-m", "pytest", *words, f"--rootdir={TESTS.parent}", *files)
    assert ran.returncode == 0, ran.stdout[-3000:]

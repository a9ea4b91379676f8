"""A kept reference says nothing that is true on the machine alone where it was made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_msdump import open_dump
from pytest_msdump.capabilities.record.manifest import movable
from pytest_msdump.record import DumpWriter, keep_reference

ROOT = Path("/home/me/my net")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("/usr/bin/python3", "python3"),
        ("/home/me/my net/train.py", "train.py"),
        ("/home/me/my net/", "./"),
        ("/home/me/my net", "."),
        ("/home/me/my nets/train.py", "my nets/train.py"),
        ("--out=/home/me/my net/a/b", "--out=a/b"),
        ("--out=/opt/x/dump", "--out=dump"),
        ("-I/usr/include", "-Iinclude"),
        ("/a/b:/c/d", "b:d"),
        ("a,[/b/c,'/d/e']", "a,[c,'e']"),
        ("//b//c", "c"),
        ("file:///b/c.npz", "c.npz"),
        ("host:/data/set", "host:set"),
        ("cd /home/me/my net && make -C /opt/src all", "cd . && make -C src all"),
        ("-I/home/me/my net/include", "-Iinclude"),
        ("/home/me/my net:/home/me/my net/lib", ".:lib"),
        ("tests/a.py", "tests/a.py"),
        ("../b/c", "../b/c"),
        ("~/b/c", "~/b/c"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("a / b", "a / b"),
        ("/", "/"),
        ("3/4", "3/4"),
    ],
)
def test_of_absolute_paths_in_a_command_what_is_below_the_project_or_the_name_stays(said: str, kept: str) -> None:
    assert movable({"command": ["-x", said]}, ROOT) == {"command": ["-x", kept]}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("/home/me/my net/a/train.py:12", {"line": "a/train.py:12"}),
        ("/home/me/my nets/train.py:12", {}),
        ("/usr/lib/python3/site-packages/layers.py:3", {}),
        ("train.py:12", {"line": "train.py:12"}),
    ],
)
def test_lines_are_told_relative_to_the_project_or_not_at_all(said: str, kept: dict[str, str]) -> None:
    values = {"tensors": {"a.0.1.npy": {"op": "a", "line": said}, "b.0.2.npy": {"op": "b"}}}
    assert movable(values, ROOT) == {"tensors": {"a.0.1.npy": {"op": "a", **kept}, "b.0.2.npy": {"op": "b"}}}


def test_a_kept_reference_holds_no_path_of_its_machine(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        with DumpWriter(folder) as writer:
            writer.describe(command=[sys.executable, f"{tmp_path}/train.py", f"--out={folder}"])
            writer.write("inside", [1.0], line=f"{tmp_path}/train.py:7")
            writer.write("outside", [1.0], line=f"{json.__file__}:7")

    kept = keep_reference("a", build, directory=tmp_path / "refs", root=tmp_path)
    text = (kept / "msdump.json").read_text("utf-8")
    assert str(tmp_path) not in text
    assert str(Path(sys.executable).parent) not in text
    assert [entry.get("line") for entry in json.loads(text)["tensors"].values()] == ["train.py:7", None]
    assert json.loads(text)["command"][:2] == [Path(sys.executable).name, "train.py"]
    line = open_dump(kept)["inside"].line
    assert line is not None
    assert (line.file, line.line) == ("train.py", 7)


@pytest.mark.parametrize("option", [(), ("--msdump-generate",)])
def test_the_fixture_keeps_paths_relative_to_rootdir(pytester: pytest.Pytester, option: tuple[str, ...]) -> None:
    tests = pytester.mkdir("tests")
    (tests / "test_port.py").write_text(
        "import sys\n"
        "from pytest_msdump.record import DumpWriter\n"
        "def build(folder):\n"
        "    with DumpWriter(folder) as writer:\n"
        "        writer.describe(command=[sys.executable, __file__])\n"
        "        writer.write('op', [1.0], line=f'{__file__}:4')\n"
        "def test_port(msdump_reference):\n"
        "    msdump_reference('net', build)\n"
    )
    pytester.makeini("[pytest]\n")
    # From another folder than rootdir.
    pytester.chdir()
    pytester.runpytest(*option, "--rootdir", str(pytester.path), str(tests)).assert_outcomes(passed=1)
    text = (pytester.path / "msdump-references/net/msdump.json").read_text("utf-8")
    assert str(pytester.path) not in text
    assert '"line": "tests/test_port.py:4"' in text
    assert json.loads(text)["command"] == [Path(sys.executable).name, "tests/test_port.py"]

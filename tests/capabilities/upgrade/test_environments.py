"""Environments of requirements: made once, kept whole, never believed where they are not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pytest_msdump.capabilities.upgrade.environments import Maker, cache_folder
from pytest_msdump.core.errors import ConfigError

pytestmark = [pytest.mark.e2e, pytest.mark.full]

MAKE = """
import sys
from pathlib import Path
from pytest_msdump.capabilities.upgrade.environments import Maker
cache, wheels, text = sys.argv[1:]
if text == "lack space":
    import resource
    # Files of any length are refused as a full disk refuses them.
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    text = "small==1.0"
print(Maker(Path(cache), pip_args=("--no-index", "--find-links", wheels)).environment(text).packages["small"])
"""


def wheel(folder: Path, name: str, version: str, content: str = "x = 1\n", needs: str = "") -> None:
    """Write a wheel by hand, as PEP 427 has it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (
        f"Requires-Dist: {needs}\n" if needs else ""
    )
    kind = "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {f"{name}.py": content, f"{info}/METADATA": metadata, f"{info}/WHEEL": kind}
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder of packages: what every recording needs, and one in two releases, a third of which lacks its need."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "numpy", "9.0")
    for version in ("1.0", "1.1"):
        wheel(folder, "small", version, f"version = '{version}'\n")
    wheel(folder, "small", "1.2", needs="nowhere")
    return folder


def making(tmp_path: Path, wheels: Path, text: str = "small==1.0") -> subprocess.Popen[str]:
    words = [sys.executable, "-c", MAKE, str(tmp_path / "cache"), str(wheels), text]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def maker(tmp_path: Path, wheels: Path) -> Maker:
    return Maker(tmp_path / "cache", pip_args=("--no-index", "--find-links", str(wheels)))


def folders(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").iterdir() if path.is_dir())


def test_an_environment_is_made_once_and_works_offline(tmp_path: Path, wheels: Path) -> None:
    first = maker(tmp_path, wheels).environment("small==1.1")
    assert first.packages["small"] == "1.1"
    ran = subprocess.run(
        [first.python, "-c", "import small; print(small.version)"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "1.1\n"
    for file in wheels.iterdir():
        file.unlink()
    assert maker(tmp_path, wheels).environment("small==1.1") == first
    with pytest.raises(ConfigError, match="small"):
        maker(tmp_path, wheels).environment("small==1.0")
    assert len(folders(tmp_path)) == 1


def test_its_programs_find_its_python_where_it_is(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without uv: pip writes where it was into each program.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    made = maker(tmp_path, wheels).environment("small==1.0")
    ran = subprocess.run([made.python.with_name("pip"), "--version"], capture_output=True, text=True, check=True)
    assert str(tmp_path / "cache") in ran.stdout


def test_of_one_that_cannot_be_made_nothing_is_left(tmp_path: Path, wheels: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        maker(tmp_path, wheels).environment("small==1.2")
    assert folders(tmp_path) == []


def test_of_a_full_disk_nothing_is_left(tmp_path: Path, wheels: Path) -> None:
    process = making(tmp_path, wheels, "lack space")
    _, error = process.communicate()
    assert process.returncode != 0
    assert "ConfigError" in error
    assert folders(tmp_path) == []
    assert maker(tmp_path, wheels).environment("small==1.0").packages["small"] == "1.0"


def test_what_a_killed_process_left_is_not_believed(tmp_path: Path, wheels: Path) -> None:
    made = maker(tmp_path, wheels).environment("small==1.0")
    (whole,) = folders(tmp_path)
    folder = tmp_path / "cache" / whole
    # As if it had been killed before it was whole, under either name.
    (folder / "msdump_environment.json").unlink()
    (folder / made.python.relative_to(folder).parent / "python").unlink()
    half = folder.with_name(f".{whole}.new")
    half.mkdir()
    (half / "half.txt").write_text("made by one that was killed", "utf-8")
    again = maker(tmp_path, wheels).environment("small==1.0")
    assert again == made
    assert folders(tmp_path) == [whole]


def test_a_process_that_is_killed_leaves_nothing_that_is_believed(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A uv that begins, and goes on when the one that started it is gone."""
    began, ends = tmp_path / "began", tmp_path / "ends"
    for pipe in (began, ends):
        os.mkfifo(pipe)
    (tmp_path / "slow").mkdir()
    slow = tmp_path / "slow" / "uv"
    lines = ("#!/bin/sh", "for last; do :; done", 'mkdir -p "$last/bin"', f"echo > {began}", f"read x < {ends}", "")
    slow.write_text("\n".join(lines), "utf-8")
    slow.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
        process = making(tmp_path, wheels)
        began.read_text("utf-8")
        process.kill()
        process.communicate()
    (left,) = folders(tmp_path)
    assert left.startswith(".small")
    assert maker(tmp_path, wheels).environment("small==1.0").packages["small"] == "1.0"
    assert len(folders(tmp_path)) == 1
    ends.write_text("\n", "utf-8")


def test_two_at_a_time_get_one_whole_environment(tmp_path: Path, wheels: Path) -> None:
    processes = [making(tmp_path, wheels) for _ in range(2)]
    assert [process.communicate() for process in processes] == [("1.0\n", "")] * 2
    assert len(folders(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [("nowhere", "no Python"), ("small", "no Python"), (".", "no virtual environment"), ("/bin/true", "does not run")],
)
def test_what_is_no_environment_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        Maker(tmp_path / "cache").environment(text)
    assert not (tmp_path / "cache").exists()


def test_environments_are_kept_where_the_user_says() -> None:
    assert cache_folder({"MSDUMP_ENVIRONMENTS": "/srv/kept", "XDG_CACHE_HOME": "/home/a"}) == Path("/srv/kept")
    assert cache_folder({"XDG_CACHE_HOME": "/home/a"}) == Path("/home/a/msdump/environments")

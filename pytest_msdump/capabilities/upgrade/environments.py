"""Environments to run a program in: a Python, a virtual environment, or a requirement that gets one in a cache."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from pytest_msdump.capabilities.record.process import run_process
from pytest_msdump.core.errors import ConfigError, ProgramError
from pytest_msdump.core.storage.files import naming, read_regular, write_atomic

# Where environments are kept, beside what XDG says.
CACHE = "MSDUMP_ENVIRONMENTS"
_MARKER = "msdump_environment.json"
_MOST_SECONDS = 3600.0
_MOST_BYTES = 2**28
_PROBE_SECONDS = 60.0
# What recordings import; programs name what else they need.
_ALWAYS = ("numpy",)
_PROBE = (
    "import importlib.metadata as m, json, sys; print(json.dumps({'python': sys.version.split()[0], 'packages': "
    "{d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name']}}))"
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")


@dataclass(frozen=True)
class Environment:
    """A Python that programs run by, its version, and the versions of the packages that it has."""

    name: str
    python: Path
    version: str
    packages: Mapping[str, str] = field(default_factory=dict)

    def differences(self, other: Environment) -> dict[str, tuple[str, str]]:
        """Return what another has in other versions, an empty one where it lacks it: its own first."""
        ours, theirs = ({"Python": one.version, **one.packages} for one in (self, other))
        names = sorted({*ours, *theirs}, key=str.lower)
        found = {name: (ours.get(name, ""), theirs.get(name, "")) for name in names}
        return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


@dataclass(frozen=True)
class Maker:
    """Makes environments for requirements: by which Python, with what else, by which options of pip, kept where."""

    cache: Path
    python: Path = Path(sys.executable)
    extra: tuple[str, ...] = ()
    pip_args: tuple[str, ...] = ()

    def environment(self, text: str) -> Environment:
        """Return the environment that a text names; ConfigError where it names none or cannot be made."""
        requirement = _requirement(text)
        if requirement is None:
            return _probed(text, _python_of(text))
        return _probed(text, _bin(self._made(requirement)))

    def _made(self, requirement: Requirement) -> Path:
        wanted = [str(requirement), *dict.fromkeys((*_ALWAYS, *self.extra))]
        base = [os.path.realpath(self.python), sys.version if self.python == Path(sys.executable) else ""]
        key = hashlib.sha256(json.dumps([wanted, base, self.pip_args]).encode()).hexdigest()
        folder = self.cache / f"{_UNSAFE.sub('_', str(requirement))[:60]}-{key[:16]}"
        with naming(self.cache, "environments cannot be kept here", ConfigError):
            self.cache.mkdir(parents=True, exist_ok=True)
            with _locked(self.cache / f".{folder.name}.lock"):
                if _is_whole(folder, wanted):
                    return folder
                # Of one that was broken off, or that somebody has changed.
                for left in (folder, *self.cache.glob(f".{folder.name}.new*")):
                    shutil.rmtree(left, ignore_errors=True)
                self._make(folder, wanted)
        return folder

    def _make(self, folder: Path, wanted: Sequence[str]) -> None:
        """Make an environment under another name, and give it its own when it is whole."""
        # Of its own: what an attempt that was killed has started may still write.
        new = folder.with_name(f".{folder.name}.new{os.urandom(4).hex()}")
        uv = shutil.which("uv")
        if uv is not None:
            commands = [
                [uv, "venv", "--quiet", "--relocatable", "--python", str(self.python), str(new)],
                [uv, "pip", "install", "--quiet", "--python", str(_bin(new)), *self.pip_args, *wanted],
            ]
        else:
            pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            commands = [
                [str(self.python), "-m", "venv", str(new)],
                [str(_bin(new)), *pip, *self.pip_args, *wanted],
            ]
        try:
            for words in commands:
                _call(words, f"making the environment of {wanted[0]}", new)
            for script in (new / "bin").iterdir():
                _move_shebang(script, str(new), str(folder))
            write_atomic(new / _MARKER, json.dumps(wanted).encode())
            new.rename(folder)
        except ProgramError as error:
            raise ConfigError(str(error)) from error
        finally:
            shutil.rmtree(new, ignore_errors=True)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where environments are kept."""
    if environ.get(CACHE):
        return Path(environ[CACHE]).absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "msdump", "environments").absolute()


def _requirement(text: str) -> Requirement | None:
    """Read a requirement; a bare name is the name of a program or a folder."""
    if os.sep in text or Path(text).exists():
        return None
    try:
        found = Requirement(text)
    except InvalidRequirement:
        return None
    return found if found.specifier or found.url else None


def _python_of(text: str) -> Path:
    path = Path(text)
    if path.is_dir():
        if not _bin(path).is_file():
            raise ConfigError(f"{text}: is no virtual environment, since it has no bin/python; name one, or a Python")
        return _bin(path).absolute()
    found = shutil.which(text)
    if found is None:
        raise ConfigError(
            f"{text}: is no Python, no virtual environment, and no requirement such as onnxruntime==1.26.0"
        )
    return Path(found).absolute()


def _bin(folder: Path) -> Path:
    return folder / "bin" / "python"


def _probed(name: str, python: Path) -> Environment:
    try:
        # Isolated: nothing of this process says what is installed there.
        ran = subprocess.run(  # noqa: S603
            [str(python), "-I", "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True
        )
        found = json.loads(ran.stdout)
        return Environment(name, python, str(found["python"]), dict(found["packages"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{name}: {python} does not run as a Python: {error!s:.300}") from error


def _call(words: Sequence[str], title: str, folder: Path) -> None:
    run_process(words, title=title, directory=folder, timeout=_MOST_SECONDS, environment=os.environ, show=len)


def _is_whole(folder: Path, wanted: Sequence[str]) -> bool:
    with suppress(OSError, ValueError):
        return json.loads(read_regular(folder / _MARKER, _MOST_BYTES)) == list(wanted) and _bin(folder).exists()
    return False


def _move_shebang(script: Path, old: str, new: str) -> None:
    """Have a program of an environment find its Python where that will be."""
    if script.is_symlink() or not script.is_file():
        return
    content = read_regular(script, _MOST_BYTES)
    # A path that is too long for the first line stands in the second: a shell is asked to find that Python.
    first, second, *rest = [*content.split(b"\n", 2), b""]
    if first.startswith(b"#!") and old.encode() in first + second:
        mode = script.stat().st_mode
        moved = (line.replace(old.encode(), new.encode()) for line in (first, second))
        write_atomic(script, b"\n".join([*moved, *rest[:1]]))
        script.chmod(mode)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock that ends with this process, however that ends; another waits."""
    with file.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield

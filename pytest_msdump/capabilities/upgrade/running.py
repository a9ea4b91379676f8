"""Runs the program in an environment, so that nothing but the environment differs between two runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest_msdump
from pytest_msdump.capabilities.frameworks.recorder import opened
from pytest_msdump.capabilities.programs.program import run_program
from pytest_msdump.capabilities.record.given import GIVEN, HANDED_ON, MODEL, TRIAL
from pytest_msdump.capabilities.upgrade.environments import Environment
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.storage.files import read_regular

DIRECTORY = "MSDUMP_DIR"
_MOST_BYTES = 2**28
# What is set where the caller has not set it: each may change the order of sums, or of names.
PINNED: Mapping[str, str] = {
    "PYTHONHASHSEED": "0",
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}
# Variables of the caller's environment that must not lead to its packages.
_LEFT_OUT = ("PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__")


@dataclass(frozen=True)
class Run:
    """What the program left: its dump, and the ONNX model that it ran, where it ran one by our recorder."""

    dump: Dump
    model: Path | None
    # Operators whose outputs were not handed on; ``None`` where the recording hands nothing on.
    kept: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Program:
    """A command that records into ``$MSDUMP_DIR``, and the folder for all of its dumps."""

    command: Sequence[str]
    folder: Path
    timeout: float
    show: Callable[[str], object] = len

    def run(self, environment: Environment, name: str, given: Dump | None = None) -> Run:
        """Run it in an environment; each operator gets the inputs of `given` where the recording can do that."""
        beside, directory = self.folder / f"{name}.trial", self.folder / name
        for folder in (beside, directory):
            shutil.rmtree(folder, ignore_errors=True)
        beside.mkdir()
        variables = {
            **{name: value for name, value in PINNED.items() if name not in os.environ},
            **dict.fromkeys(_LEFT_OUT, ""),
            "VIRTUAL_ENV": str(environment.python.parent.parent),
            "PATH": os.pathsep.join((str(environment.python.parent), os.environ.get("PATH", os.defpath))),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(self._package()), os.environ.get("PYTHONPATH", "")))),
            DIRECTORY: str(directory),
            TRIAL: str(beside),
            GIVEN: "" if given is None else str(given.root),
        }
        words = list(self.command)
        if words[0] in ("python", "python3"):
            words[0] = str(environment.python)
        dump = opened(run_program(words, directory, env=variables, timeout=self.timeout, show=self.show)).dump
        model = beside / MODEL
        return Run(dump, model if model.is_file() else None, _kept(beside / HANDED_ON) if given is not None else None)

    def _package(self) -> Path:
        """Return a folder that has this package alone: both sides are recorded by the same recorder."""
        folder = self.folder / "package"
        link = folder / pytest_msdump.__name__
        if not link.exists():
            folder.mkdir(exist_ok=True)
            link.symlink_to(Path(pytest_msdump.__file__).absolute().parent, target_is_directory=True)
        return folder


def pinned_text(environ: Mapping[str, str]) -> str:
    """Return the variables that matter, as both sides have them."""
    return ", ".join(f"{name}={environ.get(name, value)}" for name, value in PINNED.items())


def _kept(file: Path) -> tuple[str, ...] | None:
    try:
        found = json.loads(read_regular(file, _MOST_BYTES))
        return tuple(map(str, found["kept"])) if found["handed"] else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error

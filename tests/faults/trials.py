"""A copy of the lenet dumps to put a fault into, and the roads by which the gate is asked about it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump import assert_dumps_close
from pytest_msdump.cli import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LENET = Path(__file__).parents[1] / "data" / "lenet"

Array = npt.NDArray[Any]
Change = Callable[[Array], npt.ArrayLike]


class Outcome(NamedTuple):
    """What the gate answered: exit code, tensor or map entry named first, why, all it printed, all that failed."""

    code: int
    named: str
    sentence: str
    text: str
    failing: frozenset[str] = frozenset()


@dataclass
class Trial:
    """Copies of both sides. `by` is "map": the port against PyTorch; "names": the port against itself, inputs too."""

    root: Path
    by: str = "map"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shutil.copytree(LENET / "target", self.left)
        shutil.copytree(LENET / ("reference" if self.by == "map" else "target"), self.right)

    @property
    def left(self) -> Path:
        """The side that is mostly broken."""
        return self.root / "left"

    @property
    def right(self) -> Path:
        """The reference."""
        return self.root / "right"

    def file(self, address: str, side: str = "left") -> Path:
        """The one file of a tensor: ``OP:io:slot`` of the port, a layer's name of the PyTorch reference."""
        if side == "right" and self.by == "map":
            (found,) = self.right.glob(f"{address}.0.*.npy")
            return found
        op, kind, slot = address.rsplit(":", 2)
        (found,) = getattr(self, side).glob(f"rank_*/*/*/*/*.{op.replace('/', '_')}.*.{kind}.{slot}.*.npy")
        return Path(found)

    def change(self, address: str, change: Change, side: str = "left") -> None:
        """Put other values into a tensor's file."""
        file = self.file(address, side)
        np.save(file, np.asarray(change(np.load(file))))

    def entries(self) -> list[dict[str, Any]]:
        """The map of the port's outputs to PyTorch's layers; none for the port against itself."""
        if self.by != "map":
            return []
        return [
            {
                "left": f"{entry['target_op']}:{entry['target_io']}:{entry['target_slot']}",
                "right": f"{entry['reference']}:output:{entry['reference_output']}",
                **({"reshape": True} if entry.get("reshape") else {}),
            }
            for entry in tomllib.loads((LENET / "mapping.toml").read_text("utf-8"))["entries"]
        ]

    @property
    def options(self) -> dict[str, Any]:
        """What the suite says beside its sides and its map."""
        return {"io": "output" if self.by == "map" else "all", **self.settings}

    def suite(self) -> Path:
        """Write the suite file; JSON's strings, numbers and booleans are TOML's."""
        lines = ["[msdump]", 'left = "left"', 'right = "right"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in self.options.items()]
        for entry in self.entries():
            lines += ["[[msdump.map]]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
        file = self.root / "msdump.toml"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return file


def by_command(trial: Trial) -> Outcome:
    """Ask ``msdump compare``, in this process."""
    printed = io.StringIO()
    reports = trial.root / "by-command"
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(["compare", "--config", str(trial.suite()), "--report-dir", str(reports)])
    return _outcome(code, printed.getvalue(), reports)


def by_pytest(trial: Trial, *arguments: str) -> Outcome:
    """Ask pytest, in a process of its own."""
    reports = trial.root / "by-pytest"
    command = [sys.executable, "-m", "pytest", str(trial.suite()), "-p", "no:cacheprovider", "--rootdir", "."]
    done = subprocess.run(
        [*command, "--msdump-report-dir", str(reports), *arguments],
        cwd=trial.root,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return _outcome(done.returncode, done.stdout + done.stderr, reports)


def by_helper(trial: Trial) -> str | None:
    """Ask `assert_dumps_close`; return what it says, ``None`` when it is content."""
    options = {key: value for key, value in trial.options.items() if value is not None}
    try:
        assert_dumps_close(trial.left, trial.right, map=trial.entries(), **options)
    except AssertionError as error:
        return str(error)
    return None


def _outcome(code: int, text: str, reports: Path) -> Outcome:
    file = reports / "results.json"
    if not file.is_file():
        return Outcome(code, "", "no results.json was written", text)
    results = json.loads(file.read_text("utf-8"))
    failing = [record for record in results["tensors"] if record["verdict"] in ("fail", "undefined", "error")]
    all_failing = frozenset(record["left"]["address"] for record in failing)
    for record in failing:
        finding = next(one for one in record["findings"] if one["sentence"])
        return Outcome(code, record["left"]["address"], finding["sentence"], text, all_failing)
    for entry in results["missing"]:
        return Outcome(code, entry["left"], entry["reason"], text)
    for entry in results["unmatched"]:
        if code and entry["side"] == "right":
            return Outcome(code, entry["address"], entry["reason"], text)
    return Outcome(code, "", "nothing failed", text)

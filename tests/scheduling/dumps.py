"""Dumps of a few operators, some of which drift, and what a run of them says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_builder import write_reference
from outcomes import without_run

from pytest_msdump.core.compare.comparing import Comparer
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import Pair
from pytest_msdump.core.report.json_report import read_json

LARGE = 40_000


def write_pairs(folder: Path, sizes: list[int], *, drifting: tuple[int, ...] = ()) -> Path:
    """Write `folder`/left and `folder`/right: op0, op1 … of these sizes, those of `drifting` apart by 10 %."""
    random = np.random.default_rng(7)
    right = {f"op{number}": random.standard_normal(size).astype(np.float32) for number, size in enumerate(sizes)}
    left = {
        name: values * np.float32(1.1 if number in drifting else 1.000001)
        for number, (name, values) in enumerate(right.items())
    }
    write_reference(folder / "left", left)
    write_reference(folder / "right", right)
    return folder


def file_of(side: Path, name: str) -> Path:
    """The one file of an operator."""
    (file,) = side.glob(f"{name}.*.npy")
    return file


def has_not_ended(folder: Path) -> bool:
    """Whether results.json below `folder` says that its run was broken off."""
    return results(folder)["complete"] is False


def results(folder: Path) -> dict[str, Any]:
    """What results.json below `folder` holds, but for what differs from run to run."""
    found: dict[str, Any] = read_json(folder / "msdump-report" / "results.json")
    found.pop("run", None)
    return found


def as_written(folder: Path) -> bytes:
    """The bytes of results.json below `folder`, but date and command."""
    return without_run((folder / "msdump-report" / "results.json").read_bytes())


def before_each_pair(monkeypatch: pytest.MonkeyPatch, do: Callable[[str], object]) -> None:
    """Call `do` with the name of each operator that is about to be measured in this process."""
    original = Comparer.compare

    def compare(comparer: Comparer, pair: Pair) -> Record:
        do(pair.left.key.op.name)
        return original(comparer, pair)

    monkeypatch.setattr(Comparer, "compare", compare)


def interrupt_at(name: str) -> Callable[[str], None]:
    """What presses Ctrl-C when it is called with this name."""

    def interrupt(other: str) -> None:
        if other == name:
            raise KeyboardInterrupt

    return interrupt

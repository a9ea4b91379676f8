"""A recording that is tried hands on what another run had, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.record import DumpWriter

ONES = np.ones((2, 3), np.float32)


def recorded(folder: Path, *values: np.ndarray, name: str = "sum") -> list[np.ndarray]:
    with DumpWriter(folder, framework="numpy") as writer:
        return [writer.pass_on(name, one) for one in values]


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run to be given, of an operator that was called twice; returns the folder beside the dump."""
    recorded(tmp_path / "other", 2 * ONES, 3 * ONES)
    monkeypatch.setenv("MSDUMP_GIVEN", str(tmp_path / "other"))
    monkeypatch.setenv("MSDUMP_TRIAL", str(tmp_path))
    return tmp_path


def test_by_itself_a_program_goes_on_with_what_it_made(tmp_path: Path) -> None:
    (value,) = recorded(tmp_path / "run", ONES)
    assert value is ONES
    assert not (tmp_path / "handed_on.json").exists()


def test_each_call_is_given_what_the_same_call_made(trial: Path) -> None:
    first, second = recorded(trial / "run", ONES, ONES)
    assert (first == 2).all()
    assert (second == 3).all()
    assert json.loads((trial / "handed_on.json").read_text("utf-8")) == {"handed": ["sum"], "kept": []}


@pytest.mark.parametrize("other", [ONES.astype("f8"), ONES.T], ids=["dtype", "shape"])
def test_what_does_not_fit_is_not_handed_on_and_said(other: np.ndarray, trial: Path) -> None:
    (value,) = recorded(trial / "run", other)
    assert value is other
    assert json.loads((trial / "handed_on.json").read_text("utf-8")) == {"handed": [], "kept": ["sum"]}


def test_what_is_only_written_is_not_handed_on_and_said(trial: Path) -> None:
    with DumpWriter(trial / "run", framework="numpy") as writer:
        writer.write("product", ONES)
        writer.pass_on("sum", ONES)
    assert json.loads((trial / "handed_on.json").read_text("utf-8")) == {"handed": ["sum"], "kept": ["product"]}

"""In which order a folder's files were written: believed where a run shows in it, and not where a copy does."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_msdump.capabilities.structure.written import written_order
from pytest_msdump.core.model.tensor import TensorSource

RUN = ["stem.conv", "stem.act", *(f"layers.{block}.{name}" for block in range(3) for name in ("q", "k", "fc", "act"))]


def order_of(folder: Path, written: Sequence[str]) -> Sequence[int] | None:
    """Write files at times a second apart; return their places, in the order of `RUN`."""
    for second, name in enumerate(written):
        (folder / f"{name}.npy").touch()
        os.utime(folder / f"{name}.npy", ns=(0, (second + 1) * 10**9))
    return written_order(
        [TensorSource.of(folder / f"{name}.npy") for name in RUN], [tuple(name.split(".")) for name in RUN]
    )


def test_files_that_hooks_wrote_are_in_the_order_of_the_run(tmp_path: Path) -> None:
    assert order_of(tmp_path, RUN) == [*range(len(RUN))]


@pytest.mark.parametrize("turned", [1, -1])
def test_files_that_were_copied_in_the_order_of_their_names_are_in_none(tmp_path: Path, turned: int) -> None:
    assert order_of(tmp_path, sorted(RUN)[::turned]) is None


@pytest.mark.parametrize("seed", range(20))
def test_files_that_were_copied_in_any_order_are_in_none(tmp_path: Path, seed: int) -> None:
    assert order_of(tmp_path, random.Random(seed).sample(RUN, len(RUN))) is None


def test_files_of_one_age_are_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    sources = [TensorSource.of(tmp_path / f"{name}.npy") for name in RUN]
    for source in sources:
        source.path.touch()
        os.utime(source.path, ns=(0, 10**9))
    numbers = [source.path.stat().st_ino for source in sources]
    order = written_order(sources, [tuple(name.split(".")) for name in RUN])
    assert order is None or [*order] == [sorted(numbers).index(number) for number in numbers]


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert written_order([TensorSource.of(tmp_path / "a.npy")], [("a",)]) is None

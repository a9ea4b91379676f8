"""One side is cut over ranks and the other is not: what is padded, and what nothing put together."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from two_dumps import reported

from pytest_msdump.core.model.dump import DistributedRank
from pytest_msdump.core.suite import read_toml
from pytest_msdump.record import DumpWriter

RANDOM = np.random.default_rng(5)
NORM, HIDDEN, LOGITS = (RANDOM.normal(size=(6, width)) for width in (4, 16, 250))
SHARDS = {"left": {"axes": {"tp": 2}}}
DIMS = [
    {"match": "*", "dims": "t h # tp:replicated"},
    {"match": "lm_head", "dims": "t v[tp]"},
    {"match": "up", "dims": "t h[tp]"},
]


def write(folder: Path, **tensors: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in tensors.items():
        np.save(folder / f"{name}.npy", values.astype("f4"))


def run(folder: Path, padding: int, *, hidden: np.ndarray = HIDDEN) -> None:
    padded = np.concatenate([LOGITS, np.full((6, padding), -1e4)], -1)
    for rank, (logits, half) in enumerate(zip(np.split(padded, 2, -1), np.split(hidden, 2, -1), strict=True)):
        write(folder / "left" / f"rank_{rank}", norm=NORM, lm_head=logits, up=half)
    write(folder / "right", norm=NORM, lm_head=LOGITS, up=HIDDEN)


def test_padding_of_a_cut_axis_is_left_out_and_told(tmp_path):
    run(tmp_path, padding=6)
    report = reported(tmp_path, shards=SHARDS, dims=DIMS)
    assert {record.verdict.outcome for record in report.records} == {"pass"}
    assert report.coverage.value == 1
    assert any("6 of 256 along axis 1 left out" in note and "lm_head" in note for note in report.left.notes)


@pytest.mark.parametrize(("dims", "padding"), [("t v[tp]", 250), ("t v[tp:zigzag]", 6), ("t (a+b)[tp]", 6)])
def test_what_is_no_padding_is_an_error(tmp_path, dims, padding):
    run(tmp_path, padding=padding)
    report = reported(tmp_path, shards=SHARDS, dims=[DIMS[0], {"match": "lm_head", "dims": dims}, DIMS[2]])
    assert {record.left.name: record.verdict.outcome for record in report.records}["lm_head"] == "error"


def test_a_crop_may_name_an_axis_as_the_dims_do(tmp_path):
    run(tmp_path, padding=250)
    entry = {"left": "lm_head", "right": "lm_head", "crop": "v"}
    report = reported(tmp_path, shards=SHARDS, dims=DIMS, map=[entry])
    assert {record.verdict.outcome for record in report.records} == {"pass"}


def record(folder: Path, hidden: np.ndarray) -> None:
    """Record two ranks whose manifests say that they are a group, and one process alone."""
    for rank in range(2):
        with DumpWriter(folder / "left", distributed=DistributedRank(rank, 2, {"tp": [0, 1]})) as writer:
            writer.write("norm", NORM)
            writer.write("up", np.split(hidden, 2, -1)[rank])
    with DumpWriter(folder / "right") as writer:
        writer.write("norm", NORM)
        writer.write("up", HIDDEN)


def test_ranks_that_nothing_put_together_say_what_does(tmp_path):
    record(tmp_path, HIDDEN)
    report = reported(tmp_path)
    wrong = [one for one in report.records if one.fails]
    said = "8 = 16 / 2 along axis 1: the left is cut over ranks (tp = 2)"
    assert [(one.left.name, one.role, said in one.verdict.findings[0].sentence) for one in wrong] == [
        ("up", None, True),
        ("up", None, True),
    ]
    assert report.coverage.value == 0.5
    (note,) = (note for note in report.left.notes if "cut over ranks" in note)
    shards, dims = re.search(r"(shards = \{.*\}) and (dims = \[.*?\}\]) \(", note).groups()  # type: ignore[union-attr]
    # What the note says to write is tried.
    (tmp_path / "tried.toml").write_text(f"{shards}\n{dims}\n", "utf-8")
    entries = read_toml(tmp_path / "tried.toml")
    assert {one.verdict.outcome for one in reported(tmp_path, **entries).records} == {"pass"}


def test_other_lengths_are_no_parts_of_ranks(tmp_path):
    record(tmp_path, np.concatenate([HIDDEN, HIDDEN[:, :4]], -1))
    (one, _) = (one for one in reported(tmp_path).records if one.left.name == "up")
    assert one.verdict.findings[0].message.code == "last_length_differs"

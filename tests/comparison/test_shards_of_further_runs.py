"""Golden and third runs that are cut: their tensors are put together like those of left and right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import DistributedRank
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.record_json import to_json
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter

EXACT = np.random.default_rng(0).random((4, 6))
RUNS = {
    "left": EXACT.astype("f4") * np.float32(1 + 3e-7),
    "right": EXACT.astype("f4"),
    "golden": EXACT,
    "third": EXACT.astype("f4") * np.float32(1 - 2e-7),
}


def save(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)


def write(folder, side, values, *, cut):
    for rank, half in enumerate(np.split(values, 2, 1)) if cut else ():
        save(folder / side / f"rank_{rank}/x.npy", half)
    if not cut:
        save(folder / side / "x.npy", values)


def records(folder, runs, text=""):
    sides = "".join(f'{side} = "{side}"\n' for side in runs)
    (folder / "m.toml").write_text(f"[msdump]\n{sides}{text}", "utf-8")
    planned = plan(load_suite(file=Path("m.toml"), options={}, directory=folder))
    return build_report(planned, compare_plan(planned)).records


DIMS = '[[msdump.dims]]\nmatch = "x"\ndims = "a b[tp]"\n'


@pytest.mark.parametrize("cut", ["golden", "third", "left golden", "left right golden third"])
def test_a_cut_run_is_measured_as_the_whole_one(tmp_path, cut):
    found = []
    for folder, sides in (("whole", ()), ("cut", cut.split())):
        for side, values in RUNS.items():
            write(tmp_path / folder, side, values, cut=side in sides)
        meshes = "".join(f"{side} = {{ axes = {{ tp = 2 }} }}\n" for side in sides)
        text = f"[msdump.shards]\n{meshes}{DIMS}" if sides else ""
        (one,) = records(tmp_path / folder, RUNS, text)
        assert (one.comparison.three_way.golden, one.comparison.three_way.other_run) == ("golden", "third")
        found.append(to_json(one))
    for one in found:
        for side in RUNS:
            del one[side]
    assert found[0] == found[1]


def test_a_golden_run_that_lacks_a_rank_is_no_golden_run(tmp_path):
    for side in ("left", "right"):
        write(tmp_path, side, RUNS[side], cut=False)
    save(tmp_path / "golden/rank_0/x.npy", EXACT[:, :3])
    (found,) = records(
        tmp_path, ("left", "right", "golden"), "[msdump.shards]\ngolden = { axes = { tp = 2 } }\n" + DIMS
    )
    assert found.verdict.outcome == "error"
    assert found.verdict.findings[0].sentence.startswith("1 of 2 shards of the golden side is missing: that of rank 1")


def record(folder, values):
    for rank, half in enumerate(np.split(values, 2)):
        with DumpWriter(folder, distributed=DistributedRank(rank, 2, {"tp": [0, 1]})) as writer:
            writer.write("x", half, placement="a[tp] b")


def test_tokens_of_a_golden_run_are_found_by_their_ids(tmp_path):
    rows = [[5, 6, 7], [8, 9]]
    hidden = {token: np.random.default_rng(token).random(3) for token in range(1, 10)}
    for side, (order, width, dtype) in {
        "left": ([0, 1], 3, "f4"),
        "right": ([1, 0], 4, "f4"),
        "golden": ([1, 0], 6, "f8"),
    }.items():
        ids = np.zeros((2, width), np.int64)
        for row, number in enumerate(order):
            ids[row, : len(rows[number])] = rows[number]
        values = np.array([[hidden.get(token, np.full(3, width)) for token in row] for row in ids], dtype)
        save(tmp_path / side / "ids.npy", ids)
        save(tmp_path / side / "hidden.npy", values)
    found = records(tmp_path, ("left", "right", "golden"), '[msdump.shards]\ntokens = { ids = "ids", pad = 0 }\n')
    ratio = next(one for one in found if one.left.address.startswith("hidden"))
    assert ratio.comparison.three_way.golden == "golden"
    assert (ratio.verdict.outcome, ratio.equal, ratio.left.shape) == ("pass", True, (5, 3))
    save(tmp_path / "golden/ids.npy", np.full((2, 6), 3))
    with pytest.raises(ConfigError, match="5 left, 12 golden"):
        records(tmp_path, ("left", "right", "golden"), '[msdump.shards]\ntokens = { ids = "ids", pad = 0 }\n')

"""One table of what comes of a run: readers and formats by what a suite file says, through the gate of all drivers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.gate import gate, report_texts
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.suite import load_suite

VALUES = np.linspace(1, 2, 50, dtype=np.float32)
HOLES = np.where(np.arange(50) == 7, np.float32("nan"), VALUES)
# `near` is 0.05 % off, `far` 2 %; `holes` has one NaN on both sides.
LEFT = {"exact": VALUES, "near": VALUES * np.float32(1.0005), "far": VALUES * np.float32(1.02), "holes": HOLES}
RIGHT = {"exact": VALUES, "near": VALUES, "far": VALUES, "holes": HOLES}
ALL = {"exact": "pass", "near": "pass", "far": "fail", "holes": "pass"}
DRIFT = """
[[msdump.known_drift]]
match = "*far"
reason = "exp, ACC-412"
until = {until}
rel_euclid = {limit}
norm_max = 0.05
"""


class Case(NamedTuple):
    """What a suite says beside its sides and its map, and what comes of it."""

    code: int
    verdicts: dict[str, str]
    says: str = ""
    keys: str = ""
    tables: str = ""
    options: Mapping[str, Any] = MappingProxyType({})


CASES = {
    "default limits": Case(1, ALL, "DRIFT"),
    "the last matching rule wins": Case(
        1,
        ALL | {"near": "fail", "far": "pass"},
        "[[msdump.rule]] #1",
        tables="[[msdump.rule]]\nrel_euclid = 1e-6\n"
        '[[msdump.rule]]\nmatch = "*far"\nrel_euclid = 0.03\nnorm_max = 0.03',
    ),
    "a warning exits 0": Case(
        0,
        ALL | {"far": "warn"},
        "warning level 0.01",
        tables='[[msdump.rule]]\nmatch = "*far"\nrel_euclid = { fail = 0.05, warn = 0.01 }\nnorm_max = 0.05',
    ),
    "a known drift": Case(0, ALL | {"far": "warn"}, "ACC-412", tables=DRIFT.format(until="2999-01-31", limit=0.05)),
    "beyond a known drift": Case(1, ALL, "ACC-412", tables=DRIFT.format(until="2999-01-31", limit=0.015)),
    "a known drift that has expired": Case(1, ALL, "2020-01-31", tables=DRIFT.format(until="2020-01-31", limit=0.05)),
    "a typed limit wins over a known drift": Case(
        1,
        ALL,
        "--msdump-threshold rel_euclid=0.001",
        tables=DRIFT.format(until="2999-01-31", limit=0.05),
        options={"threshold": ["rel_euclid=0.001"]},
    ),
    "another profile": Case(1, ALL | {"near": "fail"}, keys='profile = "strict"'),
    "NaN is forbidden": Case(1, ALL | {"holes": "fail"}, "NaN and Inf are forbidden", keys='nan = "forbid"'),
    "what is left out is neither run nor missed": Case(
        0, {name: ALL[name] for name in ("exact", "near", "holes")}, keys='deselect = ["*far"]'
    ),
    "one operator alone": Case(1, {"far": "fail"}, keys='select = ["*far"]'),
    "a selection of nothing": Case(1, {}, "nothing was compared", keys='select = ["nothing*"]'),
    "less coverage than was asked for": Case(
        1, {"exact": "pass"}, "coverage is 25 %, below the 50 %", keys="min_coverage = 0.5\nONE"
    ),
    "less than half, and nothing was asked for": Case(
        1, {"exact": "pass"}, "coverage is 25 %, below the 50 % that is demanded unless min_coverage", keys="ONE"
    ),
    "less than half is enough": Case(
        0, {"exact": "pass"}, "25 % of the reference compared", keys="min_coverage = 0.2\nONE"
    ),
    "an entry of the map without its tensor": Case(
        1, ALL, "gone", tables='[[msdump.map]]\nleft = "gone"\nright = "exact"'
    ),
}


def write_left(reader: str, folder: Path) -> str:
    """Write the run; return what its names begin with."""
    if reader == "mindspore":
        start = "Default/net-Net/"
        tensors = [("ReLU", start + name, "output", 0, array) for name, array in LEFT.items()]
        write_mindspore(folder / "run", tensors)
        return start
    if reader == "npy-folder":
        write_reference(folder / "run", LEFT)
    else:
        np.savez_compressed(folder / "run.npz", **LEFT)
    return ""


@pytest.mark.parametrize("reader", ["mindspore", "npy-folder", "npz"])
@pytest.mark.parametrize("name", CASES)
def test_a_run_has_its_verdicts_and_its_exit_code(name: str, reader: str, tmp_path: Path) -> None:
    case = CASES[name]
    start = write_left(reader, tmp_path)
    write_reference(tmp_path / "reference", RIGHT)
    keys = case.keys.replace("ONE", 'pair_by = ["map"]')
    paired = ["exact"] if "ONE" in case.keys else list(LEFT)
    maps = "".join(f'[[msdump.map]]\nleft = "{start}{one}"\nright = "{one}"\n' for one in paired)
    side = "run.npz" if reader == "npz" else "run"
    suite = f'[msdump]\nleft = "{side}"\nright = "reference"\n{keys}\n{maps}{case.tables}\n'
    (tmp_path / "msdump.toml").write_text(suite, "utf-8")
    planned = plan(load_suite(file=Path("msdump.toml"), options=case.options, directory=tmp_path))
    found = gate(planned, watch=Progress("", quiet=True))
    verdicts = {one.right.address.partition(":")[0]: one.verdict.outcome for one in found.report.records}
    assert (found.code, verdicts) == (case.code, case.verdicts)
    assert case.says in " ".join(" ".join(report_texts(found.report, width=200)).split())


def test_a_file_that_is_cut_is_an_error_of_its_own_pair(tmp_path: Path) -> None:
    write_reference(tmp_path / "run", LEFT)
    write_reference(tmp_path / "reference", RIGHT)
    (file,) = (tmp_path / "run").glob("near.*")
    file.write_bytes(file.read_bytes()[:-7])
    options = {"left": str(tmp_path / "run"), "right": str(tmp_path / "reference")}
    found = gate(plan(load_suite(file=None, options=options, directory=tmp_path)), watch=Progress("", quiet=True))
    assert {one.right.address.partition(":")[0]: one.verdict.outcome for one in found.report.records} == ALL | {
        "near": "error"
    }
    assert "cut off" in " ".join(report_texts(found.report, width=200))


@pytest.mark.parametrize("right", [{}, {"stem": VALUES}], ids=["an empty folder", "other names"])
def test_nothing_in_common_fails(right: dict[str, Any], tmp_path: Path) -> None:
    write_reference(tmp_path / "run", LEFT)
    write_reference(tmp_path / "reference", right)
    options = {"left": str(tmp_path / "run"), "right": str(tmp_path / "reference")}
    found = gate(plan(load_suite(file=None, options=options, directory=tmp_path)), watch=Progress("", quiet=True))
    assert (found.code, found.report.records) == (1, ())
    said = " ".join(" ".join(report_texts(found.report, width=200)).split())
    assert "nothing was compared" in said
    assert "left tensors without a partner (4)" in said

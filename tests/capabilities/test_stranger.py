"""A capability of another package, of one file: how it pairs, what it says of a pair, in results and on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.core.report.json_report import read_json

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs/reference/hooks.md"
# The package that the page shows.
STRANGER = re.search(r"^```python\n(# owners\.py\n.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)[1]  # type: ignore[index]
CLEARING = """
from dataclasses import replace
from pytest_msdump.core.model.comparison import Verdict

def judged(pair, record, again):
    return replace(record, verdict=Verdict("pass"))

def reported(report, plan):
    return replace(report, records=tuple(replace(one, verdict=Verdict("pass")) for one in report.records))

STAGES = {"%s": "owners:%s"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for side, name in (("left", "Default_conv1"), ("right", "model_conv1")):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / f"{name}.npy", np.float32([1, 2, 3 + (side == "left")]))
    return tmp_path


def install(folder: Path, text: str) -> None:
    (folder / "owners.py").write_text(text, "utf-8")
    about = folder / "owners-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: owners\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[pytest_msdump.capabilities]\nowners = owners\n")


def msdump(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_msdump", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_package_of_one_file_pairs_says_and_draws(folder: Path) -> None:
    assert "team vision" not in msdump(folder, "compare", "left", "right").stdout
    install(folder, STRANGER)
    for jobs in ("1", "2"):
        ran = msdump(folder, "compare", "left", "right", "--report=json,html", f"--jobs={jobs}")
        assert ran.returncode == 1, ran.stderr
        assert "owned by team vision" in ran.stdout
        record = read_json(folder / "msdump-report/results.json")["tensors"][0]
        assert record["how"] == "mapped"
        assert "owners" in record["by"]
        assert record["parts"] == {"owners": {"team": "vision"}}
    page = (folder / "msdump-report/index.html").read_text("utf-8")
    assert '<section class="added" lang="en"><h2>Owners</h2>' in page
    assert '<section class="added" lang="zh-CN"><h2>负责人</h2>' in page
    assert "归 vision 团队" in msdump(folder, "compare", "left", "right", "--lang=zh").stdout


def test_results_keep_the_part_of_a_capability_that_is_gone(folder: Path) -> None:
    install(folder, STRANGER)
    msdump(folder, "compare", "left", "right")
    (folder / "owners.py").unlink()
    (folder / "owners-1.dist-info/entry_points.txt").unlink()
    again = msdump(folder, "report", "msdump-report/results.json", "--report=json", "-o", "again")
    assert again.returncode == 0, again.stderr
    assert read_json(folder / "again/results.json")["tensors"][0]["parts"] == {"owners": {"team": "vision"}}


def test_what_elements_show_becomes_a_part_of_failures_that_are_told_in_full(folder: Path) -> None:
    explains = """
def largest(opened, record):
    left, _ = opened.seen
    return replace(record, parts={**record.parts, "owners": Owner(str(left.read(0, left.size).max()))})
"""
    stages = STRANGER.replace('"judged": ("owners:with_owner", "failing")', '"explained": "owners:largest"')
    install(folder, stages + explains)
    msdump(folder, "compare", "left", "right")
    document = read_json(folder / "msdump-report/results.json")
    assert document["tensors"][0]["parts"] == {"owners": {"team": "4.0"}}


def test_a_changed_capability_is_not_served_from_the_cache(folder: Path) -> None:
    install(folder, STRANGER)
    for team in ("vision", "audio"):
        (folder / "owners.py").write_text(STRANGER.replace("vision", team), "utf-8")
        assert f"owned by team {team}" in msdump(folder, "compare", "left", "right", "--cache=content").stdout


@pytest.mark.parametrize("stage", ["judged", "reported"])
def test_a_stage_that_makes_a_verdict_better_is_refused(folder: Path, stage: str) -> None:
    (folder / "left/Default_conv1.npy").rename(folder / "left/model_conv1.npy")
    install(folder, CLEARING % (stage, stage))
    ran = msdump(folder, "compare", "left", "right")
    assert ran.returncode == {"judged": 1, "reported": 4}[stage]
    assert "owners made pass of fail" in (ran.stdout + ran.stderr).replace("\n", " ")


def test_a_stage_that_drops_a_pair_is_refused(folder: Path) -> None:
    np.save(folder / "left/fc.npy", np.ones(3, "f4"))
    np.save(folder / "right/fc.npy", np.ones(3, "f4"))
    drops = """
from dataclasses import replace
STAGES = {"paired": "owners:fewer"}
def fewer(pairing, dumps):
    return replace(pairing, pairs=pairing.pairs[:-1]), {}
"""
    install(folder, drops)
    ran = msdump(folder, "compare", "left", "right")
    assert ran.returncode == 4
    assert "owners changed which tensors meet" in ran.stderr.replace("\n", " ")


@pytest.mark.parametrize("stage", ["excused", "measured", "road"])
def test_what_measures_and_judges_is_not_open_to_strangers(folder: Path, stage: str) -> None:
    install(folder, CLEARING % (stage, "judged"))
    ran = msdump(folder, "compare", "left", "right")
    assert ran.returncode == 4
    assert "only the core clears" in ran.stderr

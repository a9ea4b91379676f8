"""What the terminal, the page, results.json, summary.md and a bundle say to type compares the same thing again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

RANDOM = np.random.default_rng(0)
GOLD = RANDOM.standard_normal((4, 64)).astype("f4")
NOISE = RANDOM.standard_normal((4, 64)).astype("f4")
RIGHT = GOLD * (1 + NOISE * np.float32(1e-7))
NEAR = GOLD * (1 + NOISE[::-1] * np.float32(3e-4))
OUTPUT, INPUT = "Default/fc-Dense:output:0", "Default/fc-Dense:input:0"

# Flags, with which a tensor fails that is compared otherwise, or not at all, without them.
CASES = {
    "left": (["--msdump-left=bad"], OUTPUT),
    "third": (["--msdump-golden=gold", "--msdump-third=twin"], OUTPUT),
    "threshold": (["--msdump-threshold=rel_euclid=1e-6", "--msdump-without=max_rel"], OUTPUT),
    "limits": (["--msdump-limits=tight.json"], OUTPUT),
    "io": (["--msdump-io=all"], INPUT),
    "align": (["--msdump-align=iteration=9->0", "--msdump-iteration=9"], OUTPUT),
    "config": (["--msdump-config=hard.toml"], OUTPUT),
}


def net(folder: Path, output: Any, given: Any = GOLD, **where: int) -> None:
    tensors = [("Dense", "Default/fc-Dense", "input", 0, given), ("Dense", "Default/fc-Dense", "output", 0, output)]
    write_mindspore(folder, tensors, **where)


@pytest.fixture
def folder(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> Path:
    for iteration, rank, factor in ((0, 0, 1), (9, 0, 2), (0, 1, 3)):
        net(pytester.path / "run", NEAR * np.float32(factor), GOLD * 2, iteration=iteration, rank=rank)
    net(pytester.path / "bad", -NEAR)
    for name, values in {"right": RIGHT, "gold": GOLD, "twin": RIGHT * np.float32(1 + 1e-7)}.items():
        net(pytester.path / name, values)
    net(pytester.path / "moved", RIGHT * (1 + NOISE * np.float32(6e-8)))
    assert main(["calibrate", "right", "moved", "-o", "tight.json"]) == 0
    capsys.readouterr()
    suite = '[msdump]\nleft = { path = "run", net = "Net" }\nright = "right"\n'
    (pytester.path / "msdump.toml").write_text(suite, "utf-8")
    (pytester.path / "hard.toml").write_text(
        f"{suite}nan = 'forbid'\nmin_coverage = 0.1\nprofile = 'strict'\n", "utf-8"
    )
    return pytester.path


def found(folder: Path, address: str) -> list[Any]:
    """Return what was compared of a tensor and how it was judged; a rule is called after the flag that made it."""
    report = read_json(folder / "msdump-report" / "results.json")
    compared = [one for one in report["tensors"] if one["left"]["address"] == address]
    files = [[report[side]["directory"], *(one[side]["file"] for one in compared)] for side in ("left", "right")]
    judged = [[{**check, "rule": ""} for check in one["checks"]] for one in compared]
    return [
        files,
        judged,
        *({key: one.get(key) for key in ("verdict", "how", "metrics", "golden", "third")} for one in compared),
    ]


@pytest.mark.parametrize(("case", "source"), [*((case, "flags") for case in CASES), ("limits", "ini")])
def test_every_command_that_is_offered_gives_the_same_verdict_again(pytester, folder, case, source):
    flags, address = CASES[case]
    if source == "ini":
        pairs = [flag.removeprefix("--").replace("msdump-", "msdump_", 1).partition("=") for flag in flags]
        pytester.makeini("[pytest]\n" + "".join(f"{key} = {value}\n" for key, _, value in pairs))
    more = flags if source == "flags" else []
    if case == "config":
        (folder / "msdump.toml").unlink()
    else:
        more = ["msdump.toml", *more]
    result = pytester.runpytest("--msdump-report=json,md", "--msdump-bundle=bug", *more)
    assert result.ret == 1
    before = found(folder, address)
    assert {one["verdict"] for one in before[2:]} == {"fail"}

    report = read_json(folder / "msdump-report" / "results.json")
    summary = (folder / "msdump-report" / "summary.md").read_text("utf-8")
    offered = [["msdump", "compare", *report["rerun"], "--select=Default/fc-Dense"]]
    offered += [shlex.split(line) for line in summary.splitlines() if line.startswith("msdump compare ")]
    offered += [shlex.split(file.read_text("utf-8")) for file in folder.glob("bug/*/command.txt")]
    # The page adds what it selects to the same words.
    assert {tuple(words) for words in offered} == {tuple(offered[0])}
    # A bundle has a folder for each cause, and none for an input alone.
    assert len(offered) == (3 if address == OUTPUT else 2)
    assert main(offered[0][1:]) == 1
    assert found(folder, address) == before

    lines = "\n".join(result.outlines).replace("\\\n", " ")
    (typed,) = set(re.findall(r"(?m)^re-run just this: (pytest .*)", lines))
    (folder / "msdump-report" / "results.json").unlink()
    assert pytester.runpytest(*shlex.split(typed)[1:]).ret == 1
    assert found(folder, address) == before

    # Without the option nothing of it would be true.
    (folder / "tox.ini").unlink(missing_ok=True)
    if source == "flags" and case != "config":
        main(["compare", "--config", "msdump.toml"])
        assert found(folder, address) != before

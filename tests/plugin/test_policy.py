"""What a suite file says of limits, pairs and selection holds in the items and in what is written."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.core.report.json_report import read_json

NET = "Default/net-Net"


@pytest.fixture
def dumps(pytester):
    """A run and a reference: `exact` agrees, `near` is 0.05 % off, `far` 2 %, `holes` has one NaN on both sides."""
    values = np.linspace(1, 2, 50, dtype=np.float32)
    holes = values.copy()
    holes[7] = np.nan
    left = {"exact": values, "near": values * np.float32(1.0005), "far": values * np.float32(1.02), "holes": holes}
    right = {"exact": values, "near": values, "far": values, "holes": holes}
    tensors = [("ReLU", f"{NET}/{name}", "output", 0, array) for name, array in left.items()]
    write_mindspore(pytester.path / "run", tensors)
    write_reference(pytester.path / "reference", right)
    return pytester


def suite(pytester: pytest.Pytester, text: str = "", *, head: str = "") -> None:
    names = ("exact", "near", "far", "holes")
    maps = "".join(f'[[msdump.map]]\nleft = "{NET}/{name}"\nright = "{name}"\n' for name in names)
    content = f'[msdump]\nleft = "run"\nright = "reference"\n{head}\n{maps}\n{text}\n'
    (pytester.path / "msdump.toml").write_text(content, "utf-8")


def verdicts(pytester: pytest.Pytester) -> dict[str, str]:
    report = read_json(pytester.path / "msdump-report" / "results.json")
    return {one["left"]["address"].split("/")[-1].split(":")[0]: one["verdict"] for one in report["tensors"]}


def test_the_last_matching_rule_wins_and_is_named(dumps):
    suite(
        dumps,
        '[[msdump.rule]]\nmatch = "*"\nrel_euclid = 1e-6\n'
        '[[msdump.rule]]\nmatch = "*far"\nop_type = ["ReLU"]\ndtype = "float32"\nrel_euclid = 0.03\nnorm_max = 0.03\n',
    )
    result = dumps.runpytest()
    assert verdicts(dumps) == {"exact": "pass", "near": "fail", "far": "pass", "holes": "pass"}
    result.stdout.fnmatch_lines(["*rel_euclid*5e-04*<= 1e-06*FAIL*", "*[[][[]msdump.rule]] #1*"])


def test_a_warning_exits_0_and_is_told(dumps):
    suite(dumps, '[[msdump.rule]]\nmatch = "*far"\nrel_euclid = { fail = 0.05, warn = 0.01 }\nnorm_max = 0.05\n')
    result = dumps.runpytest()
    assert result.ret == 0
    assert verdicts(dumps)["far"] == "warn"
    result.stdout.fnmatch_lines(["WARN Default/net-Net/far*0.02 is above", "*warning level 0.01*"])
    assert "warnings" not in result.parseoutcomes()


DRIFT = """
[[msdump.known_drift]]
match = "*far"
reason = "exp, ACC-412"
until = {until}
rel_euclid = {limit}
norm_max = 0.05
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("until", "limit", "verdict", "line"),
    [
        ("2999-01-31", 0.05, "warn", "*ACC-412*2999-01-31*"),
        ("2999-01-31", 0.015, "fail", "*rel_euclid*<= 0.015*ACC-412*"),
        ("2020-01-31", 0.05, "fail", "*ACC-412*2020-01-31*"),
    ],
)
def test_a_known_drift_is_accepted_for_a_while_and_no_further(dumps, until, limit, verdict, line):
    suite(dumps, DRIFT.format(until=until, limit=limit))
    result = dumps.runpytest_subprocess("--msdump-report-dir=msdump-report")
    assert verdicts(dumps)["far"] == verdict
    assert result.ret == (0 if verdict == "warn" else 1)
    joined = " ".join(text.strip() for text in result.stdout.lines)
    pytest.LineMatcher([joined]).fnmatch_lines([line])


def test_the_command_line_wins_over_rules_and_known_drift(dumps):
    suite(dumps, DRIFT.format(until="2999-01-31", limit=0.05))
    result = dumps.runpytest("--msdump-threshold=rel_euclid=0.001")
    assert verdicts(dumps)["far"] == "fail"
    result.stdout.fnmatch_lines(["*--msdump-threshold*"])


def test_deselected_operators_are_neither_run_nor_missed(dumps):
    suite(dumps)
    dumps.runpytest("--msdump-deselect=*far").assert_outcomes(passed=4)
    dumps.runpytest("--msdump-select=far").assert_outcomes(passed=1, failed=1)

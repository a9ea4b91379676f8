"""The command that compares again: every option that decides comes back, from wherever it came."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.capabilities.calibrate.limits_file import LimitsFile, Perturbed, ReferenceFacts, limits_text
from pytest_msdump.cli import compare
from pytest_msdump.core.settings.options import DECIDING, OPTIONS, Option, option_words
from pytest_msdump.core.suite import Suite, load_suite

# Values that mean something of their own; the others follow from an option's kind.
SAMPLES: dict[str, Any] = {
    "profile": "strict",
    "threshold": ["cosine=0.5", "rel_euclid=1e-9"],
    "without": ["kl_divergence", "max_rel"],
    "align": ["iteration=9->0, 10->1", "net=A net->C"],
    "iteration": "0|2-3",
    "rank": "0",
    "graph": "1",
    "pair_by": ["map", "name"],
    "min_coverage": "12.5%",
    "replay": "model.py:make",
    "left": "a run",
    "limits": "tight.json",
}
# The suite file itself begins the command, what is selected ends it, and only pytest has items.
ELSEWHERE = {"config", "select", "granularity"}
LIMITS = LimitsFile(ReferenceFacts(), Perturbed(2.0**-24, 1, "input", (1,)))
NAMES = sorted(DECIDING - ELSEWHERE)
BY_NAME = {option.name: option for option in OPTIONS}


def sample(option: Option) -> Any:
    """Return a value as it is typed, which is not the default."""
    by_kind = {"texts": ["one*", "o n e"], "switch": True, "number": "3", "path": f"../{option.name}", "text": "x"}
    usual = next((one for one in option.choices if one != option.default), by_kind.get(option.kind))
    return SAMPLES.get(option.name, usual)


def again(suite: Suite) -> Suite:
    """Return the suite that ``msdump compare`` makes of the words that a report keeps."""
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    start = ["--config", str(suite.file)] if suite.file else [str(suite.left.path), str(suite.right.path)]
    return compare.suite_of(parser.parse_args([*start, *suite.typed]))


def decided(suite: Suite) -> dict[str, Any]:
    """Return all that a suite decides, without where in a message it came from."""
    values = {name: suite.options[name] for name in DECIDING - ELSEWHERE}
    values["without"] = dict.fromkeys(values["without"])
    # Of these the suite itself has what was read.
    resolved = {"align": suite.align, "limits": suite.policy.limits}
    for name in ("left", "right", "golden", "third", "fusion", "quant_fusion", "close_fusion"):
        resolved[name] = getattr(suite, name)
    policy = replace(suite.policy, threshold_flag="", without={})
    whole = replace(suite, policy=policy, options={}, typed=(), report_dir=Path(), name="")
    return {**values, **resolved, "suite": whole}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    inner = tmp_path / "in ner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    for place in (inner, tmp_path):
        (place / "tight.json").write_text(limits_text(LIMITS), "utf-8")
    return inner


@pytest.mark.parametrize("source", ["flag", "ini"])
@pytest.mark.parametrize("with_file", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_decides_is_in_the_command_that_compares_again(folder, name, with_file, source):
    option, value = BY_NAME[name], sample(BY_NAME[name])
    if source == "ini" and option.ini is None:
        pytest.skip("no ini file has it")
    file, sides = None, {"left": "run", "right": "ref"}
    if with_file:
        file, sides = folder / "msdump.toml", {}
        file.write_text('[msdump]\nleft = { path = "run", net = "Net" }\nright = "ref"\nalign = { graph = "1->2" }\n')
    from_flag, from_ini = ({name: value}, {}) if source == "flag" else ({}, {name: value})
    where = {"file": file, "directory": folder, "rootdir": folder.parent}
    suite = load_suite(**where, options={**sides, **from_flag}, ini=from_ini)
    assert decided(again(suite)) == decided(suite)
    # It would be missed, but where the suite file has its own.
    without = load_suite(**where, options={**sides, **dict.fromkeys(from_flag, sides.get(name))})
    has_effect = source == "flag" or name not in ("left", "right")
    assert (decided(without) != decided(suite)) is has_effect


def test_every_option_that_decides_has_a_flag_that_takes_the_value():
    for name in NAMES:
        for for_pytest in (True, False):
            words = option_words({name: sample(BY_NAME[name])}, for_pytest=for_pytest)
            assert words, name
            assert all(word.startswith("--msdump-" if for_pytest else "--") for word in words)

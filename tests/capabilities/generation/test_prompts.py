"""Two decoders after the same prompts: a small recurrent net of numpy, right and with mistakes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_decoders import NET, PROMPTS

from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.json_report import read_json, report_from

SIDES = ("left", "right")


@pytest.fixture
def generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "prompts.json").write_text(json.dumps(PROMPTS))

    def run(left: str, right: str = "reference", *options: str) -> int:
        return main(
            ["generation", f"net.py:{left}", f"net.py:{right}", "--prompts", "prompts.json", "--tokens", "12", *options]
        )

    return run


def test_a_right_port_passes_alone_in_a_batch_and_free(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("port", "reference", "--batched") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "tokens agree" in line]
    assert [line.partition(":")[0] for line in lines] == [
        *("prompt_0", "prompt_1", "batched.prompt_0", "batched.prompt_1")
    ]
    assert all(": PASS, 12 of 12 tokens agree, KL " in line for line in lines)
    assert generation("port", "reference", "--free") == 0


def test_a_second_run_replaces_the_first_and_no_folder_of_others(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("port") == generation("port") == 0
    assert "ran user code: net.py\n" in capsys.readouterr().out
    own = Path("own/generation")
    own.mkdir(parents=True)
    (own / "thesis.txt").write_text("mine")
    assert generation("port", "reference", "--report-dir", "own") == 4
    assert (own / "thesis.txt").read_text() == "mine"
    assert "nothing of an earlier run" in capsys.readouterr().err


def test_padding_that_is_read_fails_in_the_batch_alone(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("padding") == 0
    assert generation("padding", "reference", "--batched") == 1
    verdicts = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if "tokens agree" in line][2:]
    assert verdicts == [
        ["prompt_0:", "PASS,"],
        ["prompt_1:", "PASS,"],
        ["batched.prompt_0:", "DRIFT,"],
        ["batched.prompt_1:", "PASS,"],
    ]


def test_what_is_wrong_from_a_step_on_is_right_before_it(generation: Callable[..., int]) -> None:
    """The tokens of the reference are fed, so that the steps before it are as they should be."""
    assert generation("cache") == 1
    left, right = (
        np.load(next(Path("msdump-report/generation", side).glob("prompt_0_logits*"))) for side in ("left", "right")
    )
    apart = np.abs(left - right).max(-1)
    assert (apart[:5] < 1e-3).all()
    assert apart[5] > 1e-3


def test_one_prompt_is_judged_again_by_the_command_that_is_printed(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same rules: softmax of the logits, ids as what was chosen from them."""
    assert generation("cache", "reference", "--msdump-show=all") == 1
    out = capsys.readouterr().out.replace("\\\n", " ")
    again = re.findall("(?<=re-run just this: msdump ).*", out)[-1]
    assert main(shlex.split(again)) == 1
    again_out = capsys.readouterr().out
    assert "1 tensor: 1 fail" in again_out
    (line,) = re.findall("(?<=\n)  softmax_kl .*", again_out)
    assert line in out


@pytest.mark.parametrize(("options", "is_asked"), [((), True), (("--perturbed", "net.py:rounded"), False)])
def test_what_may_be_rounding_is_asked_about_in_words_of_this_command(
    options: tuple[str, ...], is_asked: bool, generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("far", "reference", *options) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert ("if this may be rounding: give --perturbed FILE:FUNCTION" in out) is is_asked
    assert "msdump calibrate" not in out


def test_a_near_tie_warns_and_free_runs_are_compared_up_to_it(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("tied_port", "tied_reference") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "prompt_0: WARN, 11 of 12 tokens agree" in out
    ids, logits = (
        {side: np.load(next(Path("msdump-report/generation", side).glob(f"prompt_0_{what}*"))) for side in SIDES}
        for what in ("ids", "logits")
    )
    left, right = (int(ids[side][3]) for side in SIDES)
    apart = float(logits["right"][3, right]) - float(logits["right"][3, left])
    assert f"first other token at step 3: id {left} left, {right} right, {apart:.3g} apart" in out
    assert "near tie: 1 of 12 choices differs, at token 3" in out
    assert generation("tied_port", "tied_reference", "--free") == 0
    assert "prompt_0: 4 of 12 tokens are compared, up to the first that differs" in capsys.readouterr().out


def test_behind_another_expert_by_a_near_tie_the_token_of_that_prompt_is_set_aside(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("routed_port", "routed_reference", "--batched") == 0
    out = capsys.readouterr().out
    verdicts = [line.split()[:2] for line in out.splitlines() if "tokens agree" in line]
    flipped, same = ["prompt_0:", "WARN,"], ["prompt_1:", "PASS,"]
    assert verdicts == [flipped, same, *([f"batched.{name}", verdict] for name, verdict in (flipped, same))]
    said = " ".join(out.split())
    assert "near tie: 1 of 24 choices differs, at token 3, choice 1" in said
    assert (
        "within its limits but for 1 of 12 token, which a near tie in prompt_0.layer_1.router sends elsewhere" in said
    )
    found = report_from(read_json(Path("msdump-report/results.json"))).records
    records = {one.left.address.removesuffix(":output:0"): one for one in found}
    assert records["prompt_0.layer_1.experts"].metrics["changed_routes"] == pytest.approx(1 / 12)
    # What the token itself says was not judged, and did not pass.
    assert [records[f"prompt_0.{what}"].verdict.outcome for what in ("logits", "ids")] == ["warn", "warn"]


@pytest.mark.parametrize("left", ["off_elsewhere", "off_in_another_prompt", "far_router", "unrouted_port"])
def test_what_no_near_tie_of_this_prompt_explains_fails(left: str, generation: Callable[..., int]) -> None:
    assert generation(left, "routed_reference") == 1


def test_routers_of_one_side_alone_are_not_compared_and_that_is_said(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("half_routed_port", "routed_reference") == 0
    assert "routers: 1 of 2 are compared, those that both sides yield" in " ".join(capsys.readouterr().out.split())
    assert generation("reference", "routed_reference") == 0


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ("no_router", "yielded no router layer_0 at step 0; yield as routers floats whose last axis is the experts"),
        ("other_routers", "yielded layer_1 of nothing at step 0, of float64 (1, 4) at step 2"),
        ("no_generator", "returned ndarray; write a generator that yields logits"),
        ("short", "ended after 1 of 12 steps"),
        ("of_integers", "yielded int64 (1, 97) at step 0"),
        ("raising", "raised RuntimeError: no such weight"),
        ("nothing", "has no function nothing"),
    ],
)
def test_what_is_no_decoder_is_one_clear_line(
    left: str, why: str, generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation(left) == 4
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("prompts", ["[]", "[[]]", "[[1, -2]]", '["a"]', "[[1.5]]", "{", "[[true]]"])
def test_what_holds_no_prompts_is_refused(
    prompts: str, generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("prompts.json").write_text(prompts)
    assert generation("port") == 4
    assert "give a JSON list of prompts" in capsys.readouterr().err


def test_the_fixture_fails_a_test_where_the_command_exits_with_1(msdump_generation: Callable[..., Any]) -> None:
    names: dict[str, Any] = {}
    exec(NET, names)
    with pytest.raises(AssertionError, match=r"prompt_0\.logits"):
        msdump_generation(names["cache"], names["reference"], PROMPTS, tokens=8)
    with pytest.raises(ConfigError, match="prompt 0 is not a list of token ids"):
        msdump_generation(names["port"], names["reference"], ["text"])


def test_the_fixture_passes_a_right_port(msdump_generation: Callable[..., Any]) -> None:
    names: dict[str, Any] = {}
    exec(NET, names)
    report = msdump_generation(names["port"], names["reference"], PROMPTS, tokens=8, batched=True)
    assert len(report.records) == 8

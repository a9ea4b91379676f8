"""Limits of logits that runs of the reference show: how tight they are, and what lets looser ones hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_decoders import NET, PROMPTS
from scipy.special import log_softmax

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

TOKENS = 24
HALVES = """
def in_halves(decoder):
    def decode(ids, mask):
        running = decoder(ids, mask)
        logits = next(running)
        while True:
            logits = running.send((yield logits.astype("float16")))
    return decode

halves, far_halves, farther_halves = map(in_halves, (reference, far, farther))
"""


@pytest.fixture
def generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "prompts.json").write_text(json.dumps(PROMPTS))

    def run(left: str, *options: str, right: str = "reference") -> int:
        words = ["net.py:" + left, "net.py:" + right, "--prompts", "prompts.json", "--tokens", str(TOKENS)]
        return main(["generation", *words, *options])

    return run


def _file(name: str = "msdump-report/generation/generation.limits.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(name).read_text())
    return found


def _written(side: str, what: str) -> Any:
    return np.load(next(Path("msdump-report/generation", side).glob(f"prompt_0_{what}*")))


def _records() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_json(Path("msdump-report/results.json"))["tensors"]
    return found


def test_the_base_of_kl_is_the_square_root_of_what_a_perturbed_run_shows(generation: Callable[..., int]) -> None:
    """By scipy's softmax, in float64."""
    assert generation("port", "--perturbed", "net.py:noisy") == 0
    p, q = (log_softmax(_written(side, "logits").astype(np.float64), -1) for side in ("right", "perturbed_0"))
    kl = (np.exp(p) * (p - q)).sum(-1)
    found = _file()["tensors"]["prompt_0.logits:output:0"]
    assert found["softmax_kl"]["base"] == pytest.approx(kl.mean() ** 0.5, rel=5e-3)
    assert found["max_softmax_kl"]["base"] == pytest.approx(kl.max() ** 0.5, rel=5e-3)
    limit = next(one for one in _records()[0]["checks"] if one["metric"] == "softmax_kl")["limit"]
    assert limit == pytest.approx(144 * kl.mean(), rel=2e-2)


def test_what_is_beyond_rounding_fails_although_the_profile_lets_it_pass(generation: Callable[..., int]) -> None:
    assert generation("noisy") == 0
    assert generation("noisy", "--perturbed", "net.py:rounded", "--batched") == 1
    assert generation("port", "--perturbed", "net.py:rounded", "--batched") == 0


def test_a_looser_limit_is_said_and_a_far_looser_one_is_accepted_by_a_person(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("net.py").write_text(f"{NET}{HALVES}")
    assert generation("farther_halves") == 1
    assert generation("farther_halves", "--perturbed", "net.py:far_halves") == 1
    assert "× looser than profile default for float16" in " ".join(capsys.readouterr().out.split())
    assert generation("farther_halves", "--perturbed", "net.py:far_halves", "--accept-looser") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"generation\.limits\.json let[^.]* × looser", out)


def test_nineteen_control_runs_earn_the_multiplier(
    generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    controls = ["--control", "net.py:noisy"] * 19
    assert generation("port", "--perturbed", "net.py:port", *controls) == 0
    assert "19 control runs" in " ".join(capsys.readouterr().out.split())
    earned = _file()
    assert earned["m_from"] == {"alpha": 0.05, "controls": 19}
    # Ten times the noise, and ten times the square root of KL.
    assert earned["m"]["forward_large"] == pytest.approx(10, rel=0.1)


def test_ids_have_no_limits_of_their_own(generation: Callable[..., int]) -> None:
    """Those that a perturbed run flips would let as many others differ, by any amount."""
    assert generation("tied_reference", "--perturbed", "net.py:tied_port", right="tied_reference") == 0
    right, other = (_written(side, "ids") for side in ("right", "perturbed_0"))
    assert (right != other).any()
    assert not [one for name, one in _file()["tensors"].items() if ".ids" in name and "unstable" in one]


def test_what_a_near_tie_of_a_router_changes_raises_no_limit(generation: Callable[..., int]) -> None:
    assert generation("routed_port", "--perturbed", "net.py:routed_port", right="routed_reference") == 0
    limits = _file()["tensors"]
    flipped, same = (limits[f"prompt_{number}.logits:output:0"] for number in (0, 1))
    for metric in ("rel_euclid", "softmax_kl", "max_softmax_kl"):
        assert flipped[metric]["base"] < 3 * same[metric]["base"], metric
    assert flipped["elements"] == same["elements"]
    assert generation("off_elsewhere", "--perturbed", "net.py:routed_port", right="routed_reference") == 1


def test_calibrate_makes_the_same_limits_of_the_dumps(generation: Callable[..., int]) -> None:
    assert generation("port", "--perturbed", "net.py:rounded") == 0
    right, perturbed = (f"msdump-report/generation/{name}" for name in ("right", "perturbed_0"))
    assert main(["calibrate", right, perturbed, "--logits", "*.logits", "-o", "own.json"]) == 0
    assert _file("own.json")["tensors"] == _file()["tensors"]
    assert generation("noisy", "--limits", "own.json") == 1
    assert generation("port", "--limits", "own.json") == 0


def test_a_reference_in_the_type_of_the_left_shows_what_that_does(generation: Callable[..., int]) -> None:
    Path("net.py").write_text(f"{NET}{HALVES}")
    assert generation("halves", "--perturbed", "net.py:halves") == 0
    assert _file()["perturb"]["dtype"] == "float16"
    rules = _records()[0]["checks"]
    assert [one["rule"].partition(":")[0] for one in rules if "kl" in one["metric"]] == ["generation.limits.json"] * 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--control", "net.py:port"], "give --perturbed as well"),
        (["--perturbed", "net.py:rounded", "--free"], "leave out --free"),
        (["--perturbed", "net.py:rounded", "--limits", "own.json"], "leave out --limits"),
        (["--perturbed", "net.py:reference"], "not perturbed"),
        (["--perturbed", "net.py:nothing"], "has no function nothing"),
    ],
)
def test_what_makes_no_limits_is_one_clear_line(
    options: list[str], why: str, generation: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generation("port", *options) == 4
    assert why in capsys.readouterr().err


def test_the_fixture_derives_limits(msdump_generation: Callable[..., Any]) -> None:
    names: dict[str, Any] = {}
    exec(NET, names)
    reference, derived = names["reference"], {"perturbed": [names["rounded"]], "tokens": 8}
    assert len(msdump_generation(names["port"], reference, PROMPTS, **derived).records) == 4
    msdump_generation(names["noisy"], reference, PROMPTS, tokens=8)
    with pytest.raises(AssertionError, match=r"prompt_0\.logits"):
        msdump_generation(names["noisy"], reference, PROMPTS, **derived)


def test_a_number_of_ids_that_rounding_flips_is_no_permission_beside_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule judges each of them; without a rule, so many may be any other."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 5, (40, 64)).astype(np.float32)
    for side, flipped in (("reference", 0), ("perturbed", 1), ("run", 3)):
        tokens = logits.argmax(-1)
        tokens[:flipped] = (tokens[:flipped] + 1) % 64
        values = {"logits": logits * np.float32(1 if side == "reference" else 1 + 2e-7), "tokens": tokens}
        Path(side).mkdir()
        for number, (name, value) in enumerate(values.items()):
            np.save(f"{side}/{name}.0.{1_700_000_000_000_000 + number}.npy", value)
    assert main(["calibrate", "reference", "perturbed", "--logits", "logits"]) == 0
    found = _file("msdump.limits.json")["tensors"]
    assert found["tokens:output:0"]["unstable"] == {"flipped": 1, "of": 40}
    assert {"softmax_kl", "max_softmax_kl"} < found["logits:output:0"].keys()
    compare = ["compare", "run", "reference", "--limits", "msdump.limits.json"]
    assert main(compare) == 0
    Path("msdump.toml").write_text('[[msdump.rule]]\nmatch = "tokens"\nties = "logits"\n')
    assert main([*compare, "--config", "msdump.toml"]) == 1

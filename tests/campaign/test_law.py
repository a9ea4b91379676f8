"""The law's campaign can fail: it calls each wrong answer by its name, and its comparisons do fail by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign import law, strangers
from campaign.law_forms import Form, nothing
from campaign.law_sides import STORES, Comparison, comparison
from campaign.trials import Outcome

PASS = Outcome(0, "", "", "1 tensor: 1 pass")
PLAIN = Form("nothing", "alone", nothing)


@pytest.fixture
def case(tmp_path: Path) -> Comparison:
    return comparison(tmp_path, np.random.default_rng(0), [STORES["npy"]])


def answer(case: Comparison, verdict: str, **fields: Any) -> Outcome:
    record = {"left": {"address": f"Default/{case.wrong}:output:0"}, "verdict": verdict}
    return PASS._replace(records=(record,), **fields)


@pytest.mark.parametrize(
    ("form", "verdict", "fields", "outcome"),
    [
        (PLAIN, "fail", {"code": 1}, "ok"),
        (PLAIN, "undefined", {"code": 1}, "ok"),
        (PLAIN, "pass", {}, "silent pass"),
        (PLAIN, "warn", {}, "silent pass"),
        (PLAIN, "pass", {"code": 1}, "silent pass"),
        (PLAIN, "fail", {"code": 4}, "refused"),
        (PLAIN, "fail", {"code": 2}, "crash"),
        (PLAIN, "fail", {"code": 1, "text": "Traceback (most recent call last):"}, "crash"),
        (Form("limits file", "edited", nothing), "fail", {"code": 4}, "ok"),
        (Form("sketch", "NaN moved", nothing, may="warn"), "warn", {}, "ok"),
        (Form("sketch", "NaN moved", nothing, may="warn"), "pass", {}, "silent pass"),
        (Form("view", "twin", nothing, may="beside"), "pass", {"code": 1}, "ok"),
        (Form("view", "twin", nothing, may="beside"), "pass", {}, "silent pass"),
        (Form("rule", "honest", nothing, permits=("rule",)), "pass", {"text": "by a rule, 3.4 x looser"}, "ok"),
        (Form("rule", "honest", nothing, permits=("rule",)), "pass", {"text": "by a rule"}, "unnamed permission"),
        (Form("rule", "honest", nothing, permits=("rule",)), "pass", {"text": "3.4 x looser"}, "unnamed permission"),
    ],
)
def test_each_wrong_answer_has_its_name(
    case: Comparison, form: Form, verdict: str, fields: dict[str, Any], outcome: str
) -> None:
    assert law.judged(case, form, answer(case, verdict, **fields))[0] == outcome


@pytest.mark.parametrize("number", range(len(STORES)), ids=STORES)
def test_comparisons_of_every_kind_of_side_fail_by_themselves(tmp_path: Path, number: int) -> None:
    result = law.ask(tmp_path / "case", 4, number)
    assert (result.form, result.outcome) == (f"nothing: {list(STORES)[number]} alone", "ok"), result.sentence
    assert law.ask(tmp_path / "again", 4, number) == result


def test_a_gate_that_lets_all_pass_fails_the_campaign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(law, "by_command", lambda *_: PASS)
    assert law.main(["--cases", "3", "--sound", "0", "--seed", "4"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("SILENT PASS") == 3
    assert "python tests/campaign/law.py --seed 4 --only 2" in printed
    assert "3 silent pass" in printed.splitlines()[-1]


def test_a_pair_of_strangers_that_does_not_pass_is_a_false_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert law.ask_stranger(tmp_path / "sound", 0, 0).outcome == "ok"
    computed = strangers.computed

    def wrong(network: Any, by: strangers.Arithmetic, weights: Any) -> Any:
        weights = weights | {"w1": weights["w1"] * 1.01} if by.order == "plain" else weights
        return computed(network, by, weights)

    monkeypatch.setattr(strangers, "computed", wrong)
    outcomes = [law.ask_stranger(tmp_path / str(number), 0, number).outcome for number in range(6)]
    assert "false alarm" in outcomes


def test_each_form_of_a_capability_has_its_own_name() -> None:
    names = [(form.capability, form.name) for form in law.FORMS]
    assert len(set(names)) == len(names)
    dishonest = [form.capability for form in law.FORMS if not (form.is_honest or form.permits)]
    capabilities = {form.capability for form in law.FORMS} - {"nothing"}
    assert {name for name in capabilities if dishonest.count(name) < 6} == set()

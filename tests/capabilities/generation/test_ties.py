"""Choices that differ: near ties by margins and errors that were put in, and whole dumps with rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.report.json_report import read_json, report_from

RULE = '[[msdump.rule]]\nmatch = "tokens"\nties = "logits"\n'
OF_GATES = '[[msdump.rule]]\nmatch = "*.gate:output:1"\nties = "*.router"\nroutes = true\n'


def records(
    folder: Path, left: Mapping[str, Any], right: Mapping[str, Any], rules: str = RULE, *more: str
) -> dict[str, Record]:
    for side, tensors in (("left", left), ("right", right)):
        (folder / side).mkdir(parents=True)
        for number, (name, values) in enumerate(tensors.items()):
            op, _, slot = name.partition(":")
            values = values.astype(np.float32) if values.dtype == np.float64 else values
            np.save(folder / side / f"{op}.{slot or 0}.{1_700_000_000_000_000 + number}.npy", values)
    (folder / "msdump.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n{rules}')
    code = main(["compare", "--config", str(folder / "msdump.toml"), "--report-dir", str(folder / "report"), *more])
    assert code in (0, 1)
    found = report_from(read_json(folder / "report" / "results.json")).records
    assert code == any(one.fails for one in found)
    return {one.left.address.removesuffix(":output:0"): one for one in found}


def decision(
    rng: np.random.Generator, *, margin: float, error: float, rows: int, width: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One of `rows` choices is another one: its values are `margin` apart, and off by `error`, as are all."""
    right = rng.uniform(-20, 0, (rows, width))
    best, second = rng.choice(width, 2, replace=False)
    right[:, best], right[:, second] = 30.0, 30.0 - 12.0
    flipped = int(rng.integers(rows))
    right[flipped, second] = 30.0 - margin
    left = right + error * rng.choice([-1.0, 1.0], right.shape)
    tokens = right.argmax(-1)
    others = tokens.copy()
    others[flipped] = second
    return {"logits": left, "tokens": others}, {"logits": right, "tokens": tokens}


@pytest.mark.parametrize("factor", [0.0, 0.2, 0.49, 1.9, 2.1, 4.1, 50.0])
def test_a_margin_within_twice_the_error_is_a_near_tie(factor: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(int(factor * 100))
    for number in range(3):
        error = float(10 ** rng.uniform(-5, -3))
        both = decision(rng, margin=factor * error, error=error, rows=40, width=64)
        found = records(tmp_path / str(number), *both)["tokens"]
        if factor == 0.0:
            assert found.verdict.outcome == "pass"
        else:
            assert found.verdict.outcome == ("warn" if factor < 2 else "fail"), found.verdict
            assert str(40) in found.verdict.findings[0].sentence
        assert not found.verdict.would_pass


@pytest.mark.parametrize(("units", "off", "outcome"), [(2, 4, "warn"), (8, 4, "fail"), (2, 0, "fail")])
def test_where_one_value_alone_differs_a_unit_of_the_last_place_is_no_large_error(
    units: int, off: int, outcome: str, tmp_path: Path
) -> None:
    """Four RMS errors are less than a unit there; a value that is the same on both sides explains no other choice."""
    rng = np.random.default_rng(13)
    right = rng.uniform(-5, 5, (1, 8, 1000)).astype(np.float32)
    unit = np.spacing(np.float32(9.0))
    right[0, 5, 17], right[0, 5, 400] = 9.0, np.float32(9.0) - units * unit
    left = right.copy()
    left[0, 5, 400] += off * unit
    tokens = right.argmax(-1)
    others = tokens.copy()
    others[0, 5] = 400
    both = {"logits": left, "tokens": others}, {"logits": right, "tokens": tokens}
    assert records(tmp_path, *both)["tokens"].verdict.outcome == outcome


def test_without_a_rule_ids_that_differ_fail_and_the_entry_to_write_is_said(tmp_path: Path) -> None:
    both = decision(np.random.default_rng(1), margin=1e-6, error=1e-4, rows=40, width=64)
    found = records(tmp_path / "without", *both, "")["tokens"]
    assert found.verdict.outcome == "fail"
    said = [one.sentence for one in found.verdict.findings]
    assert said[0].startswith("1 of 40 integers differ, first at [")
    assert 'ties = "logits:output:0"' in said[-1]
    # As it says.
    entry = '[[msdump.rule]]\nmatch = "tokens:output:0"\nties = "logits:output:0"\n'
    assert records(tmp_path / "with", *both, entry)["tokens"].verdict.outcome == "warn"


def test_no_entry_names_values_that_the_ids_are_not_the_largest_of(tmp_path: Path) -> None:
    left, right = decision(np.random.default_rng(2), margin=1e-6, error=1e-4, rows=40, width=64)
    right["logits"] = right["logits"][:, ::-1]
    left["logits"] = left["logits"][:, ::-1]
    said = [one.sentence for one in records(tmp_path, left, right, "")["tokens"].verdict.findings]
    assert not any("ties =" in one for one in said)


def test_values_that_fail_excuse_nothing(tmp_path: Path) -> None:
    left, right = decision(np.random.default_rng(3), margin=1e-6, error=1e-4, rows=40, width=64)
    left["logits"] = left["logits"] * 1.5
    found = records(tmp_path, left, right)["tokens"]
    assert found.verdict.outcome == "fail"
    assert "logits itself fails" in found.verdict.findings[0].sentence


@pytest.mark.parametrize("values", ["logit", "tokens", "*"])
def test_a_rule_that_names_no_values_excuses_nothing(values: str, tmp_path: Path) -> None:
    both = decision(np.random.default_rng(4), margin=1e-6, error=1e-4, rows=40, width=64)
    rule = RULE.replace('ties = "logits"', f'ties = "{values}"')
    found = records(tmp_path, *both, rule)["tokens"]
    # The only floats there are are what `*` names.
    assert found.verdict.outcome == ("warn" if values == "*" else "fail")


def test_more_near_ties_than_a_twentieth_and_than_four_are_none(tmp_path: Path) -> None:
    for flips, rows, outcome in ((4, 10, "warn"), (5, 120, "warn"), (7, 120, "fail")):
        rng = np.random.default_rng(flips)
        right = rng.uniform(-20, 0, (rows, 64))
        best = np.arange(rows) % 60
        right[np.arange(rows), best] = 30.0
        right[np.arange(rows), best + 1] = 20.0
        right[np.arange(flips), best[:flips] + 1] = 30.0 - 1e-4
        left = right + 1e-4 * rng.choice([-1.0, 1.0], right.shape)
        others = best.copy()
        others[:flips] += 1
        both = {"logits": left, "tokens": others}, {"logits": right, "tokens": best}
        found = records(tmp_path / str(rows + flips), *both)["tokens"]
        assert found.verdict.outcome == outcome, (flips, rows)


def test_ties_that_go_to_one_id_are_none(tmp_path: Path) -> None:
    """One row of the vocabulary is too large: what is near to it flips to it."""
    rng = np.random.default_rng(6)
    right = rng.standard_normal((1000, 64)) * 0.5
    left = right + 0.001 * rng.standard_normal(right.shape)
    left[:, 7] += 0.2
    tokens = right.argmax(-1), left.argmax(-1)
    assert 5 <= (tokens[0] != tokens[1]).sum() <= 50
    loose = RULE + '[[msdump.rule]]\nmatch = "logits"\ncosine = 0.9\nrel_euclid = 0.5\nnorm_max = 0.5\n'
    found = records(tmp_path, {"logits": left, "tokens": tokens[1]}, {"logits": right, "tokens": tokens[0]}, loose)
    assert found["tokens"].verdict.outcome == "fail"
    assert "go to id 7" in found["tokens"].verdict.findings[0].sentence


def test_top_k_in_another_order_is_the_same_choice_and_another_expert_is_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    router = rng.standard_normal((2, 8, 6)).astype(np.float32)
    chosen = np.argsort(-router, axis=-1)[..., :3]
    right = {"a.router": router, "a.gate:1": chosen}
    found = records(tmp_path / "order", {**right, "a.gate:1": chosen[..., ::-1]}, right, OF_GATES)
    assert found["a.gate:output:1"].verdict.outcome == "pass"
    assert "same choices" in found["a.gate:output:1"].verdict.findings[0].sentence
    wrong = chosen.copy()
    wrong[1, 3, 2] = np.argsort(-router, axis=-1)[1, 3, 5]
    found = records(tmp_path / "other", {**right, "a.gate:1": wrong}, right, OF_GATES)
    assert found["a.gate:output:1"].verdict.outcome == "fail"


def test_types_of_ids_may_differ(tmp_path: Path) -> None:
    left, right = decision(np.random.default_rng(8), margin=1e-5, error=1e-4, rows=40, width=64)
    left["tokens"] = left["tokens"].astype(np.int32)
    assert records(tmp_path, left, right)["tokens"].verdict.outcome == "warn"


def test_profile_bitwise_knows_no_ties(tmp_path: Path) -> None:
    both = decision(np.random.default_rng(9), margin=1e-5, error=1e-4, rows=40, width=64)
    assert records(tmp_path, *both, RULE, "--profile", "bitwise")["tokens"].verdict.outcome == "fail"


def test_behind_a_near_tie_the_other_tokens_are_judged(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    router = rng.standard_normal((2, 50, 6))
    order = np.argsort(-router, axis=-1)
    router[1, 3, order[1, 3, 1]] = router[1, 3, order[1, 3, 0]] - 1e-5
    chosen = np.argsort(-router, axis=-1)[..., :1]
    other = chosen.copy()
    other[1, 3, 0] = order[1, 3, 1]
    noisy = router + 1e-4 * rng.choice([-1.0, 1.0], router.shape)
    hidden = rng.standard_normal((2, 50, 16))
    routed = hidden.copy()
    routed[1, 3] = 5.0
    right = {"a.router": router, "a.gate:1": chosen, "a.out": hidden, "b.out": hidden.reshape(100, 16)}
    left = {"a.router": noisy, "a.gate:1": other, "a.out": routed, "b.out": routed.reshape(100, 16)}
    loose = OF_GATES + '[[msdump.rule]]\nmatch = "*.router"\nrel_euclid = 1e-3\n'
    found = records(tmp_path / "sound", left, right, loose)
    assert {name: one.verdict.outcome for name, one in found.items()} == {
        "a.router": "pass",
        "a.gate:output:1": "warn",
        "a.out": "warn",
        "b.out": "warn",
    }
    # What routes nothing excuses nothing that comes later.
    found = records(tmp_path / "no_routes", left, right, loose.replace("routes = true\n", ""))
    assert [name for name, one in found.items() if one.fails] == ["a.out", "b.out"]
    # A mistake in another token.
    for name, place in (("a.out", (0, 7)), ("b.out", (20,))):
        wrong = {key: value.copy() for key, value in left.items()}
        wrong[name][place] += 1.0
        found = records(tmp_path / name, wrong, right, loose)
        assert [one.left.address for one in found.values() if one.fails] == [f"{name}:output:0"]


def decisions(rng: np.random.Generator, factors: list[float]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of 100 choices as many differ as there are factors: of the error of their values to these values' margin.

    That error is the larger one of both values, but no more than 4 times the RMS of all errors.
    """
    rows, width = 100, 64
    errors = 1e-3 * rng.standard_normal((rows, width))
    right = rng.uniform(-20, 0, (rows, width))
    best = rng.integers(width, size=rows)
    right[np.arange(rows), best] = 30.0
    tokens, others = best.copy(), best.copy()
    flipped = rng.choice(rows, len(factors), replace=False)
    # No two go to one id.
    ids = rng.choice(width, len(factors), replace=False)
    best[flipped] = tokens[flipped] = others[flipped] = (ids + 1) % width
    right[flipped] = rng.uniform(-20, 0, (len(factors), width))
    right[flipped, best[flipped]] = 30.0
    for row, number in zip(flipped, ids, strict=True):
        for place in (best[row], number):
            # Some errors are far larger than all others.
            size = rng.uniform(2e-4, 2e-3) if rng.random() < 0.8 else 2e-2
            errors[row, place] = size * rng.choice([-1.0, 1.0])
    rms = np.sqrt((errors**2).mean())
    for row, number, factor in zip(flipped, ids, factors, strict=True):
        error = min(max(abs(errors[row, best[row]]), abs(errors[row, number])), 4 * rms)
        right[row, number] = 30.0 - factor * error
        others[row] = number
    return {"logits": right + errors, "tokens": others}, {"logits": right, "tokens": tokens}


@pytest.mark.parametrize("seed", range(20))
def test_no_true_flip_is_a_near_tie_and_no_tie_fails(seed: int, tmp_path: Path) -> None:
    """Of 150 choices a seed: each with a margin above 4 errors is no near tie, and none below half an error fails."""
    rng = np.random.default_rng(seed)
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    counts = [number % 6 for number in range(30)]
    for number, far in enumerate(counts):
        factors = [*rng.uniform(4.01, 200.0, far), *rng.uniform(0.05, 0.499, 5 - far)]
        for side, tensors in zip((left, right), decisions(rng, factors), strict=True):
            side |= {f"d{number}.{name}": values for name, values in tensors.items()}
    found = records(tmp_path, left, right, '[[msdump.rule]]\nmatch = "*.tokens"\nties = "*.logits"\n')
    for number, far in enumerate(counts):
        record = found[f"d{number}.tokens"]
        remark = next(one for one in record.remarks if "n" in one.parameters)
        assert remark.parameters["n"] == 5
        assert remark.parameters.get("far", 0) == far
        assert record.verdict.outcome == ("fail" if far else "warn")


def test_a_failure_names_sequence_token_and_ids_and_never_how_far_ids_are_apart(tmp_path: Path) -> None:
    left, right = decisions(np.random.default_rng(4), [300.0, 200.0])
    left, right = ({name: one.reshape(4, 25, *one.shape[1:]) for name, one in side.items()} for side in (left, right))
    strict = '[[msdump.rule]]\nmatch = "*"\ncosine = 0.9999\nmean_abs = 0.01\n'
    for number, rules in enumerate((RULE + strict, strict)):
        found = records(tmp_path / str(number), left, right, rules, "--report", "json,html,md,csv")["tokens"]
        failing = [one for one in found.verdict.findings if one.outcome == "fail"]
        place = tuple(int(one) for one in np.argwhere(left["tokens"] != right["tokens"])[0])
        ids = left["tokens"][place], right["tokens"][place]
        if rules.startswith(RULE):
            said = f"first at sequence {place[0]}, token {place[1]}: id {ids[0]} left, {ids[1]} right, "
            assert "2 of 100 choices differ" in failing[0].sentence
        else:
            said = f"2 of 100 integers differ, first at {[*place]}: {ids[0]} left, {ids[1]} right"
        assert said in failing[0].sentence
        assert len(failing) == 1
        assert not found.verdict.would_pass


@pytest.mark.parametrize("failing", [False, True])
def test_choices_from_values_that_fail_still_say_where_and_which(failing: bool, tmp_path: Path) -> None:
    left, right = decisions(np.random.default_rng(5), [300.0])
    left["logits"] = left["logits"] * (1.5 if failing else 1.0)
    said = records(tmp_path, left, right)["tokens"].verdict.findings[0].sentence
    assert said.startswith("1 of 100 choices differ")
    assert ("logits itself fails" in said) == failing
    assert f"id {left['tokens'][left['tokens'] != right['tokens']][0]} left" in said


def routed(rng: np.random.Generator, *, tokens: int, flips: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A router of six experts, of which two are taken; so many near ties go the other way, and one row each is wild."""
    router = rng.standard_normal((tokens, 6))
    order = np.argsort(-router, axis=-1)
    rows = rng.choice(tokens, flips, replace=False)
    chosen = order[:, :2].copy()
    for row in rows:
        router[row, order[row, 2]] = router[row, order[row, 1]] - 1e-6
    other = chosen.copy()
    other[rows, 1] = order[rows, 2]
    hidden = rng.standard_normal((tokens, 8))
    wild = hidden.copy()
    wild[rows] += 3.0
    noisy = router + 1e-5 * rng.choice([-1.0, 1.0], router.shape)
    return {"router": noisy, "gate:1": other, "out": wild}, {"router": router, "gate:1": chosen, "out": hidden}


@pytest.mark.parametrize(("tokens", "outcome"), [(30, "fail"), (120, "warn")])
def test_each_router_may_send_four_or_a_twentieth_elsewhere_and_half_of_all_is_judged(
    tokens: int, outcome: str, tmp_path: Path
) -> None:
    """Six routers with four near ties each: of 120 tokens 96 and more are left, of 30 not half."""
    rng = np.random.default_rng(11)
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    wild = np.zeros(tokens, bool)
    for layer in range(6):
        both = routed(rng, tokens=tokens, flips=4)
        wild |= (both[0]["out"] != both[1]["out"]).any(-1)
        for side, tensors in zip((left, right), both, strict=True):
            side |= {f"l{layer}.{name}": values for name, values in tensors.items()}
    last = "l5.out"
    left[last], right[last] = right[last] + 3.0 * wild[:, None], right[last]
    found = records(tmp_path, left, right, OF_GATES)
    assert (wild.sum() > tokens / 2) == (outcome == "fail")
    assert found[last].verdict.outcome == outcome


@pytest.mark.parametrize(("flips", "outcome"), [(1, "warn"), (3, "fail")])
def test_what_comes_behind_a_router_may_be_named_and_near_ties_of_all_are_counted(
    flips: int, outcome: str, tmp_path: Path
) -> None:
    """Of eight prompts of 20 tokens: each alone may have four near ties, all together a twentieth."""
    rng = np.random.default_rng(14)
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    for prompt in range(8):
        both = routed(rng, tokens=20, flips=flips)
        for side, tensors in zip((left, right), both, strict=True):
            side |= {f"p{prompt}.{name}": one for name, one in tensors.items()}
    rule = OF_GATES.replace("*.", "p*.").replace("true", '"p*."')
    found = records(tmp_path / "named", left, right, rule)
    assert {one.verdict.outcome for name, one in found.items() if name.endswith("out")} == {outcome}
    # Of another prompt nothing is set aside.
    left["p5.gate:1"] = right["p5.gate:1"]
    found = records(tmp_path / "others", left, right, rule)
    assert found["p5.out"].fails


def test_the_share_of_changed_routes_is_limited_also_where_all_are_near_ties(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    both = [{f"a.{name}": one for name, one in side.items()} for side in routed(rng, tokens=100, flips=3)]
    limited = OF_GATES + "changed_routes = {limit}\n"
    for limit, outcome in (("0.03", "warn"), ("0.02", "fail")):
        found = records(tmp_path / limit, *both, limited.replace("{limit}", limit))["a.gate:output:1"]
        assert found.metrics["changed_routes"] == 0.03
        assert found.verdict.outcome == outcome
        assert ("changed_routes" in {one.metric for one in found.verdict.findings}) == (outcome == "fail")
    # In another order they go nowhere else.
    ordered = {**both[1], "a.gate:1": both[1]["a.gate:1"][:, ::-1]}
    assert records(tmp_path / "order", ordered, both[1], OF_GATES)["a.gate:output:1"].metrics["changed_routes"] == 0


def test_init_writes_the_rule_where_ids_are_the_largest_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = decision(np.random.default_rng(12), margin=1e-5, error=1e-4, rows=40, width=64)
    chosen = {"logits": left["logits"], "tokens": left["logits"].astype(np.float32).argmax(-1)}
    records(tmp_path / "dumps", chosen | {"lengths": np.arange(40)}, right | {"lengths": np.arange(40)}, "")
    monkeypatch.chdir(tmp_path / "dumps")
    assert main(["init", "left", "right", "-o", "new.msdump.toml"]) == 0
    written = (tmp_path / "dumps/new.msdump.toml").read_text()
    assert '[[msdump.rule]]\nmatch = "tokens:output:0"\nties = "logits:output:0"\n' in written
    assert written.count("[[msdump.rule]]") == 1
    assert main(["compare", "--config", "new.msdump.toml"]) == 0

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


@pytest.mark.parametrize("seed", range(30))
def test_no_true_flip_is_a_near_tie_and_no_tie_fails(seed: int, tmp_path: Path) -> None:
    """Of 100 choices a seed: those with a margin above 4 errors fail, those below half an error do not."""
    rng = np.random.default_rng(seed)
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    factors = [*rng.uniform(0.05, 0.5, 50), *rng.uniform(4.0, 200.0, 50)]
    for number, factor in enumerate(factors):
        error = float(10 ** rng.uniform(-3, -2))
        both = decision(rng, margin=factor * error, error=error, rows=int(rng.integers(20, 60)), width=32)
        for side, tensors in zip((left, right), both, strict=True):
            side |= {f"d{number}.{name}": values for name, values in tensors.items()}
    found = records(tmp_path, left, right, '[[msdump.rule]]\nmatch = "*.tokens"\nties = "*.logits"\n')
    outcomes = [found[f"d{number}.tokens"].verdict.outcome for number in range(len(factors))]
    assert outcomes == ["warn"] * 50 + ["fail"] * 50


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

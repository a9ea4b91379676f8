"""What a person permits passes, and the note says what permits it and by how much; a permission too wide does not."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from limit_cases import bounds_of, limits_of, measured, verdict_of

from pytest_msdump.capabilities.calibrate.limits_file import (
    Base,
    LimitsFile,
    Perturbed,
    ReferenceFacts,
    TensorLimits,
    limits_text,
)
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.limits.policy import KnownDrift, Policy, Rule
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.report.json_report import read_json

EUCLID, LARGEST, COSINE = "relative_euclidean_distance", "normalized_max_error", "cosine_similarity"
UNTIL = datetime.date(2999, 1, 1)
U24, U12 = 2.0**-24, 2.0**-12


def file_of(base: float, *, kind: str = "forward_small", elements: int = 100, **more: Any) -> LimitsFile:
    tensor = TensorLimits(elements, kind, {EUCLID: Base(base), LARGEST: Base(base)}, **more)
    return LimitsFile(ReferenceFacts(dtype="float32"), Perturbed(U24), tensors={"conv2:output:0": tensor})


def permissions(verdict: Any) -> list[tuple[str, str, float | None]]:
    return [
        (one.message.code, one.message.parameters["by"], one.message.parameters.get("factor"))
        for one in verdict.findings
        if one.message.code.startswith("permitted")
    ]


@pytest.mark.parametrize(
    ("given", "by", "factor"),
    [
        ({"rules": (Rule({EUCLID: (0.05, None)}, label="rule 1"),)}, "rule 1", 50),
        ({"marker": {"rel_euclid": 0.004}}, "limit rel_euclid=0.004", 4),
        ({"thresholds": {"rel_euclid": 0.02}}, "--msdump-threshold rel_euclid=0.02", 20),
        (
            {"known_drift": (KnownDrift("*", "why", UNTIL, {EUCLID: (0.03, None)}),)},
            'known drift "why" until 2999-01-01',
            30,
        ),
        # 12 × 5e-4 is 6 times the 1e-3 of the profile.
        ({"limits": file_of(5e-4)}, "msdump.limits.json", 6),
    ],
)
def test_each_permission_is_named_with_its_factor_where_the_profile_fails(
    given: dict[str, Any], by: str, factor: float
) -> None:
    wrong = measured(relative_euclidean_distance=3e-3)
    assert verdict_of(wrong, Policy()).outcome == "fail"
    verdict = verdict_of(wrong, Policy(**given))
    assert verdict.outcome == ("warn" if "known_drift" in given else "pass")
    [(code, name, found)] = permissions(verdict)
    assert (code, name, found) == ("permitted_looser", by, pytest.approx(factor, rel=1e-2))
    # What the profile passes needs no permission, and what fails has none.
    assert permissions(verdict_of(measured(), Policy(**given))) == []
    assert permissions(verdict_of(measured(relative_euclidean_distance=0.9), Policy(**given))) == []


def test_what_a_rule_permits_beside_a_mask_is_named() -> None:
    random = np.random.default_rng(3)
    right = random.normal(size=(8, 64)).astype("f4")
    left = right + 3e-3 * random.normal(size=right.shape).astype("f4")
    for side in (left, right):
        side[:, 40:] = -1e9
    masked = measure(ArrayView(left), ArrayView(right))
    assert verdict_of(masked, Policy()).outcome == "fail"
    verdict = verdict_of(masked, Policy(rules=(Rule({EUCLID: (0.05, None)}, label="rule 1"),)))
    assert verdict.outcome == "pass"
    assert permissions(verdict) == [("permitted_looser", "rule 1", pytest.approx(50))]


# -- limits files that permit too much --


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_limit_far_looser_than_default_holds_only_where_it_is_accepted(dtype: str) -> None:
    default = {"float32": 1e-3, "float64": 1e-7}[dtype]
    for times, holds in ((9.9, True), (10.2, False)):
        limits = file_of(times * default / 12)
        found = limits_of(Policy(limits=limits), dtype)
        assert (bounds_of(found)[EUCLID] > default) is holds
        assert bounds_of(limits_of(Policy(limits=limits, accept_looser=True), dtype))[EUCLID] > default
        assert [note.code for note in found.notes] == ["limits_derived" if holds else "limits_too_loose"]


def test_a_calibrated_file_of_a_bfloat16_run_holds_though_it_is_looser_than_default() -> None:
    """Rounding of a deep network in bfloat16: 2 % by the coarse run, 12 times that is 24 %, where 5 % is usual."""
    tensor = TensorLimits(100, "forward_small", {EUCLID: Base(3e-7, {"24": 5.0, "12": 5.0})})
    limits = LimitsFile(
        ReferenceFacts(dtype="float32"), Perturbed(U24, coarse=(U12,)), tensors={"conv2:output:0": tensor}
    )
    numbers = measured(relative_euclidean_distance=0.08, cosine_similarity=0.9968)
    assert verdict_of(numbers, Policy(), "bfloat16", "float32").outcome == "fail"
    verdict = verdict_of(numbers, Policy(limits=limits), "bfloat16", "float32")
    assert verdict.outcome == "pass"
    assert [code for code, *_ in permissions(verdict)] == ["permitted_looser"]


@pytest.mark.parametrize(
    "limits",
    [
        # 12 × 6 of 64.
        file_of(1e-7, elements=64, flipped=6),
        # Any tensor is within 1.
        file_of(0.1),
        replace(file_of(1e-7), multipliers={**file_of(1).multipliers, "forward_small": 1.6e7}),
    ],
)
@pytest.mark.parametrize("accepted", [False, True])
def test_a_limit_that_every_tensor_meets_leaves_the_pair_to_the_profile(limits: LimitsFile, accepted: bool) -> None:
    dtype = "int64" if next(iter(limits.tensors.values())).flipped else "float32"
    found = limits_of(Policy(limits=limits, accept_looser=accepted), dtype)
    assert bounds_of(found) == bounds_of(limits_of(Policy(), dtype))
    assert [note.code for note in found.notes] == ["limits_chaotic"]


# -- in a gate --


def folder(name: str, **tensors: Any) -> str:
    Path(name).mkdir()
    for number, (op, values) in enumerate(tensors.items()):
        np.save(Path(name, f"{op}.0.170000000000000{number}.npy"), values)
    return name


@pytest.fixture
def _dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference, a run whose `x` is 0.4 % off, and limits that allow 0.6 %."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    x = np.random.default_rng(1).normal(size=100).astype("f4")
    folder("ref", x=x, y=x)
    folder("run", x=x * np.float32(1.004), y=x)
    tensor = next(iter(file_of(5e-4).tensors.values()))
    Path("lim.json").write_text(limits_text(replace(file_of(1e-7), tensors={"x:output:0": tensor})))


def edited(old: str, new: str) -> None:
    text = Path("lim.json").read_text()
    assert old in text
    Path("lim.json").write_text(text.replace(old, new))


def compare(*words: str) -> int:
    return main(["compare", "run", "ref", "--limits", "lim.json", "--report", "json,md,html", *words])


SENTENCE = "lim.json lets 1 pair pass that profile default fails, at most 6 × looser"


@pytest.mark.usefixtures("_dumps")
def test_summary_page_and_results_say_what_a_limits_file_lets_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare() == 0
    assert SENTENCE in capsys.readouterr().out
    report = Path("msdump-report")
    assert SENTENCE in (report / "summary.md").read_text("utf-8")
    assert "lim.json lets 1 pair pass" in (report / "index.html").read_text("utf-8")
    saved = read_json(report / "results.json")
    [entry] = saved["permissions"]
    assert (entry["by"], entry["pairs"], entry["sentence"]) == ("lim.json", 1, SENTENCE)
    assert entry["factor"] == pytest.approx(6, rel=1e-2)
    assert main(["check", "msdump-report/results.json"]) == 0
    assert SENTENCE in capsys.readouterr().out


@pytest.mark.usefixtures("_dumps")
@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ('"forward_small": 12.0', '"forward_small": 1e30', 4, "m forward_small = 1e+30 is met by every tensor"),
        ('"forward_small": 12.0', '"forward_small": 12000.0', 1, "lim.json: chaotic"),
        ('{"base": 0.0005}', '{"base": 0.005}', 1, "is 60 × looser than profile default for float32"),
        ('"elements": 100', '"elements": 101', 1, "lim.json has this name for a tensor of 101 elements"),
        ('"forward_small", "e', '"gradient_small", "e', 1, "class gradient_small; the right one has 100 elements"),
        ('"x:output:0"', '"z:output:0"', 4, "has none of the 2 tensors of"),
        ('"schema": 1', '"schema": 1,\n "schema": 1', 4, "'schema' is there twice"),
        ('"x:output:0": {', '"x:output:0": {},\n  "x:output:0": {', 4, "'x:output:0' is there twice"),
        ('{"base": 0.0005}', '{"base": NaN}', 4, "base must be a number above 0"),
        ('{"base": 0.0005}', '{"base": true}', 4, "base must be a number above 0"),
        ('{"base": 0.0005}', '{"base": -0.0005}', 4, "base must be a number above 0"),
    ],
)
def test_an_edited_file_lets_nothing_pass_that_the_profile_fails(
    old: str, new: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(old, new)
    assert compare() == code
    found = capsys.readouterr()
    assert said in " ".join((found.out + found.err).split())


@pytest.mark.usefixtures("_dumps")
def test_looser_limits_are_accepted_by_the_flag_the_suite_file_and_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    edited('{"base": 0.0005}', '{"base": 0.005}')
    assert compare("--accept-looser") == 0
    assert "at most 60 × looser" in capsys.readouterr().out
    assert "--accept-looser" in read_json(Path("msdump-report/results.json"))["rerun"]
    sides = '[msdump]\nleft = "run"\nright = "ref"\nlimits = "lim.json"\n'
    for more, code in (("", 1), ("accept_looser = true\n", 0)):
        Path("msdump.toml").write_text(sides + more)
        assert main(["compare", "--config", "msdump.toml"]) == code
    # Saved numbers are judged again by the same words.
    assert main(["check", "msdump-report/results.json", "--config", "msdump.toml"]) == 0
    edited('"elements": 100', '"elements": 101')
    assert main(["check", "msdump-report/results.json", "--config", "msdump.toml"]) == 1


def bfloat16(values: Any) -> Any:
    return (values.astype("f4").view("u4") & 0xFFFF0000).view("f4")


def test_the_type_that_was_computed_in_counts_where_files_hold_a_finer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bfloat16 run that numpy saves as float32: 1 % is 10 times `default` there, and rounding in bfloat16."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    random = np.random.default_rng(2)
    ops = {f"op{number}": bfloat16(random.normal(size=2000)) for number in range(5)}
    for name in ("ref", "p", "run", "wrong"):
        size = {"ref": 0, "wrong": 0.5}.get(name, 0.02)
        folder(name, **{op: bfloat16(one * (1 + random.normal(size=2000) * size)) for op, one in ops.items()})
    assert main(["calibrate", "ref", "p", "-o", "lim.json"]) == 0
    assert '"dtype": "bfloat16"' in Path("lim.json").read_text()
    assert "--accept-looser" not in capsys.readouterr().out
    sides = ["ref", "--limits", "lim.json", "--report", "json"]
    assert [main(["compare", one, *sides]) for one in ("run", "wrong")] == [0, 1]
    assert "lim.json lets 5 pairs pass" in capsys.readouterr().out
    # The same distances of float32 values are no rounding.
    for name in ("ref", "p", "run"):
        for file in Path(name).glob("*.npy"):
            np.save(file, np.load(file) * np.float32(1.1))
    assert main(["compare", "run", *sides]) == 1
    assert "looser than profile default for float32" in " ".join(capsys.readouterr().out.split())
    assert main(["calibrate", "ref", "p", "-o", "other.json"]) == 4
    assert "5 of 5 tensors are further from the reference than rounding explains" in capsys.readouterr().err

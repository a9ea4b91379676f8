"""Bases are what numpy measures between a reference and other runs; multipliers are earned, or said to be assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dump_builder import write_reference
from scipy.stats import binomtest

from pytest_msdump.capabilities.calibrate.engine import calibrate, multipliers_of
from pytest_msdump.capabilities.calibrate.limits_file import LimitsFile
from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.profiles import ASSUMED_MULTIPLIERS
from pytest_msdump.record import DumpWriter

Array = npt.NDArray[Any]
U = 2.0**-24
EUCLID, LARGEST = "relative_euclidean_distance", "normalized_max_error"
RANDOM = np.random.default_rng(7)
REFERENCE: dict[str, Array] = {
    "fc1": RANDOM.standard_normal((40, 50)).astype("float32"),
    "fc2": RANDOM.standard_normal(30).astype("float32"),
    "loss": np.float32([0.7]),
    "top": np.arange(64),
}


def noisy(scale: float, seed: int = 0, **other: Array) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    changed = {
        name: (values * (1 + scale * random.uniform(-1, 1, values.shape))).astype(values.dtype)
        for name, values in REFERENCE.items()
        if values.dtype != np.int64
    }
    return {**REFERENCE, **changed, **other}


def recorded(name: str, tensors: Mapping[str, Array], u: float | None = None, seed: int = 1) -> Path:
    """Record tensors; with `u` the manifest says that they were perturbed."""
    with DumpWriter(Path(name), framework="none") as writer:
        for op, values in tensors.items():
            writer.write(op, values)
    if u is not None:
        file = Path(name, "msdump.json")
        values = json.loads(file.read_text("utf-8"))
        values["perturbation"] = {"u": u, "what": "input+weights", "seed": seed}
        file.write_text(json.dumps(values), "utf-8")
    return Path(name)


def euclid(left: Array, right: Array) -> float:
    left, right = left.astype("float64"), right.astype("float64")
    return float(np.linalg.norm(left - right) / np.linalg.norm(right))


def largest(left: Array, right: Array) -> float:
    left, right = left.astype("float64"), right.astype("float64")
    return float(np.abs(left - right).max() / np.abs(right).max())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_reference(Path("ref"), REFERENCE)
    return tmp_path


def run(name: str, tensors: Mapping[str, Array]) -> Path:
    write_reference(Path(name), tensors)
    return Path(name)


def bases(limits: LimitsFile, metric: str = EUCLID) -> dict[str, float]:
    return {name: one.metrics[metric].base for name, one in limits.tensors.items() if one.metrics}


@pytest.mark.usefixtures("folder")
def test_a_base_is_the_largest_distance_of_the_runs_and_at_least_one_rounding() -> None:
    first, second = noisy(40 * U), noisy(20 * U, 1, fc2=REFERENCE["fc2"])
    limits = calibrate(Path("ref"), [run("p1", first), run("p2", second)])
    for metric, formula in ((EUCLID, euclid), (LARGEST, largest)):
        for name in ("fc1", "fc2", "loss"):
            want = max(U, *(formula(tensors[name], REFERENCE[name]) for tensors in (first, second)))
            # Three digits, and never below what was measured.
            assert want <= bases(limits, metric)[f"{name}:output:0"] <= want * 1.01
    assert calibrate(Path("ref"), [Path("p2")]).tensors["fc2:output:0"].metrics[EUCLID].base == pytest.approx(
        U, rel=1e-2
    )
    assert (limits.perturbed.runs, limits.perturbed.u, limits.reference.dtype) == (2, U, "float32")
    assert [limits.tensors[f"{name}:output:0"].kind for name in ("fc1", "fc2")] == ["forward_large", "forward_small"]


@pytest.mark.usefixtures("folder")
def test_the_base_of_a_masked_tensor_is_that_of_the_others_alone() -> None:
    scores, where = RANDOM.standard_normal(400).astype("f4"), np.arange(400) % 2 == 0

    def masked(name: str, factor: float) -> Path:
        return run(name, {"scores": np.where(where, np.float32(-1e9), scores * np.float32(factor))})

    limits = calibrate(masked("masked", 1), [masked("p1", 1 + 40 * U)])
    apart = euclid(scores[~where] * np.float32(1 + 40 * U), scores[~where])
    assert bases(limits)["scores:output:0"] == pytest.approx(apart, rel=1e-2)


@pytest.mark.usefixtures("folder")
def test_a_golden_run_widens_bases_where_the_reference_is_farther_from_it() -> None:
    exact = {**REFERENCE, "fc1": REFERENCE["fc1"].astype("float64") * (1 + 1e-5)}
    limits = calibrate(Path("ref"), [run("p", noisy(4 * U))], golden=run("g", exact))
    assert bases(limits)["fc1:output:0"] == pytest.approx(euclid(REFERENCE["fc1"], exact["fc1"]), rel=1e-2)
    assert bases(limits)["fc2:output:0"] < 1e-6
    assert limits.perturbed.golden


@pytest.mark.usefixtures("folder")
def test_the_manifest_says_how_much_was_perturbed_and_coarse_runs_give_amplifications() -> None:
    recorded("recorded", REFERENCE)
    runs = [recorded("p", noisy(10 * U, 5), U, 5), recorded("p12", noisy(3 * 2.0**-12, 6), 2.0**-12, 6)]
    limits = calibrate(Path("recorded"), runs[:1], coarse=runs[1:])
    assert (limits.perturbed.u, limits.perturbed.seeds, limits.perturbed.what) == (U, (5,), "input+weights")
    assert limits.perturbed.coarse == (2.0**-12,)
    fine, coarse = noisy(10 * U, 5)["fc1"], noisy(3 * 2.0**-12, 6)["fc1"]
    amp = limits.tensors["fc1:output:0"].metrics[EUCLID].amp
    assert amp["24"] == pytest.approx(euclid(fine, REFERENCE["fc1"]) / U, rel=1e-2)
    assert amp["12"] == pytest.approx(euclid(coarse, REFERENCE["fc1"]) * 2**12, rel=1e-2)


@pytest.mark.usefixtures("folder")
def test_what_rounding_changes_by_any_amount_is_chaotic() -> None:
    recorded("recorded", REFERENCE)
    # fc1's error grows 100 times faster than the perturbation, fc2 is noise, loss is as it should be.
    fine = {**noisy(4 * U), "fc2": REFERENCE["fc2"][::-1].copy()}
    more = {**noisy(16 * 4 * U, 1), "fc1": noisy(1600 * 4 * U, 2)["fc1"]}

    def chaotic(*runs: Path) -> list[str]:
        return [name for name, one in calibrate(Path("recorded"), runs).tensors.items() if one.chaotic]

    own = recorded("p", fine, U)
    assert chaotic(own) == ["fc2:output:0"]
    assert chaotic(own, recorded("p16", more, 16 * U)) == ["fc1:output:0", "fc2:output:0"]
    # At 2**-12 other branches are taken, by healthy tensors as well.
    far = {**noisy(4 * 2.0**-12, 1), "fc1": noisy(40 * 2.0**-12, 2)["fc1"]}
    assert chaotic(own, recorded("p12", far, 2.0**-12)) == ["fc2:output:0"]


@pytest.mark.usefixtures("folder")
def test_integers_that_flip_are_unstable_with_their_number() -> None:
    flipped = np.where(np.arange(64) < 3, 99, REFERENCE["top"])
    perturbed = run("p", noisy(4 * U, top=flipped))
    assert calibrate(Path("ref"), [perturbed]).tensors["top:output:0"].flipped == 3
    plain = run("p2", noisy(4 * U))
    assert calibrate(Path("ref"), [plain]).tensors["top:output:0"].flipped == 0
    # A control run is harmless, so what it flips is no mistake: 12 times 2 are 24 and more.
    flipped = np.where(np.arange(64) < 15, 99, REFERENCE["top"])
    control = run("c", noisy(4 * U, top=flipped))
    assert calibrate(Path("ref"), [plain], controls=[control]).tensors["top:output:0"].flipped == 2
    # 12 × 6 of 64 elements is a limit that every tensor meets.
    many = run("p6", noisy(4 * U, top=np.where(np.arange(64) < 6, 99, REFERENCE["top"])))
    assert [calibrate(Path("ref"), [one]).tensors["top:output:0"].chaotic for one in (perturbed, many)] == [False, True]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        (noisy(U, fc2=np.full(30, np.nan, "float32")), "fc2:output:0 has NaN or Inf at 30 of 30 positions"),
        ({name: values for name, values in noisy(U).items() if name != "fc2"}, "has no fc2:output:0 of the reference"),
        (noisy(U, fc2=np.ones(31, "float32")), "fc2:output:0 cannot be compared with the reference: "),
        (REFERENCE, "every tensor is equal to the reference's: not perturbed"),
    ],
)
@pytest.mark.parametrize("role", ["perturbed", "control"])
def test_a_run_that_says_nothing_of_rounding_is_refused(
    tensors: dict[str, Array], sentence: str, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("bad", tensors)
    run("good", noisy(4 * U))
    words = ["bad"] if role == "perturbed" else ["good", "--control", "bad"]
    if role == "control" and tensors is REFERENCE:
        return
    assert main(["calibrate", "ref", *words]) == 4
    said = capsys.readouterr().err
    assert said.startswith(f"msdump: {role} run ")
    assert sentence in said
    assert said.count("\n") == 1
    assert not Path("msdump.limits.json").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--alpha", "2"], "alpha = 2 is no share of runs"),
        (["--alpha", "much"], "--alpha: 'much' is no number"),
        (["--u", "2**24"], "--u: '2**24' is no share of a value"),
        (["--u", "0"], "--u: '0' is no share of a value"),
        (["--reason", "why"], "give --accept-looser as well"),
        (["--accept-looser"], "needs --reason TEXT"),
        (["--golden", "nowhere"], "nowhere"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("p", noisy(4 * U))
    assert main(["calibrate", "ref", "p", *words]) == 4
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("what", ["weights", "inputs"])
def test_a_perturbed_run_of_another_model_is_refused(folder: Path, what: str) -> None:
    for name, seed in (("one", 1), ("other", 2)):
        with DumpWriter(Path(name), framework="none") as writer:
            writer.describe(**{what: {"x": np.float32([seed])}})
            for op, values in noisy(U, seed).items():
                writer.write(op, values)
    calibrate(folder / "one", [recorded("p", noisy(U, seed=3))])
    with pytest.raises(ConfigError, match=f"other: has other {what} than the reference; .* as the reference was"):
        calibrate(folder / "one", [folder / "other"])


# -- multipliers --


@pytest.mark.parametrize("runs", [19, 25, 79, 120])
def test_false_alarms_of_further_runs_stay_below_alpha(runs: int) -> None:
    """By simulation: scores of classes that depend on each other, in units that the assumed multipliers do not know."""
    alpha, trials, alarms = 0.05, 4000, 0
    random = np.random.default_rng(runs)
    for _ in range(trials):
        of_run = random.lognormal(0, 0.4, (runs + 1, 1))
        values = of_run * random.lognormal(0, 0.5, (runs + 1, 4)) * [3, 2, 9, 1.5]
        scores = [dict(zip(sorted(ASSUMED_MULTIPLIERS), map(float, row), strict=True)) for row in values]
        found, earned = multipliers_of(scores[:-1], alpha)
        assert earned
        alarms += any(score > found[kind] for kind, score in scores[-1].items())
    assert binomtest(alarms, trials, alpha, alternative="greater").pvalue > 1e-3
    # A rule that never alarms would pass the line above.
    assert alarms > trials * alpha / 10


@pytest.mark.usefixtures("folder")
def test_control_runs_score_by_the_largest_measured_over_base() -> None:
    perturbed = run("p", noisy(4 * U))
    alone = calibrate(Path("ref"), [perturbed])
    strong = noisy(60 * U, 9)
    limits = calibrate(Path("ref"), [perturbed], controls=[run("c", strong)])
    want = {
        kind: max(
            formula(strong[name], REFERENCE[name]) / alone.tensors[f"{name}:output:0"].metrics[metric].base
            for name in names
            for metric, formula in ((EUCLID, euclid), (LARGEST, largest))
        )
        for kind, names in (("forward_large", ["fc1"]), ("forward_small", ["fc2", "loss"]))
    }
    assert min(want.values()) > 4
    for kind, score in want.items():
        assert score <= limits.multipliers[kind] <= score * 1.01
    assert (limits.controls, limits.alpha) == (1, None)
    # So no limit alarms on a control run.
    assert main(["calibrate", "ref", "p", "--control", "c", "--quiet"]) == 0
    assert main(["compare", "c", "ref", "--limits", "msdump.limits.json"]) == 0


@pytest.mark.usefixtures("folder")
def test_nineteen_control_runs_are_told_as_a_rate_of_false_alarms(capsys: pytest.CaptureFixture[str]) -> None:
    run("p", noisy(4 * U))
    words = [word for seed in range(19) for word in ("--control", str(run(f"c{seed}", noisy(6 * U, 100 + seed))))]
    assert main(["calibrate", "ref", "p", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "from 1 perturbed run; false alarms ≤ 5 % of runs, from 19 control runs" in said
    run("wrong", {**noisy(4 * U), "fc1": REFERENCE["fc1"] * np.float32(1.0001)})
    assert main(["compare", "wrong", "ref", "--limits", "msdump.limits.json"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "fc1:output:0" in said
    assert "from 1 perturbed run; false alarms ≤ 5 % of runs, from 19 control runs" in said


# -- runs that are not harmless --


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["p", "--control", "c", "--control", "far"], "control run {here}/far: fc1:output:0 is "),
        (["p", "--golden", "far"], "golden run {here}/far: fc1:output:0 is "),
        (["p", "far"], "perturbed run {here}/far: fc1:output:0 is "),
        (["other"], "perturbed run {here}/other: 3 of 3 tensors are further from the reference than rounding explains"),
        (["p", "--control", "loss"], "control run {here}/loss: loss:output:0 is "),
    ],
)
def test_a_run_that_would_raise_limits_by_a_damaged_tensor_is_refused_with_its_name(
    words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("p", noisy(4 * U))
    run("c", noisy(30 * U, 3))
    run("far", {**noisy(4 * U, 2), "fc1": noisy(1e-4, 2)["fc1"]})
    run("loss", {**noisy(4 * U, 2), "loss": np.float32([0.75])})
    run("other", {name: RANDOM.standard_normal(one.shape).astype(one.dtype) for name, one in REFERENCE.items()})
    assert main(["calibrate", "ref", *words]) == 4
    assert said.format(here=folder) in capsys.readouterr().err
    assert not Path("msdump.limits.json").exists()


@pytest.mark.usefixtures("folder")
def test_tensors_whose_limit_needs_to_be_accepted_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    run("p", {**noisy(4 * U), "fc1": noisy(5e-3)["fc1"]})
    assert main(["calibrate", "ref", "p"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 with a limit more than 10 × looser than profile default" in said
    assert "fc1:output:0 3" in said


def test_a_golden_run_of_other_weights_is_refused(folder: Path) -> None:
    for name, weight, stored in (("one", 1.0, "f4"), ("same", 1.0, "f8"), ("other", 2.0, "f8")):
        with DumpWriter(Path(name), framework="none") as writer:
            writer.describe(weights={"w": np.full(3, weight, stored)})
            for op, values in REFERENCE.items():
                writer.write(op, values)
    perturbed = [recorded("p", noisy(U, seed=3))]
    calibrate(folder / "one", perturbed, golden=folder / "same")
    with pytest.raises(ConfigError, match=r"golden run .*had other weights than"):
        calibrate(folder / "one", perturbed, golden=folder / "other")

"""A limits file in a gate: it belongs to one reference, it only tightens, and what it lacks is told once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pytest_msdump import assert_dumps_close
from pytest_msdump.capabilities.calibrate.limits_file import read_limits
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.record import DumpWriter

Array = npt.NDArray[Any]
U = 2.0**-24
EUCLID = "relative_euclidean_distance"
RANDOM = np.random.default_rng(5)
TENSORS: dict[str, Array] = {
    "fc1": RANDOM.standard_normal((40, 50)).astype("float32"),
    "fc2": RANDOM.standard_normal(30).astype("float32"),
}


def dump(name: str, scale: float = 0.0, seed: int = 1, weights: int = 0, inputs: int = 0, **more: Array) -> str:
    """Record `TENSORS` with relative noise; the digests are of these `weights` and `inputs`."""
    random = np.random.default_rng(seed)
    with DumpWriter(Path(name), framework="none") as writer:
        for op, values in {**TENSORS, **more}.items():
            writer.write(op, (values * (1 + scale * random.uniform(-1, 1, values.shape))).astype(values.dtype))
    file = Path(name, "msdump.json")
    digests = {"weights": {"w": f"{weights:032x}/{weights:032x}"}, "inputs": {"x": f"{inputs:032x}/{inputs:032x}"}}
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **digests}), "utf-8")
    return name


def compare(*words: str) -> int:
    return main(["compare", *words, "--quiet"])


@pytest.fixture(autouse=True)
def _calibrated(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path.cwd() == pytester.path
    monkeypatch.setenv("COLUMNS", "200")
    dump("ref")
    dump("p", 40 * U)
    assert main(["calibrate", "ref", "p"]) == 0


LIMITS = ("--limits", "msdump.limits.json")


def test_limits_find_what_the_profile_lets_pass_and_let_rounding_pass(capsys: pytest.CaptureFixture[str]) -> None:
    dump("rounded", 40 * U, seed=2)
    dump("wrong", 4000 * U, seed=3)
    assert [compare("rounded", "ref", *LIMITS), compare("wrong", "ref", *LIMITS), compare("wrong", "ref")] == [0, 1, 0]
    said = capsys.readouterr().out
    base = read_limits(Path("msdump.limits.json")).tensors["fc1:output:0"].metrics[EUCLID].base
    assert f"msdump.limits.json: 12 × {base:.3g}" in said
    assert f"{EUCLID} limit {float(f'{12 * base:.4g}'):.3g}"[:40] in said
    assert "from 1 perturbed run; the multiplier is a default, give --control to measure it" in said


def test_results_keep_the_base_and_the_file_of_each_limit() -> None:
    dump("rounded", 40 * U, seed=2)
    compare("rounded", "ref", *LIMITS)
    report = read_json(Path("msdump-report/results.json"))
    assert report["limits"]["limits_file"] == "msdump.limits.json"
    assert report["rerun"][-1:] == [f"--limits={Path('msdump.limits.json').absolute()}"]
    tensors = read_limits(Path("msdump.limits.json")).tensors
    found = {one["right"]["address"]: one["checks"] for one in report["tensors"]}
    for name, tensor in tensors.items():
        checks = {check["metric"]: check.get("base") for check in found[name]}
        assert {metric: base for metric, base in checks.items() if base} == {
            metric: one.base for metric, one in tensor.metrics.items()
        }


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"weights": 1}, "other weights than"),
        ({"inputs": 1}, "other inputs than"),
        ({"weights": 1, "inputs": 1}, "other weights and inputs than"),
    ],
)
def test_a_file_of_another_reference_is_refused_with_what_differs(
    more: dict[str, int], what: str, capsys: pytest.CaptureFixture[str], pytester: pytest.Pytester
) -> None:
    dump("other", **more)
    assert compare("ref", "other", *LIMITS) == 4
    assert f"msdump: msdump.limits.json was made with {what}" in capsys.readouterr().err
    here = Path.cwd()
    flags = [f"--msdump-left={here / 'ref'}", f"--msdump-right={here / 'other'}", f"--msdump-limits={here / LIMITS[1]}"]
    result = pytester.runpytest_inprocess(*flags)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*made with {what}*"])


def test_a_right_side_without_a_manifest_is_judged_and_the_header_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ref/msdump.json").unlink()
    assert compare("ref", "ref", *LIMITS) == 0
    assert "msdump.limits.json is used without a check" in capsys.readouterr().out


def test_a_cache_does_not_give_verdicts_of_other_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    dump("wrong", 4000 * U, seed=3)
    cached = ("wrong", "ref", "--cache", "content")
    assert [compare(*cached), compare(*cached, *LIMITS), compare(*cached)] == [0, 1, 0]


def test_every_place_of_the_option_is_read(pytester: pytest.Pytester) -> None:
    dump("wrong", 4000 * U, seed=3)
    here = Path.cwd()
    limits = here / "msdump.limits.json"
    sides = f'left = "{here / "wrong"}"\nright = "{here / "ref"}"\n'
    with pytest.raises(AssertionError, match=r"msdump\.limits\.json: 12 ×"):
        assert_dumps_close("wrong", "ref", limits="msdump.limits.json")
    assert_dumps_close("wrong", "ref")
    flags = [f"--msdump-left={here / 'wrong'}", f"--msdump-right={here / 'ref'}"]
    assert pytester.runpytest_inprocess(*flags).ret == 0
    assert pytester.runpytest_inprocess(*flags, f"--msdump-limits={limits}").ret == 1
    file = pytester.makefile(".toml", msdump=f'[msdump]\n{sides}limits = "{limits}"\n')
    assert pytester.runpytest_inprocess(file).ret == 1
    pytester.makefile(".toml", msdump=f"[msdump]\n{sides}")
    pytester.makeini(f"[pytest]\nmsdump_limits = {limits}\n")
    assert pytester.runpytest_inprocess(file).ret == 1


# -- only tighten --


def bounds() -> dict[str, float]:
    tensors = read_limits(Path("msdump.limits.json")).tensors
    return {name: one.metrics[EUCLID].effective for name, one in tensors.items()}


def test_tightening_lowers_limits_to_four_times_what_a_passing_run_measured(capsys: pytest.CaptureFixture[str]) -> None:
    before = bounds()
    dump("near", 10 * U, seed=4)
    assert compare("near", "ref", *LIMITS, "--limits-update", "tighten") == 0
    assert "msdump.limits.json: limits of 2 tensors lowered" in capsys.readouterr().out
    report = read_json(Path("msdump-report/results.json"))
    for one in report["tensors"]:
        measured = one["metrics"][EUCLID]
        now = bounds()[one["right"]["address"]]
        assert measured <= now <= measured * 1.01 < before[one["right"]["address"]]
    # Further runs: what is farther raises nothing, what is equal gives one rounding.
    dump("far", 14 * U, seed=5)
    lowered = bounds()
    assert compare("far", "ref", *LIMITS, "--limits-update", "tighten") == 0
    assert all(now <= lowered[name] for name, now in bounds().items())
    assert compare("ref", "ref", *LIMITS, "--limits-update", "tighten") == 0
    assert bounds() == pytest.approx(dict.fromkeys(before, U), rel=1e-2)


def test_pytest_tightens_after_a_session_that_passes(pytester: pytest.Pytester) -> None:
    dump("near", 10 * U, seed=4)
    here = Path.cwd()
    before = bounds()
    flags = [f"--msdump-left={here / 'near'}", f"--msdump-right={here / 'ref'}", f"--msdump-limits={here / LIMITS[1]}"]
    result = pytester.runpytest_inprocess(*flags, "--msdump-limits-update=tighten")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*limits of 2 tensors lowered*"])
    found = read_limits(here / LIMITS[1]).tensors
    assert all(one.metrics[EUCLID].effective < before[name] for name, one in found.items())


def test_without_a_limits_file_there_is_nothing_to_lower(
    capsys: pytest.CaptureFixture[str], pytester: pytest.Pytester
) -> None:
    assert compare("p", "ref", "--limits-update", "tighten") == 4
    assert "there is no limits file to lower" in capsys.readouterr().err
    here = Path.cwd()
    flags = [f"--msdump-left={here / 'p'}", f"--msdump-right={here / 'ref'}", "--msdump-limits-update=tighten"]
    assert pytester.runpytest_inprocess(*flags).ret == 4


def test_limits_rise_only_where_it_is_accepted_and_the_file_keeps_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = Path("msdump.limits.json").read_bytes()
    dump("p2", 400 * U, seed=8)
    assert main(["calibrate", "ref", "p2"]) == 4
    said = capsys.readouterr().err
    assert "4 limits would rise:" in said
    assert "fc1:output:0: relative_euclidean_distance 1" in said
    assert said.rstrip().endswith("accept it with --accept-looser --reason TEXT, or write another file")
    assert Path("msdump.limits.json").read_bytes() == before
    assert main(["calibrate", "ref", "p2", "--accept-looser", "--reason", "new kernels"]) == 0
    assert [one.reason for one in read_limits(Path("msdump.limits.json")).accepted] == ["new kernels"]
    # Falling needs no word, and forgets none.
    assert main(["calibrate", "ref", "p"]) == 0
    assert [one.reason for one in read_limits(Path("msdump.limits.json")).accepted] == ["new kernels"]


def test_a_base_far_above_what_was_measured_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    dump("near", 2 * U, seed=4)
    assert compare("near", "ref", *LIMITS) == 0
    assert "2 limits could be 10 times lower, as this run shows" in " ".join(capsys.readouterr().out.split())
    dump("same", 40 * U, seed=4)
    assert compare("same", "ref", *LIMITS) == 0
    assert "times lower" not in capsys.readouterr().out

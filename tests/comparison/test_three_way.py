"""Left and another run against golden: which limits then judge, what is said, and what is never passed over."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from outcomes import without_run

from pytest_msdump.capabilities.cache import cache as cache_module
from pytest_msdump.capabilities.cache.cache import stamp
from pytest_msdump.capabilities.causes.growth import drift_of
from pytest_msdump.capabilities.cluster.cluster import compare_batch, job_of
from pytest_msdump.capabilities.statistics.reader import READER
from pytest_msdump.capabilities.statistics.tensor_statistics import statistics_of
from pytest_msdump.cli import main
from pytest_msdump.core.compare.comparing import compare_pair, comparer_of
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.model.tensor import Statistics, TensorSpec
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import DumpWriter

RUNS = ("golden", "third")
RATIO = "golden_rmse_ratio"
SHAPE = (40, 50)


def draw(seed, shape=SHAPE):
    return np.random.default_rng(seed).standard_normal(shape)


def write(folder, tensors, *, save="full"):
    folder.mkdir(parents=True, exist_ok=True)
    if save == "full":
        for name, values in tensors.items():
            np.save(folder / f"{name}.npy", values)
        return folder
    with DumpWriter(folder, save=save) as writer:
        for name, values in tensors.items():
            writer.write(name, values)
    return folder


def runs(folder, errors, *, shape=SHAPE, dtype="float32", **save):
    """Golden in float64, and one run for each size of error: `{"left": 3e-7, "right": 1e-7}`."""
    golden = draw(0, shape)
    write(folder / "golden", {"fc": golden}, save=save.get("golden", "full"))
    for seed, (name, size) in enumerate(errors.items(), 1):
        run = (golden + size * draw(seed, shape)).astype(dtype)
        write(folder / name, {"fc": run}, save=save.get(name, "full"))
    return folder


def report(folder, *, golden="golden", third=None, **options):
    typed = {"left": "left", "right": "right", "golden": golden, "third": third, **options}
    planned = plan(load_suite(file=None, options=typed, directory=folder))
    return build_report(planned, compare_plan(planned))


def record(folder, **options):
    (found,) = report(folder, **options).records
    return found


def limits_of(found):
    return {check.metric: check.limit for check in found.checks}


def rmse(folder, name, golden="golden"):
    run, exact = (np.load(folder / side / "fc.npy").astype(np.float64) for side in (name, golden))
    return np.sqrt(np.mean((run - exact) ** 2))


def test_golden_does_not_excuse_the_elements_beside_a_mask(tmp_path):
    golden, where = draw(0), draw(9) > 0
    write(tmp_path / "golden", {"fc": np.where(where, golden - 1e9, golden)})
    for name, error in {"left": draw(1), "right": 1e-7 * draw(2)}.items():
        run = (golden + error).astype("f4")
        write(tmp_path / name, {"fc": np.where(where, run - np.float32(1e9), run)})
    found = record(tmp_path)
    assert found.metrics[RATIO] < 2
    apart = [(one.metric, one.value) for one in found.verdict.findings if one.outcome == "fail"]
    right = np.load(tmp_path / "right" / "fc.npy").astype("f8")[~where] - golden[~where]
    expected = np.sqrt(np.mean(draw(1)[~where] ** 2) / np.mean(right**2))
    assert apart == [(RATIO, pytest.approx(expected, rel=1e-3))]


# -- the rule of PyTorch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "outcome"), [(1e-7, "pass"), (1.9e-7, "pass"), (2.3e-7, "fail"), (1e-5, "fail")])
def test_left_may_err_twice_as_much_as_right(tmp_path, size, outcome):
    runs(tmp_path, {"left": size, "right": 1e-7})
    found = record(tmp_path)
    expected = rmse(tmp_path, "left") / rmse(tmp_path, "right")
    assert found.metrics[RATIO] == pytest.approx(expected, rel=1e-12)
    assert (found.verdict.outcome, expected <= 2) == (outcome, outcome == "pass")
    assert limits_of(found) == {RATIO: 2, "nonfinite_mismatch": 0, "saturated_count": 0}


@pytest.mark.parametrize(
    ("shape", "dtype", "multiplier"),
    [
        ((1000,), "float32", 2),
        ((1000,), "float64", 2),
        ((1000,), "float16", 3),
        ((999,), "float32", 3),
        ((501,), "float16", 3),
        ((500,), "float32", 8),
        ((11,), "float16", 8),
        ((10,), "float32", 10),
        ((10, 100, 1, 1), "float32", 3),
        ((10, 100, 1), "float32", 2),
    ],
)
def test_small_tensors_and_types_of_16_bits_have_more_room_as_in_pytorch(tmp_path, shape, dtype, multiplier):
    # Golden and the reference are of one model.
    size = 1e-9 if dtype == "float64" else 0.001
    runs(tmp_path, {"left": size, "right": size}, shape=shape, dtype=dtype)
    assert limits_of(record(tmp_path))[RATIO] == multiplier


def test_the_operator_where_the_ratio_jumps_is_the_cause(tmp_path):
    for name, error in (("golden", 0), ("right", 1e-7), ("left", 1e-7)):
        with DumpWriter(tmp_path / name, framework="numpy") as writer:
            for number, op in enumerate(("dense", "gelu", "norm")):
                jump = 10 if name == "left" and number else 1
                noise = error * jump * draw(number + len(name))
                writer.write(op, (draw(7) + noise).astype("f8" if name == "golden" else "f4"))
    roles = {one.left.key.op.name: one.role for one in report(tmp_path).records}
    assert (roles["dense"], roles["gelu"]) == (None, "cause")
    for one in report(tmp_path).records:
        # How errors grow is counted in shares of the limit.
        assert drift_of(one).share == pytest.approx(one.metrics[RATIO] / 2, rel=1e-12)


def test_the_profile_judges_a_tensor_that_golden_lacks_and_the_header_counts_them(tmp_path, capsys, monkeypatch):
    runs(tmp_path, {"left": 1e-5, "right": 1e-7})
    for side in ("left", "right"):
        np.save(tmp_path / side / "gelu.npy", np.load(tmp_path / side / "fc.npy"))
    found = {one.left.key.op.name: one for one in report(tmp_path).records}
    assert {name: one.verdict.outcome for name, one in found.items()} == {"fc": "fail", "gelu": "pass"}
    assert "relative_euclidean_distance" in limits_of(found["gelu"])
    assert found["gelu"].comparison.three_way is None
    assert not set(found["gelu"].comparison.measurements) & {RATIO}
    monkeypatch.chdir(tmp_path)
    main(["compare", "left", "right", "--golden", "golden"])
    assert "golden: no tensor for 1 of 2 pairs, which are judged without golden" in capsys.readouterr().out


def test_nan_and_integers_are_judged_as_without_golden(tmp_path):
    runs(tmp_path, {"left": 1e-7, "right": 1e-7})
    broken = np.load(tmp_path / "left/fc.npy")
    broken[3, 4] = np.nan
    np.save(tmp_path / "left/fc.npy", broken)
    found = record(tmp_path)
    assert [one.metric for one in found.verdict.findings if one.outcome == "fail"] == [
        "nonfinite_mismatch",
        "saturated_count",
    ]
    for side in ("left", "right", "golden"):
        np.save(tmp_path / side / "fc.npy", np.arange(20) + (side == "left"))
    assert limits_of(record(tmp_path)) == {"max_absolute_error": 0}


def test_a_golden_tensor_is_brought_to_the_lefts_shape_as_the_right_one_is(tmp_path):
    golden = draw(0, (2, 5, 6, 3))
    write(tmp_path / "golden", {"conv": golden})
    write(tmp_path / "right", {"conv": np.float32(golden + 1e-7 * draw(1, golden.shape))})
    write(tmp_path / "left", {"conv": np.float32((golden + 1e-7 * draw(2, golden.shape)).transpose(0, 3, 1, 2))})
    (tmp_path / "msdump.toml").write_text(
        '[msdump]\nleft = "left"\nright = "right"\ngolden = "golden"\nright_format = "NHWC"\n'
    )
    planned = plan(load_suite(file=tmp_path / "msdump.toml", options={}, directory=tmp_path))
    (found,) = build_report(planned, compare_plan(planned)).records
    assert found.verdict.outcome == "pass"
    assert 0.9 < found.metrics[RATIO] < 1.1


def test_a_damaged_golden_file_is_an_error_of_its_pair(tmp_path):
    runs(tmp_path, {"left": 1e-7, "right": 1e-7})
    file = tmp_path / "golden/fc.npy"
    file.write_bytes(file.read_bytes()[:1000])
    found = record(tmp_path)
    assert found.verdict.outcome == "error"
    assert str(file) in found.verdict.findings[0].sentence


# -- a third run and the profiles of msprobe ---------------------------------------------------------------------------


def test_a_third_run_is_in_the_place_of_right_and_golden_that_of_golden(tmp_path):
    runs(tmp_path, {"left": 3e-7, "right": 1e-7, "third": 2e-7})
    found = record(tmp_path, third="third")
    assert found.metrics[RATIO] == pytest.approx(rmse(tmp_path, "left") / rmse(tmp_path, "third"), rel=1e-12)
    assert (found.golden, found.third, found.verdict.outcome) == ("fc.npy", "fc.npy", "pass")
    found = record(tmp_path, golden=None, third="third")
    ratio = rmse(tmp_path, "left", "right") / rmse(tmp_path, "third", "right")
    assert found.metrics[RATIO] == pytest.approx(ratio, rel=1e-12)
    # Without golden no rule is replaced.
    assert "relative_euclidean_distance" in limits_of(found)
    assert RATIO not in limits_of(found)


def test_equal_sides_fail_where_a_third_run_is_far_nearer_to_golden(tmp_path):
    runs(tmp_path, {"left": 1e-3, "right": 0, "third": 1e-7})
    np.save(tmp_path / "right/fc.npy", np.load(tmp_path / "left/fc.npy"))
    found = record(tmp_path, third="third")
    assert found.comparison.equal
    assert found.verdict.outcome == "fail"
    assert record(tmp_path).verdict.outcome == "pass"


@pytest.mark.parametrize(
    "options",
    [{"profile": "ascend_dual_l1"}, {"threshold": [f"{RATIO}=2"]}, {"threshold": ["golden_max_rel=10"]}],
)
def test_a_limit_on_golden_without_golden_is_refused_with_what_to_do(tmp_path, options):
    runs(tmp_path, {"left": 1e-7, "right": 1e-7})
    with pytest.raises(ConfigError, match=r"needs a golden or a third run; give --golden DIR or --third DIR"):
        report(tmp_path, golden=None, **options)


# -- the same from every place -----------------------------------------------------------------------------------------


def test_results_are_read_back_and_judged_again(tmp_path, capsys, monkeypatch):
    runs(tmp_path, {"left": 3e-7, "right": 1e-7, "third": 1e-7})
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "left", "right", "--golden", "golden", "--third", "third"]) == 1
    values = read_json(Path("msdump-report/results.json"))
    assert [Path(values[name]["directory"]) for name in RUNS] == [tmp_path / name for name in RUNS]
    (entry,) = values["tensors"]
    assert (entry["golden"], entry["third"]) == ("fc.npy", "fc.npy")
    assert entry["three_way"]["left"]["rmse"] == pytest.approx(rmse(tmp_path, "left"), rel=1e-12)
    assert entry["three_way"]["other"]["rmse"] == pytest.approx(rmse(tmp_path, "third"), rel=1e-12)
    assert values["rerun"][2:] == [f"--golden={tmp_path / 'golden'}", f"--third={tmp_path / 'third'}"]
    capsys.readouterr()
    # The same profile, another, and a limit that is met.
    assert main(["check", "msdump-report/results.json", "--profile", "strict"]) == 1
    assert "golden rule (float32)" in capsys.readouterr().out
    assert main(["check", "msdump-report/results.json", "--profile", "ascend_dual_l0"]) == 0
    assert main(["check", "msdump-report/results.json", "--threshold", f"{RATIO}=5"]) == 0


def results():
    return json.loads(without_run(Path("msdump-report/results.json").read_bytes()))


def test_workers_and_the_cache_give_the_same_and_the_cache_sees_a_new_golden_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cache_module, "_RACY_SECONDS", 0)
    monkeypatch.delenv("CI", raising=False)
    runs(tmp_path, {"left": 3e-7, "right": 1e-7})
    for side in ("left", "right", "golden"):
        np.save(tmp_path / side / "relu.npy", np.load(tmp_path / side / "fc.npy"))
    monkeypatch.chdir(tmp_path)
    command = ["compare", "left", "right", "--golden", "golden"]
    assert main(command) == 1
    alone = results()
    assert main([*command, "--jobs", "2"]) == 1
    assert results() == alone
    assert main([*command, "--cache", "files"]) == 1
    assert main([*command, "--cache", "files"]) == 1
    assert "2 of 2 pairs from earlier runs" in capsys.readouterr().out
    cached = results()
    assert {**cached, "notes": []} == {**alone, "notes": []}
    np.save("golden/fc.npy", np.load("left/fc.npy").astype("f8"))
    main([*command, "--cache", "files"])
    assert "1 of 2 pairs from earlier runs" in capsys.readouterr().out
    # Without golden these are other conditions.
    main(["compare", "left", "right", "--cache", "files"])
    assert "0 of 2 pairs from earlier runs" in capsys.readouterr().out


def test_a_worker_of_a_cluster_gets_the_further_files_with_its_pair(tmp_path):
    runs(tmp_path, {"left": 3e-7, "right": 1e-7, "third": 1e-7})
    typed = {"left": "left", "right": "right", "golden": "golden", "third": "third"}
    planned = plan(load_suite(file=None, options=typed, directory=tmp_path))
    job, comparer = pickle.loads(pickle.dumps((job_of(0, planned.pairing.pairs[0]), comparer_of(planned))))
    assert {path.parent.name for path, _ in job.seen} == set(typed)
    ((_, found),) = compare_batch([job], comparer, stamp()).records
    assert found == comparer_of(planned).compare(planned.pairing.pairs[0])
    np.save(tmp_path / "third/fc.npy", draw(9, (3,)))
    ((_, found),) = compare_batch([job], comparer, stamp()).records
    assert found.verdict.outcome == "error"
    assert "is another file there" in found.verdict.findings[0].sentence


@pytest.mark.e2e
def test_pytest_takes_both_from_the_command_line_the_suite_file_and_the_ini_file(pytester):
    runs(pytester.path, {"left": 3e-7, "right": 1e-7, "third": 2e-7})
    given = ["--msdump-left=left", "--msdump-right=right", "-p", "no:cacheprovider"]
    result = pytester.runpytest_subprocess(*given, "--msdump-golden=golden", "-n", "2")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*golden = more exact*golden*", "*left against golden*"])
    (pytester.path / "msdump.toml").write_text('[msdump]\nleft = "left"\nright = "right"\ngolden = "golden"\n')
    (pytester.path / "pytest.ini").write_text("[pytest]\nmsdump_third = third\n")
    pytester.runpytest_subprocess("msdump.toml", "-p", "no:cacheprovider").assert_outcomes(passed=2)


# -- tensors that were not saved ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "outcome"), [(1e-4, "pass"), (1e-2, "fail")])
@pytest.mark.parametrize("sketched", [{"left"}, {"golden", "right", "left"}, {"right"}])
def test_sketches_estimate_the_ratio(tmp_path, size, outcome, sketched):
    saved = {name: "sketch" if name in sketched else "full" for name in ("left", "right", "golden")}
    runs(tmp_path, {"left": size, "right": 1e-4}, shape=(100, 400), **saved)
    found = record(tmp_path)
    assert found.verdict.outcome == outcome
    low, high = found.statistics.intervals[RATIO][1:]
    assert low < size / 1e-4 < high
    assert limits_of(found)[RATIO] == 2


@pytest.mark.parametrize("unsaved", ["left", "golden", "right"])
def test_statistics_alone_leave_it_to_the_profile_and_say_so(tmp_path, unsaved):
    runs(tmp_path, {"left": 1e-3, "right": 1e-4})
    typed = {"left": "left", "right": "right", "golden": "golden"}
    (pair,) = plan(load_suite(file=None, options=typed, directory=tmp_path)).pairing.pairs
    saved = getattr(pair, unsaved)
    table = Statistics(statistics_of(ArrayView(np.load(saved.source.path))), digits=None)
    spec = TensorSpec("float64" if unsaved == "golden" else "float32", SHAPE)
    pair = replace(pair, **{unsaved: replace(saved, spec=spec, reader=READER, statistics=table)})
    found = compare_pair(pair, Policy(has_golden=True))
    assert any(note.code == "golden_not_judged" for note in found.notes)
    assert RATIO not in limits_of(found)
    assert "relative_euclidean_distance" in limits_of(found)
    found = compare_pair(pair, Policy("ascend_dual_l0", has_golden=True))
    assert found.verdict.outcome == "undefined"


# -- golden and third are runs of the right side's model ---------------------------------------------------------------


@pytest.mark.parametrize("saved", ["full", "sketch"])
@pytest.mark.parametrize(
    ("given", "profile"),
    [
        ({"golden": "other"}, "default"),
        ({"golden": "golden", "third": "other"}, "default"),
        ({"golden": "other", "third": "other"}, "default"),
        ({"golden": None, "third": "other"}, "ascend_dual_l0"),
    ],
)
def test_a_run_of_another_model_lets_no_pair_pass(tmp_path, given, profile, saved):
    runs(tmp_path, {"left": 0.1, "right": 1e-7}, shape=(100, 400), left=saved)
    write(tmp_path / "other", {"fc": draw(7, (100, 400))})
    found = record(tmp_path, profile=profile, **given)
    assert found.verdict.outcome == "error" or (profile != "default" and saved == "sketch")
    if saved == "full":
        assert found.verdict.findings[0].message.code == "golden_is_stale"


@pytest.mark.parametrize(("golden", "profile"), [("golden", "default"), (None, "ascend_dual_l0")])
def test_a_third_run_of_integers_does_not_escape_the_limits_of_floats(tmp_path, golden, profile):
    runs(tmp_path, {"left": 0.1, "right": 1e-7})
    write(tmp_path / "whole", {"fc": draw(0).astype("int32")})
    found = record(tmp_path, golden=golden, third="whole", profile=profile)
    assert (found.verdict.outcome, found.verdict.findings[0].message.code) == ("error", "golden_is_stale")


@pytest.mark.parametrize(("times", "outcome"), [(9, "pass"), (11, "error")])
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-3), ("float16", 1e-2)])
def test_golden_may_be_ten_times_the_limit_of_default_away_from_the_right_side(tmp_path, dtype, limit, times, outcome):
    runs(tmp_path, {"left": times * limit, "right": times * limit}, dtype=dtype)
    found = record(tmp_path)
    assert found.verdict.outcome == outcome
    if outcome == "pass":
        # It would fail without golden, and the note says by how much.
        [note] = [one.message for one in found.verdict.findings if one.message.code == "permitted_beyond"]
        assert (note.parameters["by"], round(note.parameters["factor"])) == (
            f"golden rule ({dtype})",
            round(times * 2**0.5),
        )


@pytest.mark.parametrize("where", ["everywhere", "in the half that would fail", "in one place"])
def test_nan_in_golden_lets_no_pair_pass(tmp_path, where):
    runs(tmp_path, {"left": 1e-7, "right": 1e-7})
    golden, left = np.load(tmp_path / "golden/fc.npy"), np.load(tmp_path / "left/fc.npy")
    half = {"everywhere": slice(None), "in the half that would fail": slice(20), "in one place": slice(1)}[where]
    golden[half], left[half] = np.nan, 5
    np.save(tmp_path / "golden/fc.npy", golden)
    np.save(tmp_path / "left/fc.npy", left)
    found = record(tmp_path)
    assert found.verdict.outcome == "error"
    assert "golden has NaN where right has none" in found.verdict.findings[0].sentence


def test_numbers_beyond_the_range_of_the_right_sides_type_are_no_other_model(tmp_path):
    """A mask of -1e9 in float64 is -65504 or -Inf in float16."""
    runs(tmp_path, {"left": 1e-3, "right": 1e-3}, dtype="float16")
    for name, low in (("golden", -1e9), ("right", -65504), ("left", -65504)):
        values = np.load(tmp_path / name / "fc.npy")
        values[:5] = low
        np.save(tmp_path / name / "fc.npy", values)
    assert record(tmp_path).verdict.outcome == "pass"


@pytest.mark.parametrize("kind", ["weights", "inputs"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("role", "own"), [("golden", "float32"), ("golden", "float16"), ("third", "float32")])
def test_weights_and_inputs_are_compared_after_rounding_to_the_coarser_type(tmp_path, kind, dtype, role, own, capsys):
    exact = draw(3, (30, 40)).astype(own).astype(dtype)

    def described(name, values, stored, seed=0):
        with DumpWriter(tmp_path / name, framework="numpy") as writer:
            writer.describe(**{kind: {"fc.weight": values}})
            writer.write("fc", (draw(0) + 1e-7 * draw(seed)).astype(stored))

    described("left", exact.astype(own), own, 1)
    described("right", exact.astype(own), own, 2)
    described("same", exact, dtype)
    described("other", exact * 1.01, dtype)
    sides = ["compare", str(tmp_path / "left"), str(tmp_path / "right"), "--report", "json", "--quiet"]
    assert main([*sides, f"--{role}", str(tmp_path / "same")]) == 0
    assert f"different {kind}" not in capsys.readouterr().out
    # Of a golden run in float32 nothing says what its weights are in float16.
    is_known = dtype == "float64" or own == "float32"
    assert main([*sides, f"--{role}", str(tmp_path / "other")]) == (4 if is_known else 0)
    said = capsys.readouterr().err
    assert (f"had other {kind} than" in said and "fc.weight" in said) is is_known


def test_the_left_side_is_no_judge_of_itself_and_another_graph_is_reported(tmp_path):
    runs(tmp_path, {"left": 1e-3, "right": 1e-7})
    for role in ("golden", "third"):
        with pytest.raises(ConfigError, match=rf"{role} .*left: is the left side itself"):
            report(tmp_path, **{role: "left"})
    call = {"name": "fc", "type": "Linear", "inputs": [None]}
    for name, calls in (("right", [call]), ("golden", [{**call, "type": "Conv"}])):
        file = tmp_path / name / "msdump.json"
        values = json.loads(file.read_text()) if file.exists() else {"schema_version": 1}
        file.write_text(json.dumps({**values, "graph": calls}))
    assert "its graph is not that of the right side" in " ".join(report(tmp_path).golden.notes)

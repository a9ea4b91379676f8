"""The benchmarks work, on data small enough for every run of the tests; their figures are no test's business."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import networks, pair
from cases.setting import NotTimedError, Program, Setting
from measuring.figures import Limit

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "peak_memory.py"


@pytest.mark.e2e
def test_the_memory_benchmark_measures_five_passing_comparisons(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, BENCHMARK, "--mib", "16", "--dir", tmp_path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = re.findall(r"^(.+?) +(\d+) +([\d.]+) +([\d.]+)$", ran.stdout, re.MULTILINE)
    assert [(title, code) for title, code, _, _ in rows] == [
        ("msdump compare, both C order", "0"),
        ("msdump compare, right Fortran", "0"),
        ("msdump compare, left Fortran", "0"),
        ("pytest, both C order", "0"),
        ("pytest, right Fortran", "0"),
    ]
    # An interpreter with numpy alone is above 20 MiB: a smaller number would be another process's, or another unit.
    assert all(20 < float(peak) < 150 for _, _, peak, _ in rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
def test_the_benchmark_beside_an_old_version_measures_both_trees() -> None:
    script = BENCHMARK.with_name("beside_an_old_version.py")
    words = [sys.executable, script, sys.executable, "files", "failing", "--small", "--runs", "1"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = re.findall(r"^(.{30}) +" + r"([\d.]+) *" * 6 + "$", ran.stdout, re.MULTILINE)
    assert [row[0].strip() for row in rows] == ["two small files", "1,200 × 16 elements, all fail"]
    # Of one tree with itself the ratio of peaks is nearly 1.
    assert all(float(row[3]) > 0 and 0.8 < float(row[6]) < 1.25 for row in rows)


@pytest.mark.e2e
def test_the_lean_benchmark_measures_each_row_beside_its_peer() -> None:
    words = [sys.executable, BENCHMARK.with_name("lean.py"), "--old", sys.executable, "--small", "--runs", "1"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = re.findall(r"^(.{54}) +([\d.]+) +([\d.]+) +([\d.]+)$", ran.stdout, re.MULTILINE)
    assert [title.split()[0] for title, *_ in rows] == ["two", "4,000", "2"]
    assert all(float(ratio) > 0 for *_, ratio in rows)


@pytest.mark.e2e
def test_the_network_benchmark_compares_every_operator_that_was_dumped(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, BENCHMARK.with_name("ascend_network.py"), "--operators", "20", "--dir", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "matched 15 of 15 right tensors" in ran.stdout
    assert "20 tensors: 20 pass" in ran.stdout
    assert re.search(r"^exit 0, [\d.]+ seconds, peak \d+ MiB$", ran.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


SPEED = BENCHMARK.with_name("speed.py")
MEASURED = ("pair-float32", "tiny", "index", "torch-file", "pytest", "dormant")


def _speed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SPEED, "--small", "--no-vendor", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.e2e
def test_the_speed_benchmark_prints_and_writes_every_run(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    ran = _speed(*MEASURED, "--json", tmp_path / "runs.json", "--dir", data)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert list(data.iterdir()) == []

    cases = json.loads((tmp_path / "runs.json").read_text("utf-8"))["cases"]
    assert list(cases) == list(MEASURED)
    programs = cases["pair-float32"]["programs"]
    assert {"reads both files", "msdump compare", "numpy.testing.assert_allclose"} <= set(programs)
    assert all(len(program["runs"]) == 1 for program in programs.values())
    # An interpreter with numpy alone is above 20 MiB.
    assert 20 < programs["msdump compare"]["runs"][0]["peak_mib"] < 150
    numbers = {limit["number"] for case in cases.values() for limit in case["limits"]}
    assert numbers == {"1", "2", "3", "4"}
    # Nothing is kept, or missed, by small data.
    assert len(
        re.findall(r"^[1-4]\. .+: limit [≤≥] .+, measured —, not measured: small data$", ran.stdout, re.M)
    ) == sum(len(case["limits"]) for case in cases.values())

    assert all(re.search(rf"^{re.escape(name)}  +[\d.]+ ", ran.stdout, re.M) for name in programs)
    assert "**17 TB beside" in ran.stdout


@pytest.mark.e2e
def test_a_program_that_does_something_else_is_not_timed(tmp_path: Path) -> None:
    setting = Setting(folder=tmp_path, runs=1, small=True, kernel=False)
    for program in (
        Program([sys.executable, "-c", "raise SystemExit(3)"], only_starts=True),
        Program([sys.executable, "-c", ""], only_starts=True, check=_refused),
    ):
        with pytest.raises(NotTimedError):
            setting.figures({"it": program})


def _refused(said: str) -> None:
    raise NotTimedError(said)


@pytest.mark.e2e
def test_what_another_run_wrote_is_no_proof_of_this_one(tmp_path: Path) -> None:
    setting = Setting(folder=tmp_path, runs=1, small=True, kernel=False)
    writes = (
        "import json, os; os.mkdir('msdump-report');"
        "json.dump({'counts': {'pass': 4}}, open('msdump-report/results.json', 'w'))"
    )
    check = networks.all_pass(tmp_path, 4)
    setting.figures({"works": Program([sys.executable, "-c", writes], only_starts=True, check=check)})
    with pytest.raises(NotTimedError, match=r"no results\.json"):
        setting.figures({"idles": Program([sys.executable, "-c", ""], only_starts=True, check=check)})


@pytest.mark.parametrize(
    ("bound", "measured", "at_least", "verdict"),
    [(4, 4.0, False, "ok"), (4, 4.1, False, "over"), (20, 20.0, True, "ok"), (20, 19.9, True, "over")],
)
def test_a_limit_is_kept_or_missed(bound: float, measured: float, at_least: bool, verdict: str) -> None:
    assert Limit("1", "a ratio", bound, measured, at_least=at_least).verdict == verdict


@pytest.mark.parametrize(("elements", "differing"), [(7, 8), (8, 7)])
def test_a_comparison_that_leaves_elements_out_is_not_timed(tmp_path: Path, elements: int, differing: int) -> None:
    (tmp_path / "msdump-report").mkdir()
    report = tmp_path / "msdump-report" / "results.json"

    def said(elements: int, differing: int) -> None:
        metrics = {"cosine_similarity": 1.0, "kl_divergence": None}
        tensor = {"elements": elements, "differing": differing, "metrics": metrics}
        report.write_text(json.dumps({"schema_version": 1, "tensors": [tensor]}))

    said(8, 8)
    pair.all_differ(tmp_path, 8, {"cosine_similarity"})("")
    with pytest.raises(NotTimedError, match=r"'kl_divergence'\] should be measured"):
        pair.all_differ(tmp_path, 8, {"cosine_similarity", "kl_divergence"})("")
    said(elements, differing)
    with pytest.raises(NotTimedError, match="8 elements differ"):
        pair.all_differ(tmp_path, 8, {"cosine_similarity"})("")


# -- ports -------------------------------------------------------------------------------------------------------------


def _write_ports(out: Path, *, good_drifts: bool, pairs: dict[str, str], cause: str) -> None:
    """Write one case: a reference, a correct port, and one whose second layer is wrong."""
    values = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("f4")
    layers = {"first": values[0], "second": values[1], "third": values[2]}
    case = out / "case"
    sides = {"right": layers, "good/left": layers | {"third": values[2] * 2} if good_drifts else layers}
    sides["bad/left"] = layers | {"second": values[1] * 2}
    for name, tensors in sides.items():
        (case / name).mkdir(parents=True)
        for stamp, (layer, array) in enumerate(tensors.items()):
            np.save(case / name / f"{layer}.0.{1700000000000000 + stamp}.npy", array)
    (case / "case.json").write_text('{"suite": {}}', "utf-8")
    called = {left: f"{left}:output:0" for left in layers}
    truth = {"case": "case", "title": "", "absent": [], "unjudged_left": [], "unjudged_right": []}
    truth["pairs"] = [[called[left], called[right]] for left, right in pairs.items()]
    truth["values"] = [{"left": [left], "right": [right]} for left, right in truth["pairs"]]
    mistake = {"mistake": "scaled", "left": [cause], "right": [cause], "seen_at": [], "apart": 1.0}
    for port, causes in {"good": [], "bad": [mistake]}.items():
        (case / port / "truth.json").write_text(json.dumps(truth | {"port": port, "causes": causes}), "utf-8")


SAME = {name: name for name in ("first", "second", "third")}
SWAPPED = {"first": "first", "second": "third", "third": "second"}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("good_drifts", "pairs", "cause", "words", "problems"),
    [
        (False, SAME, "second", [], []),
        (False, SAME, "second", ["--sketches"], []),
        (True, SAME, "second", [], ["case/good: a correct port, and 1 tensors fail"]),
        (False, SWAPPED, "second", ["--min-pairs=0.3", "--min-suggested=0.3"],
         ["case/bad: 2 wrong pairs, 0 wrong suggestions", "case/good: 2 wrong pairs, 0 wrong suggestions"]),
        (False, SAME, "third", [],
         ["causes: 0 of 1 mistakes that could be seen and that are named, where a port has one; 70.0% are wanted"]),
        (False, SAME, "third", ["--min-causes=0"], []),
    ],
    ids=["right", "by sketches", "false alarm", "wrong pairs", "missed cause", "missed cause allowed"],
)  # fmt: skip
def test_ports_are_judged_by_the_truth_about_them(
    good_drifts: bool, pairs: dict[str, str], cause: str, words: list[str], problems: list[str], tmp_path: Path
) -> None:
    _write_ports(tmp_path, good_drifts=good_drifts, pairs=pairs, cause=cause)
    judge = BENCHMARK.with_name("ports") / "judge.py"
    ran = subprocess.run(
        [sys.executable, judge, tmp_path, *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert re.findall(r"^WRONG: (.+)$", ran.stdout, re.MULTILINE) == problems, ran.stdout + ran.stderr
    assert ran.returncode == bool(problems)
    same = "2 of 2 (100.0%) in default, 2 of 2 (100.0%) in strict"
    assert (f"causes as with full dumps: {same}" in ran.stdout) == ("--sketches" in words)


# -- sketches ----------------------------------------------------------------------------------------------------------

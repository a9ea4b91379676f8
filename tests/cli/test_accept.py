"""``msdump accept`` adds known drifts that the run just meets, and changes nothing else in the suite file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VALUES = np.linspace(1, 2, 50, dtype=np.float32)
HOLES = np.where(np.arange(50) == 7, np.float32("nan"), VALUES)
FAR, FARTHER = VALUES * np.float32(1.02), VALUES * np.float32(1.04)
# Two ranks: one tensor each drifts, and that of the second drifts farther.
SUITE = '[msdump]\nleft = "run"\nright = "ref"  # made in May\npair_by = ["name", "map"]'
WHY = ["--reason", "exp, ACC-412", "--until", "2099-12-31"]


@pytest.fixture(autouse=True)
def _dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of two ranks: `same` agrees, `far` and `odd[0]*` drift, `holes` has a NaN where the reference has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    right = {"same": VALUES, "far": VALUES, "odd[0]*": VALUES, "odd": VALUES, "holes": VALUES, "shape": VALUES[:9]}
    write_reference(Path("ref"), right)
    left = {"same": VALUES, "far": FAR, "odd[0]*": FAR, "odd": FARTHER, "holes": HOLES, "shape": VALUES}
    write_mindspore(Path("run"), [("ReLU", name, "output", 0, values) for name, values in left.items()], rank=0)
    write_mindspore(Path("run"), [("ReLU", "far", "output", 0, FARTHER)], rank=1)
    Path("msdump.toml").write_text(SUITE, "utf-8")


def compare(*words: str) -> dict[str, str]:
    """Compare by the suite; return verdicts."""
    main(["compare", *(words or ("--config", "msdump.toml"))])
    report = read_json(Path("msdump-report/results.json"))
    return {f"{one['left']['address']} {one['rank']}": one["verdict"] for one in report["tensors"]}


def drifts(file: str = "msdump.toml") -> list[dict[str, object]]:
    found: list[dict[str, object]] = tomllib.loads(Path(file).read_text("utf-8"))["msdump"]["known_drift"]
    return found


def test_what_is_accepted_warns_and_all_else_is_judged_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    before = compare()
    assert before["far:output:0 0"] == before["far:output:0 1"] == "fail"
    capsys.readouterr()
    assert main(["accept", "msdump-report", "far", *WHY]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("accepted until 2099-12-31 in msdump.toml:\n  far:output:0 <-> far:output:0 [rank0]: ")
    assert printed.endswith("next:\n  pytest msdump.toml\n")
    after = compare()
    assert after == before | {"far:output:0 0": "warn", "far:output:0 1": "warn"}
    # Each rank has its own: 2 % and 4 %, rounded up.
    for rank, (drift, values) in enumerate(zip(drifts(), (FAR, FARTHER), strict=True)):
        assert drift["rank"] == rank
        assert drift["operator"] == "ReLU far <-> far"
        assert drift["normalized_max_error"] == pytest.approx(0.02 * (rank + 1), rel=0.01)
        assert drift["normalized_max_error"] >= np.abs(values - VALUES).max() / VALUES.max()  # type: ignore[operator]
        assert {key: str(drift[key]) for key in ("reason", "until")} == {
            "reason": "exp, ACC-412",
            "until": "2099-12-31",
        }


def test_a_name_with_the_characters_of_a_glob_means_itself_alone() -> None:
    before = compare()
    assert main(["accept", "msdump-report/results.json", "odd[[]0][*]", *WHY]) == 0
    assert compare() == before | {"odd[0]*:output:0 0": "warn"}


@pytest.mark.parametrize("content", [SUITE.encode(), b"\xef\xbb\xbf" + SUITE.replace("\n", "\r\n").encode() + b"\r\n"])
def test_the_rest_of_the_file_is_not_touched(content: bytes) -> None:
    kept = Path("kept.toml")
    kept.write_bytes(content)
    kept.chmod(0o640)
    Path("msdump.toml").unlink()
    Path("msdump.toml").symlink_to("kept.toml")
    compare()
    reason = 'two\nlines, "quoted" \\ ::warning::'
    assert main(["accept", "msdump-report", "far", "--reason", reason, "--until", "2099-12-31"]) == 0
    assert kept.read_bytes().startswith(content)
    assert Path("msdump.toml").is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o640
    document = tomllib.loads(kept.read_bytes().decode("utf-8-sig"))
    assert [drift["reason"] for drift in document["msdump"]["known_drift"]] == [reason] * 2
    assert sorted(path.name for path in Path().glob("*.tmp")) == []


def test_what_was_accepted_before_is_not_added_again(capsys: pytest.CaptureFixture[str]) -> None:
    compare()
    assert main(["accept", "msdump-report", "far", *WHY]) == 0
    written = Path("msdump.toml").read_bytes()
    # The results are still those of before.
    assert main(["accept", "msdump-report", "far", *WHY]) == 4
    assert "accepts all of them already" in capsys.readouterr().err
    assert Path("msdump.toml").read_bytes() == written
    assert main(["accept", "msdump-report", "[fo][ad][rd]*", *WHY]) == 0
    assert [drift["match"] for drift in drifts()] == [*["far:output:0"] * 2, "odd[[]0][*]:output:0", "odd:output:0"]


def test_a_failure_says_so_where_a_suite_file_can_take_it(pytester: pytest.Pytester) -> None:
    pytester.chdir()
    write_reference(Path("ref"), {"far": VALUES, "holes": VALUES})
    write_reference(Path("run"), {"far": FAR, "holes": HOLES})
    suite = Path("msdump.toml")
    suite.write_text('[msdump]\nleft = "run"\nright = "ref"\n', "utf-8")
    line = "to accept it: msdump accept msdump-report GLOB --reason TEXT --until DATE"
    # No limit would let this one pass.
    assert line not in pytester.runpytest("msdump.toml", "-k", "holes").stdout.str()
    assert pytester.runpytest("msdump.toml", "--msdump-full").stdout.str().count(line) == 1
    assert main(["accept", "msdump-report", "far", *WHY]) == 0
    pytester.runpytest("msdump.toml").assert_outcomes(passed=2, failed=1)
    suite.unlink()
    assert line not in pytester.runpytest("--msdump-left=run", "--msdump-right=ref").stdout.str()


REFUSED = {
    "NaN": (["msdump-report", "holes", *WHY], "holes:output:0 cannot be accepted"),
    "an error": (["msdump-report", "sha*", *WHY], "shape:output:0 cannot be accepted"),
    "one of several": (["msdump-report", "[ho]*", *WHY], "cannot be accepted"),
    "missing": (["msdump-report", "gone", *WHY], "gone is missing"),
    "what passes": (["msdump-report", "same", *WHY], "matches nothing that failed"),
    "a day that has passed": (["msdump-report", "far", *WHY[:2], "--until", "2020-01-01"], "has passed"),
    "no date": (["msdump-report", "far", *WHY[:2], "--until", "soon"], "is no date"),
    "no reason": (["msdump-report", "far", "--reason", " ", *WHY[2:]], "--reason"),
    "no results": (["nowhere", "far", *WHY], "nowhere"),
    "no suite file": (["msdump-report", "odd", *WHY, "--config", "none.toml"], "there is no suite file none.toml"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_accepted_changes_nothing(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = SUITE + '\n[[msdump.map]]\nleft = "gone"\nright = "far"\n[[msdump.known_drift]]\nmatch = "x"\n'
    text += 'reason = "y"\nuntil = 2099-01-01\nrmse = 1\n'
    Path("msdump.toml").write_text(text, "utf-8")
    compare()
    capsys.readouterr()
    words, message = REFUSED[what]
    assert main(["accept", *words]) == 4
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) <= 3
    assert max(map(len, error.splitlines())) <= 200
    assert Path("msdump.toml").read_text("utf-8") == text


def test_a_file_that_takes_no_entry_at_its_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    text = f'{SUITE}\nknown_drift = [{{ match = "x", reason = "y", until = 2099-01-01, rmse = 1 }}]\n'
    Path("msdump.toml").write_text(text, "utf-8")
    compare()
    assert main(["accept", "msdump-report", "far", *WHY]) == 4
    assert "takes no further [[msdump.known_drift]] at its end" in capsys.readouterr().err
    assert Path("msdump.toml").read_text("utf-8") == text


def test_a_limit_of_the_command_line_goes_before_what_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    compare("--config", "msdump.toml", "--threshold", "rel_euclid=0.001")
    assert main(["accept", "msdump-report", "far", *WHY]) == 4
    assert "limits of the run's command line go before known drifts" in capsys.readouterr().err
    assert Path("msdump.toml").read_text("utf-8") == SUITE


def test_results_of_a_run_without_a_suite_file_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    compare("run", "ref")
    assert main(["accept", "msdump-report", "far", *WHY]) == 4
    assert "name one with --config FILE" in capsys.readouterr().err
    assert main(["accept", "msdump-report", "far", *WHY, "--config", "msdump.toml"]) == 0
    assert [drift["match"] for drift in drifts()] == ["far:output:0"] * 2


def _recording(folder: str, operators: list[tuple[str, str, str]], drifting: str) -> None:
    """Write a recording: names, types and modules in order; what follows from `drifting` on is 2 % too large."""
    Path(folder).mkdir()
    tensors, graph, values = {}, [], VALUES
    for place, (name, op_type, module) in enumerate(operators):
        values = np.float32(2) * values * np.float32(1.02 if module == drifting else 1)
        file = f"{name}.0.{1_700_000_000_000_000 + place}.npy"
        np.save(Path(folder) / file, values)
        tensors[file] = {"op": name, "op_type": op_type}
        before = [[graph[-1]["name"], 0]] if graph else [None]
        graph.append({"name": name, "type": op_type, "inputs": before} | ({"scope": module} if module else {}))
    framework = "onnxruntime" if graph[0].get("scope") else "torch"
    manifest = {"schema_version": 1, "framework": framework, "complete": True, "tensors": tensors, "graph": graph}
    (Path(folder) / "msdump.json").write_text(json.dumps(manifest), "utf-8")


def _export(folder: str, modules: str, drifting: str) -> None:
    """Write an export of these linear layers, which it numbers in order, and their reference beside it."""
    names = [f"node_linear_{number}" for number in range(len(modules))]
    _recording(folder, [(name, "Gemm", module) for name, module in zip(names, modules, strict=True)], drifting)
    _recording(f"{folder}_ref", [(module, "Linear", "") for module in modules], "none")


def _verdicts(folder: str) -> dict[str, str]:
    found = compare(folder, f"{folder}_ref", "--config", "port.toml")
    return {name.split(":")[0]: verdict for name, verdict in found.items()}


@pytest.fixture
def accepted() -> None:
    """Of the modules a, b and c, whose numbers are 0, 1 and 2, what b and c give is accepted."""
    _export("v1", "abc", "b")
    Path("port.toml").write_text('[msdump]\nleft = "v1"\nright = "v1_ref"\n', "utf-8")
    assert _verdicts("v1") == {"node_linear_0": "pass", "node_linear_1": "fail", "node_linear_2": "fail"}
    assert main(["accept", "msdump-report", "*", *WHY, "--config", "port.toml"]) == 0
    assert [drift["match"] for drift in drifts("port.toml")] == ["b:output:0", "c:output:0"]
    assert drifts("port.toml")[0]["operator"] == "Gemm node_linear <-> Linear b, module b"


OTHERS = {
    "another module": (
        'match = "b:output:0"',
        'match = "a:output:0"',
        "now matches Gemm node_linear <-> Linear a, module a",
    ),
    "a number": (
        'match = "b:output:0"',
        'match = "node_linear_0"',
        "now matches Gemm node_linear <-> Linear a, module a",
    ),
    "another type": ('operator = "Gemm', 'operator = "Conv', "now matches Gemm node_linear <-> Linear b, module b"),
}


@pytest.mark.usefixtures("accepted")
@pytest.mark.parametrize("what", OTHERS)
def test_an_entry_that_matches_another_operator_is_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, message = OTHERS[what]
    file = Path("port.toml")
    file.write_text(file.read_text("utf-8").replace(old, new, 1), "utf-8")
    capsys.readouterr()
    assert main(["compare", "--config", "port.toml"]) == 4
    error = capsys.readouterr().err
    assert "port.toml [[msdump.known_drift]] #1" in error
    assert message in error
    assert len(error.splitlines()) == 2


def test_a_rank_that_was_not_there_is_not_accepted_with_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    suite = Path("one.toml")
    suite.write_text('[msdump]\nleft = "one"\nright = "ref"\n', "utf-8")
    write_mindspore(Path("one"), [("ReLU", "far", "output", 0, FAR)], rank=0)
    compare("--config", "one.toml")
    assert main(["accept", "msdump-report", "far", *WHY, "--config", "one.toml"]) == 0
    assert compare("--config", "one.toml") == {"far:output:0 0": "warn"}
    write_mindspore(Path("one"), [("ReLU", "far", "output", 0, FAR)], rank=1)
    capsys.readouterr()
    assert main(["compare", "--config", "one.toml"]) == 4
    assert "accepted of one tensor, and now matches 2" in capsys.readouterr().err
    suite.write_text(suite.read_text("utf-8").replace("operator =", "rank = 0\noperator ="), "utf-8")
    assert compare("--config", "one.toml") == {"far:output:0 0": "warn", "far:output:0 1": "fail"}


def test_an_entry_that_would_be_of_more_than_was_shown_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    operators = [("Conv2D", "x", "output", 0, FAR), ("BiasAdd", "x", "output", 0, VALUES)]
    write_mindspore(Path("two"), operators)
    write_mindspore(Path("two_ref"), [(*one[:-1], VALUES) for one in operators])
    text = '[msdump]\nleft = "two"\nright = "two_ref"\n'
    Path("two.toml").write_text(text, "utf-8")
    compare("--config", "two.toml")
    capsys.readouterr()
    assert main(["accept", "msdump-report", "*", *WHY, "--config", "two.toml"]) == 4
    assert "cannot be accepted alone" in capsys.readouterr().err
    assert Path("two.toml").read_text("utf-8") == text


@pytest.mark.parametrize("suite", ["01_lenet_port", "02_failing_on_purpose", "05_quantised"])
def test_a_saved_result_under_another_profile_is_judged_as_by_a_comparison(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(__file__).parents[2] / "example_suites" / suite / "msdump.toml"
    words = ["--config", str(file), "--profile"]
    out = ["--quiet", "--report-dir"]
    main(["compare", *words, "default", *out, str(tmp_path / "saved")])
    for profile in ("strict", "ascend", "torch", "bitwise"):
        code = main(["compare", *words, profile, *out, str(tmp_path / profile)])
        compared = read_json(tmp_path / profile / "results.json")
        capsys.readouterr()
        assert main(["check", str(tmp_path / "saved" / "results.json"), *words, profile]) == code
        line = next(line for line in capsys.readouterr().out.splitlines() if " tensors: " in line)
        for verdict in ("pass", "warn", "fail", "undefined", "error"):
            number = compared["counts"][verdict]
            assert (f" {number} {verdict}" in line) == (number > 0), (profile, line, compared["counts"])

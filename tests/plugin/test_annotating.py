"""In pytest and on the command line: what machines of CI read, in the process that knows all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugin.suites import write_suite

from pytest_msdump.cli import main

GRAPH = Path(__file__).parents[1] / "data" / "localising" / "target_bad" / "ms_output_trace_code_graph_0.ir"
ASKED = ("--msdump-report", "json,github,gitlab")


@pytest.fixture(autouse=True)
def no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def suite(pytester: pytest.Pytester, lenet: Path) -> Path:
    return write_suite(pytester.path / "msdump.toml", lenet, "target_bad", extra=f"graph_files = ['{GRAPH}']")


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("::")]


def entries(file: Path) -> list[tuple[str, str, int]]:
    found = json.loads(file.read_text("ascii"))
    return [(one["severity"], one["location"]["path"], one["location"]["lines"]["begin"]) for one in found]


def program(pytester: pytest.Pytester, result: Path) -> int:
    """Put the program that the graph speaks of into the project, and return the line of the cause."""
    records = json.loads(result.read_text("utf-8"))["tensors"]
    (source,) = (record["source"] for record in records if record.get("role") == "cause")
    lines = [""] * (source["line"] - 1) + [f"    {source['text']}"]
    (pytester.path / "ms_side.py").write_text("\n".join(lines), encoding="utf-8")
    return int(source["line"])


@pytest.mark.e2e
def test_the_cause_is_an_error_at_its_line_and_the_rest_is_counted(pytester: pytest.Pytester, suite: Path) -> None:
    told = commands(pytester.runpytest(suite, *ASKED).stdout.str())
    place = "file=msdump.toml,line=1,title=msdump%3A Default/conv2-Conv2d/BiasAdd-op0%3Aoutput%3A0::cause, bounded: "
    assert told[0].startswith(f"::error {place}")
    assert "DRIFT Default/conv2-Conv2d/BiasAdd-op0:output:0" in told[0]
    assert told[1:] == ["::notice title=msdump::and 6 inherited; results.json has them all"]
    report = pytester.path / "msdump-report"
    assert entries(report / "gl-code-quality.json") == [
        ("critical", "msdump.toml", 1),
        *[("minor", "msdump.toml", 1)] * 6,
    ]
    line = program(pytester, report / "results.json")
    again = pytester.runpytest_subprocess(suite, *ASKED, "-n2", "-q", "--tb=no")
    assert commands(again.stdout.str())[0] == told[0].replace("msdump.toml,line=1", f"ms_side.py,line={line}")
    assert entries(report / "gl-code-quality.json")[0] == ("critical", "ms_side.py", line)


@pytest.mark.usefixtures("suite")
def test_suites_share_one_file_and_the_ten_errors(pytester: pytest.Pytester, lenet: Path) -> None:
    write_suite(pytester.path / "other.msdump.toml", lenet, "target_bad")
    told = commands(pytester.runpytest(*ASKED).stdout.str())
    assert len(told) == 9
    assert told[-1].startswith("::notice title=msdump::and 6 inherited;")
    report = pytester.path / "msdump-report"
    assert list(report.rglob("gl-code-quality.json")) == [report / "gl-code-quality.json"]
    found = entries(report / "gl-code-quality.json")
    assert {path for _, path, _ in found} == {"msdump.toml", "other.msdump.toml"}
    assert len(found) == 14


def test_the_commands_of_msdump_tell_the_same(
    pytester: pytest.Pytester, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = commands(pytester.runpytest(suite, *ASKED).stdout.str())
    written = (pytester.path / "msdump-report" / "gl-code-quality.json").read_bytes()
    capsys.readouterr()
    assert main(["compare", "--config", str(suite), "--report", "json,github", "--report-dir", "own"]) == 1
    assert commands(capsys.readouterr().out) == told
    assert main(["report", "own/results.json", "--report", "github,gitlab"]) == 0
    assert commands(capsys.readouterr().out) == told
    assert (pytester.path / "own" / "gl-code-quality.json").read_bytes() == written

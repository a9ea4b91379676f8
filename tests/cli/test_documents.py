"""``--json``: one document on standard output and nothing else, also of what stops a command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference
from jsonschema import Draft202012Validator
from report import samples

import pytest_msdump
from pytest_msdump.cli import COMMANDS, EXIT_CODES, documents, main
from pytest_msdump.core.compare.assemble import assemble

VALUES = np.linspace(1, 2, 50, dtype=np.float32)
SCHEMAS = sorted((Path(pytest_msdump.__file__).parent / "cli" / "schemas").glob("*.json"))


@pytest.fixture(autouse=True)
def _dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_reference(Path("run"), {"a": VALUES, "b": VALUES * np.float32(1.02)})
    write_reference(Path("ref"), {"a": VALUES, "b": VALUES})


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """Return the one document that a command prints; the fixture of all tests has held it to its schema."""
    capsys.readouterr()
    code = main([*words, "--json"])
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == code
    assert document["command"] == words[0]
    return document


def test_a_verdict_says_what_started_it_and_what_to_type_next(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "compare", "run", "ref")
    assert (found["document"], found["verdict"], found["exit_code"]) == ("verdict", "fail", 1)
    assert found["first_failing"] == {"order": 1, "tensor": "b:output:0"}
    assert found["counts"]["pass"] == found["counts"]["fail"] == 1
    assert found["coverage"] == {"value": 1.0, "right_paired": 2, "right_total": 2, "problems": []}
    assert found["files"] == ["msdump-report/results.json"]
    (again,) = found["next"]
    # The command that is advised runs, and judges the one tensor.
    assert printed(capsys, *again.split()[1:])["counts"]["fail"] == 1
    assert printed(capsys, "compare", "ref", "ref")["verdict"] == "pass"
    assert printed(capsys, "compare", "run", "ref", "--select=nothing")["verdict"] == "fail"


def test_saved_results_have_a_verdict_each(capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", "run", "ref"])
    main(["compare", "ref", "ref", "--report-dir=good"])
    assert printed(capsys, "check", "msdump-report/results.json")["verdict"] == "fail"
    both = printed(capsys, "check", "good/results.json", "msdump-report/results.json")
    assert [one["verdict"] for one in both["results"]] == ["pass", "fail"]
    assert both["exit_code"] == 1


@pytest.mark.parametrize("length", [10, 300, 5_000])
def test_a_verdict_has_at_most_four_kilobytes(length: int, capsys: pytest.CaptureFixture[str]) -> None:
    name = ("é" * length)[:length]
    records = []
    for place in range(2_000):
        pair = samples.pair(left=samples.left_ref(f"{name}{place}"), right=samples.right_ref(f"{name}{place}"))
        records.append(samples.drifted(pair=pair, role="cause", role_reason=name))
    report = assemble(*samples.dumps(), samples.pairing([samples.pair()]), records, profile="default")
    report = replace(report, rerun=("--config", name), left=replace(report.left, directory=name))
    values = documents.verdict_document(report, [Path(name)] * 3)
    documents._print("verdict", "compare", 1, values)
    text = capsys.readouterr().out
    assert len(text.encode()) <= 4096
    found = json.loads(text)
    assert found["counts"]["fail"] == 2_000
    assert found["causes"]
    assert len(found["causes"]) + found["more_causes"] == 2_000
    # A command that was cut would do something else.
    assert all(name in command for command in found["next"])


@pytest.mark.parametrize(
    ("words", "code", "slug", "do"),
    [
        (["compare", "run", "nowhere"], 4, "dump-not-found", "give the directory"),
        (["compare", "run", "ref", "--threshold", "cosin=1"], 4, "unknown-name", "did you mean 'cosine'?"),
        (["compare", "run", "ref", "--no-such"], 4, "configuration", "see msdump --help"),
        (["inspekt", "run"], 4, "configuration", "did you mean 'inspect'?"),
        (["diff", "run"], 4, "configuration", "see msdump diff --help"),
    ],
)
def test_what_stops_a_command_is_a_document(
    words: list[str], code: int, slug: str, do: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(capsys, *words)
    assert (found["document"], found["exit_code"]) == ("error", code)
    error = found["error"]
    assert isinstance(error, dict)
    assert error["code"] == slug
    assert do in error["do"]
    assert error["message"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, command, "--no-such-option")["document"] == "error"
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--json" in capsys.readouterr().out


def test_words_of_a_program_ask_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repeat", "--", "program", "--json"]) == 4
    assert capsys.readouterr().out == ""


@pytest.mark.e2e
def test_what_a_library_prints_is_not_on_standard_output() -> None:
    program = """
import argparse, os
from pytest_msdump.cli.documents import run_command
def run(parsed):
    os.write(1, b"noise")
    print("said")
    return 1
run_command(argparse.Namespace(command="x", run=run))
print("after")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    text, _, after = ran.stdout.rpartition("}\n")
    assert json.loads(f"{text}}}")["lines"] == ["said"]
    assert after == "after\n"
    assert ran.stderr == "noise"


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.stem)
def test_a_schema_describes_one_document_and_its_exit_codes(file: Path) -> None:
    schema = json.loads(file.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    keys = schema["properties"]
    assert keys["document"] == {"const": file.stem}
    assert keys["schema_version"] == {"const": documents.SCHEMA_VERSION}
    assert set(keys["exit_code"]["enum"]) <= set(EXIT_CODES)
    assert {"schema_version", "document", "command", "exit_code"} <= set(schema["required"])

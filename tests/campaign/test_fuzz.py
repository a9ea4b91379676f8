"""A sample of the damaged files, and that what is searched for would be found."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from campaign import fuzz
from campaign.broken_parsers import (
    compute,
    crash,
    fail,
    refuse_at_length,
    refuse_well,
    seeds,
    take_memory,
    take_some_memory,
    unpickle,
    wait,
)
from campaign.fuzz import Finding, campaign, case_of, main, put
from campaign.parsers import PARSERS, Parser

CASES, SEED = 3000, 20


def findings_of(run: object, monkeypatch: pytest.MonkeyPatch, cases: int = 3) -> list[Finding]:
    monkeypatch.setattr(fuzz, "WAIT_SECONDS", 3)
    parser = Parser("planted", seeds, run)  # type: ignore[arg-type]
    try:
        outcomes = list(campaign(range(cases), 1, ["planted"], workers=1, more=[parser]))
    finally:
        PARSERS.pop("planted", None)
    assert len(outcomes) == cases
    return [one.finding for one in outcomes if one.finding]


@pytest.mark.e2e
def test_nothing_but_answers_and_errors_of_ours_come_of_damaged_files() -> None:
    outcomes = list(campaign(range(CASES), SEED, workers=2))
    assert not [one.finding for one in outcomes if one.finding]
    assert len(outcomes) == CASES
    asked = Counter(one.parser for one in outcomes)
    assert asked.keys() == PARSERS.keys()
    words = Counter(one.word for one in outcomes)
    assert min(words["read"], words["refused"]) > CASES / 4


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_each_parser_begins_from_files_that_it_reads(name: str, tmp_path: Path) -> None:
    parser = PARSERS[name]
    read = 0
    for number, seed in enumerate(parser.seeds()):
        (tmp_path / str(number)).mkdir()
        case = fuzz.Case(parser, seed, seed.content)
        read += fuzz.run_case(number, case, tmp_path / str(number)).word == "read"
    assert read >= max(1, len(parser.seeds()) * 0.4)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("run", "what"),
    [
        (fail, "KeyError: 'a'"),
        (refuse_at_length, "a message of 12000 letters"),
        (take_memory, "MemoryError"),
        (crash, "its process ended with 3"),
        (wait, "waited for more than 3 s"),
        (unpickle, "RuntimeError: code of a file would have run: pickle.find_class"),
    ],
)
def test_what_must_not_be_is_found_and_its_case_is_known(
    run: object, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings_of(run, monkeypatch)
    assert [one.number for one in found] == [0, 1, 2]
    assert all(one.parser == "planted" and one.what.startswith(what) for one in found)


def test_computing_for_too_long_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz, "SECONDS", 0.1)
    fuzz.signal.signal(fuzz.signal.SIGPROF, fuzz._too_long)
    case = fuzz.Case(Parser("planted", seeds, compute), seeds()[0], b"")
    outcome = fuzz.run_case(7, case, tmp_path)
    assert outcome.finding is not None
    assert outcome.finding.what.startswith("TimeoutError: computed for more than")


@pytest.mark.e2e
@pytest.mark.parametrize("run", [refuse_well, take_some_memory])
def test_a_refusal_and_some_memory_are_no_finding(run: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not findings_of(run, monkeypatch)


def test_a_case_is_the_same_each_time(tmp_path: Path) -> None:
    assert case_of(5, 1).content == case_of(5, 1).content
    assert len({case_of(number, 1).content for number in range(40)}) > 35
    assert put(case_of(5, 1), tmp_path).exists()


@pytest.mark.e2e
def test_one_case_is_done_again_by_its_number() -> None:
    number = next(number for number in range(1000) if case_of(number, 1).parser.name == "mapping.csv")
    # In a process of its own: it bounds its memory for good.
    words = [sys.executable, str(Path(fuzz.__file__)), "--seed", "1", "--only", str(number)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mapping.csv, made of mapping.csv")


@pytest.mark.e2e
def test_the_table_names_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--cases", "20", "--parser", "options", "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 1, 20 cases, 1 parsers\n")
    assert "0 findings in 20 cases" in said

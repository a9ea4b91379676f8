"""results.json that was edited: a line and exit code 4, or a judgement; never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from campaign.json_edits import DELETED, HOSTILE, edited, paths, pattern, recounted
from report import samples

from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.json_report import read_json, report_from

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = Path(__file__).parents[2] / "example_suites" / "02_failing_on_purpose"
COMMANDS = (
    ("check",),
    ("check", "--profile", "strict"),
    ("check", "--profile", "bitwise", "--lang", "zh"),
    ("report", "--report", "json,csv,html,md,github,gitlab"),
)
# What only some runs write, as docs/reference/results_json.md has it.
RARE: dict[str, Any] = {
    "source": {"file": "net.py", "line": 3, "text": "x = self.conv(x)"},
    "pair_note": "a view keeps its input's shape in the dump",
    "kernel_args": {
        "left": {"file": "a.json", "values": {"pad": "same"}},
        "right": {"file": "b", "note": "is cut"},
    },
    "differing_arguments": [{"kind": "argument", "name": "pad", "left": "same", "right": None}],
    "file_remarks": [
        {"code": "trailing_bytes", "parameters": {"side": "left", "bytes": 3}},
        {"code": "shape_from_graph", "parameters": {"side": "right", "stored": [216], "used": [2, 108]}},
        {"code": "coarser_values", "parameters": {"side": "left", "dtype": "float32", "values": "bfloat16"}},
    ],
    "custom": {"MyAlg": {"value": "1", "message": ""}},
    "total_elements": 4096,
    "known_drift": "exp approximation",
    "amplification": 3.5,
}
STATISTICS: dict[str, Any] = {
    "unseen": ["left"],
    "compared": ["maximum", "l2_norm"],
    "elements": 24,
    "left": {"maximum": 1.5, "l2_norm": "NaN", "negative_count": 0, "md5": None},
    "right": {"maximum": 1.25, "l2_norm": 3.0, "negative_count": 0, "md5": "0" * 32},
    "digits": {"left": 6, "right": None},
    "at_least": {"max_absolute_error": 0.25},
    "equal_bits": None,
    "note": "",
}


def compact(results: dict[str, Any]) -> dict[str, Any]:
    """A document with one record of each kind, so that all places of it can be edited."""
    kinds = {(frozenset(one), one["verdict"], bool(one["metrics"])): one for one in reversed(results["tensors"])}
    unmatched = sorted(results["unmatched"], key=lambda one: -len(one.get("suggestions", ())))
    shorter = {"tensors": list(kinds.values())[:4], "unmatched": unmatched[:2], "missing": results["missing"][:1]}
    network = {"network": results["network"][:2]} if "network" in results else {}
    return recounted({**results, **shorter, **network})


def saved(directory: Path, *words: str) -> dict[str, Any]:
    assert main(["compare", *words, "--report-dir", str(directory), "--quiet"]) == 1
    return compact(read_json(directory / "results.json"))


def as_in_the_file(directory: Path) -> dict[str, Any]:
    """The same, with what is left out of the file left out."""
    return compact(json.loads((directory / "results.json").read_bytes()))


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Results of real runs, and one with all that is rare."""
    folder = tmp_path_factory.mktemp("results")
    golden = DATA / "ascend_golden" / "a_fusion_nchw"
    fused = (str(golden / "left"), str(golden / "right"), "--fusion", str(golden / "fusion.json"))
    failing = saved(folder / "failing", "--config", str(EXAMPLE / "msdump.toml"), "--spread", "all", "--suggest")
    rare = edited(failing, ("tensors", 0), {**failing["tensors"][0], **RARE})
    unseen = {**samples.entry(samples.unreadable()), "verdict": "undefined", "statistics": STATISTICS}
    unseen["left"]["dtype"] = unseen["right"]["dtype"] = "float32"
    rare["tensors"].append(unseen)
    fusing = saved(folder / "fused", *fused, "--spread", "failing", "--suggest")
    return [failing, fusing, recounted(rare), as_in_the_file(folder / "failing"), as_in_the_file(folder / "fused")]


def answer(results: Any, words: tuple[str, ...], folder: Path) -> int:
    """Ask the command; anything but an answer raises."""
    file = folder / "results.json"
    file.write_text(json.dumps(results), "ascii")
    out = ("--out", str(folder / "out")) if words[0] == "report" else ()
    return main([words[0], str(file), *words[1:], *out])


def edits(document: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every kind of place with every value, once."""
    places = {pattern(path): path for path in paths(document)}
    return ((path, value) for path in places.values() for value in HOSTILE)


def refusal(results: Any) -> str | None:
    try:
        report_from(results, place="r.json")
    except ConfigError as error:
        return str(error)
    return None


def test_what_was_saved_is_answered_for(documents: list[Any], tmp_path: Path) -> None:
    for document in documents:
        assert [answer(document, words, tmp_path) for words in COMMANDS] == [1, 1, 1, 0]


@pytest.mark.full
def test_a_value_of_another_kind_is_refused_by_its_place(documents: list[Any]) -> None:
    refused = 0
    for document in documents:
        for path, value in edits(document):
            said = refusal(recounted(edited(document, path, value)))
            refused += said is not None
            assert said is None or (said.startswith("r.json: ") and "\n" not in said and len(said) < 400), said
            assert said is None or value is not DELETED or isinstance(path[-1], int) or path[-1] in said
    assert refused > 10_000


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.full
def test_what_is_not_refused_is_judged_and_drawn(
    documents: list[Any], seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = random.Random(seed)
    answers = set()
    for document in documents:
        for path, value in chosen.sample(list(edits(document)), 60):
            results = recounted(edited(document, path, value))
            for words in COMMANDS:
                code = answer(results, words, tmp_path)
                answers.add(code)
                said = capsys.readouterr()
                if code == 4:
                    assert said.out == ""
                    assert said.err.count("\n") == 1
    assert answers == {0, 1, 4}


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text('{"schema_version": 1, "profile": "default", "profile": "strict"}')
    assert main(["check", str(tmp_path / "r.json")]) == 4
    assert "'profile' is there twice" in capsys.readouterr().err


@pytest.mark.parametrize("directory", ["a\0b", "nosuch://bucket/x", "x" * 5000, ""])
def test_sides_that_are_not_here_are_no_reason_not_to_judge_again(
    documents: list[Any], directory: str, tmp_path: Path
) -> None:
    elsewhere = edited(documents[0], ("left", "directory"), directory)
    assert answer(elsewhere, ("check", "--profile", "strict"), tmp_path) == 1


def test_keys_of_a_later_release_are_left_alone(documents: list[Any], tmp_path: Path) -> None:
    later = {"later": {"deep": [[{"x": None}]]}}
    for path in (("left",), ("tensors", 0), ("tensors", 0, "left"), ("coverage",)):
        holder = documents[0]
        for step in path:
            holder = holder[step]
        with suppress(AssertionError):
            assert answer(edited(documents[0], path, {**holder, **later}), ("check",), tmp_path) == 1
            continue
        pytest.fail(f"{path}: refused")


@pytest.mark.parametrize("verdict", ["pass", "warn"])
def test_a_pass_without_numbers_is_no_pass(documents: list[Any], verdict: str) -> None:
    record = documents[0]["tensors"][0]
    bare = {key: value for key, value in record.items() if key not in ("statistics", "finite", "differing")}
    bare |= {"verdict": verdict, "elements": None, "findings": [], "checks": []}
    with pytest.raises(ConfigError, match=f"the verdict is {verdict}, but nothing was measured"):
        report_from(recounted(edited(documents[0], ("tensors", 0), bare)))

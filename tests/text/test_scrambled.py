"""No decision reads a sentence: with catalogues that hold codes alone, everything but the sentences is the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from plugin.suites import write_suite

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.text.phrases import catalogue

TESTS = Path(__file__).parents[1]
DATA, EXAMPLES = TESTS / "data", TESTS.parent / "example_suites"
GOLDEN = DATA / "ascend_golden"
CODES = {code: code for code in catalogue("en")}

# What people read, and its parameters, which may hold what another program printed; the rest is for programs.
SENTENCES = {"sentence", "reason", "evidence", "note", "notes", "pair_note", "role_reason", "why", "by", "overflows"}


def corpus() -> Iterator[tuple[str, list[str]]]:
    """Comparisons with drift, fusion, quantisation, damage, overflow, repeats, and what was not dumped."""
    for name in ("04_ascend_fused_conv", "05_quantised"):
        place = EXAMPLES / name
        quant = ["-q", f"{place / 'quant.json'}"] if (place / "quant.json").exists() else []
        yield name, ["-l", f"{place / 'run'}", "-r", f"{place / 'reference'}", "-f", f"{place / 'fusion.json'}", *quant]
    for name in ("01_lenet_port", "02_failing_on_purpose"):
        yield name, ["--config", f"{EXAMPLES / name / 'msdump.toml'}"]
    for case in sorted(GOLDEN.iterdir()):
        # Without the algorithm of its user there is nothing to compare in k_custom_alg.
        if (case / "left").is_dir() and (case / "right").is_dir() and case.name != "k_custom_alg":
            rules = [("-f", "fusion.json"), ("-q", "quant.json")]
            given = [word for flag, file in rules if (case / file).exists() for word in (flag, f"{case / file}")]
            yield case.name, ["-l", f"{case / 'left'}", "-r", f"{case / 'right'}", *given]
    trees = DATA / "generations"
    for one, other in (("g3", "g4"), ("g1", "g2"), ("g6_bin", "g6_npy"), ("g7_bin", "g7_npy"), ("g5", "g4")):
        yield f"{one}-{other}", [f"{trees / one}", f"{trees / other}", "--io", "all"]
    for name in ("rerun_same_dir", "while_loop", "bf16"):
        yield name, [f"{DATA / 'hazards' / name}", f"{DATA / 'lenet' / 'reference'}"]
    for bad in ("target_bad", "target_bad2"):
        yield bad, [f"{DATA / 'lenet' / bad}", f"{DATA / 'lenet' / 'target'}", "--io", "all", "--profile", "bitwise"]


def without_sentences(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_sentences(one) for key, one in value.items() if key not in SENTENCES}
        # Among their names, "3 operators before conv4" is a phrase; role_why has it in parts.
        if "role_why" in value:
            del kept["suspects"]
        # Metric → why it has no number: which metrics these are counts, and the code beside it.
        named = ("undefined", "not_applicable")
        return {key: sorted(one) if key in named and isinstance(one, dict) else one for key, one in kept.items()}
    return [without_sentences(one) for one in value] if isinstance(value, list) else value


def compared(words: list[str], folder: Path) -> tuple[int, Any]:
    """The exit code and all that results.json holds for programs."""
    code = main(["compare", *words, "--report-dir", str(folder), "--report", "json"])
    file = folder / "results.json"
    if not file.exists():
        return code, None
    found = read_json(file)
    # Date and command.
    del found["run"]
    return code, without_sentences(found)


def scramble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_msdump.core.text.phrases.CATALOGUES", {"en": CODES, "zh": CODES})


def same_both_ways(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: tuple[str, ...]
) -> tuple[int, Any]:
    usual = compared(words, tmp_path / "usual")
    saved = tmp_path / "usual" / "results.json"
    judged = main(["check", str(saved), *again]) if saved.exists() else None
    scramble(monkeypatch)
    assert compared(words, tmp_path / "scrambled") == usual
    saved = tmp_path / "scrambled" / "results.json"
    assert (main(["check", str(saved), *again]) if saved.exists() else None) == judged
    return usual


@pytest.mark.parametrize(("name", "words"), list(corpus()), ids=[name for name, _ in corpus()])
def test_verdicts_roles_and_coverage_do_not_depend_on_any_sentence(
    name: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, values = same_both_ways(words, tmp_path, monkeypatch, ("--profile", "bitwise"))
    assert code in (0, 1), name
    assert values["tensors"] or values["unmatched"] or values["missing"]


def test_what_junit_holds_does_not_depend_on_any_sentence(
    pytester: pytest.Pytester, lenet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = DATA / "localising" / "target_bad" / "ms_output_trace_code_graph_0.ir"
    suite = write_suite(pytester.path / "msdump.toml", lenet, "target_bad", extra=f"graph_files = ['{graph}']")
    found = []
    for file in ("usual.xml", "scrambled.xml"):
        result = pytester.runpytest(suite, f"--junitxml={file}")
        result.assert_outcomes(failed=7, passed=4)
        cases = ElementTree.parse(pytester.path / file).getroot().iter("testcase")
        found.append(
            {
                case.attrib["name"]: (
                    [child.tag for child in case],
                    sorted(
                        (one.attrib["name"], one.attrib["value"])
                        for one in case.iter("property")
                        if one.attrib["name"] != "msdump.finding"
                    ),
                )
                for case in cases
            }
        )
        scramble(monkeypatch)
    assert found[0] == found[1]
    assert any(("msdump.role", "cause") in properties for _, properties in found[0].values())

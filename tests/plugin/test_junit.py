"""JUnit XML: each case has its few properties, and a failing one the role that only the whole run tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from plugin.suites import write_suite
from report import samples

from pytest_msdump.core.model.comparison import Finding, Verdict
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.text import plain_text
from pytest_msdump.plugin.junit import _add, _roles, properties

GRAPH = Path(__file__).parents[1] / "data" / "localising" / "target_bad" / "ms_output_trace_code_graph_0.ir"
CONV2, RELU2 = "Default/conv2-Conv2d/BiasAdd-op0", "Default/relu2-ReLU/ReLU-op0"
WORKERS = [(), ("-n2",), ("-o", "junit_family=xunit1", "-o", "junit_duration_report=call")]


@pytest.fixture
def suite(pytester: pytest.Pytester, lenet: Path) -> Path:
    return write_suite(pytester.path / "msdump.toml", lenet, "target_bad", extra=f"graph_files = ['{GRAPH}']")


def cases(file: Path) -> dict[str, dict[str, str]]:
    found = {}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        listed = [(one.attrib["name"], one.attrib["value"]) for one in case.iter("property")]
        assert len(dict(listed)) == len(listed)
        assert len(case.findall("properties")) <= 1
        found[case.attrib["name"]] = dict(listed)
    return found


@pytest.mark.e2e
@pytest.mark.parametrize("how", WORKERS)
def test_roles_are_in_the_file(pytester: pytest.Pytester, suite: Path, how: tuple[str, ...]) -> None:
    pytester.runpytest_subprocess(suite, "--junitxml=junit.xml", *how).assert_outcomes(failed=7, passed=4)
    root = ElementTree.parse(pytester.path / "junit.xml").getroot().find("testsuite")
    assert root is not None
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("11", "7", "0")
    messages = {
        case.get("name"): one.get("message", "") for case in root.iter("testcase") for one in case.iter("failure")
    }
    started, measured = messages[CONV2].split("; DRIFT ")
    assert started.startswith(f"cause {CONV2} (ms_side.py:36): bounded: ")
    assert measured.startswith(f"{CONV2}:output:0 [ms_side.py:36]: cosine_similarity 0.390511 is below")
    assert not any(one.startswith("cause") for name, one in messages.items() if name != CONV2)
    found = cases(pytester.path / "junit.xml")
    assert (found[CONV2]["msdump.role"], found[CONV2]["msdump.verdict"]) == ("cause", "fail")
    assert float(found[CONV2]["msdump.cosine"]) == pytest.approx(0.390510547323438)
    assert found[CONV2]["msdump.finding"].startswith("cosine_similarity 0.390511 is below 0.999 (profile default")
    assert "msdump.causes" not in found[CONV2]
    assert (found[RELU2]["msdump.role"], found[RELU2]["msdump.causes"]) == ("inherited", f"{CONV2}:output:0")
    assert sum("msdump.role" in case for case in found.values()) == 7
    passing = [case for case in found.values() if case.get("msdump.verdict") == "pass"]
    assert len(passing) == 3
    assert not any({"msdump.role", "msdump.finding"} & set(case) for case in passing)


def test_other_tests_of_the_run_are_left_alone(pytester: pytest.Pytester, suite: Path) -> None:
    pytester.makepyfile("def test_one(record_property):\n    record_property('mine', 1)\n    assert 0\n")
    family = ("-o", "junit_family=xunit1")
    pytester.runpytest(pytester.path, "--junitxml=junit.xml", *family).assert_outcomes(failed=8, passed=4)
    assert suite.is_file()
    assert cases(pytester.path / "junit.xml")["test_one"] == {"mine": "1"}


def failing(role: str | None = None, *causes: str) -> Record:
    return replace(samples.drifted(), role=role, causes=causes)


def with_findings(*findings: Finding) -> Record:
    return replace(samples.drifted(), verdict=Verdict("fail", findings))


def test_an_items_role_is_its_gravest() -> None:
    records = [failing("inherited", "a:output:0"), failing("cause"), failing()]
    assert dict(_roles(records)) == {"msdump.role": "cause", "msdump.causes": "a:output:0"}
    assert list(_roles([failing()])) == []


def test_what_is_told_is_short_and_fit_for_xml() -> None:
    causes = [f"{'x' * 400}\0\n\x1b{number}" for number in range(9)]
    told = dict(_roles([failing("inherited", *causes)]))["msdump.causes"]
    assert told.isprintable()
    assert len(told) < 320
    assert told.endswith("… and 6 more")
    said = dict(properties([with_findings(Finding("fail", plain_text("\udc80\x00" * 400)))]))["msdump.finding"]
    assert isinstance(said, str)
    assert len(said) == 300
    assert said.startswith("\\udc80\\x00")


def test_a_finished_case_without_properties_gets_them() -> None:
    element = ElementTree.Element("testcase")

    class Finished:
        def to_xml(self) -> ElementTree.Element:
            return element

    _add(Finished(), "msdump.role", "cause")
    _add(Finished(), "msdump.causes", "a")
    assert [one.attrib["value"] for one in element.findall("properties/property")] == ["cause", "a"]


def test_a_case_that_was_never_finished_gets_them_when_it_is_written() -> None:
    told = []

    class Open:
        def to_xml(self) -> ElementTree.Element:
            return ElementTree.Element("testcase")

        def add_property(self, name: str, value: str) -> None:
            told.append((name, value))

    _add(Open(), "msdump.role", "cause")
    assert told == [("msdump.role", "cause")]

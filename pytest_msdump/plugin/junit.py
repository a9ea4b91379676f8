"""What JUnit XML gets of an item: a few numbers at once, and its role when all items are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from _pytest.junitxml import xml_key

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.report.coverage import first_failing
from pytest_msdump.core.report.shown import label_of, with_causes_first
from pytest_msdump.core.text import ENGLISH, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pytest

    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.core.text import Phrases

# Few and short: validators and viewers of JUnit files choke on more.
_METRICS = ("cosine_similarity", "max_absolute_error", "relative_euclidean_distance")
_MOST_CAUSES = 3
_LONGEST = 300


def properties(records: Iterable[Record]) -> Iterator[tuple[str, object]]:
    """Yield what is known when an item has run, about its first failing tensor, else about its first one."""
    listed = list(records)
    shown = first_failing(listed) or listed[0]
    yield "msdump.verdict", shown.verdict.outcome
    if shown.statistics is not None:
        yield "msdump.unseen", ", ".join(shown.statistics.unseen)
    for metric in _METRICS:
        if metric in shown.metrics:
            value = encode(shown.metrics[metric])
            yield f"msdump.{METRICS[metric].short}", f"~{value}" if metric in shown.estimates else value
    if shown.fails:
        sentences = [one.sentence for one in shown.verdict.findings if one.outcome == shown.verdict.outcome]
        yield from (("msdump.finding", _short(sentence)) for sentence in sentences[:1])


def case_of(config: pytest.Config, report: pytest.TestReport) -> Any:
    """Return the test case that JUnit XML will have of an item, or ``None`` when none is written."""
    xml = config.stash.get(xml_key, None)
    return None if xml is None else xml.node_reporter(report)


def add_roles(cases: Iterable[tuple[tuple[str, Sequence[int]], Any]], report_of: Mapping[str, Report]) -> None:
    """Add the role to each failing test case: it is known only now, and the file is not yet written."""
    for (digest, numbers), case in cases:
        report = report_of.get(digest)
        if report is not None:
            records = [report.records[number] for number in numbers]
            say = ENGLISH.calling(report.left.shown)
            for name, value in _roles(records, say):
                _add(case, name, value)
            for record in [one for one in records if one.role == "cause"][:1]:
                _lead(case, record, say)


def _roles(records: Iterable[Record], say: Phrases = ENGLISH) -> Iterator[tuple[str, str]]:
    failing = with_causes_first(record for record in records if record.role is not None)
    if not failing:
        return
    yield "msdump.role", failing[0].role or ""
    causes = list(dict.fromkeys(say.name(cause) for record in failing for cause in record.causes))
    if causes:
        more = f" and {len(causes) - _MOST_CAUSES} more" if len(causes) > _MOST_CAUSES else ""
        yield "msdump.causes", _short(", ".join(causes[:_MOST_CAUSES])) + more


def _lead(case: Any, record: Record, say: Phrases) -> None:
    """Let the message of a failure begin with what started it: module, source line, region."""
    source = record.line
    place = f" ({source.file.rpartition('/')[2]}:{source.line})" if source is not None else ""
    failure = case.to_xml().find("failure")
    if failure is not None:
        about = _short(f"cause {label_of(record, say)}{place}: {record.role_reason}")
        failure.set("message", f"{about}; {failure.get('message', '')}")


def _add(case: Any, name: str, value: str) -> None:
    """Add a property. A case that is finished only keeps its element, and returns the same one at every call."""
    element = case.to_xml()
    if element is not case.to_xml():
        case.add_property(name, value)
        return
    found = element.find("properties")
    if found is None:
        found = ElementTree.Element("properties")
        element.insert(0, found)
    found.append(ElementTree.Element("property", name=name, value=value))


def _short(text: str) -> str:
    plain = terminal_text(text)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"

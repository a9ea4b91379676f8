"""Which failures are shown in full, which on a line each, in which order, and what such a line says."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.facts.metrics import METRICS, title_of
from pytest_msdump.core.model.comparison import Finding
from pytest_msdump.core.model.describe import beside, number
from pytest_msdump.core.model.record import OF_IDS, Record
from pytest_msdump.core.model.tensor import COORDINATES
from pytest_msdump.core.text import ENGLISH, Phrases

Key = TypeVar("Key")
Label: TypeAlias = Callable[[Record], str]

_ORDER = ("cause", "unknown", "accumulated", "inherited")
_NO_DRIFT = {"uncompared_occurrences", "dtypes_must_be_equal", "file_not_accepted"}
_FEW_DIGITS = 3
_MOST_IN_FULL = 5
_MOST_LINES = 20


def with_causes_first(records: Iterable[Record]) -> list[Record]:
    """Sort failing records: causes, then unknown ones, then what is inherited; each in execution order."""
    return sorted(records, key=lambda record: _ORDER.index(record.role or "unknown"))


def is_inherited(record: Record) -> bool:
    """Whether a failure came from another one that fails."""
    return bool(record.causes) and (record.role_why is None or record.role_why.why != "within")


def choose_shown(failing: Mapping[Key, Sequence[Record]], show: str) -> tuple[list[Key], list[Key], int]:
    """Choose which failing operators are shown in full, which on a line each, and how many more there are.

    Causes are first. What came from others that fail is counted with its cause, unless `show` asks for it.
    """
    ranked = sorted(failing, key=lambda one: min(_ORDER.index(record.role or "unknown") for record in failing[one]))
    if show == "all":
        return list(failing), [], 0
    causes = [one for one in ranked if any(record.role == "cause" for record in failing[one])]
    whole = causes[:_MOST_IN_FULL] or ranked[:1]
    rest = ranked[len(whole) :]
    if show == "failing":
        return whole, rest, 0
    own = [one for one in rest if not all(map(is_inherited, failing[one]))]
    return whole, own[:_MOST_LINES], len(own[_MOST_LINES:])


def short_reason(failing: Sequence[Record], say: Phrases = ENGLISH) -> str:
    """Return why an operator fails, and what caused it, briefly: ``cosine 0.734 < 0.999; cause: conv2``."""
    first = with_causes_first(failing)[0]
    text = short_finding(first, say)
    if len(failing) > 1:
        text = say("more_of_operator", line=text, n=len(failing) - 1)
    causes = list(dict.fromkeys(cause for record in failing for cause in record.causes))
    if not causes and first.role == "cause":
        causes = [first.left.address]
    if causes:
        names = say.named((operator_of(cause, say) for cause in causes), 1)
        text = say.joined((text, say("short_cause", names=names)), "between_clauses")
    return text


def verdict_word(record: Record, say: Phrases = ENGLISH) -> str:
    """Return the verdict as the first word of a text: a drift only where what was compared differs."""
    verdict = record.verdict
    codes = {one.message.code for one in verdict.findings if one.outcome == verdict.outcome}
    return say("NO_DRIFT" if verdict.outcome == "fail" and codes and codes <= _NO_DRIFT else verdict.outcome.upper())


def short_finding(record: Record, say: Phrases = ENGLISH) -> str:
    """Return the first of what decides a verdict, briefly: ``cosine 0.734 < 0.999``."""
    verdict = record.verdict.outcome
    found = (_briefly(one, say, record.estimates) for one in record.verdict.findings if one.outcome == verdict)
    return next(found, verdict_word(record, say))


def _briefly(finding: Finding, say: Phrases, estimates: Container[str]) -> str:
    """Return a value beyond its limit with the metric's short name, marked where it is estimated; else the sentence."""
    fact, value, limit = METRICS.get(finding.metric or ""), finding.value, finding.limit
    if (
        fact is None
        or finding.message.code in OF_IDS
        or value is None
        or limit is None
        or not (value < limit if fact.direction == "high" else value > limit)
    ):
        return terminal_text(say.of(finding.message))
    shown, bound = number(value, _FEW_DIGITS), number(limit, _FEW_DIGITS)
    if shown == bound or " - " in shown + bound:
        shown, bound = beside(value, limit)
    shown = f"~{shown}" if finding.metric in estimates else shown
    name = fact.short or finding.metric if say.is_english else title_of(finding.metric or "", say.language)
    return f"{name} {shown} {'<' if fact.direction == 'high' else '>'} {bound}"


def labeller(records: Iterable[Record], say: Phrases = ENGLISH) -> Label:
    """Return a function that names a record's operator, and where in the run it is if there it is more than once."""
    parts = {record.left.at.part for record in records}
    varying = [name for name in COORDINATES if len({getattr(part, name) for part in parts}) > 1]

    def label(record: Record) -> str:
        named = [(name, getattr(record.left.at, name)) for name in varying]
        where = say.joined(f"{name} {value}" for name, value in named if value is not None)
        name = label_of(record, say)
        return say("in_brackets", text=name, aside=where) if where else name

    return label


def label_of(record: Record, say: Phrases = ENGLISH) -> str:
    """Return the left operator of a record as it is shown, safe for a terminal."""
    return operator_of(record.left.address, say)


def operator_of(address: str, say: Phrases = ENGLISH) -> str:
    """Return the operator of an address as it is shown, safe for a terminal."""
    parts = address.rsplit(":", 2)
    return terminal_text(say.name(parts[0] if len(parts) == 3 and parts[1] in ("input", "output") else address))


def shown_title(record: Record, say: Phrases = ENGLISH, *, has_own_name: bool = False) -> str:
    """Return what a record is of, as it is shown, safe for a terminal; its own name may stand behind that."""
    own = record.left.address.rsplit(":", 2)[0]
    title = say.name(own) + record.title[len(own) :]
    return terminal_text(say("in_brackets", text=title, aside=own) if has_own_name and own in say.shown else title)

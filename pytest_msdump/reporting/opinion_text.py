"""What judging says of a pair, as it stands in its record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from pytest_msdump.model.report import CheckRow
from pytest_msdump.model.verdict import Finding, Limits, Verdict
from pytest_msdump.reporting.values import dumps, encode, filled, form_text, text_json

__all__ = ["OPINION", "opinion_text"]

# The keys of its sections.
OPINION = (("would_pass", "findings"), ("checks",), ("judged_as", "nan", "known_drift", "notes"))

# What is alike in the pairs of a network is written once.
_ALIKE = 1024


def opinion_text(verdict: Verdict, limits: Limits, checks: Sequence[CheckRow]) -> tuple[str, ...]:
    """Return the last keys of a record, in the sections of `OPINION`.

    Parameters
    ----------
    verdict, limits, checks
        Of a `Record`.
    """
    return (
        _findings(verdict),
        _checks(checks) if checks else '"checks": []',
        _policy(limits.judged_as, limits.nan, limits.known_drift, limits.notes),
    )


def _findings(verdict: Verdict) -> str:
    """The sentences, and what would have let it pass."""
    findings = verdict.findings
    if verdict.would_pass or any(one.value is not None or one.limit is not None for one in findings):
        told = ", ".join([dumps(_told(one)) for one in findings])
        passing = {metric: encode(bound) for metric, bound in verdict.would_pass.items()}
        return f'"would_pass": {dumps(passing)}, "findings": [{told}]'
    return _notes(tuple([(one.outcome, one.metric, one.rule, one.sentence, one.code) for one in findings]))


def _told(finding: Finding) -> dict[str, Any]:
    """One sentence with its numbers."""
    return {
        "outcome": finding.outcome,
        "metric": finding.metric,
        "value": encode(finding.value),
        "limit": encode(finding.limit),
        "rule": finding.rule,
        "sentence": finding.sentence,
        **({"code": finding.code} if finding.code else {}),
    }


# 0 is equal to 0.0, and written otherwise: only sentences without numbers are looked up.
@lru_cache(maxsize=_ALIKE)
def _notes(found: tuple[tuple[str, str | None, str | None, str, str | None], ...]) -> str:
    """The section of findings without numbers."""
    told = [
        _told(Finding(outcome, sentence, metric, rule=rule, code=code))
        for outcome, metric, rule, sentence, code in found
    ]
    return f'"would_pass": {{}}, "findings": {dumps(told)}'


def _checks(checks: Sequence[CheckRow]) -> str:
    """The table of limits."""
    metrics, values, limits, *words = zip(*checks, strict=True)
    # Limits that are equal may print otherwise, as 0, 0.0 and -0.0 do: they are numbers of the record as well.
    return filled(_check_form(metrics, *words), tuple(chain.from_iterable(zip(values, limits, strict=True))))


@lru_cache(maxsize=_ALIKE)
def _check_form(
    metrics: tuple[str, ...],
    levels: tuple[str | None, ...],
    rules: tuple[str | None, ...],
    outcomes: tuple[str, ...],
) -> str:
    """The section of checks with a ``%s`` for each value and each limit."""
    lines = []
    for metric, level, rule, outcome in zip(metrics, levels, rules, outcomes, strict=True):
        about = f'"level": {text_json(level)}, "rule": {text_json(rule)}, "outcome": {text_json(outcome.lower())}}}'
        lines.append(f'{{"metric": "{metric}", "value": %s, "limit": %s, {form_text(about)}')
    return f'"checks": [{", ".join(lines)}]'


@lru_cache(maxsize=_ALIKE)
def _policy(judged_as: str, nan: str, known_drift: str | None, notes: tuple[str, ...]) -> str:
    """What the pair was judged by."""
    return (
        f'"judged_as": {text_json(judged_as)}, "nan": {text_json(nan)}, '
        f'"known_drift": {text_json(known_drift)}, "notes": {dumps(notes)}'
    )

"""What judging says, as it stands in a record."""

from __future__ import annotations

import json

import pytest

from pytest_msdump.model.report import Check
from pytest_msdump.model.verdict import Finding, Limit, Limits, Verdict
from pytest_msdump.reporting.opinion_text import opinion_text


@pytest.mark.parametrize("rule", ["profile default", "100 % s", "%s %%s %%%s", 'a "%d" \\ ü\n'])
@pytest.mark.parametrize("bounds", [(), (0.5,), (0, 0.0, -0.0, 1e300)])
def test_names_of_rules_are_written_as_they_are(rule: str, bounds: tuple[float, ...]) -> None:
    noted = Verdict("pass", (Finding("note", "100 %s of 5 % are 5 %%", rule=rule),))
    limits = Limits(tuple(Limit("cosine_similarity", bound, rule) for bound in bounds), notes=(rule,))
    checks = [Check("cosine_similarity", 1.25 + place, bound, "fail", rule, "ok") for place, bound in enumerate(bounds)]
    written = json.loads(f"{{{', '.join(opinion_text(noted, limits, checks))}}}")
    assert [(finding["sentence"], finding["rule"]) for finding in written["findings"]] == [
        ("100 %s of 5 % are 5 %%", rule)
    ]
    assert [(row["value"], repr(row["limit"]), row["rule"]) for row in written["checks"]] == [
        (check.value, repr(check.limit), rule) for check in checks
    ]
    assert written["notes"] == [rule]

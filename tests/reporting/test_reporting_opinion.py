"""What judging says, once for all pairs of which it is the same."""

from __future__ import annotations

import pytest

from pytest_msdump.model.report import Check
from pytest_msdump.model.verdict import Finding, Limit, Limits, Verdict
from pytest_msdump.reporting.opinion_text import opinion_form, opinion_text
from pytest_msdump.reporting.values import filled

NOTED = Verdict("pass", (Finding("note", "100 %s of 5 % are 5 %%", rule='"%d"'),))


@pytest.mark.parametrize("rule", ["profile default", "100 % s", "%s %%s %%%s", 'a "%d" \\ ü\n'])
@pytest.mark.parametrize("bounds", [(), (0.5,), (0, 0.0, -0.0, 1e300)])
def test_a_form_is_filled_to_what_is_said_of_each(rule: str, bounds: tuple[float, ...]) -> None:
    limits = Limits(tuple(Limit("cosine_similarity", bound, rule) for bound in bounds), notes=("5 %s",))
    values = [1.25 + place for place in range(len(bounds))]
    checks = [
        Check("cosine_similarity", value, bound, "fail", rule, "ok")
        for value, bound in zip(values, bounds, strict=True)
    ]
    forms = opinion_form(NOTED, limits, checks)
    assert [form.replace("%%", "").count("%s") for form in forms] == [0, len(bounds), 0]
    places = ((), tuple(values), ())
    assert tuple(map(filled, forms, places)) == opinion_text(NOTED, limits, checks)

"""What a stage, or a hook, may make of a record: nothing better, nothing less, nothing else measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_msdump.core.limits.judge import ClearedVerdictError, only_worse
from pytest_msdump.core.model.comparison import Finding, Verdict
from pytest_msdump.core.model.record import Check, Record, ReportedTensor
from pytest_msdump.core.text import plain_text

FINDING = Finding("fail", plain_text("0.02 > 0.01"))
SIDE = ReportedTensor("relu:output:0", "relu.npy")
BEFORE = Record(3, SIDE, SIDE, Verdict("fail", (FINDING,)), "name", parts={"owners": 1})
NOT_RUN = replace(BEFORE, verdict=Verdict("not_run"))


def saying(outcome: str, *more: Finding) -> Verdict:
    return Verdict(outcome, (FINDING, *more))


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        replace(BEFORE, verdict=saying("fail", Finding("note", plain_text("ACC-412")))),
        replace(BEFORE, verdict=saying("error")),
        replace(BEFORE, parts={"owners": 1, "tickets": 2}, role="cause", notes=(plain_text("ACC-412"),)),
    ],
)
def test_notes_parts_and_worse_verdicts_are_taken(after):
    assert only_worse(BEFORE, after, by="x") is after


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BEFORE, replace(BEFORE, verdict=saying("pass")), "made pass of fail"),
        (BEFORE, replace(BEFORE, verdict=saying("warn")), "made warn of fail"),
        (BEFORE, replace(BEFORE, verdict=saying("not_run")), "made not_run of fail"),
        (NOT_RUN, replace(NOT_RUN, verdict=Verdict("pass")), "made pass of not_run"),
        (BEFORE, replace(BEFORE, verdict=Verdict("fail")), "changed the findings"),
        (BEFORE, replace(BEFORE, parts={}), "changed owners"),
        (BEFORE, replace(BEFORE, parts={"owners": 2}), "changed owners"),
        (BEFORE, replace(BEFORE, checks=(Check("max_absolute_error", 1, 2, "fail", "x", "ok"),)), "changed checks"),
        (BEFORE, replace(BEFORE, right=SIDE._replace(file="other.npy")), "changed right"),
    ],
)
def test_whatever_clears_is_refused_by_name(before, after, said):
    with pytest.raises(ClearedVerdictError, match=f"^capability owners {said} for relu:output:0"):
        only_worse(before, after, by="capability owners")

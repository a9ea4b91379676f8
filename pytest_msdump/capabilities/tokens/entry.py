"""Says which entry compares token by token what two runs padded, or cut into steps, in other ways."""

from __future__ import annotations

from dataclasses import replace

from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import Planned
from pytest_msdump.core.text import Message, say

_CODE = "one_length_differs"


def with_entry(report: Report, plan: Planned) -> Report:
    """Return the report with a note that has the entry, where one was found that works."""
    if _CODE not in {finding.message.code for record in report.records for finding in record.verdict.findings}:
        return report
    # Loaded for what fails alone.
    from pytest_msdump.capabilities.tokens.same_tokens import entry_of

    tokens = entry_of({"left": plan.left, "right": plan.right})
    if tokens is None:
        return report
    keys = [f'tokens.ids = "{tokens.ids}"']
    if tokens.pad is not None:
        keys.append(f"tokens.pad = {tokens.pad}")
    if tokens.steps is not None:
        keys.append(f'tokens.steps = "{tokens.steps}"')
    return replace(report, notes=(*report.notes, say(Message("tokens_entry", {"keys": tuple(keys)}))))

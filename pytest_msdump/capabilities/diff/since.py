"""``--msdump-compare-to``: what became better and worse since an earlier run, beside the verdict of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_msdump.capabilities.diff.difference import Difference, difference
from pytest_msdump.capabilities.diff.saved import Result, read_result, result_of
from pytest_msdump.capabilities.diff.shown import lines, verdict
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import Planned
from pytest_msdump.core.report.base import Summariser
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.suite.keys import PlacedPath
from pytest_msdump.core.text import Message, Phrases

_NAME = "diff"
# More rows are not kept; `msdump diff` has them all.
_MOST_KEPT = 200
_MOST_SHOWN = 3


def earlier(placed: PlacedPath) -> Result:
    """Read the earlier result before this run replaces it."""
    try:
        return replace(read_result(placed.path), name=placed.text)
    except ConfigError as error:
        raise ConfigError(f"{placed.where}: {error}") from None


def with_difference(report: Report, plan: Planned) -> Report:
    """Return the report with what became of its tensors since."""
    found = difference(plan.suite.options["compare_to"], result_of(report))
    return replace(report, parts={**report.parts, _NAME: replace(found, tensors=found.tensors[:_MOST_KEPT])})


def _found(report: Report) -> Difference | None:
    part = report.parts.get(_NAME)
    return part if isinstance(part, Difference) else None


class SummarisedDifference(Summariser):
    """What became better and worse, behind what started the failures."""

    def summary_lines(self, report: Report, *, width: int, unfolded: bool, say: Phrases, **_: object) -> Sequence[str]:
        """Return the outcome, and the worst tensors."""
        found = _found(report)
        if found is None:
            return ()
        head = say("diff_since", file=terminal_text(found.before), verdict=verdict(found, say))
        most = None if unfolded else _MOST_SHOWN
        return [*hanging(head, width), *(f"  {line}" for line in lines(found, width=width - 2, say=say, most=most))]


def section(report: Report) -> tuple[Message, list[tuple[Message | str, ...]]] | None:
    """Return the section of the page: a row for each tensor that is not as before."""
    found = _found(report)
    if found is None:
        return None
    rows: list[tuple[Message | str, ...]] = [(Message.of_entry(one),) for one in found.reasons]
    for row in found.tensors:
        name = f"{row['left']} {row['at']}".strip()
        why = "" if row["why"] is None else Message.of_entry(row["why"])
        kind = Message(f"diff_title_{row['kind']}")
        rows.append((kind, name, row["before"] or "–", row["after"] or "–", why))
    return Message("diff_page", {"file": found.before}), rows

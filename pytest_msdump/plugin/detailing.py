"""Details as an artefact of failing items: ``--msdump-detail``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_msdump.model.record import Record
from pytest_msdump.pipeline.planning import Plan
from pytest_msdump.plugin.sources import Source
from pytest_msdump.plugin.telling import report_directory, shown_path

if TYPE_CHECKING:
    from pytest_msdump.plugin.session import Gate

__all__ = ["DETAILS", "close_details", "detail_text"]

# What such a line begins with.
DETAILS = "details of"


def detail_text(gate: Gate, source: Source, plan: Plan, records: Mapping[int, Record]) -> str:
    """Write what fails in detail, as much as was asked for, and return what a failure says of it."""
    if not plan.suite.detail:
        return ""
    from pytest_msdump.pipeline.failing_details import details_of_failing

    told = details_of_failing(plan, records, _directory(gate, source, plan), gate.run)
    lines = [
        f"{DETAILS} {address}: {shown_path(found) if isinstance(found, Path) else found}" for address, found in told
    ]
    return "".join(f"\n{line}" for line in ["", *lines]) if lines else ""


def close_details(gate: Gate) -> Iterator[str]:
    """Say at the end how many tensors have details, and how many that fail have none."""
    for source, plan in gate.plans.items():
        if not plan.suite.detail or plan.digest not in gate.records:
            continue
        from pytest_msdump.pipeline.failing_details import FOLDER, close_slots

        directory = _directory(gate, source, plan)
        written = close_slots(directory, gate.run)
        failing = sum(record.fails for record in gate.records[plan.digest].values())
        if failing:
            rest = f"; {failing - written} more fail and have none" if failing > written else ""
            tensors = "1 failing tensor" if written == 1 else f"{written} failing tensors"
            yield f"{DETAILS} {tensors}: {shown_path(directory / FOLDER)}{rest}"


def _directory(gate: Gate, source: Source, plan: Plan) -> Path:
    return report_directory(gate, source, plan, several=len(gate.plans) > 1)
